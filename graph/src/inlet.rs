//! The way in: the reserved edge `submit -> STAGE`, open to any thread.
//! Deliberately all or nothing: every entry is reserved before the first is pushed, so that nobody has to
//! take half a submission back.

use crate::blueprint::Dispatch;
use crate::caller::Callers;
use crate::clock::thread_now;
use crate::edge::dispatch::destination;
use crate::edge::queue::{Parcel, Ring};
use crate::item::{BATCH, Batch, Item};
use crate::stage::{Spec, Waker};
use crate::sync::{Arc, AtomicU64, AtomicUsize, OnceLock, Ordering};

/// Why a submission was not taken. Nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// A ring has no room for its part: try again when some work has ended.
    #[error(
        "the entry queue has room for {free} of {asked} entries: try again when some work has ended, or enlarge \
         `submit -> ..`"
    )]
    NoRoom {
        /// Entries that were to go to one worker.
        asked: usize,
        /// Entries that its ring had room for.
        free: usize,
    },
    /// The engine drains or has stopped, or the graph has no `submit` edge.
    #[error("the graph takes nothing: it drains, has stopped, or has no `submit` edge")]
    Closed,
}

/// Set in the credits of a closed gate; credits stay far below.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// Set by whoever found too few credits: the next one that comes back rings [`Gate::room`]. In the same word, so
/// that neither a fence nor a second look is needed to lose no ring.
const WANTED: usize = 1 << (usize::BITS - 2);
const CREDITS: usize = WANTED - 1;

/// Entries of one ring that nobody has reserved.
#[repr(align(128))]
pub struct Gate {
    credits: AtomicUsize,
    capacity: usize,
    /// Rung when credits come back that were wanted.
    room: OnceLock<Waker>,
}

impl Gate {
    /// A gate before an empty ring.
    pub fn new(capacity: usize) -> Self {
        Self { credits: AtomicUsize::new(capacity), capacity, room: OnceLock::new() }
    }

    /// Says whom to ring when credits come back after a [`Self::reserve`] found too few. The first call counts.
    pub fn ring_for_room(&self, waker: Waker) {
        let _ = self.room.set(waker);
    }

    /// Takes `entries` credits.
    ///
    /// # Errors
    /// [`Full`] when there are fewer, or the gate is closed.
    pub fn reserve(&self, entries: usize) -> Result<(), Full> {
        // Too few: the word changes as well, so that whoever adds to it next knows.
        let take = |word: usize| match (word & CLOSED, (word & CREDITS).checked_sub(entries)) {
            (0, Some(left)) => Some(word & WANTED | left),
            (0, None) if word & WANTED == 0 => Some(word | WANTED),
            _ => None,
        };
        match self.credits.fetch_update(Ordering::AcqRel, Ordering::Acquire, take) {
            Ok(word) if word & CREDITS >= entries => Ok(()),
            Err(word) if word & CLOSED != 0 => Err(Full::Closed),
            Ok(word) | Err(word) => Err(Full::NoRoom { asked: entries, free: word & CREDITS }),
        }
    }

    /// Gives one credit back, after an entry was popped.
    #[inline]
    pub fn refund(&self) {
        self.refund_all(1);
    }

