//! How slots lie in memory: a line that every stage looks at, and apart from it what only those look at who hold a slice
//! for a while. Deliberately without any meaning: that is [`super::slot`]'s.

use std::sync::atomic::{AtomicU32, AtomicU64};

use super::slot::Phase;

/// What every stage looks at: one cache line. Slices and the cover slices of requests have the same.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Near {
    /// Generation (high 32 bits) and phase: the word that decides who may end a slice.
    pub(super) word: AtomicU64,
    /// Next in whatever list its holder keeps; on the free list, the next free slot.
    pub(super) next: AtomicU32,
    pub(super) request: AtomicU32,
    pub(super) code: AtomicU32,
    pub(super) flags: AtomicU32,
    /// Link (high 48 bits) and the worker that posts on it.
    pub(super) link: AtomicU64,
    pub(super) len: AtomicU64,
    pub(super) local_offset: AtomicU64,
    pub(super) remote_offset: AtomicU64,
    pub(super) remote_region: AtomicU64,
}

/// What a slice needs that is held, or that stands for rows. Links are positions in the table.
#[derive(Default)]
#[repr(align(32))]
pub(crate) struct Far {
    /// Of a strided request's cover slice, whose flags say so, from row to row there. Of any other since when it is held, if its
    /// flags say that this is noted.
    pub(super) apart: AtomicU64,
    /// When it fires in the wheel of its holder, in ticks.
    pub(crate) wheel_tick: AtomicU64,
    /// Previous in the list.
    pub(super) prev: AtomicU32,
    /// In the wheel.
    pub(crate) wheel_next: AtomicU32,
    /// In the wheel.
    pub(crate) wheel_prev: AtomicU32,
    /// Bucket of the wheel.
    pub(crate) wheel_at: AtomicU32,
}

/// The slots of all slices, then those of all cover slices.
pub(super) struct Table {
    pub(super) near: Box<[Near]>,
    pub(super) far: Box<[Far]>,
}

/// Bytes of one slot.
pub(super) const SLOT_BYTES: usize = size_of::<Near>() + size_of::<Far>();

impl Table {
    /// So many, vacant. Their generation is not 0, so that no key with nothing in it names one.
    pub(super) fn new(total: usize) -> Self {
        let near = |_| Near { word: AtomicU64::new(Phase::Free.word(1)), ..Near::default() };
        Self { near: (0..total).map(near).collect(), far: (0..total).map(|_| Far::default()).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.near.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes straight through costs one cache line, and what is held half of one more.
    #[test]
    fn sizes() {
        assert_eq!((size_of::<Near>(), size_of::<Far>()), (64, 32));
    }
}
