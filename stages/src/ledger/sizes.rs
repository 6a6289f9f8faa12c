//! How large the tables are, and what they take of memory. Deliberately fixed at start.

use super::table::SLOT_BYTES;
use super::{RequestSlot, batches};
use crate::callbacks::Desk;
use crate::delivery::Listeners;

/// Sizes of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Requests accepted and not freed.
    pub requests: u32,
    /// Slices in flight.
    pub slices: u32,
    /// Batches not freed.
    pub batches: u32,
    /// Peers.
    pub peers: u32,
    /// Notices submitted and not taken.
    pub notices: u32,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// Share of one peer, percent.
    pub peer_share_percent: u64,
}

impl Sizes {
    /// From `[limits]`; numbers beyond 2^30 are cut to that.
    pub fn of(limits: &pipeline_configs::Limits) -> Self {
        let cut = |n: u64| n.clamp(1, 1 << 30) as u32;
        Self {
            requests: cut(limits.requests),
            slices: cut(limits.slices),
            batches: cut(limits.batches),
            peers: cut(limits.peers),
            notices: cut(limits.notices),
            bytes_in_flight: limits.bytes_in_flight.max(1),
            peer_share_percent: limits.peer_share_percent.clamp(1, 100),
        }
    }

    /// Bytes of all tables together: what `validate` prints, and all that is ever allocated for them.
    /// `callbacks`: with the desk of the stage of that name; `listeners`: with what "eventfd" and "waker" in `via` take.
    pub fn table_bytes(&self, callbacks: bool, listeners: bool) -> u64 {
        let of = |n: u32, one: usize| u64::from(n) * one as u64;
        of(self.slices, SLOT_BYTES)
            + of(self.requests, SLOT_BYTES + size_of::<RequestSlot>())
            + of(self.batches, batches::SLOT_BYTES)
            + if callbacks { of(self.batches, Desk::BYTES) } else { 0 }
            + if listeners { of(self.batches, Listeners::BYTES) } else { 0 }
    }
}
