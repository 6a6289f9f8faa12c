//! A fixed table of slots with generations and a free list: who may use which index, and no more.
//! Deliberately without the slots' contents (the owner keeps those in parallel arrays), without `unsafe`,
//! without locks, and without growing.

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// End of a chain.
const NIL: u32 = u32::MAX;

/// A slot that was handed out: its index and the generation that proves the claim.
///
/// A live generation is odd, so an all-zero key is never live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Index in the arena.
    pub index: u32,
    /// Generation; odd while live.
    pub generation: u32,
}

/// A free or access with a generation that is no longer live: a double free, or a key kept too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("slot {index} is not live in generation {generation}: freed twice, or a key was kept too long")]
pub struct Stale {
    /// Index that was named.
    pub index: u32,
    /// Generation that was named.
    pub generation: u32,
}

/// The arena. Shared by all threads; every call is lock-free.
///
/// The free list is a stack whose head carries a tag that changes with every push and pop, so that a slow
/// popper cannot be fooled by a slot that left and came back (ABA). 32 bits of tag would have to wrap
/// exactly within one compare-and-swap for that.
pub struct Arena {
    generations: Box<[AtomicU32]>,
    next: Box<[AtomicU32]>,
    /// Tag in the upper half, index of the first free slot (or [`NIL`]) in the lower.
    head: AtomicU64,
    /// Slots on the free list; those in caches are not.
    free: AtomicUsize,
    stale: AtomicU64,
}

