//! The table of a node's regions: fixed capacity, 32 bytes an entry, generations against reuse.
//!
//! Adding and removing take a lock (overlaps are judged and entries made in one step); looking up takes
//! none: one compare-exchange in, one subtraction out. Deliberately by id and offset: no address comes in.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::memory::access::{Access, RegionId};
use crate::memory::gate::{Barred, Gate, READ, WRITE};
use crate::memory::guard::{Guard, LocalSpan};
use crate::memory::mapping::Memory;
use crate::memory::origin::Origin;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::wr::{Op, Refusal};

/// One entry. `base` and `len` change only while both gates are dead.
struct Slot {
    /// Accesses by peers.
    peers: Gate,
    /// Requests of this node.
    pins: Gate,
    base: AtomicU64,
    len: AtomicU64,
}

/// What only adding and removing look at.
struct Book {
    /// Live regions by first address.
    by_base: BTreeMap<u64, Entry>,
    /// Free slots; the one longest free is used next.
    free: VecDeque<u32>,
}

struct Entry {
    index: u32,
    access: Access,
    memory: Memory,
}

/// The table of a node's regions. All methods may be called from any thread.
pub struct Regions {
    slots: Box<[Slot]>,
    book: Mutex<Book>,
    origin: Origin,
    /// Whether there ever was memory of a GPU in it: only then copies by the CPU ask whose a region is.
    gpus: AtomicBool,
}

/// What is known of a live region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionFacts {
    /// Its name.
    pub id: RegionId,
    /// Bytes.
    pub len: u64,
    /// What peers may do.
    pub access: Access,
    /// Requests of this node that hold it.
    pub pins: u64,
    /// Accesses by peers that are active.
    pub accesses: u64,
}

impl Regions {
    /// A table for `capacity` regions (at most 2^32 - 1), all of its memory allocated here. Generations start
    /// at random, so that an id from an earlier life of a node rarely means anything to this one.
    pub fn new(capacity: usize) -> Self {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
        let random = RandomState::new();
        let slot = |index: u32| {
            let generation = random.hash_one(index) as u32;
            Slot {
                peers: Gate::dead(generation),
                pins: Gate::dead(generation),
                base: AtomicU64::new(0),
                len: AtomicU64::new(0),
            }
        };
        Self {
            slots: (0..capacity).map(slot).collect(),
            book: Mutex::new(Book { by_base: BTreeMap::new(), free: (0..capacity).collect() }),
            origin: Origin::here(),
            gpus: AtomicBool::new(false),
        }
    }

    /// The process they are of. In a child forked from it nothing may be registered or given back.
    #[inline]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// How many regions it can hold.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// How many regions are live; none in a forked child.
    pub fn len(&self) -> usize {
        self.book().map_or(0, |book| book.by_base.len())
    }

    /// Whether no region is live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Registers memory. Of several threads that add overlapping memory at once, one wins.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for 0 bytes, address 0 or a range that wraps, [`Error::Overlap`] naming
    /// the live region, [`Error::Limit`], [`Error::Forked`]. The memory is dropped (unmapped, if it was ours) on error.
    pub fn add(&self, memory: Memory, access: Access) -> Result<RegionId, Error> {
        let (base, len) = (memory.ptr() as u64, memory.len());
        if len == 0 || base == 0 {
            return Err(Error::BadArgument(format!(
                "a region of {len} bytes at address {base:#x}: at least 1 byte at an address other than 0"
            )));
        }
        let end = base.checked_add(len).filter(|_| len <= isize::MAX as u64).ok_or_else(|| {
            Error::BadArgument(format!(
                "a region of {len} bytes at address {base:#x} passes the end of memory"
            ))
        })?;
        let mut book = self.book()?;
        if memory.gpu().is_some() {
            // Before the region has a name: whoever has the name has got it from here, and sees this too.
            self.gpus.store(true, Ordering::Relaxed);
        }
        if let Some((_, below)) = book.by_base.range(..end).next_back()
            && below.memory.ptr() as u64 + below.memory.len() > base
        {
            return Err(Error::Overlap(self.id_of(below.index)));
        }
        let limit = self.capacity() as u64;
        let index = book.free.pop_front().ok_or(Error::Limit { what: "regions", limit })?;
        let slot = &self.slots[index as usize];
        // Generation 0 is skipped: with it index 0 would be the default id.
        let generation = slot.peers.generation().wrapping_add(1).max(1);
        slot.base.store(base, Ordering::Relaxed);
        slot.len.store(len, Ordering::Relaxed);
        slot.pins.open(generation, 0);
        slot.peers.open(generation, rights(access));
        book.by_base.insert(base, Entry { index, access, memory });
        Ok(RegionId::new(index, generation))
    }

