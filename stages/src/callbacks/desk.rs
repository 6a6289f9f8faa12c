//! Where a batch's function lies until the batch is done, and where the done ones wait for a worker.
//! Deliberately never full and never growing: there is one place for each batch that can exist.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crossbeam_channel::{Receiver, Sender, bounded};
use pipeline_graph::Waker;

use crate::ledger::{BatchWord, Summary};

/// What is run when a batch is done.
pub(crate) type Callback = Box<dyn FnOnce(Summary) + Send>;

/// Why a function was not taken. It was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OnDoneError {
    /// Nobody would run it.
    #[error(
        "this pipeline runs no callbacks: declare a stage of type `callbacks` in a pool of its own, and add \
         \"callback\" to `via` of completion_notify"
    )]
    NotDeclared,
    /// The batch has one.
    #[error("the batch has a callback already: it has one at most")]
    Taken,
    /// Nobody runs it any more.
    #[error(
        "the engine has stopped, and runs no callbacks any more; the batch itself says what became of it"
    )]
    Stopped,
}

/// See the head of the file.
pub(crate) struct Desk {
    places: Box<[Mutex<Option<Callback>>]>,
    due: (Sender<u32>, Receiver<u32>),
    bells: RwLock<Vec<Waker>>,
    panics: AtomicU64,
}

impl Desk {
    /// A desk for `batches` batches. Allocates all there will ever be, but for what a function itself takes.
    pub(crate) fn new(batches: u32) -> Self {
        Self {
            places: (0..batches).map(|_| Mutex::new(None)).collect(),
            due: bounded(batches as usize),
            bells: RwLock::default(),
            panics: AtomicU64::new(0),
        }
    }

    /// Bytes of a desk, for each batch.
    pub(crate) const BYTES: usize = size_of::<Mutex<Option<Callback>>>() + 2 * size_of::<usize>();

    fn place(&self, batch: u32) -> MutexGuard<'_, Option<Callback>> {
        self.places[batch as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a function with a batch whose handle the caller has.
    pub(crate) fn leave(&self, batch: u32, word: &BatchWord, callback: Callback) -> Result<(), OnDoneError> {
        let mut place = self.place(batch);
        if word.has_callback() {
            return Err(OnDoneError::Taken);
        }
        *place = Some(callback);
        let done = word.register_callback();
        drop(place);
        if done {
            self.put(batch);
        }
        Ok(())
    }

    /// A batch with a function is done.
    pub(crate) fn put(&self, batch: u32) {
        // A batch is here once at most, and cannot begin anew before it was taken: there is room.
        let put = self.due.0.try_send(batch);
        debug_assert!(put.is_ok(), "a batch was due twice");
        self.bells.read().unwrap_or_else(PoisonError::into_inner).iter().for_each(Waker::wake);
    }

    /// A worker's bell rings whenever something is due.
    pub(crate) fn attend(&self, bell: Waker) {
        self.bells.write().unwrap_or_else(PoisonError::into_inner).push(bell);
    }

    /// The next that is due, with its function.
    pub(crate) fn take(&self) -> Option<(u32, Option<Callback>)> {
        let batch = self.due.1.try_recv().ok()?;
        let callback = self.place(batch).take();
        Some((batch, callback))
    }

    /// How many are due.
    pub(crate) fn len(&self) -> usize {
        self.due.1.len()
    }

    /// A function has panicked.
    pub(crate) fn count_panic(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    /// How many have, so far.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }
}
