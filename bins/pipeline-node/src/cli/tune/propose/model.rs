//! What a model of queues expects of one change, from what was measured of the best so far.
//!
//! Three laws (Denning and Buzen 1978): the *utilisation law*, a worker's share of busy time is what an item costs it times items a
//! second, so what is busy all the time bounds all; *Little's law*, what is in flight is rate times time, so a window or a queue that
//! is full bounds the rate; and that CPU time is bounded by the CPUs. From each follows by how much a change could move its
//! bound at best, and never more than that is hoped for.

use pipeline_graph::{PoolKind, Snapshot};
use pipeline_node::Observation;
use pipeline_node::limit::Limit;

use super::super::args::Goal;
use super::super::search::Point;
use super::super::space::{Kind, Space};

/// A worker that is busy for this share of its time has none left.
const BUSY: f64 = 0.85;
/// Nothing is expected of a change for which no law speaks; against which one speaks, less.
const AGAINST: f64 = -0.1;

/// What CPUs that stay awake are worth: a virtual machine whose idle CPUs halt was up to twice as fast with them, and at times no
/// faster (docs/tuning.md).
const AWAKE: f64 = 0.2;

/// What was measured of the best so far.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its figures, over one turn.
    pub interval: Observation,
    /// What it says limits it.
    pub limit: Limit,
    /// CPUs that this process may use.
    pub cpus: f64,
}

impl Seen {
    fn graph(&self) -> &Snapshot {
        &self.interval.graph
    }

    /// Busy share of the busiest worker of a pool.
    fn busy(&self, pool: &str) -> f64 {
        let of_pool = self.graph().workers.iter().filter(|worker| worker.pool == pool);
        of_pool.map(|worker| self.share(worker.busy_ns)).fold(0.0, f64::max)
    }

    fn share(&self, ns: u64) -> f64 {
        ns as f64 / (self.graph().elapsed_ns as f64).max(1.0)
    }

    /// CPUs used by this process, busy or looking for work.
    fn cpus_used(&self) -> f64 {
        self.share(self.interval.cpu_ns)
    }

    /// Sleeps of a pool's workers for each item that left the graph.
    fn parks_per_item(&self, pool: &str) -> f64 {
        let parks: u64 = self.graph().workers.iter().filter(|w| w.pool == pool).map(|w| w.parks).sum();
        let items = self.graph().stages.iter().filter(|s| s.kind == "completion_notify").map(|s| s.items);
        parks as f64 / (items.sum::<u64>() as f64).max(1.0)
    }

    /// Whether anything passes one of these edges.
    pub fn passes(&self, space: &Space, edges: &[usize]) -> bool {
        let blueprint = &space.loaded.config.blueprint;
        let name = |edge: &usize| blueprint.edge_name(&blueprint.edges[*edge]);
        edges.iter().any(|edge| self.graph().edge(&name(edge)).is_none_or(|stats| stats.pushed > 0))
    }

    /// Slices for each request.
    fn slices_per_request(&self) -> f64 {
        let items = |kind: &str| -> u64 {
            self.graph().stages.iter().filter(|s| s.kind == kind).map(|s| s.items).sum()
        };
        items("wr_post") as f64 / (items("request_split") as f64).max(1.0)
    }
}

/// What is expected of one level of one knob, as a logarithm, and the sentence for it.
pub fn expect(
    space: &Space,
    best: &Point,
    knob: usize,
    level: usize,
    seen: &Seen,
    goal: Goal,
) -> (f64, String) {
    let it = &space.knobs[knob];
    let pool = it.pool.map(|pool| &space.loaded.config.blueprint.pools[pool]);
    let (now, new) = (space.level(knob, best).size as f64, it.levels[level].size as f64);
    match (&it.kind, pool) {
        (Kind::Threads, Some(pool)) => threads(seen, &pool.name, now, new),
        (Kind::Wait, Some(pool)) if pool.kind == PoolKind::Resident => {
            wait(seen, &pool.name, &it.levels[level].words, goal)
        }
        (Kind::Home, Some(pool)) if level == 1 => (
            0.05,
            format!(
                "items are handed over to {} and back: its stages could run where they come from",
                pool.name
            ),
        ),
        (Kind::Edge(edges), _) => edge(space, seen, edges, now, new),
        (Kind::Slice, _) => slice(seen, now, new),
        (Kind::Awake, _) => (AWAKE, "who is woken waits for its CPU to wake".into()),
        _ => (0.0, String::new()),
    }
}

