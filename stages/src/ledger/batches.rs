//! Batches: how many requests are left, whether somebody waits, and the one moment at which a batch is done.
//! Deliberately no lock: one word holds everything a waiter, an owner and the last slice race about.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use pipeline_graph::{Nanos, Waker};
use pipeline_transports::clock;

use crate::ledger::crowd::Crowd;
use crate::ledger::free::FreeList;
use crate::ledger::slot::NIL;
use crate::ledger::word::{BatchWord, Ended, Marks};
use crate::reason::Code;

/// How often a waiter looks when nobody will wake it (`via` without `"event"`).
pub(crate) const UNTOLD_NS: Nanos = 200_000;

/// Bytes of one batch in the table.
pub(super) const SLOT_BYTES: usize = size_of::<BatchSlot>();

/// One batch.
pub(crate) struct BatchSlot {
    word: BatchWord,
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
    /// When it was submitted.
    submitted_at: AtomicU64,
}

/// The table of batches.
pub(crate) struct Batches {
    slots: Box<[BatchSlot]>,
    free: FreeList,
    /// Where those sleep who wait while another thread leads.
    pub(crate) crowd: Crowd,
    /// In an engine with `caller` pools: rouses the thread that leads.
    leader: OnceLock<Waker>,
    /// See [`crate::ledger::Usage::wakes`].
    wakes: AtomicU64,
}

/// What counting a batch down came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedDown {
    /// Requests are left.
    Going,
    /// None is left: the caller ends it ([`Batches::end`]), unless it has a notice, which is due then: in that case only
    /// [`Batches::finish`] makes it done.
    Last(Marks),
}

