//! Batches: how many requests are left, whether somebody waits, and the one moment at which a batch is done.
//! Deliberately no lock: one word holds everything a waiter, an owner and the last slice race about.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;

use pipeline_transports::clock;
use rustix::thread::{Timespec, futex};

use crate::ledger::free::FreeList;
use crate::ledger::slot::NIL;
use crate::reason::Code;

/// All requests ended.
const DONE: u32 = 1;
/// Somebody sleeps on the word.
const WAITED: u32 = 2;
/// The handle was dropped before the end: who ends it frees it.
const DETACHED: u32 = 4;
/// Its requests shall end.
const CANCELLED: u32 = 8;

/// It has a notice: when its requests have ended it is not done before the receiver has taken that.
const NOTICE: u32 = 16;

/// How often a waiter looks when nobody will wake it (`via` without `"event"`).
const UNTOLD: Duration = Duration::from_micros(200);

/// Bytes of one batch in the table.
pub(super) const SLOT_BYTES: usize = size_of::<BatchSlot>();

/// One batch.
pub(crate) struct BatchSlot {
    /// The futex word.
    word: AtomicU32,
    /// Requests not ended.
    left: AtomicU32,
    /// Requests.
    len: AtomicU32,
    /// First request of the chain; on the free list the next free batch is in `next`.
    first: AtomicU32,
    last: AtomicU32,
    failed: AtomicU32,
    bytes: AtomicU64,
    next: AtomicU32,
    /// How its notice ended: a [`Code`].
    notice: AtomicU32,
}

/// The table of batches.
pub(crate) struct Batches {
    slots: Box<[BatchSlot]>,
    free: FreeList,
}

/// What is left to do about a batch that was counted down; nothing while requests are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountedDown {
    /// Somebody sleeps: wake.
    pub(crate) waited: bool,
    /// The owner is gone: free.
    pub(crate) detached: bool,
    /// Its requests have ended, and its notice is due: only [`Batches::finish`] makes it done.
    pub(crate) notice: bool,
}

/// What a batch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests.
    pub requests: u32,
    /// Requests that did not end well.
    pub failed: u32,
    /// Bytes applied at their destinations, as confirmed by the transports.
    pub bytes: u64,
    /// Whether it had a notice that the receiver has not taken, as far as is known. See [`crate::Batch::notice`].
    pub notice_failed: bool,
}

impl Summary {
    /// Whether every request was done, and the notice was taken if there was one.
    pub fn is_done(&self) -> bool {
        self.failed == 0 && !self.notice_failed
    }
}

impl Batches {
    pub(crate) fn new(limit: u32) -> Self {
        let slot = |_| BatchSlot {
            word: AtomicU32::new(DONE),
            left: AtomicU32::new(0),
            len: AtomicU32::new(0),
            first: AtomicU32::new(NIL),
            last: AtomicU32::new(NIL),
            failed: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            next: AtomicU32::new(NIL),
            notice: AtomicU32::new(0),
        };
        let slots: Box<[_]> = (0..limit).map(slot).collect();
        let free = FreeList::full(limit, |i| &slots[i as usize].next);
        Self { slots, free }
    }

