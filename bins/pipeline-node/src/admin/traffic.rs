//! Figures as lines that are told over the socket: what one stage, edge, worker, peer or NIC did in an interval.
//! Deliberately plain numbers with their units in the names: both ends share these types, and `--json` prints them.

use pipeline_graph::{EdgeStats, Histogram, StageStats, WorkerStats};
use pipeline_stages::peer::PeerState;
use pipeline_stages::traffic::{NicStats, PeerStats};
use serde::{Deserialize, Serialize};

use crate::limit::Limit;
use crate::observation::Observation;

/// One stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageLine {
    /// Its name in the file.
    pub stage: String,
    /// Its type.
    pub kind: String,
    /// Its pool; null for one that runs where it is reached.
    pub pool: Option<String>,
    /// Workers that run it.
    pub threads: usize,
    /// How often it was run on a batch.
    pub calls: u64,
    /// Items it took.
    pub items: u64,
    /// Items a call.
    pub items_per_call: f64,
    /// Items a second.
    pub items_per_s: f64,
    /// Its time for one item; of a stage without items, for one busy poll.
    pub ns_per_item: f64,
    /// Time an item waited before it: the middle, and what 99 of 100 stay below.
    pub wait_p50_us: f64,
    /// See `wait_p50_us`.
    pub wait_p99_us: f64,
    /// Time in its hands, a batch.
    pub service_p50_us: f64,
    /// See `service_p50_us`.
    pub service_p99_us: f64,
    /// Time inside it, neither waiting nor in its hands: without window or link, or with the peer.
    pub held_p50_us: f64,
    /// See `held_p50_us`.
    pub held_p99_us: f64,
    /// Batches waiting in its queues, mean.
    pub depth_avg: f64,
    /// Batches waiting in its queues, most since the start.
    pub depth_max: u64,
    /// Batches that its queues hold.
    pub cap: u64,
    /// Time it could not go on for lack of room behind it.
    pub blocked_pct: f64,
    /// Time its workers spent in it.
    pub util_pct: f64,
    /// Panics that were caught.
    pub panics: u64,
}

/// One edge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EdgeLine {
    /// As the file writes it: `a -> b`.
    pub edge: String,
    /// `inline`, `queue` or `return`.
    pub mode: String,
    /// Rings, and what each holds: batches, or items of a return edge.
    pub rings: usize,
    /// See `rings`.
    pub capacity: usize,
    /// What they hold now.
    pub depth_now: u64,
    /// What they held, mean.
    pub depth_avg: f64,
    /// Most that one ring held since the start.
    pub depth_max: u64,
    /// Items that went over it.
    pub items: u64,
    /// Items a second.
    pub items_per_s: f64,
    /// Items a batch.
    pub items_per_batch: f64,
    /// Items that found it full and were turned away.
    pub rejected: u64,
    /// Time that batches were ready to go and there was no room, over all producers, 100 at most.
    pub blocked_pct: f64,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerLine {
    /// Its pool.
    pub pool: String,
    /// Its thread's name.
    pub worker: String,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Time in turns that did something.
    pub busy_pct: f64,
    /// Time it looked for work without finding any.
    pub looking_pct: f64,
    /// Time asleep.
    pub asleep_pct: f64,
    /// Time it could have run and had no CPU; null where the kernel does not tell.
    pub no_cpu_pct: Option<f64>,
    /// Turns of its loop a second.
    pub turns_per_s: f64,
    /// Sleeps a second.
    pub sleeps_per_s: f64,
    /// Of those, how many a limit or a deadline ended.
    pub timed_per_s: f64,
    /// How long it looks before it sleeps: spinning, and then giving its CPU away between looks.
    pub spin_us: f64,
    /// See `spin_us`.
    pub yield_us: f64,
    /// What waking it takes, as an adaptive one has measured it.
    pub wake_us: f64,
}

/// Most peers that are told.
const PEERS_MAX: usize = 1000;

