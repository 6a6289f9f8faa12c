//! How long items wait in a ring that has no room for their times: one item at a time is followed from its push to its pop.
//! Deliberately an estimate: what others pop while it is being put in makes it seem to wait as much longer, and never beyond
//! the moment at which the ring is empty.

use crate::clock::Nanos;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Nobody is followed.
const FREE: u64 = 0;
/// Somebody is about to be.
const TAKEN: u64 = u64::MAX;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Probe {
    /// [`FREE`], [`TAKEN`], or when the followed item was pushed.
    pushed_at: AtomicU64,
    /// Items to be popped until it is out, itself included.
    ahead: AtomicUsize,
}

impl Probe {
    /// Before a push behind `waiting` items, at `now`: follows the item, unless another one is followed. Whether it does.
    #[inline]
    pub(super) fn follow(&self, now: Nanos, waiting: usize) -> bool {
        let free = self.pushed_at.load(Ordering::Relaxed) == FREE
            && self.pushed_at.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if free {
            self.ahead.store(waiting + 1, Ordering::Relaxed);
            self.pushed_at.store(now.clamp(FREE + 1, TAKEN - 1), Ordering::Release);
        }
        free
    }

    /// The push came to nothing.
    pub(super) fn forget(&self) {
        self.pushed_at.store(FREE, Ordering::Release);
    }

    /// After a pop of so many items. Answers when the followed one was pushed, if it is out now.
    #[inline]
    pub(super) fn popped(&self, items: usize, is_empty: bool) -> Option<Nanos> {
        let at = self.pushed_at.load(Ordering::Acquire);
        if at == FREE || at == TAKEN || items == 0 {
            return None;
        }
        let less = |ahead: usize| Some(ahead.saturating_sub(items));
        let ahead = self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let is_out = is_empty || ahead.is_ok_and(|ahead| ahead <= items);
        let first = || self.pushed_at.compare_exchange(at, FREE, Ordering::AcqRel, Ordering::Relaxed);
        (is_out && first().is_ok()).then_some(at)
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// The item that is followed is told when it comes out, not before and once; then another one is followed. What came out
    /// unseen is told when the ring is empty.
    #[test]
    fn follows_one_at_a_time() {
        let probe = Probe::default();
        assert!(probe.follow(70, 3) && !probe.follow(80, 9));
        assert_eq!([probe.popped(0, true), probe.popped(3, false)], [None, None]);
        assert_eq!([probe.popped(1, false), probe.popped(1, false)], [Some(70), None]);
        assert!(probe.follow(90, 5));
        assert_eq!([probe.popped(2, true), probe.popped(2, true)], [Some(90), None]);
        assert!(probe.follow(0, 0));
        probe.forget();
        assert_eq!(probe.popped(1, true), None);
        assert!(probe.follow(Nanos::MAX, 0) && probe.popped(1, false).is_some());
    }
}
