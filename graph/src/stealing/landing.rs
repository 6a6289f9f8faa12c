//! Where jobs come back: one place for each job that a worker may have given, and whom the last step of a job rings.
//! Deliberately no queue: the worker looks at its places in the order in which it gave, so order needs no number.

use crate::bell::{Bell, Sleeper};
use crate::clock::now;
use crate::stage::Waker;
use crate::sync::{Arc, AtomicBool, Ordering, Place};

/// Longest single sleep of [`Landing::wait`].
const LOOK_NS: u64 = 1_000_000_000;

/// See the head of the file.
pub struct Landing<M> {
    places: Box<[Place<M>]>,
    /// Of the worker that gave.
    waker: Waker,
    /// Of whoever waits for a job because the worker ends.
    ends: Arc<Bell>,
    /// Jobs that have not begun shall not begin.
    recalled: AtomicBool,
}

impl<M> Landing<M> {
    /// For up to `jobs` at a time, given by the worker that `waker` wakes.
    pub fn new(jobs: usize, waker: Waker) -> Self {
        let places = (0..jobs).map(|_| Place::new()).collect();
        Self { places, waker, ends: Arc::new(Bell::new()), recalled: AtomicBool::new(false) }
    }

    /// How many jobs it has places for.
    pub fn jobs(&self) -> usize {
        self.places.len()
    }

    /// The last step of the job that was given from place `at`.
    pub fn land(&self, at: usize, job: Box<M>) {
        self.places[at].put(job);
        self.waker.wake();
        self.ends.ring();
    }

    /// The job that was given from place `at`, if it has landed. For the worker that gave it.
    pub fn take(&self, at: usize) -> Option<Box<M>> {
        self.places[at].take()
    }

    /// Lets jobs that have not begun come back as they are.
    pub fn recall(&self) {
        self.recalled.store(true, Ordering::Relaxed);
    }

    /// Whether a job that is about to begin shall come back as it is.
    pub fn is_recalled(&self) -> bool {
        self.recalled.load(Ordering::Relaxed)
    }

    /// Waits for the job that was given from place `at`. Only for a worker that ends.
    pub fn wait(&self, at: usize) -> Box<M> {
        let mut sleeper = Sleeper::new(self.ends.clone());
        loop {
            if let Some(job) = self.take(at) {
                return job;
            }
            sleeper.announce();
            if let Some(job) = self.take(at) {
                sleeper.stay();
                return job;
            }
            let begin = now();
            sleeper.sleep(begin, begin.saturating_add(LOOK_NS));
        }
    }
}
