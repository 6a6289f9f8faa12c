//! A ring of slot indices from one thread to one other: freed slots to the poster, local failures to the reaper.
//! Deliberately without a full case: it is as long as the slot table, and a slot is in it at most once.

use crate::sync::{AtomicU32, Ordering};

/// One producer, one consumer; the caller sees to that.
pub(super) struct Ring {
    slots: Box<[AtomicU32]>,
    head: AtomicU32,
    tail: AtomicU32,
}

impl Ring {
    /// Room for `capacity` indices.
    pub(super) fn new(capacity: usize) -> Self {
        let slots = (0..capacity.next_power_of_two()).map(|_| AtomicU32::new(0)).collect();
        Self { slots, head: AtomicU32::new(0), tail: AtomicU32::new(0) }
    }

    /// Producer: adds one. All it did before is visible to whoever pops it.
    pub(super) fn push(&self, slot: u32) {
        let tail = self.tail.load(Ordering::Relaxed);
        self.cell(tail).store(slot, Ordering::Relaxed);
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
    }

    /// Consumer: takes the oldest.
    pub(super) fn pop(&self) -> Option<u32> {
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Acquire) {
            return None;
        }
        let slot = self.cell(head).load(Ordering::Relaxed);
        self.head.store(head.wrapping_add(1), Ordering::Release);
        Some(slot)
    }

    /// How many wait; exact for the consumer, a lower bound of what comes.
    pub(super) fn len(&self) -> usize {
        self.tail.load(Ordering::Acquire).wrapping_sub(self.head.load(Ordering::Relaxed)) as usize
    }

    fn cell(&self, at: u32) -> &AtomicU32 {
        &self.slots[at as usize & (self.slots.len() - 1)]
    }
}
