//! What a graph would run: threads, inline chains, rings, return edges, and the bytes they take.
//! Deliberately made from the blueprint alone, so that `validate` can print it on any machine; the engine
//! builds exactly this.

mod chains;
mod render;
pub use render::bytes as readable_bytes;

pub(crate) use chains::grouped;

use std::mem::size_of;

use crate::blueprint::{Blueprint, Dispatch, Mode, PoolDecl, PoolKind, Wait, WhenFull};
use crate::edge::queue::Parcel;
use crate::item::{BATCH, Item};

/// What a ring keeps beside each entry: crossbeam's channels and queues stamp every slot with a `usize`.
const STAMP_BYTES: usize = size_of::<usize>();

/// Everything that starting a graph would make.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Threads, pool by pool, in the order of the workers.
    pub threads: Vec<ThreadPlan>,
    /// Workers without a thread, of pools of kind `caller`.
    pub callers: Vec<ThreadPlan>,
    /// What each worker of a pool runs without a queue between, pool by pool.
    pub chains: Vec<ChainPlan>,
    /// Bounded rings of batches, in the order of the file.
    pub queues: Vec<QueuePlan>,
    /// Return edges, in the order of the file.
    pub returns: Vec<ReturnPlan>,
    /// Bytes of all rings and return edges.
    pub bytes: u64,
}

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadPlan {
    /// Its name.
    pub name: String,
    /// Its pool.
    pub pool: String,
    /// Its group; the pool's name when the pool has none.
    pub group: String,
    /// Index over all groups of the pool.
    pub worker: usize,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// How it waits; of a thread that carries out jobs, how those who give them do.
    pub wait: Wait,
    /// Whether it carries out jobs, of a pool of kind `stealing`.
    pub steals: bool,
}

/// Stages that one worker runs one after the other, without a queue between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPlan {
    /// The pool whose workers each run it.
    pub pool: String,
    /// Its stages, upstream first.
    pub stages: Vec<String>,
    /// Stages without a pool that it reaches.
    pub reaches: Vec<String>,
    /// Whether each stage leads only to the next.
    pub linear: bool,
}

/// A bounded edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePlan {
    /// Its name, `a.port -> b`.
    pub edge: String,
    /// How many rings: one for each consumer worker with owner or hash dispatch.
    pub rings: usize,
    /// Batches that each ring holds.
    pub batches: usize,
    /// Items that fit into all rings when every batch is full.
    pub items_max: u64,
    /// Bytes of all rings.
    pub bytes: u64,
    /// What a producer does when it is full.
    pub when_full: WhenFull,
    /// Which worker gets an item.
    pub dispatch: Dispatch,
}

/// A return edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnPlan {
    /// Its name.
    pub edge: String,
    /// How many rings, each of which holds every token there can be.
    pub rings: usize,
    /// Items that each ring holds.
    pub items: usize,
    /// Bytes of all rings.
    pub bytes: u64,
    /// Which worker gets an item.
    pub dispatch: Dispatch,
}

impl Plan {
    /// The plan for items of 8 bytes.
    pub fn new(blueprint: &Blueprint) -> Self {
        Self::sized::<u64>(blueprint)
    }

