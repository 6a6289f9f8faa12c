//! The options of `compare`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::cli::load::Direction;

/// What every file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// One request of 4KiB at a time, then batches of 4KiB, 64KiB and 1MiB.
    Sweep,
    /// One request of 4KiB at a time, and nothing else.
    Latency,
    /// A trace of a KV cache, replayed as fast as the file lets it.
    Trace,
}

/// What the bytes go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Over {
    /// TCP.
    Tcp,
    /// One copy within this process.
    Loopback,
    /// A simulated NIC within this process: 5 us a request by the clock, DMA; only a timer wakes who parks.
    Sim,
}

impl Over {
    /// Its type in a file.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Loopback => "loopback",
            Self::Sim => "sim",
        }
    }
}

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
  pipeline-node compare a.toml b.toml --work latency --rounds 9 --seconds 1
  pipeline-node compare a.toml b.toml --target 10.0.0.2:7001 --segment kv --op read
  pipeline-node compare *.toml --work trace --trace conversation_trace.jsonl --limit 500
  pipeline-node compare *.toml --json | jq '{model, p50_us, idle_cpu_pct}'"
)]
pub struct Args {
    /// The files; a model is called as its file is.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// What every file does [default: sweep, with --trace: trace].
    #[arg(long, value_enum)]
    pub work: Option<Work>,
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
    /// Direction of sweep and latency [default: write].
    #[arg(long, value_enum)]
    pub op: Option<Direction>,
    /// Rounds; in each every file has its turn, and the bare loop.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=99))]
    pub rounds: u64,
    /// How long each cell runs in a round.
    #[arg(long, default_value_t = 0.3, value_name = "S", value_parser = seconds)]
    pub seconds: f64,
    /// Requests of a batch [default: 64, of a trace: 16].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub batch: Option<u64>,
    /// Batches in flight; requests of a trace that are open at a time [default: 4, of a trace: 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub depth: Option<u64>,
    /// The trace, as for `bench --trace`; without it one is made.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Its first N requests [default: 500 of a file, all of one that is made].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
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
    /// What to do.
    pub fn work(&self) -> Work {
        self.work.unwrap_or(if self.trace.is_some() { Work::Trace } else { Work::Sweep })
    }

    /// What it goes over.
    pub fn over(&self) -> Over {
        if self.in_process { Over::Loopback } else { self.over }
    }

    /// Direction.
    pub fn op(&self) -> Direction {
        self.op.unwrap_or(Direction::Write)
    }

    /// What was asked for and means nothing for this work, with what to do.
    pub fn without_meaning(&self) -> Option<&'static str> {
        let (work, is_trace) = (self.work(), self.work() == Work::Trace);
        if !is_trace && self.trace.is_some() {
            return Some("--trace is for --work trace; leave one of the two out");
        }
        if !is_trace && self.limit.is_some() {
            return Some("--limit counts requests of a trace; add --work trace, or leave it out");
        }
        if is_trace && self.op.is_some() {
            return Some(
                "--op is for sweep and latency: a trace says itself what is read and written; leave it out",
            );
        }
        if work == Work::Latency && (self.batch.is_some() || self.depth.is_some()) {
            return Some(
                "--batch and --depth are for sweep and trace: latency is one request at a time; leave them out",
            );
        }
        None
    }

    /// Requests of a batch.
    pub fn batch(&self) -> u64 {
        self.batch.unwrap_or(if self.work() == Work::Trace { 16 } else { 64 })
    }

    /// Batches, or requests of a trace, at a time.
    pub fn depth(&self) -> u64 {
        self.depth.unwrap_or(if self.work() == Work::Trace { 64 } else { 4 })
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.01..=600.0).contains(&s) => Ok(s),
        _ => Err("a number of seconds from 0.01 to 600".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Args {
        use clap::{Command, FromArgMatches as _};
        let command = Args::augment_args(Command::new("compare"));
        let matches = command.try_get_matches_from([&["compare", "x.toml"][..], words].concat()).unwrap();
        Args::from_arg_matches(&matches).unwrap()
    }

    /// What means nothing for the work is refused by name; what means something is taken, the defaults always.
    #[test]
    fn options_belong_to_their_work() {
        for (words, option) in [
            (&["--limit", "3"][..], "--limit"),
            (&["--work", "latency", "--limit", "3"], "--limit"),
            (&["--work", "sweep", "--trace", "x"], "--trace"),
            (&["--work", "trace", "--op", "write"], "--op"),
            (&["--trace", "x", "--op", "read"], "--op"),
            (&["--work", "latency", "--batch", "2"], "--batch"),
            (&["--work", "latency", "--depth", "2"], "--depth"),
        ] {
            let why = args(words).without_meaning();
            assert!(
                why.is_some_and(|why| why.starts_with(option) || why.contains(option)),
                "{words:?}: {why:?}"
            );
        }
        for words in [
            &[][..],
            &["--batch", "2", "--depth", "3", "--op", "read"],
            &["--work", "latency", "--op", "read"],
            &["--work", "trace", "--limit", "3", "--batch", "2", "--depth", "3"],
            &["--trace", "x", "--limit", "3"],
        ] {
            assert_eq!(args(words).without_meaning(), None, "{words:?}");
        }
    }

    /// Seconds are bounded, so that what is told beforehand holds.
    #[test]
    fn seconds_are_bounded() {
        assert_eq!(seconds("0.3"), Ok(0.3));
        assert!(["0", "601", "x", "nan", "-1"].iter().all(|wrong| seconds(wrong).is_err()));
    }
}