    /// Unregisters a region that nobody uses, and gives its memory back: after this nothing of ours touches
    /// it. One that is busy stays as it was; to drain it, [`Self::shut`] it first and come again.
    ///
    /// # Errors
    /// [`Error::Busy`] while pinned or accessed by a peer, [`Error::NotRegistered`].
    pub fn remove(&self, id: RegionId) -> Result<Memory, Error> {
        let mut book = self.book()?;
        let (slot, generation) = self.slot(id).ok_or(Error::NotRegistered(id))?;
        let was_open = slot.pins.shut(generation).ok_or(Error::NotRegistered(id))?;
        let busy = if slot.pins.holders(generation) != Some(0) {
            Some("requests of this node hold it")
        } else if !slot.peers.end_if_idle(generation) {
            Some("a peer is accessing it")
        } else {
            None
        };
        if let Some(why) = busy {
            if was_open {
                slot.pins.reopen(generation);
            }
            return Err(Error::Busy(id, why));
        }
        let ended = slot.pins.end_if_idle(generation);
        debug_assert!(ended, "the pins' gate is shut and was empty");
        let entry = book.by_base.remove(&slot.base.load(Ordering::Relaxed));
        book.free.push_back(id.index());
        Ok(entry.expect("a live slot has its entry: both change under this lock only").memory)
    }

    /// Lets no new request and no new access begin; those that are active go on. The way to drain a region
    /// before [`Self::remove`]. Peers are told [`Refusal::Closing`].
    ///
    /// # Errors
    /// [`Error::NotRegistered`].
    pub fn shut(&self, id: RegionId) -> Result<(), Error> {
        let _book = self.book()?;
        let (slot, generation) = self.slot(id).ok_or(Error::NotRegistered(id))?;
        slot.pins.shut(generation).ok_or(Error::NotRegistered(id))?;
        slot.peers.shut(generation).ok_or(Error::NotRegistered(id))?;
        Ok(())
    }

    /// Takes [`Self::shut`] back.
    ///
    /// # Errors
    /// [`Error::NotRegistered`].
    pub fn reopen(&self, id: RegionId) -> Result<(), Error> {
        let _book = self.book()?;
        let (slot, generation) = self.slot(id).ok_or(Error::NotRegistered(id))?;
        slot.pins.holders(generation).ok_or(Error::NotRegistered(id))?;
        slot.pins.reopen(generation);
        slot.peers.reopen(generation);
        Ok(())
    }

    /// A request of this node takes hold of a region; it cannot be removed until [`Self::unpin`].
    ///
    /// # Errors
    /// [`Error::NotRegistered`]; [`Error::Busy`] while it is being unregistered.
    pub fn pin(&self, id: RegionId) -> Result<(), Error> {
        self.pin_times(id, 1).map(|_| ())
    }

    /// `n` requests take hold of a region at once, or none; answers its length, which stays as long as one does.
    ///
    /// # Errors
    /// As [`Self::pin`].
    #[inline]
    pub fn pin_times(&self, id: RegionId, n: u32) -> Result<u64, Error> {
        let (slot, generation) = self.slot(id).ok_or(Error::NotRegistered(id))?;
        slot.pins.enter_times(generation, 0, n).map_err(|barred| match barred {
            Barred::Shut => Error::Busy(id, "it is being unregistered"),
            Barred::Full => Error::Busy(id, "2^28 requests hold it"),
            Barred::Unknown | Barred::Denied => Error::NotRegistered(id),
        })?;
        Ok(slot.len.load(Ordering::Relaxed))
    }

    /// One pin more of a region that is pinned, also while it is being unregistered: that waits for all of them.
    pub(super) fn pin_again(&self, id: RegionId) -> Result<(), Error> {
        let (slot, generation) = self.slot(id).ok_or(Error::NotRegistered(id))?;
        if slot.pins.join(generation) { Ok(()) } else { Err(Error::NotRegistered(id)) }
    }

    /// Lets go of one pin. Whether there was one: an unpin too many changes nothing, and is a bug.
    pub fn unpin(&self, id: RegionId) -> bool {
        self.unpin_times(id, 1)
    }

    /// Lets go of `n` pins. Whether there were as many: unpins too many change nothing, and are a bug.
    #[inline]
    pub fn unpin_times(&self, id: RegionId, n: u32) -> bool {
        let left = self.slot(id).is_some_and(|(slot, generation)| slot.pins.leave_checked(generation, n));
        debug_assert!(left, "{n} unpins of {id:?}, which fewer have pinned");
        left
    }

    /// A checked range of a *pinned* region, for the node's own work requests.
    ///
    /// # Errors
    /// [`Error::NotRegistered`]; [`Error::BadArgument`] out of bounds, or when nobody has pinned it.
    pub fn local(&self, id: RegionId, offset: u64, len: u64) -> Result<LocalSpan, Error> {
        let (slot, generation) = self.slot(id).ok_or(Error::NotRegistered(id))?;
        match slot.pins.holders(generation) {
            None => return Err(Error::NotRegistered(id)),
            Some(0) => return Err(Error::BadArgument(format!("region {id:?} is not pinned: pin it first"))),
            Some(_) => {}
        }
        let ptr = slot.range(offset, len).ok_or_else(|| {
            let size = slot.len.load(Ordering::Relaxed);
            Error::BadArgument(format!(
                "{len} bytes at offset {offset} pass the end of a region of {size} bytes"
            ))
        })?;
        Ok(LocalSpan { ptr, len })
    }

