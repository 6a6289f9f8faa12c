//! One link between its two halves: a bounded ring of work requests, and the count that bounds it.
//!
//! The post half reserves, then pushes; the reap half pops and, with the completion, gives back. A dead lane
//! reserves nothing more, so when its count is 0 nothing can come any more. Deliberately no locks.

use std::ops::Deref;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use crate::clock::Nanos;
use crate::sync::{AtomicU64, Ordering};
use crate::wr::WorkRequest;

/// A work request on its way from the post half to the reap half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) work: WorkRequest,
    /// When it was posted.
    pub(crate) at: Nanos,
}

/// What the two halves of a link share.
pub(crate) struct Lane {
    ring: ArrayQueue<Ticket>,
    count: Count,
}

impl Lane {
    /// For up to `capacity` (at least 1) work requests posted and not completed.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { ring: ArrayQueue::new(capacity), count: Count::new(capacity as u64) }
    }

    /// Posts from the front of `work`; answers how many were taken.
    pub(crate) fn post(&self, at: Nanos, work: &[WorkRequest]) -> usize {
        let taken = self.count.reserve(work.len() as u64) as usize;
        for work in &work[..taken] {
            let pushed = self.ring.push(Ticket { work: *work, at });
            debug_assert!(pushed.is_ok(), "the ring holds whatever the count allows");
        }
        taken
    }

    /// The oldest one that the reap half has not seen.
    pub(crate) fn pop(&self) -> Option<Ticket> {
        // A look at an empty ring costs less than a try.
        if self.ring.is_empty() { None } else { self.ring.pop() }
    }

    /// How many more may be posted; 0 when dead.
    pub(crate) fn room(&self) -> usize {
        self.count.room() as usize
    }

    /// How many it may hold.
    pub(crate) fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// How many are posted and not completed.
    pub(crate) fn outstanding(&self) -> usize {
        self.count.taken() as usize
    }

    /// One has ended. Whether the lane had no room before.
    pub(crate) fn give_back(&self) -> bool {
        self.count.give_back()
    }

    /// Nothing more may be posted.
    pub(crate) fn kill(&self) {
        self.count.kill();
    }

    /// See [`Self::kill`].
    pub(crate) fn is_dead(&self) -> bool {
        self.count.is_dead()
    }
}

/// A half's share of a lane. Dropping it kills the lane, whoever drops it: a half that panicked strands nobody.
pub(crate) struct Share(Arc<Lane>);

impl Share {
    /// The shares of a new lane's two halves.
    pub(crate) fn both(lane: Lane) -> (Self, Self) {
        let lane = Arc::new(lane);
        (Self(lane.clone()), Self(lane))
    }
}

impl Deref for Share {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.0
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.kill();
    }
}

const DEAD: u64 = 1 << 63;

/// A count with a limit that can be closed for good.
struct Count {
    word: AtomicU64,
    limit: u64,
}

impl Count {
    fn new(limit: u64) -> Self {
        Self { word: AtomicU64::new(0), limit }
    }

    /// Takes up to `want`; nothing once dead.
    fn reserve(&self, want: u64) -> u64 {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let take = if word & DEAD != 0 { 0 } else { want.min(self.limit - word) };
            if take == 0 {
                return 0;
            }
            match self.word.compare_exchange_weak(word, word + take, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return take,
                Err(seen) => word = seen,
            }
        }
    }

    fn room(&self) -> u64 {
        let word = self.word.load(Ordering::Acquire);
        if word & DEAD != 0 { 0 } else { self.limit - word }
    }

    fn taken(&self) -> u64 {
        self.word.load(Ordering::Acquire) & !DEAD
    }

    fn give_back(&self) -> bool {
        let before = self.word.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & !DEAD != 0, "gave back more than was taken");
        before & !DEAD == self.limit
    }

    fn kill(&self) {
        self.word.fetch_or(DEAD, Ordering::AcqRel);
    }

    fn is_dead(&self) -> bool {
        self.word.load(Ordering::Acquire) & DEAD != 0
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// No more is taken than the limit, what is given back may be taken again, and nothing once dead.
    #[test]
    fn count_is_bounded() {
        let count = Count::new(3);
        assert_eq!((count.reserve(2), count.reserve(2), count.reserve(1)), (2, 1, 0));
        assert_eq!((count.give_back(), count.give_back()), (true, false));
        assert_eq!((count.room(), count.taken()), (2, 1));
        count.kill();
        assert_eq!((count.reserve(1), count.room(), count.taken()), (0, 0, 1));
        assert!(!count.give_back() && count.is_dead());
    }
}

#[cfg(all(test, pipeline_loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Once a reaper has seen a dead lane with a count of 0, no post is taken any more, in any interleaving.
    #[test]
    fn dead_and_empty_is_final() {
        loom::model(|| {
            let count = Arc::new(Count::new(2));
            let poster = count.clone();
            let posting = loom::thread::spawn(move || poster.reserve(1));
            count.kill();
            let closed = count.taken() == 0;
            let taken = posting.join().unwrap();
            assert!(!closed || taken == 0, "taken after the link was reported closed");
            assert_eq!(count.taken(), taken);
        });
    }
}
