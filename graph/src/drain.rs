//! When a graph is empty, and who still holds what.
//!
//! A worker tells what it holds whenever a turn moved nothing, and takes that back before it pops from a
//! ring. The graph is empty when, twice in a row, every worker says "nothing", every ring is empty, and no
//! worker has begun anything in between: then there was a moment at which nothing could move any more.

use crate::clock::Nanos;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// What one worker tells while draining.
#[repr(align(128))]
pub(crate) struct Report {
    idle: AtomicBool,
    held: AtomicUsize,
    begun: AtomicU64,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self { idle: AtomicBool::new(false), held: AtomicUsize::new(0), begun: AtomicU64::new(0) }
    }

    /// The worker is about to pop.
    pub(crate) fn begin(&self) {
        if self.idle.load(Ordering::Relaxed) {
            self.begun.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.idle.store(false, Ordering::Relaxed);
            // Whoever sees the ring without the item sees this as well.
            fence(Ordering::SeqCst);
        }
    }

    /// A turn moved nothing; the worker and its stages hold this much.
    pub(crate) fn idle(&self, held: usize) {
        self.held.store(held, Ordering::Relaxed);
        self.idle.store(true, Ordering::Release);
    }

    /// Whether the worker holds nothing, and how often it has begun.
    fn empty(&self) -> Option<u64> {
        let empty = self.idle.load(Ordering::Acquire) && self.held.load(Ordering::Relaxed) == 0;
        empty.then(|| self.begun.load(Ordering::Relaxed))
    }
}

/// One look at all workers: `None` if one holds something, else a number that grows with every beginning.
pub(crate) fn all_empty<'a>(reports: impl Iterator<Item = &'a Report>) -> Option<u64> {
    let sum = reports.map(Report::empty).sum::<Option<u64>>();
    // Reports before rings: a ring seen empty because of a pop is then seen together with its `begin`,
    // by the second look at the latest.
    fence(Ordering::SeqCst);
    sum
}

/// How a drain ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// Whether nothing was left.
    pub empty: bool,
    /// How long it took.
    pub took_ns: Nanos,
    /// Stages that still hold items, most first. What waits in a queue counts to the stage it leads to.
    pub left: Vec<Laggard>,
}

/// A stage that still holds items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Laggard {
    /// Its name.
    pub stage: String,
    /// Items.
    pub items: u64,
}

impl std::fmt::Display for DrainReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.empty {
            return write!(f, "drained in {} ms", self.took_ns / 1_000_000);
        }
        write!(f, "not drained after {} ms", self.took_ns / 1_000_000)?;
        for (i, laggard) in self.left.iter().enumerate() {
            let before = if i == 0 { ": " } else { ", " };
            write!(f, "{before}`{}` holds {}", laggard.stage, laggard.items)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that has begun since it told "nothing" is not empty, and tells it by another number later.
    #[test]
    fn a_beginning_takes_the_word_back() {
        let report = Report::new();
        assert_eq!(all_empty([&report].into_iter()), None);
        report.idle(0);
        let first = all_empty([&report].into_iter());
        assert!(first.is_some());
        report.begin();
        assert_eq!(all_empty([&report].into_iter()), None);
        report.idle(3);
        assert_eq!(all_empty([&report].into_iter()), None);
        report.idle(0);
        assert!(all_empty([&report].into_iter()) > first);
    }

    /// A report names its laggards.
    #[test]
    fn names_laggards() {
        let left = vec![Laggard { stage: "reap".into(), items: 7 }];
        let report = DrainReport { empty: false, took_ns: 5_000_000, left };
        assert_eq!(report.to_string(), "not drained after 5 ms: `reap` holds 7");
    }
}