    /// A peer begins an access: generation, rights, gate and bounds are checked, nothing is allocated.
    ///
    /// # Errors
    /// The refusal to answer the peer with.
    pub fn open(self: &Arc<Self>, id: RegionId, offset: u64, len: u64, op: Op) -> Result<Guard, Refusal> {
        if len == 0 {
            return Err(Refusal::Malformed);
        }
        let right = match op {
            Op::Read => READ,
            Op::Write => WRITE,
        };
        let (slot, generation) = self.slot(id).ok_or(Refusal::UnknownRegion)?;
        slot.peers.enter(generation, right).map_err(|barred| match barred {
            Barred::Unknown => Refusal::UnknownRegion,
            Barred::Denied => Refusal::Denied,
            // Too many to count is as good as closing: the peer has to come again.
            Barred::Shut | Barred::Full => Refusal::Closing,
        })?;
        let Some(ptr) = slot.range(offset, len) else {
            slot.peers.leave();
            return Err(Refusal::OutOfBounds);
        };
        Ok(Guard::new(self.clone(), id.index(), ptr, len))
    }

    /// What is known of a live region.
    pub fn facts(&self, id: RegionId) -> Option<RegionFacts> {
        let book = self.book().ok()?;
        let (slot, _) = self.slot(id)?;
        self.facts_of(id, book.by_base.get(&slot.base.load(Ordering::Relaxed))?)
    }

    /// How many regions are live, and what is known of the first `most` of them by address.
    pub fn list(&self, most: usize) -> (usize, Vec<RegionFacts>) {
        let Ok(book) = self.book() else { return (0, Vec::new()) };
        let entries = book.by_base.values().take(most);
        let facts = entries.filter_map(|entry| self.facts_of(self.id_of(entry.index), entry));
        (book.by_base.len(), facts.collect())
    }

    fn facts_of(&self, id: RegionId, entry: &Entry) -> Option<RegionFacts> {
        let (slot, generation) = self.slot(id)?;
        let pins = slot.pins.holders(generation)?;
        let accesses = slot.peers.holders(generation).unwrap_or(0);
        Some(RegionFacts { id, len: entry.memory.len(), access: entry.access, pins, accesses })
    }

    /// For copies by the CPU.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for memory of a GPU.
    pub(super) fn of_host(&self, id: RegionId) -> Result<(), Error> {
        if !self.gpus.load(Ordering::Relaxed) {
            return Ok(());
        }
        let book = self.book()?;
        let base = self.slot(id).map(|(slot, _)| slot.base.load(Ordering::Relaxed));
        let entry = base.and_then(|base| book.by_base.get(&base));
        match entry.and_then(|entry| entry.memory.gpu()) {
            Some(part) => Err(part.not_by_the_cpu()),
            None => Ok(()),
        }
    }

    /// Pins and accesses of a live region, without the lock.
    pub(super) fn users(&self, id: RegionId) -> Option<(u64, u64)> {
        let (slot, generation) = self.slot(id)?;
        Some((slot.pins.holders(generation)?, slot.peers.holders(generation)?))
    }

    /// First address and length of a live region, without the lock: only to ask about, because it may be gone by then.
    pub(super) fn range(&self, id: RegionId) -> Option<(u64, u64)> {
        let (slot, generation) = self.slot(id)?;
        slot.pins.holders(generation)?;
        Some((slot.base.load(Ordering::Relaxed), slot.len.load(Ordering::Relaxed)))
    }

    /// A [`Guard`] was dropped.
    pub(super) fn release(&self, index: u32) {
        self.slots[index as usize].peers.leave();
    }

    fn slot(&self, id: RegionId) -> Option<(&Slot, u32)> {
        Some((self.slots.get(id.index() as usize)?, id.generation()))
    }

    fn id_of(&self, index: u32) -> RegionId {
        RegionId::new(index, self.slots[index as usize].peers.generation())
    }

    fn book(&self) -> Result<MutexGuard<'_, Book>, Error> {
        if !self.origin.is_here() {
            // A thread that the fork has left behind may hold the lock for ever.
            return Err(Error::Forked);
        }
        // A panic under this lock leaves at worst a slot that is never used again.
        Ok(self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Slot {
    /// First byte of a range within bounds. Only for whoever holds the slot.
    fn range(&self, offset: u64, len: u64) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        (end <= self.len.load(Ordering::Relaxed))
            .then(|| (self.base.load(Ordering::Relaxed) + offset) as *mut u8)
    }
}

fn rights(access: Access) -> u64 {
    let of = |op, right| if access.allows(op) { right } else { 0 };
    of(Op::Read, READ) | of(Op::Write, WRITE)
}

impl std::fmt::Debug for Regions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Regions").field("capacity", &self.capacity()).field("len", &self.len()).finish()
    }
}
