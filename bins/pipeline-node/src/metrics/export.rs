//! From an observation to a recorder: every field of it that can be a number, under the names of [`super::names`].
//! Deliberately a plain list, part by part; which fields there must be is held by a test.

use ::metrics::{Key, KeyName, Label, Level, Metadata, Recorder};
use pipeline_graph::{EdgeStats, Histogram, Snapshot, StageStats, WorkerStats};
use pipeline_stages::ledger::Usage;
use pipeline_stages::peer::PeerState;
use pipeline_stages::traffic::{Counts, NicStats, PeerStats};

use super::names::{self as m, Kind, METRICS, Metric};
use super::peers::{self, OTHER, STATES};
use super::spread::spread;
use crate::observation::Observation;

/// Tells a recorder what each metric means; once, before the first [`export`].
pub fn describe(recorder: &dyn Recorder) {
    for metric in METRICS {
        let (name, unit, help) = (KeyName::from_const_str(metric.name), metric.unit, metric.help.into());
        match (metric.kind, metric.is_time()) {
            (Kind::Counter, false) => recorder.describe_counter(name, unit, help),
            (Kind::Gauge, _) | (Kind::Counter, true) => recorder.describe_gauge(name, unit, help),
            (Kind::Histogram, _) => recorder.describe_histogram(name, unit, help),
        }
    }
}

