//! What requests came to, counted where they end: each worker that ends some in cells of its own, by plain loads and stores
//! once for all that end together; whoever ends by force shares one, under a lock.
//! Deliberately counted before anybody is told of the end: who has seen it finds it in the sums.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline_graph::{Count, HistogramCell, Nanos, Seat};

use super::{Ledger, RequestSlot};
use crate::reason::{Code, Reason};
use crate::traffic::{Counts, FAILURES};

/// The cells of one worker: one writer, on lines of their own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Ends {
    done: Count,
    bytes: Count,
    /// From submit to done, of those that were done and of those that failed.
    took: HistogramCell,
    slices: Count,
}

impl Ends {
    /// Requests of one batch that ended together, `took` after they were submitted.
    #[inline]
    pub(super) fn ended(&self, requests: u32, failed: u32, bytes: u64, took: Option<Nanos>) {
        self.done.add(u64::from(requests - failed));
        self.bytes.add(bytes);
        if let Some(took) = took {
            self.took.record(took, u64::from(requests));
        }
    }

    /// Slices that were cut.
    #[inline]
    pub(crate) fn cut(&self, slices: usize) {
        self.slices.add(slices as u64);
    }
}

/// Whose cells they are: stage, pool and worker.
type Whose = (Arc<str>, Arc<str>, usize);

/// See the file's head.
#[derive(Default)]
pub(crate) struct Counted {
    /// One for each worker of each stage that counts: bounded by the file. One that is built anew goes on with its own.
    workers: Mutex<Vec<(Whose, Arc<Ends>)>>,
    /// Of those that end by force. Written under its lock.
    forced: Mutex<Ends>,
    /// Requests that failed, by reason.
    failed: [AtomicU64; FAILURES],
    /// Of those, the ones that failed at `submit`.
    refused: AtomicU64,
    busy: AtomicU64,
    retries: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counted {
    /// The cells of the worker on a seat.
    pub(crate) fn of(&self, seat: &Seat) -> Arc<Ends> {
        let whose = (seat.stage.clone(), seat.pool.clone(), seat.worker);
        let mut workers = lock(&self.workers);
        if let Some((_, cells)) = workers.iter().find(|(known, _)| *known == whose) {
            return cells.clone();
        }
        let cells = Arc::<Ends>::default();
        workers.push((whose, cells.clone()));
        cells
    }

    /// The cells of whoever has no seat, as long as this is held.
    pub(super) fn forced(&self) -> MutexGuard<'_, Ends> {
        lock(&self.forced)
    }

    /// `submit` has answered busy.
    #[cold]
    pub(crate) fn busy(&self) {
        self.busy.fetch_add(1, Relaxed);
    }

    /// A slice is sent again.
    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    /// A batch with these refusals was taken.
    #[cold]
    pub(crate) fn refused(&self, refusals: &Refusals) {
        for (sum, refused) in self.failed.iter().zip(refusals) {
            sum.fetch_add(*refused, Relaxed);
        }
        self.refused.fetch_add(refusals.iter().sum(), Relaxed);
    }

    fn failed(&self, code: Code) {
        if let Some(failed) = index(code).and_then(|at| self.failed.get(at)) {
            failed.fetch_add(1, Relaxed);
        }
    }
}

/// Where a failure is counted; `None` for what is none.
fn index(code: Code) -> Option<usize> {
    let label = code.reason(0, 0)?.label();
    Reason::LABELS.iter().position(|known| *known == label)
}

/// How many requests of a batch have failed at once, by reason.
pub(crate) type Refusals = [u64; FAILURES];

impl Ledger {
    /// Counts those that have failed of a request that has ended with all that were merged behind it.
    #[cold]
    pub(super) fn count_failed(&self, first: u32) {
        let count = |request: &RequestSlot| {
            if !request.code().is_done() {
                self.counted.failed(request.code());
            }
        };
        match self.request(first).merged() {
            0 => count(self.request(first)),
            _ => self.each_of_run(first, |request, _, _| count(request)),
        }
    }

    /// What has failed of a batch, from its first request to its last, that is about to be pushed.
    #[cold]
    pub(crate) fn refusals(&self, first: u32, last: u32) -> Refusals {
        let (mut refusals, mut at) = ([0; FAILURES], first);
        loop {
            let request = self.request(at);
            if let Some(refused) = index(request.code()).and_then(|at| refusals.get_mut(at)) {
                *refused += 1;
            }
            if at == last {
                return refusals;
            }
            at = request.chain.load(Relaxed);
        }
    }

    /// What was counted so far. What transports count is not in it: see [`crate::world::World::counts`].
    pub(crate) fn counts(&self) -> Counts {
        let counted = &self.counted;
        let mut counts = Counts::default();
        let mut add = |ends: &Ends| {
            counts.done += ends.done.get();
            counts.bytes += ends.bytes.get();
            counts.slices += ends.slices.get();
            counts.took.add_cell(&ends.took);
        };
        add(&lock(&counted.forced));
        lock(&counted.workers).iter().for_each(|(_, ends)| add(ends));
        let (submitted, entered) = self.runs.counts();
        for (sum, failed) in counts.failed.iter_mut().zip(&counted.failed) {
            *sum = failed.load(Relaxed);
        }
        counts.refused = counted.refused.load(Relaxed);
        Counts {
            submitted: submitted + counts.refused,
            entered,
            busy: counted.busy.load(Relaxed),
            retries: counted.retries.load(Relaxed),
            stale: self.stale.load(Relaxed),
            callback_panics: self.ways.panics(),
            wakes: self.wakes(),
            ..counts
        }
    }
}