fn threads(seen: &Seen, pool: &str, now: f64, new: f64) -> (f64, String) {
    let (busy, used) = (seen.busy(pool), seen.cpus_used());
    if new > now {
        let room = seen.cpus / used.max(0.1);
        if busy > BUSY && room > 1.1 {
            let gain = (new / now).min(room).ln();
            let why = format!(
                "workers of {pool} are busy {:.0} % of the time, and {used:.1} of {:.0} CPUs are used",
                busy * 100.0,
                seen.cpus
            );
            return (gain.min(0.5), why);
        }
        return (AGAINST, String::new());
    }
    if used > 0.9 * seen.cpus && now > 1.0 {
        let why = format!(
            "{now:.0} threads of {pool} share {:.0} CPUs, which are used up: fewer wait less for each other",
            seen.cpus
        );
        return ((now / new).ln().min(0.3), why);
    }
    if busy * now < BUSY * new {
        let why = format!(
            "workers of {pool} are busy {:.0} % of the time: fewer have less to hand over",
            busy * 100.0
        );
        return (0.02, why);
    }
    (AGAINST, String::new())
}

fn wait(seen: &Seen, pool: &str, new: &str, goal: Goal) -> (f64, String) {
    let parks = seen.parks_per_item(pool);
    let looks = new.contains("spin") || new.contains("yield");
    match (looks, goal) {
        (true, Goal::Latency) if parks > 0.3 => {
            (0.2, format!("{pool} slept {parks:.1} times an item: to look a little longer saves wake-ups"))
        }
        (true, Goal::Throughput) if parks > 0.1 && seen.cpus_used() < 0.8 * seen.cpus => {
            (0.05, format!("{pool} slept {parks:.1} times an item while CPUs were free"))
        }
        (false, Goal::Efficiency) => (0.05, format!("what {pool} spends on looking for work would be saved")),
        (false, _) if seen.cpus_used() > 0.9 * seen.cpus => {
            (0.05, format!("all CPUs are used: {pool} could look less, and leave them to who has work"))
        }
        _ => (0.0, String::new()),
    }
}

fn edge(space: &Space, seen: &Seen, edges: &[usize], now: f64, new: f64) -> (f64, String) {
    let blueprint = &space.loaded.config.blueprint;
    let stats = |stage: usize| seen.graph().stage(&blueprint.stages[stage].name);
    let joins = || edges.iter().map(|edge| &blueprint.edges[*edge]);
    let Some(target) = joins().next().and_then(|edge| stats(edge.to)) else {
        return (AGAINST, String::new());
    };
    if new == 0.0 {
        let (wait, service) = (target.wait.quantile(0.5), target.service.quantile(0.5));
        let why = format!(
            "an item waits {:.1} us for {}, which takes {:.1} us: inline it would not",
            wait as f64 / 1e3,
            target.name,
            service as f64 / 1e3
        );
        return (if wait > service { 0.15 } else { 0.02 }, why);
    }
    let is_full = target.depth_max as f64 >= now;
    let blocked = joins().filter_map(|edge| stats(edge.from?)).map(|s| s.blocked_pct()).fold(0.0, f64::max);
    match (new > now, is_full || blocked > 2.0) {
        (true, true) if now > 0.0 => {
            let why = format!(
                "the queue before {} was full ({now:.0} batches, blocked {blocked:.0} %)",
                target.name
            );
            (if now < 16.0 { 0.15 } else { 0.05 }, why)
        }
        (true, false) => (AGAINST, String::new()),
        _ => (AGAINST / 2.0, String::new()),
    }
}

fn slice(seen: &Seen, now: f64, new: f64) -> (f64, String) {
    let cut = seen.slices_per_request();
    if cut > 1.5 && now > 0.0 && (new > now || new == 0.0) {
        let why =
            format!("a request is cut into {cut:.0} slices, and each costs its way: larger ones are fewer");
        return (0.15, why);
    }
    (0.0, String::new())
}
