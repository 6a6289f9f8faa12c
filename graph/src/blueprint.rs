//! A graph as data: pools, stages, edges. What a file lowers to, what `check` judges and `Plan` sizes.
//! Deliberately without behaviour, without item type and without specs, so that a file can be judged on
//! a machine that could never run it.

use crate::clock::Nanos;
use crate::stage::Shape;

/// The reserved name of the outside: `"submit -> admit"`.
pub const SUBMIT: &str = "submit";

/// The port that a stage's plain name means.
pub const OUT: &str = "out";

/// The port that takes what an edge with [`WhenFull::Reject`] had no room for, and what a panic left over.
pub const FAILED: &str = "failed";

/// A whole graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blueprint {
    /// Thread pools.
    pub pools: Vec<PoolDecl>,
    /// Stages.
    pub stages: Vec<StageDecl>,
    /// Edges, wildcards already expanded.
    pub edges: Vec<EdgeDecl>,
    /// How many tokens can exist at once (`limits.slices + limits.requests`): the capacity of return edges.
    pub tokens: usize,
    /// Whether times are left unmeasured that only serve figures: waits, services and holds of stages. What is counted is
    /// counted all the same.
    pub untimed: bool,
}

/// A thread pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolDecl {
    /// Its name; also the thread name, as `name` or `name/i`.
    pub name: String,
    /// Whose threads.
    pub kind: PoolKind,
    /// Threads in each group.
    pub threads: usize,
    /// One group of threads per entry: the NICs for `per = "nic"`, nodes for `per = "numa"`. Empty: one
    /// group that bears the pool's name.
    pub groups: Vec<String>,
    /// How its workers wait.
    pub wait: Wait,
    /// CPUs to pin workers to, round robin. Empty: not pinned.
    pub cpus: Vec<usize>,
    /// CPUs to pin the workers of each group to, group by group, in place of [`Self::cpus`]. Empty: none of their own.
    pub group_cpus: Vec<Vec<usize>>,
    /// Its threads also have work that is no stage's ([`crate::Crew::each`]): it may be without stages.
    pub beside: bool,
}

/// Whose threads a pool uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// Threads we own, named, pinned on request.
    Resident,
    /// The application's own threads: one worker (of each group) without a thread, stepped by whoever submits and
    /// waits.
    Caller,
    /// Threads we own in a rayon pool, for stages that are `parallel`: whoever reaches such a stage gives it a batch as a job,
    /// and passes on what comes of it.
    Stealing,
}

/// How a worker waits when nothing is to do: spin, then yield, then park.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Spin this long with `pause` (with a yield every 16th turn unless pinned).
    pub spin_ns: Nanos,
    /// Then call `sched_yield` between looks for this long.
    pub yield_ns: Nanos,
    /// Then sleep at most this long at a time; 0 = never sleep.
    pub park_ns: Nanos,
    /// Whether it learns how long to spin and yield, with the times above as bounds.
    pub adaptive: bool,
    /// For `adaptive`: how many hundredths of a microsecond of latency a microsecond of CPU is worth.
    pub price_percent: u64,
}

/// A stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageDecl {
    /// Its name in the file.
    pub name: String,
    /// Its type, for messages and drawings.
    pub kind: String,
    /// Index of its pool; `None`: it runs on whichever worker reaches it.
    pub pool: Option<usize>,
    /// Ports and contract.
    pub shape: Shape,
}

/// A wire from one port to one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeDecl {
    /// Index of the source stage; `None` is [`SUBMIT`].
    pub from: Option<usize>,
    /// Index of the port in the source's shape (0 for [`SUBMIT`]).
    pub port: usize,
    /// Index of the target stage.
    pub to: usize,
    /// What the wire is made of.
    pub mode: Mode,
}

/// What a wire is made of. The stage at either end cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Same worker, no queue, no recursion.
    Inline,
    /// A bounded ring of batches.
    Queue {
        /// Batches (of 1–32 items) a ring holds; one ring per consumer worker with owner or hash dispatch.
        capacity: usize,
        /// What a producer does when the ring is full.
        when_full: WhenFull,
        /// Which worker gets an item.
        dispatch: Dispatch,
    },
    /// The one way back: holds every token that can exist, hence never full.
    Return {
        /// Which worker gets an item.
        dispatch: Dispatch,
    },
}

