//! How large the tables are, and what they take of memory. Deliberately fixed at start.

use pipeline_configs::Config;
use pipeline_graph::{Dispatch, Mode, PoolDecl};

use super::parts::PART_BYTES;
use super::requests::PART;
use super::table::SLOT_BYTES;
use super::{RequestSlot, batches};
use crate::callbacks::Desk;
use crate::delivery::Listeners;
use crate::window::Window;

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
    /// Parts that it is divided into: the most workers of a stage that takes slots.
    pub shards: u32,
    /// Workers that batches are divided among: those that submissions are dispatched to.
    pub parts: u32,
    /// Whether the time that requests take is measured.
    pub timed: bool,
}

impl Sizes {
    /// Of a file; numbers beyond 2^30 are cut to that.
    pub fn of(config: &Config) -> Self {
        let limits = &config.limits;
        let cut = |n: u64| n.clamp(1, 1 << 30) as u32;
        Self {
            requests: cut(limits.requests),
            slices: cut(limits.slices),
            batches: cut(limits.batches).min(1 << PART),
            peers: cut(limits.peers),
            notices: cut(limits.notices),
            bytes_in_flight: limits.bytes_in_flight.max(1),
            peer_share_percent: limits.peer_share_percent.clamp(1, 100),
            shards: workers(config, "request_split") as u32,
            parts: entrances(config) as u32,
            timed: !config.blueprint.untimed,
        }
    }

    /// Bytes of all tables together: what `validate` prints, and all that is ever allocated for them.
    /// `callbacks`: with the desk of the stage of that name; `listeners`: with what "eventfd" and "waker" in `via` take.
    pub fn table_bytes(&self, callbacks: bool, listeners: bool) -> u64 {
        let of = |n: u32, one: usize| u64::from(n) * one as u64;
        of(self.slices, SLOT_BYTES)
            + of(self.requests, SLOT_BYTES + size_of::<RequestSlot>())
            + of(self.batches, batches::SLOT_BYTES)
            + if self.parts > 1 { of(self.batches, PART_BYTES) * u64::from(self.parts) } else { 0 }
            + if self.shards > 1 { Window::PURSE_BYTES * u64::from(self.shards) } else { 0 }
            + if callbacks { of(self.batches, Desk::BYTES) } else { 0 }
            + if listeners { of(self.batches, Listeners::BYTES) } else { 0 }
    }
}

/// The most workers that a stage of this type has.
fn workers(config: &Config, kind: &str) -> usize {
    let stages = config.stages.iter().zip(&config.blueprint.stages).filter(|(stage, _)| stage.kind == kind);
    let pools = stages.filter_map(|(_, decl)| config.blueprint.pools.get(decl.pool?));
    pools.map(PoolDecl::workers).max().unwrap_or(1)
}

/// Workers that submissions are dispatched to, each over a ring of its own.
fn entrances(config: &Config) -> usize {
    let blueprint = &config.blueprint;
    let entry = blueprint.edges.iter().find(|edge| edge.from.is_none());
    let divided = entry.filter(|e| !matches!(e.mode, Mode::Queue { dispatch: Dispatch::Any, .. }));
    let pool = divided.and_then(|e| blueprint.pools.get(blueprint.stages[e.to].pool?));
    pool.map_or(1, PoolDecl::workers)
}
