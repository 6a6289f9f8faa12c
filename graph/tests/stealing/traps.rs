//! What rayon's pools are known to surprise with, each ruled out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pipeline_graph::{Crew, Fault, Mode};

use crate::gate::Door;
use crate::rig::{OUT, Rig, Seen, in_seconds, queue, submit, until};

/// Dropping a pool does not wait for its jobs. An engine that is stopped does: what a job was doing is over, each item has
/// ended once, and jobs that had not begun do not begin any more.
#[test]
fn a_stop_waits_for_jobs_that_run() {
    let (seen, door, over) = (Arc::new(Seen::default()), Door::default(), Arc::new(AtomicU64::new(0)));
    let (before, after) = (door.clone(), over.clone());
    let rig = Rig::new()
        .pool("p", 1)
        .crew("crew", 1)
        .stage("a", Some("p"), &["out"], |_, i| Some((OUT, i)))
        .stage("job", Some("crew"), &["out"], move |_, i| {
            before.pass();
            std::thread::sleep(Duration::from_millis(1));
            after.fetch_add(1, Ordering::Relaxed);
            Some((OUT, i))
        })
        .sink("end", None, &seen)
        .edge("submit -> a", queue(1))
        .edge("a -> job", Mode::Inline)
        .edge("job -> end", Mode::Inline);
    let mut engine = rig.start();
    let (inlet, mut taken) = (engine.inlet(), 0);
    until("a job that runs and one that waits", || {
        let items: Vec<u64> = (taken..taken + 32).collect();
        taken += 32 * u64::from(inlet.push_all(&items).is_ok());
        door.came() == 1 && taken >= 96
    });
    let opener = {
        let door = door.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            door.open();
        })
    };
    engine.stop();
    let ran = over.load(Ordering::Relaxed);
    opener.join().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((over.load(Ordering::Relaxed), ran), (32, 32), "one batch was run to its end, and no other");
    let marks = rig.marks.0.lock().unwrap();
    let mut ended: Vec<u64> = marks.iter().map(|m| m.0).collect();
    ended.sort_unstable();
    assert!(ended.into_iter().eq(0..taken) && seen.count() == 0, "each ends once");
    assert!(marks.iter().all(|m| m.1 == Fault::Stopped && !m.2));
}

/// Nothing comes back from a pool whose threads are kept busy for ever. Ours are not: work that is waited for is carried out
/// while jobs come and go, and even from within that work, on the one thread there is.
#[test]
fn work_comes_back() {
    let rig = Rig::new().crew("crew", 1);
    let crew = Crew::start(&rig.blueprint.pools[0]).unwrap();
    let count = AtomicU64::new(0);
    crew.each(4, |_| {
        crew.each(4, |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(count.load(Ordering::Relaxed), 16);
}

/// A job that waits inside rayon carries out others meanwhile, in the middle of its own batch: their items keep their order,
/// and one that panics there fails its own items and not those of the job it interrupted.
#[test]
fn a_job_may_be_stolen_into() {
    let (seen, bad) = (Arc::new(Seen::default()), Arc::new(Seen::default()));
    let deep = Arc::new(AtomicU64::new(0));
    let (nested, deepest) = (deep.clone(), Arc::new(AtomicU64::new(0)));
    let most = deepest.clone();
    let rig = Rig::new()
        .pool("p", 1)
        .crew("crew", 1)
        .stage("a", Some("p"), &["out"], |_, i| Some((OUT, i)))
        .stage("job", Some("crew"), &["out", "failed"], move |_, i| {
            let depth = nested.fetch_add(1, Ordering::Relaxed);
            most.fetch_max(depth, Ordering::Relaxed);
            // Takes another job, if there is one, as a wait would.
            let _ = rayon_core::yield_now();
            nested.fetch_sub(1, Ordering::Relaxed);
            assert_ne!(i, 777, "a panic that the test wants");
            Some((OUT, i))
        })
        .sink("end", None, &seen)
        .sink("lost", None, &bad)
        .edge("submit -> a", queue(64))
        .edge("a -> job", Mode::Inline)
        .edge("job -> end", Mode::Inline)
        .edge("job.failed -> lost", Mode::Inline);
    let engine = rig.start();
    submit(&engine, 0..4_000);
    assert!(engine.drain(in_seconds(30)).empty);
    assert!(deepest.load(Ordering::Relaxed) > 0, "no job was stolen into: the test shows nothing");
    let good = seen.by_worker.lock().unwrap().values().flatten().copied().collect::<Vec<_>>();
    let lost = bad.by_worker.lock().unwrap().values().flatten().copied().collect::<Vec<_>>();
    assert!(good.is_sorted(), "order was lost");
    assert!(lost.contains(&777) && lost.len() <= 32, "{lost:?}");
    let mut all = [good, lost].concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..4_000), "lost or doubled");
}