/// What a batch begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// Requests.
    pub(crate) len: u32,
    /// First and last of their chain.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// How many of them have failed.
    pub(crate) failed: u32,
    /// What it has besides.
    pub(crate) marks: Marks,
    /// When it was submitted.
    pub(crate) at: Nanos,
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
            word: BatchWord::new(),
            left: AtomicU32::new(0),
            len: AtomicU32::new(0),
            first: AtomicU32::new(NIL),
            last: AtomicU32::new(NIL),
            failed: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            next: AtomicU32::new(NIL),
            notice: AtomicU32::new(0),
            submitted_at: AtomicU64::new(0),
        };
        let slots: Box<[_]> = (0..limit).map(slot).collect();
        let free = FreeList::full(limit, |i| &slots[i as usize].next);
        Self { slots, free, crowd: Crowd::new(), leader: OnceLock::new(), wakes: AtomicU64::new(0) }
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

    /// Starts a batch. One with a notice is never done from the start.
    pub(crate) fn open(&self, batch: u32, opening: Opening) {
        let Opening { len, first, last, failed, marks, at } = opening;
        let slot = &self.slots[batch as usize];
        slot.left.store(len - failed, Relaxed);
        slot.len.store(len, Relaxed);
        slot.first.store(first, Relaxed);
        slot.last.store(last, Relaxed);
        slot.failed.store(failed, Relaxed);
        slot.bytes.store(0, Relaxed);
        slot.notice.store(Code::DONE.raw(), Relaxed);
        slot.submitted_at.store(at, Relaxed);
        slot.word.open(len == failed, marks);
    }

    /// It ends when so many parts have, instead of requests. After [`Self::open`], before anybody else knows of it.
    pub(crate) fn divide(&self, batch: u32, parts: u32) {
        self.slots[batch as usize].left.store(parts, Relaxed);
    }

    /// When it was submitted.
    #[inline]
    pub(crate) fn submitted_at(&self, batch: u32) -> Nanos {
        self.slots[batch as usize].submitted_at.load(Relaxed)
    }

    /// First and last request, and how many.
    pub(crate) fn chain(&self, batch: u32) -> (u32, u32, u32) {
        let slot = &self.slots[batch as usize];
        (slot.first.load(Relaxed), slot.last.load(Relaxed), slot.len.load(Relaxed))
    }

    #[inline]
    pub(crate) fn is_cancelled(&self, batch: u32) -> bool {
        self.word(batch).is_cancelled()
    }

    /// Asks for its end; `false` if it was asked before or is done.
    pub(crate) fn cancel(&self, batch: u32) -> bool {
        self.word(batch).cancel()
    }

    pub(crate) fn summary(&self, batch: u32) -> Option<Summary> {
        let slot = &self.slots[batch as usize];
        slot.word.is_done().then(|| Summary {
            requests: slot.len.load(Relaxed),
            failed: slot.failed.load(Relaxed),
            bytes: slot.bytes.load(Relaxed),
            notice_failed: slot.notice.load(Relaxed) != Code::DONE.raw(),
        })
    }

    /// How its notice ended: `None` without one, [`Code::DONE`] also while it has not.
    pub(crate) fn notice(&self, batch: u32) -> Option<Code> {
        let slot = &self.slots[batch as usize];
        slot.word.marks().notice.then(|| Code::from_raw(slot.notice.load(Relaxed)))
    }

    /// Requests, and those that have failed so far.
    pub(crate) fn tally(&self, batch: u32) -> (u32, u32) {
        let slot = &self.slots[batch as usize];
        (slot.len.load(Relaxed), slot.failed.load(Relaxed))
    }

    /// `ended` of its requests have ended, `failed` of them not well. Who counts the last one must then do what the
    /// answer says.
    pub(crate) fn count_down(&self, batch: u32, ended: u32, failed: u32, bytes: u64) -> CountedDown {
        let slot = &self.slots[batch as usize];
        if failed > 0 {
            slot.failed.fetch_add(failed, Relaxed);
        }
        if slot.left.load(Acquire) == ended {
            // All that were left: nobody else counts any more.
            slot.bytes.store(slot.bytes.load(Relaxed) + bytes, Relaxed);
            slot.left.store(0, Relaxed);
        } else {
            slot.bytes.fetch_add(bytes, Relaxed);
            if slot.left.fetch_sub(ended, AcqRel) != ended {
                return CountedDown::Going;
            }
        }
        CountedDown::Last(slot.word.marks())
    }

    /// Its requests have ended, and it has no notice: it is done. The caller must do what is left.
    #[inline]
    pub(crate) fn end(&self, batch: u32) -> Ended {
        self.word(batch).end()
    }

    /// Its requests had ended and its notice now has too, as `code` says.
    pub(crate) fn finish(&self, batch: u32, code: Code) -> Ended {
        let slot = &self.slots[batch as usize];
        slot.notice.store(code.raw(), Relaxed);
        slot.word.end()
    }

    /// The owner goes. `true` when the batch is done and must be freed by the caller; otherwise whoever ends
    /// it frees it.
    pub(crate) fn detach(&self, batch: u32) -> bool {
        self.word(batch).detach()
    }

    /// Wakes those who sleep for a batch that has ended, as `end` says. A slot that was freed and reused meanwhile only
    /// sees a wake-up that it ignores.
    pub(crate) fn wake(&self, batch: u32, end: Ended) {
        self.wakes.fetch_add(u64::from(end.waited) + u64::from(end.led), Relaxed);
        let Some(leader) = self.leader.get() else { return self.word(batch).wake() };
        if end.waited {
            self.crowd.tell(batch);
        }
        if end.led {
            leader.wake();
        }
    }

    /// Wake-ups so far.
    pub(crate) fn wakes(&self) -> u64 {
        self.wakes.load(Relaxed)
    }

    /// The engine has `caller` pools: those who wait lead or follow. Before the first batch.
    pub(crate) fn led_by(&self, leader: Waker) {
        let _ = self.leader.set(leader);
    }

    #[inline]
    pub(crate) fn word(&self, batch: u32) -> &BatchWord {
        &self.slots[batch as usize].word
    }

    /// Sleeps until the batch is done or `by` has passed. `told`: whether its end wakes waiters.
    pub(crate) fn wait(&self, batch: u32, by: Nanos, told: bool) -> Option<Summary> {
        let word = self.word(batch);
        loop {
            let now = clock::now();
            // Also when the time is up already: a look costs nothing.
            if word.is_done()
                || (now < by && word.wait(if told { by } else { by.min(now + UNTOLD_NS) }, told))
            {
                return self.summary(batch);
            }
            if now >= by {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;

    fn opening(len: u32, failed: u32, notice: bool) -> Opening {
        let marks = Marks { notice, ..Marks::default() };
        Opening { len, first: 0, last: len - 1, failed, marks, at: 0 }
    }

    /// A waiter sleeps until the last of a batch's requests has ended, and sees what all of them came to.
    #[test]
    fn wait_sees_the_end() {
        let batches = Batches::new(1);
        let b = batches.take().unwrap();
        assert!(batches.take().is_none());
        batches.open(b, opening(3, 1, false));
        assert_eq!(batches.wait(b, clock::now() + 1_000_000, true), None);
        std::thread::scope(|s| {
            let waiter = s.spawn(|| batches.wait(b, clock::now() + 10_000_000_000, true));
            assert_eq!(batches.count_down(b, 1, 0, 10), CountedDown::Going);
            assert_eq!(batches.summary(b), None);
            assert_eq!(batches.count_down(b, 1, 1, 0), CountedDown::Last(Marks::default()));
            let end = batches.end(b);
            batches.wake(b, end);
            assert_eq!(batches.wakes(), u64::from(end.waited));
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
        batches.open(b, opening(1, 0, false));
        assert!(!batches.detach(b));
        let free = Ended { free: true, ..Ended::default() };
        assert_eq!(batches.count_down(b, 1, 0, 0), CountedDown::Last(Marks::default()));
        assert_eq!(batches.end(b), free);
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
            batches.open(b, opening(2, refused, true));
            if refused == 0 {
                assert_eq!(batches.count_down(b, 1, 0, 5), CountedDown::Going);
                let due = Marks { notice: true, ..Marks::default() };
                assert_eq!(batches.count_down(b, 1, 0, 5), CountedDown::Last(due));
            }
            assert_eq!((batches.summary(b), batches.tally(b)), (None, (2, refused)));
            assert_eq!(batches.finish(b, code), Ended::default());
            let summary = batches.summary(b).unwrap();
            assert_eq!((summary.is_done(), batches.notice(b)), (refused == 0, Some(code)));
        }
        batches.open(b, opening(1, 0, false));
        assert_eq!(batches.notice(b), None);
    }
}