/// Adds an interval to a recorder: counters and histograms grow by what happened in it, gauges are set to how things stood at
/// its end. So a recorder that lives on gets [`Observation::since`] of the last one each time, and a fresh one a whole
/// observation.
///
/// Histograms are given by `record_many`: a recorder that does not implement it is called for each single value.
pub fn export(interval: &Observation, recorder: &dyn Recorder) {
    let out = Out(recorder);
    out.set(&m::BUILD_INFO, &[env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT")], 1.0);
    graph(&out, &interval.graph);
    usage(&out, &interval.usage);
    out.set(&m::REQUESTS_UNDER_WAY, &[], interval.under_way as f64);
    counts(&out, &interval.counts);
    out.seconds(&m::CPU, &[], interval.cpu_ns);
    out.seconds(&m::WINDOW_SHORT, &[], interval.window_short_ns);
    interval.nics.iter().for_each(|n| nic(&out, n));
    all_peers(&out, &interval.peers);
}

fn graph(out: &Out<'_>, graph: &Snapshot) {
    out.seconds(&m::UPTIME, &[], graph.elapsed_ns);
    graph.stages.iter().for_each(|s| stage(out, s));
    graph.edges.iter().for_each(|e| edge(out, e));
    graph.workers.iter().for_each(|w| worker(out, w));
}

fn usage(out: &Out<'_>, usage: &Usage) {
    out.set(&m::SLICES, &[], f64::from(usage.slices));
    out.set(&m::REQUESTS_OPEN, &[], f64::from(usage.requests));
    out.set(&m::BATCHES_OPEN, &[], f64::from(usage.batches));
    out.set(&m::WINDOW, &[], usage.bytes as f64);
}

fn counts(out: &Out<'_>, counts: &Counts) {
    out.count(&m::REQUESTS_SUBMITTED, &[], counts.submitted);
    out.count(&m::REQUESTS_REFUSED, &[], counts.refused);
    out.count(&m::REQUESTS_ENTERED, &[], counts.entered);
    out.count(&m::REQUESTS_DONE, &[], counts.done);
    for (reason, failed) in counts.failures() {
        out.count(&m::REQUESTS_FAILED, &[reason], failed);
    }
    out.count(&m::REQUESTS_BYTES, &[], counts.bytes);
    out.times(&m::REQUEST_SECONDS, &[], &counts.took, None);
    out.count(&m::BUSY, &[], counts.busy);
    out.count(&m::SLICES_CUT, &[], counts.slices);
    out.count(&m::RETRIES, &[], counts.retries);
    out.count(&m::STAGED_COPIES, &[], counts.staged_copies);
    out.count(&m::STAGED_BYTES, &[], counts.staged_bytes);
    out.count(&m::STALE, &[], counts.stale);
    out.count(&m::CALLBACK_PANICS, &[], counts.callback_panics);
    out.count(&m::COMPLETION_WAKES, &[], counts.wakes);
}

fn stage(out: &Out<'_>, stage: &StageStats) {
    let name = &[&*stage.name];
    out.set(&m::STAGE_INFO, &[&stage.name, &stage.kind, stage.pool.as_deref().unwrap_or_default()], 1.0);
    out.set(&m::STAGE_WORKERS, name, stage.threads as f64);
    out.set(&m::STAGE_CAPACITY, name, stage.cap as f64);
    out.set(&m::STAGE_DEPTH_MAX, name, stage.depth_max as f64);
    out.count(&m::STAGE_DEPTH_SUM, name, stage.depth_sum);
    out.count(&m::STAGE_DEPTH_SAMPLES, name, stage.depth_samples);
    out.count(&m::STAGE_ITEMS, name, stage.items);
    for (shard, items) in stage.worker_items.iter().enumerate() {
        out.count(&m::STAGE_SHARD_ITEMS, &[&stage.name, &shard.to_string()], *items);
    }
    out.count(&m::STAGE_BATCHES, name, stage.batches);
    out.count(&m::STAGE_POLLS, name, stage.polls);
    out.count(&m::STAGE_BUSY_POLLS, name, stage.busy_polls);
    out.seconds(&m::STAGE_BUSY, name, stage.busy_ns);
    out.seconds(&m::STAGE_BLOCKED, name, stage.blocked_ns);
    out.count(&m::STAGE_PANICS, name, stage.panics);
    out.count(&m::STAGE_STRAYS, name, stage.strays);
    out.times(&m::STAGE_WAIT, name, &stage.wait, None);
    // Each run is counted in both with the same time and the same weight.
    out.times(&m::STAGE_SERVICE, name, &stage.service, Some(stage.busy_ns));
    out.times(&m::STAGE_HELD, name, &stage.held, None);
}

fn edge(out: &Out<'_>, edge: &EdgeStats) {
    let name = &[&*edge.name];
    out.set(&m::EDGE_INFO, &[&edge.name, edge.mode], 1.0);
    out.set(&m::EDGE_RINGS, name, edge.rings as f64);
    out.set(&m::EDGE_CAPACITY, name, edge.capacity as f64);
    out.set(&m::EDGE_DEPTH, name, edge.depth_items as f64);
    out.set(&m::EDGE_DEPTH_NOW, name, edge.depth_now as f64);
    out.count(&m::EDGE_DEPTH_SUM, name, edge.depth_sum);
    out.count(&m::EDGE_DEPTH_SAMPLES, name, edge.depth_samples);
    out.set(&m::EDGE_DEPTH_MAX, name, edge.depth_max as f64);
    out.seconds(&m::EDGE_BLOCKED, name, edge.blocked_ns);
    out.count(&m::EDGE_PUSHED, name, edge.pushed);
    out.count(&m::EDGE_POPPED, name, edge.popped);
    out.count(&m::EDGE_BATCHES, name, edge.batches);
    out.count(&m::EDGE_REJECTED, name, edge.rejected);
    out.count(&m::EDGE_OVERFLOWS, name, edge.overflows);
}

fn worker(out: &Out<'_>, worker: &WorkerStats) {
    let name = &[&*worker.pool, &*worker.name];
    let cpu = worker.cpu.map(|cpu| cpu.to_string()).unwrap_or_default();
    out.set(&m::WORKER_INFO, &[&worker.pool, &worker.name, &cpu], 1.0);
    out.count(&m::WORKER_TURNS, name, worker.turns);
    out.seconds(&m::WORKER_BUSY, name, worker.busy_ns);
    out.seconds(&m::WORKER_PARKED, name, worker.parked_ns);
    // Where the kernel does not tell there is no series: a zero would be a lie.
    if worker.cpu_told {
        out.seconds(&m::WORKER_CPU, name, worker.cpu_ns);
        out.seconds(&m::WORKER_CPU_WAIT, name, worker.cpu_wait_ns);
    }
    out.count(&m::WORKER_PARKS, name, worker.parks);
    out.count(&m::WORKER_WAKES, name, worker.wakes);
    out.count(&m::WORKER_TIMED_WAKES, name, worker.timed_wakes);
    out.count(&m::WORKER_SPINS, name, worker.spins);
    out.count(&m::WORKER_YIELDS, name, worker.yields);
    out.count(&m::WORKER_REFUSED_FDS, name, worker.refused_fds);
    out.set(&m::WORKER_GAP, name, seconds(worker.gap_ns));
    out.set(&m::WORKER_SPIN_BUDGET, name, seconds(worker.spin_budget_ns));
    out.set(&m::WORKER_YIELD_BUDGET, name, seconds(worker.yield_budget_ns));
    out.set(&m::WORKER_PARKS_AT_ONCE, name, f64::from(worker.parks_at_once));
    out.set(&m::WORKER_WAKE, name, seconds(worker.wake_ns));
    out.set(&m::WORKER_WAKE_CPU, name, seconds(worker.wake_cpu_ns));
    out.count(&m::WORKER_DECISIONS, name, worker.decisions);
}

fn nic(out: &Out<'_>, nic: &NicStats) {
    let name = &[&*nic.transport, &*nic.name];
    let numa = nic.facts.numa.map(|numa| numa.to_string()).unwrap_or_default();
    out.set(&m::NIC_INFO, &[&nic.transport, &nic.name, &nic.facts.address, &numa], 1.0);
    out.set(&m::NIC_SPEED, name, nic.facts.bits_per_s as f64 / 8.0);
    out.set(&m::NIC_RESTING, name, f64::from(nic.facts.resting.is_some()));
    out.count(&m::NIC_SLICES, name, nic.slices);
    out.count(&m::NIC_BYTES, name, nic.bytes);
    out.count(&m::NIC_READ, name, nic.bytes_read);
    out.count(&m::NIC_WRITTEN, name, nic.bytes_written);
    // Where nobody counts there is no series: a zero would be a lie.
    nic.served_bytes_in.into_iter().for_each(|bytes| out.count(&m::NIC_SERVED_IN, name, bytes));
    nic.served_bytes_out.into_iter().for_each(|bytes| out.count(&m::NIC_SERVED_OUT, name, bytes));
    out.count(&m::NIC_ERRORS, name, nic.errors);
    out.count(&m::NIC_LOCAL_FAILURES, name, nic.local_failures);
    out.count(&m::NIC_PATH_FAILURES, name, nic.path_failures);
    out.set(&m::NIC_OUTSTANDING, name, nic.outstanding as f64);
    out.set(&m::NIC_LINKS, name, nic.links as f64);
}

fn all_peers(out: &Out<'_>, all: &[PeerStats]) {
    for (state, word) in STATES {
        out.set(&m::PEERS, &[word], all.iter().filter(|peer| peer.state == state).count() as f64);
    }
    let (own, others) = peers::divide(all);
    for one in own {
        out.set(
            &m::PEER_UP,
            &[&one.label],
            f64::from(matches!(one.state, PeerState::Up | PeerState::Leaving)),
        );
        peer(out, &one.label, one);
    }
    if let Some(others) = others {
        peer(out, OTHER, &others);
    }
}

fn peer(out: &Out<'_>, label: &str, peer: &PeerStats) {
    let name = &[label];
    out.set(&m::PEER_LINKS, name, peer.links as f64);
    out.set(&m::PEER_OUTSTANDING, name, peer.outstanding as f64);
    out.count(&m::PEER_SLICES, name, peer.slices);
    out.count(&m::PEER_READ, name, peer.bytes_read);
    out.count(&m::PEER_WRITTEN, name, peer.bytes_written);
    out.count(&m::PEER_ERRORS, name, peer.errors);
    out.count(&m::PEER_RETRIES, name, peer.retries);
    out.count(&m::PEER_PATH_FAILURES, name, peer.path_failures);
    out.count(&m::PEER_FAILURES, name, peer.peer_failures);
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A recorder, as this file writes to it.
struct Out<'a>(&'a dyn Recorder);

impl Out<'_> {
    fn count(&self, metric: &Metric, labels: &[&str], more: u64) {
        self.0.register_counter(&key(metric, labels), &META).increment(more);
    }

    /// A counter of time: the facade's own are whole numbers.
    fn seconds(&self, metric: &Metric, labels: &[&str], more_ns: u64) {
        self.0.register_gauge(&key(metric, labels), &META).increment(seconds(more_ns));
    }

    fn set(&self, metric: &Metric, labels: &[&str], value: f64) {
        self.0.register_gauge(&key(metric, labels), &META).set(value);
    }

    fn times(&self, metric: &Metric, labels: &[&str], times: &Histogram, sum_ns: Option<u64>) {
        let into = self.0.register_histogram(&key(metric, labels), &META);
        for (ns, count) in spread(times, sum_ns) {
            into.record_many(ns / 1e9, usize::try_from(count).unwrap_or(usize::MAX));
        }
    }
}

static META: Metadata<'static> = Metadata::new("pipeline_node", Level::INFO, Some(module_path!()));

fn key(metric: &Metric, labels: &[&str]) -> Key {
    debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
    let labels = metric.labels.iter().zip(labels).map(|(name, value)| Label::new(*name, (*value).to_owned()));
    Key::from_parts(metric.name, labels.collect::<Vec<_>>())
}
