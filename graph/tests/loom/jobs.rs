//! Jobs of pools that steal: how they come back to the worker that gave them.

use std::sync::Arc;

use loom::thread;
use pipeline_graph::Waker;
use pipeline_graph::bell::{Bell, Sleeper};
use pipeline_graph::stealing::landing::Landing;

use super::{look_until, model};

/// Two jobs that land are found, in the order in which they were given, by the worker that gave them and sleeps.
#[test]
fn a_job_that_lands_wakes_its_giver() {
    model(3, || {
        let bell = Arc::new(Bell::new());
        let ringer = bell.clone();
        let landing = Arc::new(Landing::new(2, Waker::new(move || ringer.ring())));
        let jobs = [1, 0].map(|at: usize| {
            let landing = landing.clone();
            thread::spawn(move || landing.land(at, Box::new(at)))
        });
        let (mut sleeper, mut next) = (Sleeper::new(bell), 0);
        look_until(&mut sleeper, || {
            while let Some(job) = (next < 2).then(|| landing.take(next)).flatten() {
                assert_eq!(*job, next);
                next += 1;
            }
            next == 2
        });
        jobs.into_iter().for_each(|job| job.join().unwrap());
    });
}

/// A worker that ends recalls its jobs and waits for them: each comes back, and whether it ran or not is told by itself.
#[test]
fn a_recalled_job_comes_back() {
    model(3, || {
        let landing = Arc::new(Landing::new(2, Waker::new(|| ())));
        let jobs = [0, 1].map(|at| {
            let landing = landing.clone();
            thread::spawn(move || {
                let job = Box::new(!landing.is_recalled());
                landing.land(at, job);
            })
        });
        landing.recall();
        let ran = [0, 1].map(|at| *landing.wait(at));
        assert_eq!([0, 1].map(|at| landing.take(at)), [None, None], "{ran:?}");
        jobs.into_iter().for_each(|job| job.join().unwrap());
    });
}
