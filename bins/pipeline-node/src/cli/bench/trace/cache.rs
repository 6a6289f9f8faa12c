//! The blocks that are held here: so many slots, and the least recently used block goes first.
//! Deliberately without bytes and transfers: who pins a slot knows why, and a pinned one is never given away. A slot that
//! is *held* keeps its age, and whoever would get it next waits: who looks at blocks changes nothing but the time.

/// No slot, no block.
const NONE: u32 = u32::MAX;

/// A bounded cache of blocks, which are numbered from 0.
pub struct Cache {
    /// By block: its slot.
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    /// Slots that hold nothing.
    free: Vec<u32>,
    /// Unpinned slots that hold a block, as a list from the newest to the oldest.
    newest: u32,
    oldest: u32,
    idle: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    block: u32,
    pins: u32,
    held: bool,
    newer: u32,
    older: u32,
}

impl Cache {
    /// An empty one of `slots` slots for blocks below `blocks`.
    pub fn new(blocks: u32, slots: u32) -> Self {
        let empty = Slot { block: NONE, pins: 0, held: false, newer: NONE, older: NONE };
        Self {
            slot_of: vec![NONE; blocks as usize],
            slots: vec![empty; slots as usize],
            free: (0..slots).rev().collect(),
            newest: NONE,
            oldest: NONE,
            idle: 0,
        }
    }

    /// Where a block is, if it is here or on its way.
    pub fn slot_of(&self, block: u32) -> Option<u32> {
        Some(self.slot_of[block as usize]).filter(|slot| *slot != NONE)
    }

    /// Whether so many blocks could be taken in now: nobody pins or holds the slots that are next.
    pub fn has_room(&self, blocks: usize) -> bool {
        let Some(from_idle) = blocks.checked_sub(self.free.len()) else { return true };
        let newer = |slot: &u32| Some(self.slots[*slot as usize].newer).filter(|slot| *slot != NONE);
        let mut oldest = std::iter::successors(Some(self.oldest).filter(|slot| *slot != NONE), newer);
        from_idle <= self.idle && oldest.by_ref().take(from_idle).all(|slot| !self.slots[slot as usize].held)
    }

    /// Pins a slot: its block stays, and is being used.
    pub fn pin(&mut self, slot: u32) {
        if self.slots[slot as usize].pins == 0 {
            self.unlink(slot);
        }
        self.slots[slot as usize].pins += 1;
    }

    /// Takes a pin back. The last one makes its block the most recently used of those that may go.
    pub fn unpin(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        debug_assert!(entry.pins > 0, "slot {slot} is not pinned");
        entry.pins -= 1;
        match (entry.pins, entry.block) {
            (0, NONE) if entry.held => {}
            (0, NONE) => self.free.push(slot),
            (0, _) => self.link(slot),
            _ => {}
        }
    }

    /// Holds a slot that is pinned: its block stays until [`Self::release`], as old as it becomes.
    pub fn hold(&mut self, slot: u32) {
        self.slots[slot as usize].held = true;
    }

    /// Lets go of it.
    pub fn release(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.held = false;
        if entry.pins == 0 && entry.block == NONE {
            self.free.push(slot);
        }
    }