/// What a producer does when a ring is full. Nobody ever blocks in a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// Keep the batch in the producer's outlet: back-pressure.
    Wait,
    /// Mark it and send it to the producer's `failed` port; at `submit`, answer Busy.
    Reject,
}

/// Which worker of the target's pool gets an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// Whoever comes first: one shared ring.
    Any,
    /// The worker that `Spec::owner` names.
    Owner,
    /// The worker that `Spec::key` hashes to.
    Hash,
}

impl Blueprint {
    /// Index of a stage by name.
    pub fn stage(&self, name: &str) -> Option<usize> {
        self.stages.iter().position(|s| s.name == name)
    }

    /// Index of a pool by name.
    pub fn pool(&self, name: &str) -> Option<usize> {
        self.pools.iter().position(|p| p.name == name)
    }

    /// Whether a stage runs on a `stealing` pool.
    pub(crate) fn is_stolen(&self, stage: usize) -> bool {
        let pool = self.stages.get(stage).and_then(|s| self.pools.get(s.pool?));
        pool.is_some_and(|pool| pool.kind == PoolKind::Stealing)
    }

    /// Whether a stage is run by whoever reaches it: it has no pool, or one that steals.
    pub(crate) fn is_guest(&self, stage: usize) -> bool {
        self.stages.get(stage).is_some_and(|s| s.pool.is_none()) || self.is_stolen(stage)
    }

    /// Whether a ring leads to a stage of a `stealing` pool, so that the pool needs a worker that reads it.
    pub(crate) fn has_desk(&self, pool: usize) -> bool {
        let here = |stage: usize| self.stages.get(stage).is_some_and(|s| s.pool == Some(pool));
        self.pools.get(pool).is_some_and(|p| p.kind == PoolKind::Stealing)
            && self.edges.iter().any(|e| e.mode != Mode::Inline && here(e.to))
    }

    /// An edge as it is written: `a -> b`, or `a.port -> b` for any port but `out`. Out-of-range indexes
    /// show as `#7` instead of panicking, so that a broken blueprint can still be talked about.
    pub fn edge_name(&self, edge: &EdgeDecl) -> String {
        let stage = |i: usize| self.stages.get(i).map_or_else(|| format!("#{i}"), |s| s.name.clone());
        let from = edge.from.map_or_else(|| SUBMIT.to_owned(), stage);
        let port = match edge.from.and_then(|i| self.stages.get(i)) {
            None => String::new(),
            Some(from) => match from.shape.ports.get(edge.port) {
                Some(port) if port.name == OUT => String::new(),
                Some(port) => format!(".{}", port.name),
                None => format!(".#{}", edge.port),
            },
        };
        format!("{from}{port} -> {}", stage(edge.to))
    }
}

impl PoolDecl {
    /// Workers over all groups.
    pub fn workers(&self) -> usize {
        self.threads.saturating_mul(self.groups.len().max(1))
    }

    /// Whether each group is for a thing of its own (a NIC) that its workers drive; those of a group of CPUs drive all.
    pub fn is_per_nic(&self) -> bool {
        !self.groups.is_empty() && self.group_cpus.is_empty()
    }

    /// Workers that read the rings which lead to its stages: all, but of a `stealing` pool the one at its desk.
    pub fn consumers(&self) -> usize {
        if self.kind == PoolKind::Stealing { 1 } else { self.workers() }
    }

    /// Name of the thread that reads the rings of a `stealing` pool.
    pub fn desk_name(&self) -> String {
        format!("{}/desk", self.name)
    }

    /// Name of the thread of a worker (index over all groups): the pool's name, with `/i` when there are
    /// several.
    pub fn thread_name(&self, worker: usize) -> String {
        if self.workers() == 1 { self.name.clone() } else { format!("{}/{worker}", self.name) }
    }

    /// Name of the group a worker belongs to; the pool's own name when it has no groups.
    pub fn group_name(&self, worker: usize) -> &str {
        self.groups.get(worker / self.threads.max(1)).unwrap_or(&self.name)
    }

    /// The CPU a worker is pinned to.
    pub fn cpu(&self, worker: usize) -> Option<usize> {
        let (group, place) = (worker / self.threads.max(1), worker % self.threads.max(1));
        match self.group_cpus.get(group) {
            Some(cpus) => cpus.get(place % cpus.len().max(1)).copied(),
            None => self.cpus.get(worker % self.cpus.len().max(1)).copied(),
        }
    }
}