    #[inline]
    fn refund_all(&self, entries: usize) {
        if self.credits.fetch_add(entries, Ordering::AcqRel) & WANTED != 0 {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        let before = self.credits.fetch_and(!WANTED, Ordering::AcqRel);
        if before & WANTED != 0
            && let Some(waker) = self.room.get()
        {
            waker.wake();
        }
    }

    pub(crate) fn close(&self) {
        self.credits.fetch_or(CLOSED | WANTED, Ordering::AcqRel);
        // Whoever waits for room learns that there will be none.
        self.ring();
    }

    fn is_closed(&self) -> bool {
        self.credits.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Entries reserved and not yet popped.
    pub(crate) fn taken(&self) -> usize {
        self.capacity.saturating_sub(self.credits.load(Ordering::Acquire) & CREDITS)
    }
}

/// What all inlets of an engine share.
pub(crate) struct Entry<T: Item> {
    pub rings: Box<[Arc<Ring<Parcel<T>>>]>,
    pub gates: Box<[Arc<Gate>]>,
    pub dispatch: Dispatch,
    pub target: Arc<dyn Spec<T>>,
    pub pushed: AtomicU64,
    pub batches: AtomicU64,
    pub refused: AtomicU64,
    /// Whether entries are stamped with the time, for their wait.
    pub timed: bool,
    /// Its workers have no threads: whoever pushes steps them, so nobody needs to be woken.
    pub stepped: bool,
}

/// A handle for submitting. Cheap to clone; any thread; never blocks.
pub struct Inlet<T: Item> {
    pub(crate) entry: Option<Arc<Entry<T>>>,
    /// The workers of the target, if those who submit step them.
    pub(crate) callers: Option<Callers<T>>,
}

impl<T: Item> Clone for Inlet<T> {
    fn clone(&self) -> Self {
        Self { entry: self.entry.clone(), callers: self.callers.clone() }
    }
}

/// Submissions up to this many items find their destinations without an allocation.
const ON_STACK: usize = 64;

impl<T: Item> Inlet<T> {
    /// Destinations: the workers of the target's pool; 1 with `dispatch = "any"`, 0 without a submit edge.
    pub fn workers(&self) -> usize {
        self.entry.as_ref().map_or(0, |e| e.rings.len())
    }

    /// Says whom to ring when there is room again after a submission found none. The first call of an engine counts.
    pub fn ring_for_room(&self, waker: &Waker) {
        let gates = self.entry.iter().flat_map(|entry| &entry.gates);
        gates.for_each(|gate| gate.ring_for_room(waker.clone()));
    }

    /// Whether nothing will ever be taken any more.
    pub fn is_closed(&self) -> bool {
        self.entry.as_ref().is_none_or(|entry| entry.gates.iter().any(|gate| gate.is_closed()))
    }

    /// The destination of `item`, below [`Inlet::workers`]. Items of one destination may be chained.
    pub fn worker_of(&self, item: T) -> usize {
        self.entry.as_ref().map_or(0, |e| e.worker_of(item))
    }

    /// Submits all items, or none. An entry of a ring takes up to [`BATCH`] items of one destination. When the target
    /// is in a `caller` pool, this thread steps it then, unless somebody else does.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken.
    pub fn push_all(&self, items: &[T]) -> Result<(), Full> {
        let Some(entry) = &self.entry else { return Err(Full::Closed) };
        if let (Some(callers), [item]) = (&self.callers, items)
            && entry.hand(callers, *item)
        {
            return Ok(());
        }
        let mut done = entry.push_all(items);
        if let Some(callers) = &self.callers {
            if matches!(done, Err(Full::NoRoom { .. })) {
                // Nobody but those who submit and wait makes room.
                callers.help();
                done = entry.push_all(items);
            }
            if done.is_ok() {
                callers.help();
            }
        }
        if done.is_err() {
            entry.refused.fetch_add(items.len() as u64, Ordering::Relaxed);
        }
        done
    }
}

impl<T: Item> Entry<T> {
    fn push_all(&self, items: &[T]) -> Result<(), Full> {
        match items {
            [] => Ok(()),
            [item] => self.push_one(*item),
            _ if self.rings.len() == 1 => self.push_to(&[], items),
            _ if items.len() <= ON_STACK => {
                let mut to = [0u16; ON_STACK];
                self.sort(items, &mut to[..items.len()]);
                self.push_to(&to[..items.len()], items)
            }
            _ => {
                let mut to = vec![0u16; items.len()];
                self.sort(items, &mut to);
                self.push_to(&to, items)
            }
        }
    }

    fn worker_of(&self, item: T) -> usize {
        destination(self.dispatch, &*self.target, item, self.rings.len())
    }

    fn sort(&self, items: &[T], to: &mut [u16]) {
        for (to, item) in to.iter_mut().zip(items) {
            // The check bounds pools to 1024 workers.
            *to = self.worker_of(*item) as u16;
        }
    }

    /// Takes a single item straight to the worker that this thread steps anyway. Whether it could.
    #[inline]
    fn hand(&self, callers: &Callers<T>, item: T) -> bool {
        let handed = callers.hand(item);
        if handed {
            self.pushed.fetch_add(1, Ordering::Relaxed);
            self.batches.fetch_add(1, Ordering::Relaxed);
        }
        handed
    }

    fn push_one(&self, item: T) -> Result<(), Full> {
        let worker = self.worker_of(item);
        self.gates[worker].reserve(1)?;
        let mut batch = Batch::new();
        let _ = batch.push(item); // An empty batch has room.
        self.send(worker, batch);
        Ok(())
    }

    /// `to` names each item's destination; empty: all go to the first.
    fn push_to(&self, to: &[u16], items: &[T]) -> Result<(), Full> {
        let is_for = |at: usize, worker: usize| to.get(at).is_none_or(|t| usize::from(*t) == worker);
        let entries =
            |worker: usize| (0..items.len()).filter(|at| is_for(*at, worker)).count().div_ceil(BATCH);
        for worker in 0..self.rings.len() {
            if let Err(full) = self.gates[worker].reserve(entries(worker)) {
                (0..worker).for_each(|w| self.gates[w].refund_all(entries(w)));
                return Err(full);
            }
        }
        for worker in 0..self.rings.len() {
            let mut batch = Batch::new();
            for (_, item) in items.iter().enumerate().filter(|(at, _)| is_for(*at, worker)) {
                if batch.push(*item).is_err() {
                    self.send(worker, std::mem::take(&mut batch));
                    let _ = batch.push(*item); // Just emptied.
                }
            }
            if !batch.is_empty() {
                self.send(worker, batch);
            }
        }
        Ok(())
    }

    /// Pushes an entry that is paid for.
    fn send(&self, worker: usize, batch: Batch<T>) {
        let items = batch.len() as u64;
        let mut parcel = Parcel { pushed_at: if self.timed { thread_now() } else { 0 }, batch };
        // Whoever pops gives the credit back after the pop, so a paid entry finds room at once.
        let ring = &self.rings[worker];
        while let Err(back) = if self.stepped { ring.put(parcel) } else { ring.push(parcel) } {
            parcel = back;
            std::thread::yield_now();
        }
        self.pushed.fetch_add(items, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
    }
}
