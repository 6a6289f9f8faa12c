//! Who listens for the end of a batch without a thread of its own: tasks, by their wakers; its descriptor; its doorbell.
//!
//! Deliberately one place for each batch that can exist, so that an end allocates nothing and finds nothing full: only the
//! second task and those after it take memory, one entry each, until they are told or dropped. A lock a place, which nobody
//! takes for a batch that nobody listens for; wakers are run, cloned and dropped outside of it, because they are the
//! application's and may come back here.

use std::collections::BTreeMap;
use std::mem;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;

use super::{DescriptorError, Doorbell, raise, silent};
use crate::ledger::BatchWord;
use crate::sync::{Mutex, MutexGuard};

/// What tells the tasks of a batch apart; the default is nobody's.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// See the file's head.
pub(crate) struct Listeners {
    places: Box<[Mutex<Place>]>,
    panics: AtomicU64,
}

/// Those of one batch.
#[derive(Default)]
struct Place {
    /// The last ticket that was given out. It counts on from batch to batch: no ticket is valid twice.
    last: u64,
    /// A task, in most batches the only one.
    first: Option<(u64, Waker)>,
    more: BTreeMap<u64, Waker>,
    fd: Option<Arc<OwnedFd>>,
    doorbell: Option<Doorbell>,
}

impl Place {
    fn waker(&mut self, ticket: &Ticket) -> Option<&mut Waker> {
        match &mut self.first {
            Some((first, waker)) if *first == ticket.0 => Some(waker),
            _ => self.more.get_mut(&ticket.0),
        }
    }

    /// Answers the waker that it replaces.
    fn keep(&mut self, ticket: &mut Ticket, waker: Waker) -> Option<Waker> {
        if let Some(kept) = self.waker(ticket) {
            return Some(mem::replace(kept, waker));
        }
        self.last += 1;
        *ticket = Ticket(self.last);
        match self.first {
            None => self.first = Some((self.last, waker)),
            Some(_) => _ = self.more.insert(self.last, waker),
        }
        None
    }

    fn take(&mut self, ticket: &Ticket) -> Option<Waker> {
        let (_, waker) = match self.first.take_if(|(first, _)| *first == ticket.0) {
            None => return self.more.remove(&ticket.0),
            Some(first) => first,
        };
        Some(waker)
    }
}

impl Listeners {
    /// Places for `batches` batches.
    pub(crate) fn new(batches: u32) -> Self {
        Self { places: (0..batches).map(|_| Mutex::default()).collect(), panics: AtomicU64::new(0) }
    }

    /// Bytes for each batch.
    pub(crate) const BYTES: usize = size_of::<Mutex<Place>>();

    fn place(&self, batch: u32) -> MutexGuard<'_, Place> {
        self.places[batch as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task waits: its waker is kept in place of the one that it left before under that ticket. `true`: the batch is
    /// done, and nothing is kept.
    pub(crate) fn wait(&self, batch: u32, word: &BatchWord, ticket: &mut Ticket, waker: &Waker) -> bool {
        if self.place(batch).waker(ticket).is_some_and(|kept| kept.will_wake(waker)) {
            // It is there, so whoever ends the batch is still to come.
            return false;
        }
        let waker = waker.clone();
        let (replaced, done) = {
            let mut place = self.place(batch);
            (place.keep(ticket, waker), word.listen())
        };
        drop(replaced);
        if done {
            self.leave(batch, ticket);
        }
        done
    }

    /// A task waits no more.
    pub(crate) fn leave(&self, batch: u32, ticket: &mut Ticket) {
        let waker = self.place(batch).take(&mem::take(ticket));
        drop(waker);
    }

    /// A batch gets its descriptor: `have` is where its owner keeps it, filled by the first who asks.
    pub(crate) fn open(
        &self,
        batch: u32,
        word: &BatchWord,
        have: &OnceLock<Arc<OwnedFd>>,
    ) -> Result<(), DescriptorError> {
        let made = Arc::new(silent()?);
        let mut place = self.place(batch);
        // Under the lock, so that whoever finds it there finds all of this done.
        if have.set(made.clone()).is_ok() {
            place.fd = Some(made);
            if word.listen() {
                place.fd.take().iter().for_each(|fd| raise(fd));
            }
        }
        Ok(())
    }

    /// Hangs up a doorbell with a batch that has not begun.
    pub(crate) fn hang(&self, batch: u32, doorbell: Doorbell) {
        self.place(batch).doorbell = Some(doorbell);
    }

    /// Takes the doorbell of a batch that has not ended, or never began.
    pub(crate) fn take_doorbell(&self, batch: u32) -> Option<Doorbell> {
        self.place(batch).doorbell.take()
    }

    /// A batch has ended: tells its tasks and its descriptor. Answers how many that were.
    pub(crate) fn tell(&self, batch: u32, word: &BatchWord) -> u64 {
        let (fds, first, more) = {
            let mut place = self.place(batch);
            if !word.is_done() {
                // The batch was freed meanwhile and another one began: whoever ends that one tells its own.
                return 0;
            }
            // Within the lock, which its owner takes as it goes: then nobody has it any more, and closing it closes it.
            let fd = place.fd.take();
            fd.iter().for_each(|fd| raise(fd));
            (u64::from(fd.is_some()), place.first.take(), mem::take(&mut place.more))
        };
        let told = fds + u64::from(first.is_some()) + more.len() as u64;
        for waker in first.into_iter().map(|(_, waker)| waker).chain(more.into_values()) {
            if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
                self.panics.fetch_add(1, Relaxed);
                tracing::error!("a waker of the application panicked; its batch is done, and others go on");
            }
        }
        told
    }

    /// Nobody listens any more for a batch, whose owner goes; its doorbell stays.
    pub(crate) fn clear(&self, batch: u32) {
        let listeners = {
            let mut place = self.place(batch);
            (place.first.take(), mem::take(&mut place.more), place.fd.take())
        };
        drop(listeners);
    }

    /// How many wakers have panicked so far.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }
}
