//! How the end of a batch is told, and to whom: to threads that wait, to a callback, to a task, a descriptor and a doorbell.
//! Deliberately apart from what an end is: that is decided by the batch's word before anything here is asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::{Ended, Ledger, Summary};
use crate::callbacks::{Callback, Desk, OnDoneError};
use crate::delivery::{Doorbell, Listeners};
use crate::reason::Code;

/// What `via` of `completion_notify` lists.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Via {
    pub(crate) event: bool,
    pub(crate) callback: bool,
    pub(crate) eventfd: bool,
    pub(crate) waker: bool,
}

/// See the file's head. Of several stages `completion_notify` each adds what its `via` lists.
#[derive(Default)]
pub(super) struct Ways {
    /// The end of a batch wakes threads that wait for it.
    event: AtomicBool,
    callback: AtomicBool,
    eventfd: AtomicBool,
    waker: AtomicBool,
    /// Where functions lie, if a stage runs them.
    desk: OnceLock<Arc<Desk>>,
    /// Where tasks and descriptors are left, if any may be.
    listeners: OnceLock<Listeners>,
    /// Tasks, descriptors and doorbells that were told.
    told: AtomicU64,
}

impl Ways {
    /// Functions and wakers of the application that have panicked.
    pub(super) fn panics(&self) -> u64 {
        self.desk.get().map_or(0, |desk| desk.panics()) + self.listeners.get().map_or(0, Listeners::panics)
    }
}

impl Ledger {
    /// See [`super::Usage::wakes`].
    pub(super) fn wakes(&self) -> u64 {
        self.batches.wakes() + self.ways.told.load(Relaxed)
    }

    /// So many tasks, descriptors and doorbells were told.
    pub(crate) fn count_told(&self, n: u64) {
        if n > 0 {
            self.ways.told.fetch_add(n, Relaxed);
        }
    }

    /// Says how ends are told.
    pub(crate) fn tell(&self, via: Via) {
        let Ways { event, callback, eventfd, waker, listeners, .. } = &self.ways;
        if via.eventfd || via.waker {
            listeners.get_or_init(|| Listeners::new(self.batches.limit()));
        }
        for (way, is_listed) in
            [(event, via.event), (callback, via.callback), (eventfd, via.eventfd), (waker, via.waker)]
        {
            way.fetch_or(is_listed, Relaxed);
        }
    }

    /// Whether the end of a batch wakes threads that wait.
    pub(crate) fn is_told(&self) -> bool {
        self.ways.event.load(Relaxed)
    }

    /// Where a batch's descriptor is left, and doorbells are hung up; `None`: `via` does not list "eventfd".
    pub(crate) fn descriptors(&self) -> Option<&Listeners> {
        self.ways.listeners.get().filter(|_| self.ways.eventfd.load(Relaxed))
    }

    /// Where tasks leave their wakers; `None`: `via` does not list "waker".
    pub(crate) fn wakers(&self) -> Option<&Listeners> {
        self.ways.listeners.get().filter(|_| self.ways.waker.load(Relaxed))
    }

    /// The owner of a batch goes: nobody listens for it any more, but for its doorbell.
    pub(crate) fn forget_listeners(&self, batch: u32) {
        if self.batches.word(batch).is_listened()
            && let Some(listeners) = self.ways.listeners.get()
        {
            listeners.clear(batch);
        }
    }

    /// The doorbell of a batch that is about to end, or never began: nobody else asks any more.
    pub(crate) fn take_doorbell(&self, batch: u32) -> Option<Doorbell> {
        self.ways.listeners.get()?.take_doorbell(batch)
    }

    /// What is left to do about a batch that has ended, but for telling those who wait ([`Self::awaken`]) and its
    /// doorbell.
    pub(crate) fn settle_end(&self, batch: u32, end: Ended) {
        if end.callback
            && let Some(desk) = self.ways.desk.get()
        {
            desk.put(batch);
        }
        if end.free {
            self.free_batch(batch);
        }
    }

    /// Tells those who wait for a batch that has ended, as `end` says. It may have been freed, and begun anew: then those
    /// who wait for the new one are woken in vain at most, and its listeners are told only if it has ended as well.
    pub(crate) fn awaken(&self, batch: u32, end: Ended) {
        if end.waited || end.led {
            self.batches.wake(batch, end);
        }
        if end.listened
            && let Some(listeners) = self.ways.listeners.get()
        {
            self.count_told(listeners.tell(batch, self.batches.word(batch)));
        }
    }

    /// The desk of the stage `callbacks`, made by the first of its workers that asks.
    pub(crate) fn run_callbacks(&self) -> Arc<Desk> {
        self.ways.desk.get_or_init(|| Arc::new(Desk::new(self.batches.limit()))).clone()
    }

    /// Leaves a function with a batch whose handle the caller has.
    pub(crate) fn on_done(&self, batch: u32, callback: Callback) -> Result<(), OnDoneError> {
        let desk = self.ways.desk.get().filter(|_| self.ways.callback.load(Relaxed));
        let desk = desk.ok_or(OnDoneError::NotDeclared)?;
        if self.is_closing() {
            return Err(OnDoneError::Stopped);
        }
        desk.leave(batch, self.batches.word(batch), callback)?;
        if self.is_closing() {
            // Whoever stops the engine may have looked before it was there.
            self.forget_callbacks();
        }
        Ok(())
    }

    /// Takes the next function that is due, with what its batch came to; the batch does not wait for it any more.
    pub(crate) fn next_callback(&self) -> Option<(Option<Callback>, Summary)> {
        let (batch, callback) = self.ways.desk.get()?.take()?;
        let summary = self.batches.summary(batch).unwrap_or_default();
        // Before it is run, so that it finds room for what it submits itself.
        if self.batches.word(batch).callback_taken() {
            self.free_batch(batch);
        }
        Some((callback, summary))
    }

    /// Drops the functions that were not run: after the engine was stopped, and its batches have ended.
    pub fn forget_callbacks(&self) {
        while let Some(forgotten) = self.next_callback() {
            drop(forgotten);
        }
    }

    /// The notice of a batch whose requests have ended has ended as well: the batch is done. Whoever comes second is
    /// not heard.
    pub(crate) fn end_notice(&self, batch: u32, code: Code) {
        // First, because from the end on the index may name another batch.
        if !self.outbox.remove(batch) {
            return;
        }
        self.line.tell();
        let doorbell =
            if self.batches.word(batch).marks().doorbell { self.take_doorbell(batch) } else { None };
        let end = self.batches.finish(batch, code);
        self.settle_end(batch, end);
        self.awaken(batch, end);
        if let Some(doorbell) = doorbell {
            self.count_told(u64::from(doorbell.ring(1)));
        }
    }
}