impl Arena {
    /// An arena of `capacity` free slots (below 2³¹, so that a key keeps a spare bit).
    ///
    /// # Panics
    /// When `capacity` is 2³¹ or more.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity < 1 << 31, "an arena has less than 2^31 slots");
        let link = |i: usize| if i + 1 < capacity { i as u32 + 1 } else { NIL };
        Self {
            generations: (0..capacity).map(|_| AtomicU32::new(0)).collect(),
            next: (0..capacity).map(|i| AtomicU32::new(link(i))).collect(),
            head: AtomicU64::new(u64::from(if capacity == 0 { NIL } else { 0 })),
            free: AtomicUsize::new(capacity),
            stale: AtomicU64::new(0),
        }
    }

    /// Slots in all.
    pub fn capacity(&self) -> usize {
        self.generations.len()
    }

    /// Slots on the shared free list now. Those in [`Cache`]s are neither here nor live.
    pub fn free_slots(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }

    /// Live slots, counted one by one: for reports and tests, not for the data path.
    pub fn live(&self) -> usize {
        self.generations.iter().filter(|g| g.load(Ordering::Relaxed) & 1 == 1).count()
    }

    /// How often a stale generation was freed.
    pub fn stale_frees(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Takes a slot; `None` when all are taken.
    pub fn alloc(&self) -> Option<Slot> {
        let mut one = [NIL];
        (self.unlink(&mut one) == 1).then(|| self.enliven(one[0]))
    }

    /// Gives a slot back.
    ///
    /// # Errors
    /// [`Stale`], counted, when that generation is not live. Nothing changes then.
    pub fn free(&self, slot: Slot) -> Result<(), Stale> {
        self.retire(slot)?;
        self.link(&[slot.index]);
        Ok(())
    }

    /// Whether `slot` is live in just this generation.
    pub fn is_live(&self, slot: Slot) -> bool {
        slot.generation & 1 == 1
            && self
                .generations
                .get(slot.index as usize)
                .is_some_and(|g| g.load(Ordering::Acquire) == slot.generation)
    }

    /// The generation of a slot now; odd when live. `None` past the end.
    pub fn generation(&self, index: u32) -> Option<u32> {
        Some(self.generations.get(index as usize)?.load(Ordering::Acquire))
    }

    /// Marks an index, which only the caller has, as live.
    fn enliven(&self, index: u32) -> Slot {
        let cell = &self.generations[index as usize];
        let generation = cell.load(Ordering::Relaxed).wrapping_add(1);
        debug_assert!(generation & 1 == 1, "a slot on the free list was live");
        cell.store(generation, Ordering::Release);
        Slot { index, generation }
    }

    /// Ends a generation. The compare-and-swap lets exactly one of two frees win.
    fn retire(&self, slot: Slot) -> Result<(), Stale> {
        let stale = Stale { index: slot.index, generation: slot.generation };
        let won = slot.generation & 1 == 1
            && self.generations.get(slot.index as usize).is_some_and(|g| {
                let next = slot.generation.wrapping_add(1);
                g.compare_exchange(slot.generation, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            });
        if !won {
            self.stale.fetch_add(1, Ordering::Relaxed);
            return Err(stale);
        }
        Ok(())
    }

    /// Pops up to `out.len()` indices in one step; answers how many.
    fn unlink(&self, out: &mut [u32]) -> usize {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let mut at = head as u32;
            let mut taken = 0;
            // Another thread may pop and push under us; then what is read here is garbage (though always
            // in range), the tag has changed, and the swap below fails.
            while at != NIL && taken < out.len() {
                out[taken] = at;
                taken += 1;
                at = self.next[at as usize].load(Ordering::Relaxed);
            }
            if taken == 0 {
                return 0;
            }
            match self.head.compare_exchange_weak(head, retag(head, at), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    self.free.fetch_sub(taken, Ordering::Relaxed);
                    return taken;
                }
                Err(now) => head = now,
            }
        }
    }

    /// Pushes a chain of free indices in one step.
    fn link(&self, indices: &[u32]) {
        let (Some(&first), Some(&last)) = (indices.first(), indices.last()) else { return };
        for pair in indices.windows(2) {
            self.next[pair[0] as usize].store(pair[1], Ordering::Relaxed);
        }
        // Counted first: the count never falls below what the list holds, so it never wraps.
        self.free.fetch_add(indices.len(), Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.next[last as usize].store(head as u32, Ordering::Relaxed);
            match self.head.compare_exchange_weak(
                head,
                retag(head, first),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

/// A head that points to `index`, with the next tag.
fn retag(head: u64, index: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(index)
}

/// One worker's small stock of free indices, so that most allocations and frees touch no shared line.
///
/// A worker must [`Cache::flush`] before it sleeps, or others may find the arena empty while it keeps some.
pub struct Cache {
    stock: Box<[u32]>,
    held: usize,
}

impl Cache {
    /// An empty cache that holds up to `capacity` indices (at least 2).
    pub fn new(capacity: usize) -> Self {
        Self { stock: vec![NIL; capacity.max(2)].into_boxed_slice(), held: 0 }
    }

    /// Free indices held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Takes a slot; refills to one half from the arena when empty. `None`: the shared list is empty too.
    pub fn alloc(&mut self, arena: &Arena) -> Option<Slot> {
        if self.held == 0 {
            let half = self.stock.len() / 2;
            self.held = arena.unlink(&mut self.stock[..half]);
        }
        self.held = self.held.checked_sub(1)?;
        Some(arena.enliven(self.stock[self.held]))
    }

    /// Gives a slot back; spills one half to the arena when full.
    ///
    /// # Errors
    /// [`Stale`], counted by the arena, when that generation is not live.
    pub fn free(&mut self, arena: &Arena, slot: Slot) -> Result<(), Stale> {
        arena.retire(slot)?;
        if self.held == self.stock.len() {
            let half = self.held / 2;
            arena.link(&self.stock[half..]);
            self.held = half;
        }
        self.stock[self.held] = slot.index;
        self.held += 1;
        Ok(())
    }

    /// Gives all held indices to the arena: before a sleep, and before the cache is dropped.
    pub fn flush(&mut self, arena: &Arena) {
        arena.link(&self.stock[..self.held]);
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every slot can be had exactly once, and a freed one comes back with another generation.
    #[test]
    fn hands_out_each_slot_once() {
        let arena = Arena::new(3);
        let slots: Vec<_> = std::iter::from_fn(|| arena.alloc()).collect();
        assert_eq!(slots.len(), 3);
        assert_eq!((arena.live(), arena.free_slots()), (3, 0));
        arena.free(slots[1]).unwrap();
        let again = arena.alloc().unwrap();
        assert_eq!(again.index, slots[1].index);
        assert_ne!(again.generation, slots[1].generation);
        assert!(arena.is_live(again) && !arena.is_live(slots[1]));
    }

    /// A second free, a made-up key and the all-zero key change nothing and are counted.
    #[test]
    fn stale_frees_are_counted_and_harmless() {
        let arena = Arena::new(2);
        let slot = arena.alloc().unwrap();
        arena.free(slot).unwrap();
        assert!(arena.free(slot).is_err());
        assert!(arena.free(Slot { index: 0, generation: 0 }).is_err());
        assert!(arena.free(Slot { index: 99, generation: 1 }).is_err());
        assert!(!arena.is_live(Slot { index: 99, generation: 1 }));
        assert_eq!((arena.stale_frees(), arena.free_slots(), arena.live()), (3, 2, 0));
    }

    /// A cache refills and spills by halves, and a flush returns every slot.
    #[test]
    fn caches_divide_and_return() {
        let arena = Arena::new(16);
        let mut cache = Cache::new(4);
        let slots: Vec<_> = (0..16).map(|_| cache.alloc(&arena).unwrap()).collect();
        assert!(cache.alloc(&arena).is_none());
        for slot in slots {
            cache.free(&arena, slot).unwrap();
            assert!(cache.held() <= 4);
        }
        cache.flush(&arena);
        assert_eq!((arena.free_slots(), arena.live(), cache.held()), (16, 0, 0));
    }

    /// Threads that take and give through caches and directly never share a slot, and all slots come back.
    #[test]
    fn contended_slots_have_one_owner() {
        let arena = Arena::new(64);
        let owner: Vec<_> = (0..64).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for me in 1..=4u32 {
                let (arena, owner) = (&arena, &owner);
                scope.spawn(move || {
                    let mut cache = Cache::new(8);
                    for turn in 0..20_000 {
                        let cached = turn % 3 != 0;
                        let slot = if cached { cache.alloc(arena) } else { arena.alloc() };
                        let Some(slot) = slot else { continue };
                        assert_eq!(owner[slot.index as usize].swap(me, Ordering::AcqRel), 0);
                        assert_eq!(owner[slot.index as usize].swap(0, Ordering::AcqRel), me);
                        if cached { cache.free(arena, slot) } else { arena.free(slot) }.unwrap();
                    }
                    cache.flush(arena);
                });
            }
        });
        assert_eq!((arena.free_slots(), arena.live(), arena.stale_frees()), (64, 0, 0));
    }
}