    /// The plan for items of type `T`. Made for graphs that [`crate::check()`] accepts; what is broken in
    /// others is left out.
    pub fn sized<T: Item>(blueprint: &Blueprint) -> Self {
        let mut plan = Self { chains: chains::chains(blueprint), ..Self::default() };
        for (p, pool) in blueprint.pools.iter().enumerate() {
            let workers = (0..pool.workers()).map(|worker| thread(pool, worker));
            match pool.kind {
                PoolKind::Caller => plan.callers.extend(workers),
                PoolKind::Resident => plan.threads.extend(workers),
                PoolKind::Stealing => {
                    plan.threads.extend(workers.map(|t| ThreadPlan { steals: true, ..t }));
                    plan.threads.extend(blueprint.has_desk(p).then(|| desk(pool)));
                }
            }
        }
        for edge in &blueprint.edges {
            let name = blueprint.edge_name(edge);
            let workers = || consumers(blueprint, edge.to);
            match edge.mode {
                Mode::Inline => {}
                Mode::Queue { capacity, when_full, dispatch } => {
                    let rings = if dispatch == Dispatch::Any { 1 } else { workers() };
                    let all = product(rings, capacity);
                    plan.queues.push(QueuePlan {
                        edge: name,
                        rings,
                        batches: capacity,
                        items_max: all.saturating_mul(BATCH as u64),
                        bytes: all.saturating_mul((size_of::<Parcel<T>>() + STAMP_BYTES) as u64),
                        when_full,
                        dispatch,
                    });
                }
                Mode::Return { dispatch } => {
                    let rings = if dispatch == Dispatch::Any { 1 } else { workers() };
                    let items = blueprint.tokens;
                    let bytes = product(rings, items).saturating_mul((size_of::<T>() + STAMP_BYTES) as u64);
                    plan.returns.push(ReturnPlan { edge: name, rings, items, bytes, dispatch });
                }
            }
        }
        let parts = plan.queues.iter().map(|q| q.bytes).chain(plan.returns.iter().map(|r| r.bytes));
        plan.bytes = parts.fold(0, u64::saturating_add);
        plan
    }
}

fn thread(pool: &PoolDecl, worker: usize) -> ThreadPlan {
    ThreadPlan {
        name: pool.thread_name(worker),
        pool: pool.name.clone(),
        group: pool.group_name(worker).to_owned(),
        worker,
        cpu: pool.cpu(worker),
        wait: pool.wait,
        steals: false,
    }
}

/// The worker that reads the rings of a `stealing` pool.
fn desk(pool: &PoolDecl) -> ThreadPlan {
    let (name, group) = (pool.desk_name(), pool.name.clone());
    ThreadPlan { name, group, worker: pool.workers(), cpu: None, ..thread(pool, 0) }
}

/// How many workers read the rings that lead to a stage.
fn consumers(blueprint: &Blueprint, stage: usize) -> usize {
    let pool = blueprint.stages.get(stage).and_then(|s| blueprint.pools.get(s.pool?));
    pool.map_or(1, PoolDecl::consumers)
}

fn product(a: usize, b: usize) -> u64 {
    (a as u64).saturating_mul(b as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fixture::preset;

    /// The preset's plan: one thread for each worker, named and pinned in turn; a ring for each consumer
    /// worker under owner dispatch; and bytes that add up.
    #[test]
    fn preset_plan() {
        let mut graph = preset();
        graph.pools[1].cpus = vec![4, 6];
        let plan = Plan::new(&graph);
        let threads: Vec<_> =
            plan.threads.iter().map(|t| (t.name.as_str(), t.group.as_str(), t.worker, t.cpu)).collect();
        let want = [
            ("front", "front", 0, None),
            ("nic/0", "eth0", 0, Some(4)),
            ("nic/1", "eth1", 1, Some(6)),
            ("files", "files", 0, None),
        ];
        assert_eq!(threads, want);
        let queues: Vec<_> =
            plan.queues.iter().map(|q| (q.edge.as_str(), q.rings, q.batches, q.items_max)).collect();
        assert_eq!(queues, [("submit -> admit", 1, 1024, 32_768), ("select -> post", 2, 64, 4_096)]);
        assert_eq!(plan.queues[1].bytes, 2 * 64 * (8 + (2 + 6 + 32 * 8) + 8));
        assert_eq!((plan.returns[0].items, plan.returns[0].bytes), (327_680, 327_680 * 16));
        assert_eq!(plan.bytes, plan.queues.iter().map(|q| q.bytes).sum::<u64>() + plan.returns[0].bytes);
    }

    /// Absurd sizes saturate; broken indexes are left out: a plan can be asked for before the check.
    #[test]
    fn broken_graphs_have_a_plan() {
        let mut graph = preset();
        graph.edges[0].mode = crate::check::fixture::to_owner(usize::MAX);
        graph.edges[0].to = 99;
        graph.tokens = usize::MAX;
        graph.stages[0].pool = Some(77);
        assert_eq!(Plan::new(&graph).bytes, u64::MAX);
    }
}
