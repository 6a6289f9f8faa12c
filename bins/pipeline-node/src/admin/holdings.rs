//! What a node holds just now: registered regions, and batches that have not ended. Deliberately cut to so many lines, with
//! the whole counted: a table may have a million.

use pipeline_stages::World;
use pipeline_transports::Access;
use pipeline_transports::memory::RegionFacts;
use serde::{Deserialize, Serialize};

/// Most regions that are told.
const REGIONS_MAX: usize = 1000;
/// Most segments of one region that are told.
const SEGMENTS_MAX: usize = 8;
/// Most batches that are told.
const BATCHES_MAX: usize = 100;

/// Regions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegionList {
    /// How many there are.
    pub total: usize,
    /// The first of them, by address.
    pub regions: Vec<RegionLine>,
}

/// One region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegionLine {
    /// Index and generation.
    pub id: String,
    /// Bytes.
    pub bytes: u64,
    /// What peers may do: `none`, `read`, `write` or `read_write`.
    pub access: String,
    /// Requests of this node that hold it.
    pub pins: u64,
    /// Accesses by peers that are active.
    pub accesses: u64,
    /// How many segments list it.
    pub segments_total: usize,
    /// The first of them.
    pub segments: Vec<String>,
}

/// Batches that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batches {
    /// How many there are.
    pub total: usize,
    /// The oldest of them.
    pub batches: Vec<OpenBatch>,
}

/// One batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenBatch {
    /// Its place in the table.
    pub batch: u32,
    /// Since it was submitted.
    pub age_s: f64,
    /// Requests.
    pub requests: u32,
    /// Those that have not ended.
    pub left: u32,
    /// Those that have failed.
    pub failed: u32,
    /// Whether its end was asked for.
    pub cancelled: bool,
    /// Whether all of its requests have ended and the receiver has not taken its notice.
    pub notice: bool,
}

pub(super) fn regions(world: &World) -> RegionList {
    let (total, facts) = world.regions.list(REGIONS_MAX);
    let mut named = world.segments.listing(&facts.iter().map(|facts| facts.id).collect());
    let line = |facts: RegionFacts| region(&facts, named.remove(&facts.id).unwrap_or_default());
    RegionList { total, regions: facts.into_iter().map(line).collect() }
}

fn region(facts: &RegionFacts, mut segments: Vec<String>) -> RegionLine {
    let segments_total = segments.len();
    segments.truncate(SEGMENTS_MAX);
    RegionLine {
        id: format!("{}.{:08x}", facts.id.index(), facts.id.generation()),
        bytes: facts.len,
        access: access(facts.access).to_owned(),
        pins: facts.pins,
        accesses: facts.accesses,
        segments_total,
        segments,
    }
}

fn access(access: Access) -> &'static str {
    match access {
        Access::Local => "none",
        Access::Read => "read",
        Access::Write => "write",
        Access::ReadWrite => "read_write",
    }
}

pub(super) fn batches(world: &World) -> Batches {
    let (total, open) = world.ledger.open_batches(world.time.now(), BATCHES_MAX);
    let line = |b: pipeline_stages::ledger::OpenBatch| OpenBatch {
        batch: b.index,
        age_s: b.age_ns as f64 / 1e9,
        requests: b.requests,
        left: b.left,
        failed: b.failed,
        cancelled: b.cancelled,
        notice: b.notice,
    };
    Batches { total, batches: open.into_iter().map(line).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many segments list a region, its line names so many, and says of how many.
    #[test]
    fn segments_of_a_region_are_cut() {
        let facts =
            RegionFacts { id: Default::default(), len: 1, access: Access::Read, pins: 0, accesses: 0 };
        let line = region(&facts, (0..5000).map(|at| format!("s{at}")).collect());
        assert_eq!(
            (line.segments_total, line.segments.len(), &*line.segments[0]),
            (5000, SEGMENTS_MAX, "s0")
        );
    }
}