    pub(crate) fn limit(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn free_len(&self) -> u32 {
        self.free.len()
    }

    /// A free batch, if there is one.
    pub(crate) fn take(&self) -> Option<u32> {
        if self.free.reserve(1, 1) == 0 {
            return None;
        }
        let mut got = [NIL];
        self.free.take(&mut got, |i| &self.slots[i as usize].next);
        Some(got[0])
    }

    pub(crate) fn give(&self, batch: u32) {
        self.free.give(batch, batch, 1, |i| &self.slots[i as usize].next);
    }

    /// Starts a batch of `len` requests, chained from `first` to `last`, of which `failed` have ended. One with a notice
    /// is never done from the start.
    pub(crate) fn open(&self, batch: u32, len: u32, first: u32, last: u32, failed: u32, notice: bool) {
        let slot = &self.slots[batch as usize];
        slot.left.store(len - failed, Relaxed);
        slot.len.store(len, Relaxed);
        slot.first.store(first, Relaxed);
        slot.last.store(last, Relaxed);
        slot.failed.store(failed, Relaxed);
        slot.bytes.store(0, Relaxed);
        slot.notice.store(Code::DONE.raw(), Relaxed);
        let word = match notice {
            true => NOTICE,
            false if len == failed => DONE,
            false => 0,
        };
        slot.word.store(word, Release);
    }

    /// First and last request, and how many.
    pub(crate) fn chain(&self, batch: u32) -> (u32, u32, u32) {
        let slot = &self.slots[batch as usize];
        (slot.first.load(Relaxed), slot.last.load(Relaxed), slot.len.load(Relaxed))
    }

    #[inline]
    pub(crate) fn is_cancelled(&self, batch: u32) -> bool {
        self.slots[batch as usize].word.load(Relaxed) & CANCELLED != 0
    }

    /// Asks for its end; `false` if it was asked before or is done.
    pub(crate) fn cancel(&self, batch: u32) -> bool {
        self.slots[batch as usize].word.fetch_or(CANCELLED, AcqRel) & (CANCELLED | DONE) == 0
    }

    pub(crate) fn summary(&self, batch: u32) -> Option<Summary> {
        let slot = &self.slots[batch as usize];
        (slot.word.load(Acquire) & DONE != 0).then(|| Summary {
            requests: slot.len.load(Relaxed),
            failed: slot.failed.load(Relaxed),
            bytes: slot.bytes.load(Relaxed),
            notice_failed: slot.notice.load(Relaxed) != Code::DONE.raw(),
        })
    }

    /// How its notice ended: `None` without one, [`Code::DONE`] also while it has not.
    pub(crate) fn notice(&self, batch: u32) -> Option<Code> {
        let slot = &self.slots[batch as usize];
        let has = slot.word.load(Acquire) & NOTICE != 0;
        has.then(|| Code::from_raw(slot.notice.load(Relaxed)))
    }

    /// Requests, and those that have failed so far.
    pub(crate) fn tally(&self, batch: u32) -> (u32, u32) {
        let slot = &self.slots[batch as usize];
        (slot.len.load(Relaxed), slot.failed.load(Relaxed))
    }

    /// `ended` of its requests have ended, `failed` of them not well. The last one ends the batch; the caller
    /// must then do what the answer says.
    pub(crate) fn count_down(&self, batch: u32, ended: u32, failed: u32, bytes: u64) -> CountedDown {
        let slot = &self.slots[batch as usize];
        if failed > 0 {
            slot.failed.fetch_add(failed, Relaxed);
        }
        slot.bytes.fetch_add(bytes, Relaxed);
        if slot.left.fetch_sub(ended, AcqRel) != ended {
            return CountedDown::default();
        }
        if slot.word.load(Relaxed) & NOTICE != 0 {
            return CountedDown { notice: true, ..CountedDown::default() };
        }
        Self::end(slot)
    }

    /// Its requests had ended and its notice now has too, as `code` says.
    pub(crate) fn finish(&self, batch: u32, code: Code) -> CountedDown {
        let slot = &self.slots[batch as usize];
        slot.notice.store(code.raw(), Relaxed);
        Self::end(slot)
    }

    fn end(slot: &BatchSlot) -> CountedDown {
        let before = slot.word.fetch_or(DONE, AcqRel);
        CountedDown { waited: before & WAITED != 0, detached: before & DETACHED != 0, notice: false }
    }

    /// Wakes those who wait for a batch that has been counted down. A slot that was freed and reused meanwhile only
    /// sees a wake-up that it ignores.
    pub(crate) fn wake(&self, batch: u32) {
        // An error could only be a bad address; this one is ours.
        let _ = futex::wake(&self.slots[batch as usize].word, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    /// The owner goes. `true` when the batch is done and must be freed by the caller; otherwise whoever ends
    /// it frees it.
    pub(crate) fn detach(&self, batch: u32) -> bool {
        self.slots[batch as usize].word.fetch_or(DETACHED, AcqRel) & DONE != 0
    }

    /// Sleeps until the batch is done or `timeout` has passed. `told`: whether its end wakes waiters.
    pub(crate) fn wait(&self, batch: u32, timeout: Duration, told: bool) -> Option<Summary> {
        let slot = &self.slots[batch as usize];
        let by = clock::now().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let word =
                if told { slot.word.fetch_or(WAITED, AcqRel) | WAITED } else { slot.word.load(Acquire) };
            if word & DONE != 0 {
                return self.summary(batch);
            }
            let left = clock::until(by);
            if left.is_zero() {
                return None;
            }
            let nap = if told { left } else { left.min(UNTOLD) };
            let nap = Timespec {
                tv_sec: i64::try_from(nap.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(nap.subsec_nanos()) as _,
            };
            // Woken, timed out, interrupted, or changed before it slept: look again.
            let _ = futex::wait(&slot.word, futex::Flags::PRIVATE, word, Some(&nap));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;

    /// A waiter sleeps until the last of a batch's requests has ended, and sees what all of them came to.
    #[test]
    fn wait_sees_the_end() {
        let batches = Batches::new(1);
        let b = batches.take().unwrap();
        assert!(batches.take().is_none());
        batches.open(b, 3, 0, 2, 1, false);
        assert_eq!(batches.wait(b, Duration::from_millis(1), true), None);
        std::thread::scope(|s| {
            let waiter = s.spawn(|| batches.wait(b, Duration::from_secs(10), true));
            let not_yet = CountedDown::default();
            assert_eq!(batches.count_down(b, 1, 0, 10), not_yet);
            assert_eq!(batches.summary(b), None);
            assert_eq!(batches.count_down(b, 1, 1, 0), CountedDown { waited: true, ..not_yet });
            batches.wake(b);
            let summary = Summary { requests: 3, failed: 2, bytes: 10, notice_failed: false };
            assert_eq!(waiter.join().unwrap(), Some(summary));
        });
        assert!(batches.detach(b));
    }

    /// A batch whose owner left early is freed by whoever ends it, and by nobody else.
    #[test]
    fn one_side_frees() {
        let batches = Batches::new(1);
        let b = batches.take().unwrap();
        batches.open(b, 1, 0, 0, 0, false);
        assert!(!batches.detach(b));
        assert_eq!(batches.count_down(b, 1, 0, 0), CountedDown { detached: true, ..CountedDown::default() });
        batches.give(b);
        assert_eq!(batches.free_len(), 1);
    }

    /// A batch with a notice is not done when its requests have ended, nor when all of them failed at once: only when
    /// its notice has ended too; and if that failed, so has the batch.
    #[test]
    fn a_notice_comes_before_the_end() {
        let batches = Batches::new(1);
        let b = batches.take().unwrap();
        for (refused, code) in [(0, Code::DONE), (2, Code::new(Reason::PeerGone, 3))] {
            batches.open(b, 2, 0, 1, refused, true);
            if refused == 0 {
                assert_eq!(batches.count_down(b, 1, 0, 5), CountedDown::default());
                assert!(batches.count_down(b, 1, 0, 5).notice);
            }
            assert_eq!((batches.summary(b), batches.tally(b)), (None, (2, refused)));
            assert_eq!(batches.finish(b, code), CountedDown::default());
            let summary = batches.summary(b).unwrap();
            assert_eq!((summary.is_done(), batches.notice(b)), (refused == 0, Some(code)));
        }
        batches.open(b, 1, 0, 0, 0, false);
        assert_eq!(batches.notice(b), None);
    }
}
