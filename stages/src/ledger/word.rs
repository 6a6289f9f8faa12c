//! What a waiter, an owner, a callback, a listener and the last slice of a batch race about: one word a batch.
//! Deliberately no counts and no results: this only decides who does what, each exactly once.
//!
//! Every question is a `fetch_or`, so that of two who ask at once one is first, and both know who.

use pipeline_graph::Nanos;

use crate::sync::{ALL, Ordering, Word};

/// It has ended.
const DONE: u32 = 1;
/// Somebody sleeps on the word, or in the crowd.
const WAITED: u32 = 2;
/// The handle was dropped.
const DETACHED: u32 = 4;
/// Its requests shall end.
const CANCELLED: u32 = 8;
/// It has a notice: when its requests have ended it is not done before the receiver has taken that.
const NOTICE: u32 = 16;
/// The thread that leads waits for it: rouse.
const LED: u32 = 32;
/// A callback is registered. It keeps the batch until it was taken.
const CALLBACK: u32 = 64;
/// The callback was taken.
const CALLED: u32 = 128;
/// A task or a descriptor has been left with the listeners: tell them.
const LISTENED: u32 = 256;
/// It has a doorbell, from its beginning.
const DOORBELL: u32 = 512;

/// See the head of the file.
pub(crate) struct BatchWord(Word);

/// What is left to do about a batch by whoever has ended it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Somebody sleeps: wake.
    pub(crate) waited: bool,
    /// The thread that leads waits for it: rouse it.
    pub(crate) led: bool,
    /// Its callback is to be run.
    pub(crate) callback: bool,
    /// Its listeners are to be told.
    pub(crate) listened: bool,
    /// Nobody needs it any more: free it.
    pub(crate) free: bool,
}

impl Ended {
    /// Whether somebody is to be told of it, apart from a callback.
    #[inline]
    pub(crate) fn is_awaited(self) -> bool {
        self.waited || self.led || self.listened
    }
}

/// What a batch has from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// It is not done before the receiver has taken its notice.
    pub(crate) notice: bool,
    /// A doorbell is rung at its end.
    pub(crate) doorbell: bool,
}

impl BatchWord {
    /// Of a batch that nobody has.
    pub(crate) fn new() -> Self {
        Self(Word::new(DONE))
    }

    /// A batch begins; `done`: and has ended already, unless it has a notice. Publishes what was written about it
    /// before.
    pub(crate) fn open(&self, done: bool, marks: Marks) {
        let word = match marks.notice {
            true => NOTICE,
            false if done => DONE,
            false => 0,
        };
        self.0.store(word | if marks.doorbell { DOORBELL } else { 0 }, Ordering::Release);
    }

    #[inline]
    pub(crate) fn marks(&self) -> Marks {
        let word = self.0.load(Ordering::Relaxed);
        Marks { notice: word & NOTICE != 0, doorbell: word & DOORBELL != 0 }
    }

    /// Whether it has ended: then everything that was written before is seen.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) & DONE != 0
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CANCELLED != 0
    }

    /// Asks for its end; `false` if it was asked before or has ended.
    pub(crate) fn cancel(&self) -> bool {
        self.0.fetch_or(CANCELLED, Ordering::AcqRel) & (CANCELLED | DONE) == 0
    }

    /// It has ended. Once; the caller must do what the answer says, freeing last.
    pub(crate) fn end(&self) -> Ended {
        let before = self.0.fetch_or(DONE, Ordering::AcqRel);
        let has = |bit| before & bit != 0;
        let callback = has(CALLBACK);
        let free = has(DETACHED) && !callback;
        Ended { waited: has(WAITED), led: has(LED), callback, listened: has(LISTENED), free }
    }

    /// The owner goes. `true`: the caller must free it; otherwise whoever ends it, or takes its callback, frees it.
    pub(crate) fn detach(&self) -> bool {
        let before = self.0.fetch_or(DETACHED, Ordering::AcqRel);
        before & DONE != 0 && (before & CALLBACK == 0 || before & CALLED != 0)
    }

    /// Whether a callback was registered.
    pub(crate) fn has_callback(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CALLBACK != 0
    }

    /// A callback was put where it is found. `true`: the batch has ended already, and the caller brings the callback on
    /// its way; otherwise whoever ends it does. Once a batch.
    pub(crate) fn register_callback(&self) -> bool {
        self.0.fetch_or(CALLBACK, Ordering::AcqRel) & DONE != 0
    }

    /// The callback was taken. `true`: the caller must free the batch.
    pub(crate) fn callback_taken(&self) -> bool {
        self.0.fetch_or(CALLED, Ordering::AcqRel) & DETACHED != 0
    }

    /// Somebody was put where listeners are found. `true`: it has ended, and whoever ended it may not know of them: the
    /// caller takes them out again. Otherwise whoever ends it tells them.
    pub(crate) fn listen(&self) -> bool {
        self.0.fetch_or(LISTENED, Ordering::AcqRel) & DONE != 0
    }

    /// Whether anybody ever was; for the owner who goes.
    #[inline]
    pub(crate) fn is_listened(&self) -> bool {
        self.0.load(Ordering::Relaxed) & LISTENED != 0
    }

    /// The thread that leads is about to sleep for it. `true`: it has ended.
    pub(crate) fn lead(&self) -> bool {
        self.0.fetch_or(LED, Ordering::AcqRel) & DONE != 0
    }

    /// The thread that leads has woken.
    pub(crate) fn unlead(&self) {
        self.0.fetch_and(!LED, Ordering::Relaxed);
    }

    /// Somebody is about to sleep for it elsewhere. `true`: it has ended.
    pub(crate) fn await_elsewhere(&self) -> bool {
        self.0.fetch_or(WAITED, Ordering::AcqRel) & DONE != 0
    }

    /// Sleeps until it has ended, `by`, or for no reason. With `told` its end wakes; else nobody does. Answers whether
    /// it has ended.
    pub(crate) fn wait(&self, by: Nanos, told: bool) -> bool {
        let word = match told {
            true => self.0.fetch_or(WAITED, Ordering::AcqRel) | WAITED,
            false => self.0.load(Ordering::Acquire),
        };
        if word & DONE == 0 {
            self.0.wait(word, by, ALL);
        }
        self.is_done()
    }

    /// Wakes those who sleep on it. A batch that was freed and begun anew meanwhile only sees a wake-up that it
    /// ignores.
    pub(crate) fn wake(&self) {
        self.0.wake(u32::MAX, ALL);
    }
}
