//! The ceiling: a bare loop with our frame, ack, working set, lanes and wait, against a process of its own, run in
//! turn with the pipeline so that both see the same machine.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use pipeline_node::Config;
use pipeline_stages::catalog::tcp_settings;
use pipeline_transports::Op;
use pipeline_transports::tcp::ceiling::{CeilingSettings, Wait, initiate, serve};

use super::args::Args;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::load::Direction;
use crate::cli::load::child::Child;
use crate::cli::load::layout::Layout;
use crate::cli::load::tally::ratio;

/// How long a round of it runs when the pipeline's rounds are counted in batches.
const USUAL: Duration = Duration::from_millis(250);

/// The target of the bare loop, and what it has in common with the pipeline.
pub struct Ceiling {
    _child: Child,
    address: SocketAddr,
    settings: CeilingSettings,
}

/// What a round of the bare loop came to.
pub struct Bare {
    /// 10⁹ bytes a second.
    pub gb_per_s: f64,
    /// From a batch's start to its last answer, median.
    pub p50_us: f64,
    /// The same, 99 %.
    pub p99_us: f64,
    /// CPU seconds of its initiator for 10⁹ bytes.
    pub cpu_s_per_gb_initiator: f64,
    /// CPU seconds of its target for 10⁹ bytes.
    pub cpu_s_per_gb_target: f64,
}

impl Ceiling {
    /// Starts its target; `None` when no TCP transport is declared.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(args: &Args, config: &Config) -> Result<Option<Self>, Failure> {
        let Some(tcp) = config.transports.iter().find(|t| t.kind == "tcp") else { return Ok(None) };
        let sockets = tcp_settings(tcp);
        let settings = CeilingSettings {
            op: match args.op {
                Direction::Read => Op::Read,
                Direction::Write => Op::Write,
            },
            bytes: 0,
            batch: cut(args.batch() * args.iov),
            depth: cut(args.depth * args.threads),
            lanes: sockets.lanes,
            wait: wait_of(config, "cq_reap"),
            target_wait: wait_of(config, "serve"),
            working_set: 0,
            duration: args.iterations.map_or(Duration::from_secs_f64(args.seconds), |_| USUAL),
            sockets,
        };
        Self::of(settings).map(Some)
    }

    /// Starts its target, for rounds like this unless they say otherwise.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn of(settings: CeilingSettings) -> Result<Self, Failure> {
        let (child, ready) = Child::start(&["ceiling-target".to_owned()])?;
        let address = ready.trim().parse();
        let address =
            address.map_err(|e| Failure::failed(format!("the bare loop's target: {ready}: {e}")))?;
        Ok(Self { _child: child, address, settings })
    }

    /// One round.
    ///
    /// # Errors
    /// The system's reason.
    pub fn round(&self, size: u64, iov: u64, layout: Layout) -> Result<Bare, Failure> {
        let bytes = size / iov;
        let settings =
            CeilingSettings { bytes, working_set: layout.bytes().max(bytes), ..self.settings.clone() };
        self.run(&settings)
    }

    /// One round of any shape.
    ///
    /// # Errors
    /// The system's reason.
    pub fn run(&self, settings: &CeilingSettings) -> Result<Bare, Failure> {
        let report = initiate(settings, self.address);
        let mut report = report.map_err(|e| Failure::failed(format!("the bare loop: {e}")))?;
        report.batch_ns.sort_unstable();
        let bytes = report.bytes as f64;
        let per_gb = |cpu: Duration| ratio(cpu.as_nanos() as f64, bytes);
        Ok(Bare {
            gb_per_s: ratio(bytes, report.elapsed.as_nanos() as f64),
            p50_us: percentile_us(&report.batch_ns, 50),
            p99_us: percentile_us(&report.batch_ns, 99),
            cpu_s_per_gb_initiator: per_gb(report.cpu),
            cpu_s_per_gb_target: per_gb(report.target_cpu),
        })
    }
}

/// The bare loop's wait that is nearest to that of the pool which runs the stage of this kind.
fn wait_of(config: &Config, kind: &str) -> Wait {
    let stage = config.stages.iter().position(|s| s.kind == kind);
    let pool = stage.and_then(|i| config.blueprint.stages[i].pool).map(|p| &config.blueprint.pools[p]);
    pool.map_or(Wait::Park, |p| as_ours(&p.wait))
}

fn as_ours(wait: &pipeline_graph::blueprint::Wait) -> Wait {
    let us = wait.spin_ns.saturating_add(wait.yield_ns) / 1_000;
    match (wait.park_ns, us) {
        (0, _) => Wait::Spin,
        (_, 0) => Wait::Park,
        (_, us) => Wait::SpinThenPark(u16::try_from(us).unwrap_or(u16::MAX - 1)),
    }
}

/// The least of `sorted_ns` that so many percent do not exceed; 0 of none.
fn percentile_us(sorted_ns: &[u64], percent: usize) -> f64 {
    let rank = (sorted_ns.len() * percent).div_ceil(100).max(1);
    sorted_ns.get(rank - 1).map_or(0.0, |ns| *ns as f64 / 1e3)
}

fn cut(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The hidden command of its target process: tells its address, then serves one run after the other.
///
/// # Errors
/// 71 when it cannot listen.
pub fn target() -> Outcome {
    crate::cli::load::child::end_with_parent()?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Failure::system)?;
    println!("{}", listener.local_addr().map_err(Failure::system)?);
    std::io::stdout().flush().map_err(Failure::system)?;
    loop {
        // A run that breaks off is over; the next one may come.
        let _ = serve(&listener);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A percentile is a value that occurred, never below its share; nothing measured is zero.
    #[test]
    fn percentiles() {
        let ns: Vec<u64> = (1..=100).map(|i| i * 1_000).collect();
        assert_eq!((percentile_us(&ns, 50), percentile_us(&ns, 99)), (50.0, 99.0));
        assert_eq!((percentile_us(&ns[..1], 50), percentile_us(&ns[..3], 50)), (1.0, 2.0));
        assert_eq!(percentile_us(&[], 99), 0.0);
    }
}