/// Peers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerList {
    /// How many there are.
    pub total: usize,
    /// Those, in the order in which they were opened; where there are too many, 1000: first those that are not up.
    pub peers: Vec<PeerLine>,
}

/// One peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerLine {
    /// What it was opened by.
    pub peer: String,
    /// `connecting`, `up`, `down` or `leaving`.
    pub state: String,
    /// Why it is down.
    pub reason: String,
    /// Links that live.
    pub links: usize,
    /// Slices that are with it now.
    pub outstanding: u64,
    /// 10⁹ bytes a second that were read from it.
    pub read_gb_per_s: f64,
    /// 10⁹ bytes a second that were written to it.
    pub written_gb_per_s: f64,
    /// Attempts of slices that came back without having been done.
    pub errors: u64,
    /// Slices that were sent to it again.
    pub retries: u64,
    /// Links that ended because of the way to it.
    pub path_failures: u64,
    /// Links that ended because of it as a whole.
    pub peer_failures: u64,
}

/// One NIC of a transport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NicLine {
    /// The transport.
    pub transport: String,
    /// The NIC.
    pub nic: String,
    /// Its address; empty where the system chooses.
    pub address: String,
    /// 10⁹ bytes a second that this node's own requests moved over it.
    pub gb_per_s: f64,
    /// 10⁹ bytes a second that peers wrote here over it by requests of theirs; null where this node's CPU takes no part in that
    /// (RDMA), and so nobody here knows.
    pub served_in_gb_per_s: Option<f64>,
    /// 10⁹ bytes a second that peers read from here; null likewise.
    pub served_out_gb_per_s: Option<f64>,
    /// Slices of this node's own requests.
    pub slices: u64,
    /// Slices on it now.
    pub outstanding: u64,
    /// Links on it that live.
    pub links: usize,
    /// Attempts that came back without having been done.
    pub errors: u64,
    /// Failures because of it, and because of the way to a peer's.
    pub local_failures: u64,
    /// See `local_failures`.
    pub path_failures: u64,
    /// Why it is not used while others are; null if it is well.
    pub resting: Option<String>,
}

/// What requests came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestsLine {
    /// Requests a second that were done.
    pub done_per_s: f64,
    /// 10⁹ bytes a second that were applied at their destinations.
    pub gb_per_s: f64,
    /// From submit to done: the middle, and what 99 of 100 stay below.
    pub took_p50_us: f64,
    /// See `took_p50_us`.
    pub took_p99_us: f64,
    /// Requests under way now.
    pub under_way: u64,
    /// Requests that failed.
    pub failed: u64,
    /// How often `submit` answered busy.
    pub busy: u64,
    /// Slices that were sent again.
    pub retries: u64,
}

pub(super) fn requests(seen: &Observation) -> RequestsLine {
    let counts = &seen.counts;
    let [took_p50_us, took_p99_us] = middle_and_most(&counts.took);
    RequestsLine {
        done_per_s: per_s(counts.done, seen),
        gb_per_s: per_s(counts.bytes, seen) / 1e9,
        took_p50_us,
        took_p99_us,
        under_way: seen.under_way,
        failed: counts.failed_all(),
        busy: counts.busy,
        retries: counts.retries,
    }
}

/// What holds the node back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitLine {
    /// `idle`, `busy`, `cpu`, `window`, `queue`, `peer`, `sleep` or `application`.
    pub because: String,
    /// The stage at fault, if it is one.
    pub stage: Option<String>,
    /// In words.
    pub words: String,
    /// The key that would move it; null where none does.
    pub knob: Option<KnobLine>,
}

/// A key of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KnobLine {
    /// Its path, as `--set` takes it.
    pub path: String,
    /// What it is, as TOML.
    pub now: String,
    /// What to try, as TOML.
    pub better: String,
}

