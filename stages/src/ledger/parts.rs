//! Batches divided among workers: each counts its own part of a batch down, and only the last request of a part touches the
//! batch itself. So the one line that all workers share is written once for each worker and batch.
//! Deliberately nothing else of a batch: whether it is done, and who waits for that, is in [`super::batches`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// What of a batch is left on one worker.
#[derive(Default)]
struct Part {
    left: AtomicU32,
    failed: AtomicU32,
    bytes: AtomicU64,
}

/// Parts that lie side by side are one worker's, so lines begin and end with a table.
#[derive(Default)]
#[repr(align(128))]
struct Line([Part; LINE]);

const LINE: usize = 8;

/// Bytes of a part.
pub(super) const PART_BYTES: usize = size_of::<Part>();

/// What the requests of a part came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) failed: u32,
    pub(super) bytes: u64,
}

/// The parts of all batches, a table for each worker of the stage that submissions enter.
pub(crate) struct Parts {
    workers: Box<[Box<[Line]>]>,
}

impl Parts {
    /// For so many workers; with one, batches are not divided.
    pub(super) fn new(workers: usize, batches: u32) -> Self {
        let table = |_| (0..batches.div_ceil(LINE as u32)).map(|_| Line::default()).collect();
        Self { workers: (0..if workers > 1 { workers } else { 0 }).map(table).collect() }
    }

    /// Whether batches are divided among so many workers.
    pub(crate) fn are_of(&self, workers: usize) -> bool {
        workers > 1 && self.workers.len() == workers
    }

    /// So many requests of a batch go to a worker. Before it has any of them.
    pub(crate) fn open(&self, worker: usize, batch: u32, requests: u32) {
        let part = &self.workers[worker][batch as usize / LINE].0[batch as usize % LINE];
        part.left.store(requests, Relaxed);
        part.failed.store(0, Relaxed);
        part.bytes.store(0, Relaxed);
    }

    /// Some have ended: with the last of its part, what all of them came to.
    pub(super) fn count_down(&self, worker: usize, batch: u32, ended: u32, sum: Sum) -> Option<Sum> {
        let part = &self.workers[worker][batch as usize / LINE].0[batch as usize % LINE];
        if part.left.load(Acquire) != ended {
            // As a rule only its worker counts, but a retry or a forced end may be another's.
            part.failed.fetch_add(sum.failed, Relaxed);
            part.bytes.fetch_add(sum.bytes, Relaxed);
            if part.left.fetch_sub(ended, AcqRel) != ended {
                return None;
            }
            return Some(Sum { failed: part.failed.load(Relaxed), bytes: part.bytes.load(Relaxed) });
        }
        // All that were left: nobody else counts any more.
        part.left.store(0, Relaxed);
        Some(Sum {
            failed: part.failed.load(Relaxed) + sum.failed,
            bytes: part.bytes.load(Relaxed) + sum.bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever counts, and on however many threads: one of them is the last of a part, and it knows what all came to.
    #[test]
    fn one_is_the_last() {
        let parts = Parts::new(2, 3);
        assert!(parts.are_of(2) && !parts.are_of(1) && !Parts::new(1, 3).are_of(1));
        for round in 0..500 {
            parts.open(1, 2, 100);
            let count = |n: u32| {
                let one = Sum { failed: n % 2, bytes: 3 };
                (0..n).filter_map(|_| parts.count_down(1, 2, 1, one)).collect::<Vec<_>>()
            };
            let ends: Vec<Sum> = std::thread::scope(|s| {
                let threads = [49, 51].map(|n| s.spawn(move || count(n)));
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(ends, [Sum { failed: 100, bytes: 300 }], "round {round}");
        }
        parts.open(0, 2, 4);
        let (one, three) = (Sum { failed: 1, bytes: 5 }, Sum { failed: 0, bytes: 9 });
        assert_eq!(parts.count_down(0, 2, 1, one), None);
        assert_eq!(parts.count_down(0, 2, 3, three), Some(Sum { failed: 1, bytes: 14 }));
    }
}
