//! Proofs of access: a guard for a peer, a span for the node itself.
//! Deliberately addresses, not slices: others may touch the same bytes.

use std::sync::Arc;

use crate::memory::regions::Regions;

/// A peer's access to a checked range of a region. While it lives the region cannot be removed; dropping
/// it releases. It may move between threads and be kept for as long as the bytes take to move.
#[must_use = "dropping a guard ends the access"]
pub struct Guard {
    regions: Arc<Regions>,
    index: u32,
    ptr: *mut u8,
    len: u64,
}

// SAFETY: an address and a count; the release is an atomic operation that any thread may do.
unsafe impl Send for Guard {}

impl Guard {
    /// Takes over one entry of the gate of slot `index`.
    pub(super) fn new(regions: Arc<Regions>, index: u32, ptr: *mut u8, len: u64) -> Self {
        Self { regions, index, ptr, len }
    }

    /// First byte of the range. Valid for reads and writes of [`Self::len`] bytes while the guard lives;
    /// write only with a guard that was opened for WRITE.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty, reason = "a range of 0 bytes is refused")]
    pub fn len(&self) -> u64 {
        self.len
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("index", &self.index).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.regions.release(self.index);
    }
}

/// A checked range of a region of this node, for a transport that serves the node's own request. Usable
/// only while the region is pinned and its table lives: a pin, not this value, keeps the memory.
#[derive(Clone, Copy, Debug)]
pub struct LocalSpan {
    /// First byte.
    pub ptr: *mut u8,
    /// Bytes.
    pub len: u64,
}

// SAFETY: a plain address range; whoever uses it holds a pin.
unsafe impl Send for LocalSpan {}
