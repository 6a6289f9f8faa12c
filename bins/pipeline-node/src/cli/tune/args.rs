//! The options of `tune`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use super::bound::Bound;
use crate::cli::file::FileArgs;
use crate::cli::whatif::WhatIfArgs;
use crate::cli::work::WorkArgs;

/// What is made better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// Bytes a second: the geometric mean over the shapes of the work.
    Throughput,
    /// The median latency of one request at a time; p99 must not grow by more than a quarter, and twice the CPU time must bring 10 %.
    Latency,
    /// Bytes for a second of CPU time, of both sides; throughput must stay within 5 % of what it was.
    Efficiency,
}

/// What may be changed only if the user says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    /// Waits that never sleep: a CPU for each such thread, also while nothing is to do.
    Spin,
    /// A pool of kind `caller`: the application's own threads carry its transfers, and nothing goes on while they do not.
    Caller,
    /// `[node] cpu_dma_latency = "0us"`: no CPU of the machine halts or sleeps while the node runs, which costs power and takes root.
    Awake,
}

/// Let the machine find the sizes: threads, waits, queues, inline edges, slice size and lanes of a file, measured on the real
/// path.
///
/// It measures the file as it is, asks where the time goes, proposes changes, and lets them run against the file in turns, in
/// rounds that become fewer and longer. At the end old and new run once more in turns. It keeps the old when in doubt, so it may
/// answer that there is nothing to change. Without --target it measures against a process of its own on loopback.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Bounds (may be repeated; a file that breaks one is not tried, or does not win):
  threads<=4            threads of all pools that carry transfers
  queue<=256  lanes<=4  slice<=1MiB  every queue (batches), transport, slice
  pools.nic.threads<=2  one key, by its path
  bytes_in_flight<=1GiB  slices<=  requests<=   lets it raise this limit, up to there
  p99<=200us  p50<=50us  gb_per_s>=4  cpu_s_per_gb<=0.5   measured, of the work

Exit codes: 0 done (also when there is nothing to change), 1 failed, 2 usage, 65 a trace, a record or a
calibration makes no sense, 69 the target cannot be reached, goes away or has other traffic, 71 the
file does not start here, 78 it has findings.

Examples:
  pipeline-node tune -c node.toml                                 # prints a diff, changes nothing
  pipeline-node tune -c node.toml --goal latency --work latency --budget 60s
  pipeline-node tune -c node.toml --write                         # into the file, comments kept
  pipeline-node tune -c node.toml --write tuned.toml --bound 'threads<=2' --bound 'p99<=500us'
  pipeline-node tune -c node.toml --target 10.0.0.2:7001 --segment kv --op read
  pipeline-node tune -c node.toml --work trace:conversations.jsonl --goal efficiency --json
  pipeline-node tune -c node.toml --what-if 'cores=64 nics=8x400Gbit/s peers=1000'   # elsewhere, by a model
  pipeline-node tune -c node.toml --what-if here --against tests/whatif/*.toml        # how far the model is off")]
pub struct Args {
    /// The file, and what overrides it in all of its variants.
    #[command(flatten)]
    pub file: FileArgs,
    /// What is done, and measured.
    #[command(flatten)]
    pub work: WorkArgs,
    /// What is made better [default: throughput, with --work latency: latency].
    #[arg(long, value_enum)]
    pub goal: Option<Goal>,
    /// What must hold: 'threads<=4', 'p99<=200us'. May be repeated.
    #[arg(long, value_name = "BOUND", value_parser = Bound::parse)]
    pub bound: Vec<Bound>,
    /// How long it may take, all in all.
    #[arg(long, default_value = "120s", value_name = "TIME", value_parser = budget)]
    pub budget: Duration,
    /// Against this peer instead of a target of our own.
    #[arg(long, value_name = "PEER")]
    pub target: Option<String>,
    /// The target's segment; it must allow the operation.
    #[arg(long, default_value = "bench", value_name = "NAME")]
    pub segment: String,
    /// Measure although the target has other traffic: it disturbs that, and is disturbed by it.
    #[arg(long)]
    pub live: bool,
    /// Try what the file should not become without your word. May be repeated, or a list: spin,caller,awake.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub allow: Vec<Allow>,
    /// Write the changes into the file, or into FILE; without it they are printed as a diff.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub write: Option<Option<PathBuf>>,
    /// One JSON object a candidate, and one for all.
    #[arg(long)]
    pub json: bool,
    /// What it would be elsewhere.
    #[command(flatten)]
    pub what_if: WhatIfArgs,
}

impl Args {
    /// What is made better.
    pub fn goal(&self) -> Goal {
        let usual = match self.work.work() {
            crate::cli::work::args::Work::Latency => Goal::Latency,
            _ => Goal::Throughput,
        };
        self.goal.unwrap_or(usual)
    }
}

/// The shortest budget: enough to measure the file, and little else.
const BUDGET_MIN: Duration = Duration::from_secs(2);
/// The longest: nobody means more.
const BUDGET_MAX: Duration = Duration::from_secs(86_400);

fn budget(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write 120s, 10m or 1h");
    let time = pipeline_configs::units::nanos(text).ok().map(Duration::from_nanos);
    let time = time.ok_or_else(wrong)?;
    if (BUDGET_MIN..=BUDGET_MAX).contains(&time) { Ok(time) } else { Err("from 2s to 24h".into()) }
}
