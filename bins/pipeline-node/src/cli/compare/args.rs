//! The options of `compare`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::cli::work::args::seconds;
use crate::cli::work::{Over, Whom, WorkArgs};

/// See in one table what threading models cost: every file does the same work, in turns, against one target.
///
/// Each round begins with another file. While one file's engine runs no other one does: it is started, warmed, measured,
/// left idle and stopped. The target is a node of our own whose threads sleep, in a process of its own, the same for all. All
/// files must meet it, so their transports are replaced by one kind (--over), and their segments and addresses are left out.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Columns (medians of the rounds; the best one is bold on a terminal, else it has a *):
  hops           items popped from queues, a request of 4KiB at a time
  wakes          how often threads of this side slept and were woken, a request of 4KiB at a time
  p50 p99 p99.9  submit to done, us, one request of 4KiB at a time
  CPU us         CPU time of this side, the application's thread too, a request of 4KiB at a time
  GB/s           10^9 bytes a second, batches of 4KiB, 64KiB, 1MiB
  Mslices/s      10^6 slices a second, the same batches
  CPU s/GB       CPU seconds of initiator and target for 10^9 bytes, batches of 64KiB
  idle%          CPU of the started engine with nothing to do, percent of a core
  queues         memory of all bounded queues, from the plan
  spin/CPUs      threads that do not sleep while there is work, and CPUs; ! over-subscribed
  spread         (most - least) / median over the rounds (not of one), the largest of p50 and GB/s

How the application waits follows `via` of completion_notify: with \"event\" it sleeps, with
\"eventfd\" it polls a descriptor, else it polls the batch. A file whose transports all move bytes by
DMA is n/a where a CPU copies.

Examples:
  pipeline-node compare configs/models/*.toml                 # over loopback TCP
  pipeline-node compare configs/models/*.toml --in-process    # without sockets: what threads cost
  pipeline-node compare a.toml b.toml --work latency --rounds 99 --seconds 0.05 --no-idle
  pipeline-node compare a.toml b.toml --target 10.0.0.2:7001 --segment kv --op read
  pipeline-node compare *.toml --work trace --trace conversation_trace.jsonl --limit 500
  pipeline-node compare *.toml --json | jq '{model, p50_us, idle_cpu_pct}'"
)]
pub struct Args {
    /// The files; a model is called as its file is.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// What every file does.
    #[command(flatten)]
    pub work: WorkArgs,
    /// What the bytes go over, whatever the files declare.
    #[arg(long, value_enum, default_value = "tcp")]
    pub over: Over,
    /// Within this process, without sockets for payload: short for --over loopback.
    #[arg(long, conflicts_with = "over")]
    pub in_process: bool,
    /// Against this peer instead of a target of our own.
    #[arg(long, value_name = "PEER")]
    pub target: Option<String>,
    /// The target's segment; it must allow the operation.
    #[arg(long, default_value = "bench", value_name = "NAME")]
    pub segment: String,
    /// Rounds; in each every file has its turn, and the bare loop.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=999))]
    pub rounds: u64,
    /// How long each cell runs in a round.
    #[arg(long, default_value_t = 0.3, value_name = "S", value_parser = seconds)]
    pub seconds: f64,
    /// Leave the bare loop out; then no round is left out because that was slow.
    #[arg(long)]
    pub no_ceiling: bool,
    /// Leave out what a started engine uses with nothing to do: half a second less a turn, for many short rounds.
    #[arg(long)]
    pub no_idle: bool,
    /// Override a value of every file: 'limits.slices=4096'. May be repeated; the last one wins.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// One JSON object a file.
    #[arg(long)]
    pub json: bool,
    /// The table as markdown, each figure with its least and most.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

impl Args {
    /// What it goes over.
    pub fn over(&self) -> Over {
        if self.in_process { Over::Loopback } else { self.over }
    }

    /// The target.
    pub fn whom(&self) -> Whom<'_> {
        Whom { peer: self.target.as_deref(), segment: &self.segment, over: self.over() }
    }
}