impl LimitLine {
    /// As it is told.
    pub fn of(limit: &Limit) -> Self {
        let knob = limit.knob.as_ref();
        Self {
            because: limit.because.word().to_owned(),
            stage: limit.stage.clone(),
            words: limit.words.clone(),
            knob: knob.map(|k| KnobLine {
                path: k.path.clone(),
                now: k.now.clone(),
                better: k.better.clone(),
            }),
        }
    }
}

pub(super) fn stages(seen: &Observation) -> Vec<StageLine> {
    seen.graph.stages.iter().map(|stage| stage_line(stage, seen)).collect()
}

fn stage_line(stage: &StageStats, seen: &Observation) -> StageLine {
    let did = if stage.items > 0 { stage.items } else { stage.busy_polls };
    let [wait_p50_us, wait_p99_us] = middle_and_most(&stage.wait);
    let [service_p50_us, service_p99_us] = middle_and_most(&stage.service);
    let [held_p50_us, held_p99_us] = middle_and_most(&stage.held);
    StageLine {
        stage: stage.name.clone(),
        kind: stage.kind.clone(),
        pool: stage.pool.clone(),
        threads: stage.threads,
        calls: stage.batches,
        items: stage.items,
        items_per_call: ratio(stage.items, stage.batches),
        items_per_s: per_s(stage.items, seen),
        ns_per_item: ratio(stage.busy_ns, did),
        wait_p50_us,
        wait_p99_us,
        service_p50_us,
        service_p99_us,
        held_p50_us,
        held_p99_us,
        depth_avg: stage.depth_avg(),
        depth_max: stage.depth_max,
        cap: stage.cap as u64,
        blocked_pct: stage.blocked_pct(),
        util_pct: stage.util_pct(),
        panics: stage.panics,
    }
}

pub(super) fn edges(seen: &Observation) -> Vec<EdgeLine> {
    seen.graph.edges.iter().map(|edge| edge_line(edge, seen)).collect()
}

fn edge_line(edge: &EdgeStats, seen: &Observation) -> EdgeLine {
    EdgeLine {
        edge: edge.name.clone(),
        mode: edge.mode.to_owned(),
        rings: edge.rings,
        capacity: edge.capacity,
        depth_now: edge.depth_now,
        depth_avg: edge.depth_avg(),
        depth_max: edge.depth_max,
        items: edge.pushed,
        items_per_s: per_s(edge.pushed, seen),
        items_per_batch: ratio(edge.pushed, edge.batches),
        rejected: edge.rejected,
        blocked_pct: (100.0 * ratio(edge.blocked_ns, seen.graph.elapsed_ns)).min(100.0),
    }
}

pub(super) fn workers(seen: &Observation) -> Vec<WorkerLine> {
    seen.graph.workers.iter().map(|worker| worker_line(worker, seen)).collect()
}

fn worker_line(worker: &WorkerStats, seen: &Observation) -> WorkerLine {
    let pct = |ns: u64| (100.0 * ratio(ns, seen.graph.elapsed_ns)).min(100.0);
    let (busy_pct, asleep_pct) = (pct(worker.busy_ns), pct(worker.parked_ns));
    WorkerLine {
        pool: worker.pool.clone(),
        worker: worker.name.clone(),
        cpu: worker.cpu,
        busy_pct,
        // Of a thread that carries out jobs nobody knows how it waits.
        looking_pct: if worker.parks + worker.spins + worker.yields == 0 {
            0.0
        } else {
            (100.0 - busy_pct - asleep_pct).max(0.0)
        },
        asleep_pct,
        no_cpu_pct: worker.cpu_told.then(|| pct(worker.cpu_wait_ns)),
        turns_per_s: per_s(worker.turns, seen),
        sleeps_per_s: per_s(worker.parks, seen),
        timed_per_s: per_s(worker.timed_wakes, seen),
        spin_us: micros(worker.spin_budget_ns),
        yield_us: micros(worker.yield_budget_ns),
        wake_us: micros(worker.wake_ns),
    }
}

