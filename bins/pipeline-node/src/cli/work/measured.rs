//! What one cell of one round came to, and what it took: CPU time and wake-ups by the kernel, hops and slices by the engine.
//! Deliberately around the loop, never in it.

use pipeline_graph::Snapshot;
use pipeline_node::{Engine, Peer};

use super::against::Against;
use crate::cli::bench::ceiling::Bare;
use crate::cli::load::tally::ratio;
use crate::cli::load::usage::{Wakeups, cpu_ns};

/// One cell of one round.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Microseconds.
    pub p50_us: f64,
    /// Microseconds.
    pub p99_us: f64,
    /// Microseconds; as what follows, unless something else is said, `None` of the bare loop.
    pub p999_us: Option<f64>,
    /// 10⁹ bytes a second.
    pub gb_per_s: f64,
    /// 10⁶ slices a second.
    pub mslices_per_s: Option<f64>,
    /// Items popped from rings, a request.
    pub hops: Option<f64>,
    /// Sleeps of threads of the initiator that ended, a request.
    pub wakeups: Option<f64>,
    /// CPU time of the initiator, seconds for 10⁹ bytes.
    pub cpu_initiator: f64,
    /// CPU time of the target, seconds for 10⁹ bytes; `None` where it does not tell.
    pub cpu_target: Option<f64>,
    /// CPU time of the initiator, microseconds a request.
    pub cpu_us_per_request: f64,
}

impl Measured {
    /// What a bare loop over requests of `bytes` bytes came to.
    pub fn bare(bare: &Bare, bytes: u64) -> Self {
        Self {
            p50_us: bare.p50_us,
            p99_us: bare.p99_us,
            p999_us: None,
            gb_per_s: bare.gb_per_s,
            mslices_per_s: None,
            hops: None,
            wakeups: None,
            cpu_initiator: bare.cpu_s_per_gb_initiator,
            cpu_target: Some(bare.cpu_s_per_gb_target),
            // Seconds for 10⁹ bytes are nanoseconds a byte.
            cpu_us_per_request: bare.cpu_s_per_gb_initiator * bytes as f64 / 1e3,
        }
    }
}

/// What a loop did.
pub struct Done {
    /// Requests of the engine that ended well.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it took, nanoseconds.
    pub elapsed_ns: u64,
    /// Median, p99 and p99.9, microseconds.
    pub latency_us: [f64; 3],
}

/// Counters before a loop.
pub struct Meter<'a> {
    engine: &'a Engine,
    peer: &'a Peer,
    against: &'a Against,
    stats: Snapshot,
    wakeups: Wakeups,
    target_ns: Option<u64>,
    own_ns: u64,
}

impl<'a> Meter<'a> {
    /// From now on.
    pub fn start(engine: &'a Engine, peer: &'a Peer, against: &'a Against) -> Self {
        // The target first: to ask it costs something on this side.
        let target_ns = against.cpu_ns(peer);
        let (stats, wakeups) = (engine.stats(), Wakeups::now());
        Self { engine, peer, against, stats, wakeups, target_ns, own_ns: against.own_cpu_ns(cpu_ns()) }
    }

    /// Until now.
    pub fn stop(self, done: &Done) -> Measured {
        let own_ns = self.against.own_cpu_ns(cpu_ns()).saturating_sub(self.own_ns);
        let wakeups = Wakeups::now().since(&self.wakeups, self.against.threads());
        let stats = self.engine.stats().since(&self.stats);
        let target_ns = self.against.cpu_ns(self.peer).zip(self.target_ns);
        let (requests, bytes) = (done.requests as f64, done.bytes as f64);
        let [p50_us, p99_us, p999_us] = done.latency_us;
        Measured {
            p50_us,
            p99_us,
            p999_us: Some(p999_us),
            gb_per_s: ratio(bytes, done.elapsed_ns as f64),
            mslices_per_s: Some(ratio(slices(&stats) as f64 * 1e3, done.elapsed_ns as f64)),
            hops: Some(ratio(popped(&stats) as f64, requests)),
            wakeups: Some(ratio(wakeups as f64, requests)),
            cpu_initiator: ratio(own_ns as f64, bytes),
            cpu_target: target_ns.map(|(after, before)| ratio(after.saturating_sub(before) as f64, bytes)),
            cpu_us_per_request: ratio(own_ns as f64 / 1e3, requests),
        }
    }
}

/// Items that were taken from rings: from bounded queues and return edges.
fn popped(stats: &Snapshot) -> u64 {
    stats.edges.iter().filter(|edge| edge.mode != "inline").map(|edge| edge.popped).sum()
}

/// Slices that have ended.
fn slices(stats: &Snapshot) -> u64 {
    stats.stages.iter().filter(|stage| stage.kind == "completion_notify").map(|stage| stage.items).sum()
}