    /// A slot for a block that is not here, pinned once; the oldest unpinned block goes for it. `None` without room
    /// ([`Self::has_room`]).
    pub fn take(&mut self, block: u32) -> Option<u32> {
        debug_assert!(self.slot_of(block).is_none(), "block {block} has a slot");
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if !self.has_room(1) => return None,
            None => {
                let slot = self.oldest;
                self.unlink(slot);
                self.slot_of[self.slots[slot as usize].block as usize] = NONE;
                slot
            }
        };
        self.slots[slot as usize] = Slot { block, pins: 1, held: false, newer: NONE, older: NONE };
        self.slot_of[block as usize] = slot;
        Some(slot)
    }

    /// What a pinned slot holds is not its block after all: who asks for the block from now on does not find it.
    pub fn forget(&mut self, slot: u32) {
        let block = std::mem::replace(&mut self.slots[slot as usize].block, NONE);
        if block != NONE {
            self.slot_of[block as usize] = NONE;
        }
    }

    fn link(&mut self, slot: u32) {
        let second = std::mem::replace(&mut self.newest, slot);
        self.slots[slot as usize].older = second;
        self.slots[slot as usize].newer = NONE;
        match second {
            NONE => self.oldest = slot,
            second => self.slots[second as usize].newer = slot,
        }
        self.idle += 1;
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        self.idle -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::draw::Draw;

    /// The same, as slow and plain as can be: blocks with their pins, the least recently released first.
    #[derive(Default)]
    struct Plain {
        idle: Vec<u32>,
        pinned: Vec<(u32, u32)>,
        held: Vec<u32>,
    }

    impl Plain {
        fn holds(&self, block: u32) -> bool {
            self.idle.contains(&block) || self.pinned.iter().any(|p| p.0 == block)
        }

        fn pin(&mut self, block: u32) {
            self.idle.retain(|b| *b != block);
            match self.pinned.iter_mut().find(|p| p.0 == block) {
                Some(pin) => pin.1 += 1,
                None => self.pinned.push((block, 1)),
            }
        }

        fn unpin(&mut self, at: usize) -> u32 {
            let block = self.pinned[at].0;
            self.pinned[at].1 -= 1;
            if self.pinned[at].1 == 0 {
                self.pinned.remove(at);
                self.idle.push(block);
            }
            block
        }

        fn take(&mut self, block: u32, slots: usize) -> bool {
            if self.idle.len() + self.pinned.len() == slots {
                if self.idle.first().is_none_or(|oldest| self.held.contains(oldest)) {
                    return false;
                }
                self.idle.remove(0);
            }
            self.pinned.push((block, 1));
            true
        }

        fn room(&self, slots: usize) -> usize {
            let empty = slots - self.idle.len() - self.pinned.len();
            empty + self.idle.iter().take_while(|b| !self.held.contains(b)).count()
        }
    }

    /// Whatever is pinned, held, taken and released in whatever order: the same blocks are here as in a plain list, and
    /// one that is pinned or held is never given away.
    #[test]
    fn it_is_a_plain_lru() {
        for seed in 0..50 {
            let mut draw = Draw::new(seed);
            let slots = 1 + draw.below(8);
            let (mut cache, mut plain) = (Cache::new(20, slots as u32), Plain::default());
            for _ in 0..2000 {
                let block = draw.below(20) as u32;
                if draw.below(8) == 0 && !plain.held.is_empty() {
                    let block = plain.held.swap_remove(draw.below(plain.held.len() as u64) as usize);
                    cache.release(cache.slot_of(block).expect("a held block is here"));
                }
                if draw.below(2) == 0 && !plain.pinned.is_empty() {
                    let at = draw.below(plain.pinned.len() as u64) as usize;
                    let held = plain.pinned[at].0;
                    if draw.below(3) == 0 && !plain.held.contains(&held) {
                        plain.held.push(held);
                        cache.hold(cache.slot_of(held).expect("a pinned block is here"));
                    }
                    let block = plain.unpin(at);
                    cache.unpin(cache.slot_of(block).expect("a pinned block is here"));
                } else if let Some(slot) = cache.slot_of(block) {
                    cache.pin(slot);
                    plain.pin(block);
                } else {
                    assert_eq!(cache.take(block).is_some(), plain.take(block, slots as usize), "seed {seed}");
                }
                assert!((0..20).all(|b| cache.slot_of(b).is_some() == plain.holds(b)), "seed {seed}");
                let room = plain.room(slots as usize);
                assert!(cache.has_room(room) && !cache.has_room(room + 1), "seed {seed}: {room}");
            }
        }
    }

    /// A block that did not come is not found any more, while its slot stays pinned until the last one has let go.
    #[test]
    fn forgotten_blocks_are_not_found() {
        let mut cache = Cache::new(3, 1);
        let slot = cache.take(0).unwrap();
        cache.pin(slot);
        cache.forget(slot);
        assert_eq!((cache.slot_of(0), cache.take(1)), (None, None));
        cache.unpin(slot);
        assert_eq!(cache.take(1), None);
        cache.hold(slot);
        cache.unpin(slot);
        assert_eq!(cache.take(1), None);
        cache.release(slot);
        assert_eq!(cache.take(0), Some(slot));
    }
}