pub(super) fn peers(seen: &Observation) -> PeerList {
    let mut told: Vec<&PeerStats> = seen.peers.iter().collect();
    if told.len() > PEERS_MAX {
        told.sort_by_key(|peer| peer.state == PeerState::Up);
        told.truncate(PEERS_MAX);
    }
    PeerList { total: seen.peers.len(), peers: told.into_iter().map(|peer| peer_line(peer, seen)).collect() }
}

fn peer_line(peer: &PeerStats, seen: &Observation) -> PeerLine {
    PeerLine {
        peer: peer.label.clone(),
        state: state(peer.state).to_owned(),
        reason: peer.reason.clone(),
        links: peer.links,
        outstanding: peer.outstanding,
        read_gb_per_s: per_s(peer.bytes_read, seen) / 1e9,
        written_gb_per_s: per_s(peer.bytes_written, seen) / 1e9,
        errors: peer.errors,
        retries: peer.retries,
        path_failures: peer.path_failures,
        peer_failures: peer.peer_failures,
    }
}

fn state(state: PeerState) -> &'static str {
    match state {
        PeerState::Connecting => "connecting",
        PeerState::Up => "up",
        PeerState::Down => "down",
        PeerState::Leaving => "leaving",
    }
}

pub(super) fn nics(seen: &Observation) -> Vec<NicLine> {
    seen.nics.iter().map(|nic| nic_line(nic, seen)).collect()
}

fn nic_line(nic: &NicStats, seen: &Observation) -> NicLine {
    NicLine {
        transport: nic.transport.clone(),
        nic: nic.name.clone(),
        address: nic.facts.address.clone(),
        gb_per_s: per_s(nic.bytes, seen) / 1e9,
        served_in_gb_per_s: nic.served_bytes_in.map(|bytes| per_s(bytes, seen) / 1e9),
        served_out_gb_per_s: nic.served_bytes_out.map(|bytes| per_s(bytes, seen) / 1e9),
        slices: nic.slices,
        outstanding: nic.outstanding,
        links: nic.links,
        errors: nic.errors,
        local_failures: nic.local_failures,
        path_failures: nic.path_failures,
        resting: nic.facts.resting.clone(),
    }
}

fn middle_and_most(times: &Histogram) -> [f64; 2] {
    [0.5, 0.99].map(|quantile| micros(times.quantile(quantile)))
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn ratio(of: u64, by: u64) -> f64 {
    if by == 0 { 0.0 } else { of as f64 / by as f64 }
}

fn per_s(count: u64, seen: &Observation) -> f64 {
    ratio(count, seen.graph.elapsed_ns) * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that slept through the interval had no wait for a CPU; only one that the kernel tells nothing of has no figure.
    #[test]
    fn who_slept_is_told_of() {
        let no_cpu = |cpu_told| {
            let mut seen = Observation::default();
            seen.graph.workers = vec![WorkerStats { cpu_told, ..WorkerStats::default() }];
            workers(&seen)[0].no_cpu_pct
        };
        assert_eq!([true, false].map(no_cpu), [Some(0.0), None]);
    }

    /// However many peers there are, an answer holds so many, says of how many, and those that are not up are among them.
    #[test]
    fn peers_are_cut() {
        let peer = |at: usize| {
            let state = if at == 70_000 { PeerState::Down } else { PeerState::Up };
            PeerStats { label: format!("peer-{at}"), state, ..PeerStats::default() }
        };
        let list = peers(&Observation { peers: (0..=70_000).map(peer).collect(), ..Observation::default() });
        assert_eq!((list.total, list.peers.len()), (70_001, PEERS_MAX));
        assert_eq!([&list.peers[0].peer, &list.peers[1].peer], ["peer-70000", "peer-0"]);
        let list =
            peers(&Observation { peers: (69_999..=70_000).map(peer).collect(), ..Observation::default() });
        assert_eq!((list.total, &*list.peers[1].peer), (2, "peer-70000"), "all of them in their order");
    }
}
