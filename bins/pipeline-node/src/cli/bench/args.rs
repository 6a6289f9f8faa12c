//! The options of `bench`, and the sizes they ask for.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use pipeline_node::{Peer, Segment};
use pipeline_transports::mooncake::MEMORY;

use super::record::RecordArgs;
use super::trace::TraceArgs;
use crate::cli::exit::Failure;
use crate::cli::load::Direction;
use crate::cli::quantity::{bytes, positive};
use crate::cli::work::memory_of;

/// Measure what a pipeline does: one line a size, a table by stage, and the ceiling in the same run.
///
/// Without --target it starts a target process of its own on loopback. GB = 10^9 bytes; latency is submit to
/// done, and done means that the target has applied the last byte; peak is the best 100 ms.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node bench                                          # a sweep, 4KiB to 64MiB, on loopback
  pipeline-node bench --size 4KiB --depth 64 --json
  pipeline-node bench --size 1MiB --ceiling-only               # what TCP gives here, without a pipeline
  pipeline-node bench --target 10.0.0.2:7001 --segment kv --op read --size 1MiB
  pipeline-node bench -c node.toml --target mooncake://10.0.0.2:15123 --size 1MiB --check   # a peer that runs another engine
  pipeline-node bench --size 1MiB --min-gb-per-s 5 --max-p99-us 2000   # exit 3 when missed
  pipeline-node bench --trace conversation_trace.jsonl --kv llama-3.1-70b:tp8 --limit 500 --memory 8GiB --check
  pipeline-node bench --size 64KiB --rate 20000 --record load.jsonl   # keep the stream of requests (docs/records.md)
  pipeline-node bench --replay load.jsonl --speed 2 -c node.toml      # play it, twice as fast")]
pub struct Args {
    /// Measure against this peer instead of a target of our own. With --trace it may be repeated, or a list: A,B.
    #[arg(long, value_name = "PEER", value_delimiter = ',')]
    pub target: Vec<String>,
    /// The target's segment; it must allow the operation [default: bench; buffer-0 of a peer that runs another engine].
    #[arg(long, value_name = "NAME")]
    segment: Option<String>,
    /// The file that declares the pipeline of this side [default: the preset `tcp`].
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Override a value of the file: 'pools.nic.threads=2'. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Direction.
    #[arg(long, value_enum, default_value = "write")]
    pub op: Direction,
    /// Bytes a request. May be repeated, or a list: 4KiB,1MiB.
    #[arg(long, value_parser = bytes, value_delimiter = ',', value_name = "BYTES", conflicts_with = "sweep")]
    pub size: Vec<u64>,
    /// Sizes FROM..TO, doubling [default, without --size: 4KiB..64MiB].
    #[arg(long, value_name = "FROM..TO", value_parser = sweep)]
    pub sweep: Option<Sweep>,
    /// Requests a batch [default: 1]. The latency of a request is that of its batch. With --trace: blocks of a request
    /// submitted together [default: 16].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub batch: Option<u64>,
    /// Batches in flight, a thread. With --trace: requests of it that are open at a time. With --replay: for --asap.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub depth: u64,
    /// Pieces a request (with --trace: a block) is scattered over, 1 to 256; each goes to a place of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub iov: u64,
    /// Size of a slice, for `request_split` (short for --set stages.split.slice=…).
    #[arg(long, value_name = "BYTES")]
    pub slice: Option<String>,
    /// Threads that submit.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub threads: u64,
    /// How long each round of a size runs.
    #[arg(long, default_value_t = 1.0, value_name = "S", conflicts_with = "iterations", value_parser = seconds)]
    pub seconds: f64,
    /// Batches each thread runs in a round, instead of a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,
    /// Rounds a size; each runs the bare loop and the pipeline, and medians are reported.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=99))]
    pub rounds: u64,
    /// Requests a second, in all; latency is then measured from the intended time.
    #[arg(long, value_name = "REQ/S", value_parser = rate)]
    pub rate: Option<f64>,
    /// Bytes of memory used on each side, at most; places are used again beyond it. With --trace: what the cache here
    /// holds.
    #[arg(long, default_value = "256MiB", value_parser = bytes, value_name = "BYTES")]
    pub memory: u64,
    /// Verify every byte after each size (with --trace: of each block), and count wrong ones.
    #[arg(long)]
    pub check: bool,
    /// Leave the bare loop out.
    #[arg(long)]
    pub no_ceiling: bool,
    /// Run nothing but the bare loop: what TCP gives here with this file's lanes, congestion control and wait.
    #[arg(long, conflicts_with_all = ["no_ceiling", "target", "trace", "check", "rate", "min_gb_per_s", "max_p99_us"])]
    pub ceiling_only: bool,
    /// One JSON object a size instead of the tables.
    #[arg(long)]
    pub json: bool,
    /// Exit 3 if a size stays below this.
    #[arg(long, value_name = "GB/S", value_parser = positive)]
    pub min_gb_per_s: Option<f64>,
    /// Exit 3 if the p99 of a size is above this.
    #[arg(long, value_name = "US", value_parser = positive)]
    pub max_p99_us: Option<f64>,
    /// A trace instead of the loop.
    #[command(flatten)]
    pub replay: TraceArgs,
    /// What is submitted kept, or played.
    #[command(flatten)]
    pub records: RecordArgs,
}

/// Sizes that double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    from: u64,
    to: u64,
}

impl Args {
    /// The segment of a target of our own, and of one of this kind.
    pub fn segment(&self) -> &str {
        self.segment.as_deref().unwrap_or("bench")
    }

    /// The segment of this target.
    ///
    /// # Errors
    /// It has none of that name, or one that does not begin at offset 0.
    pub fn segment_of(&self, peer: &Peer) -> Result<Segment, Failure> {
        let name = match peer.is_foreign() {
            true => self.segment.as_deref().unwrap_or("buffer-0"),
            false => self.segment(),
        };
        if peer.is_foreign() && name == MEMORY {
            return Err(Failure::usage(format!(
                "segment `{MEMORY}` of {} has its memory by address, and this begins at offset 0; name one of its buffers, as \
                 `--segment buffer-0`",
                peer.label()
            )));
        }
        memory_of(peer, name)
    }

    /// Requests a batch of the loop.
    pub fn batch(&self) -> u64 {
        self.batch.unwrap_or(1)
    }

    /// The sizes to run, in order.
    pub fn sizes(&self) -> Vec<u64> {
        if !self.size.is_empty() {
            return self.size.clone();
        }
        self.sweep.unwrap_or(Sweep { from: 4 << 10, to: 64 << 20 }).sizes()
    }
}

impl Sweep {
    fn sizes(self) -> Vec<u64> {
        std::iter::successors(Some(self.from), |s| s.checked_mul(2)).take_while(|s| *s <= self.to).collect()
    }
}

fn sweep(text: &str) -> Result<Sweep, String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO, as in 4KiB..64MiB")?;
    let (from, to) = (bytes(from)?, bytes(to)?);
    if from > to {
        return Err(format!("{from} is more than {to}: write the smaller size first"));
    }
    Ok(Sweep { from, to })
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.01..=86_400.0).contains(&s) => Ok(s),
        _ => Err("a number of seconds from 0.01 to 86400".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(r) if (0.001..=1e9).contains(&r) => Ok(r),
        _ => Err("requests a second, from 0.001 to 1e9".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep doubles from its first size and includes its last; it cannot run away at 64 bits.
    #[test]
    fn sweeps() {
        assert_eq!(sweep("4KiB..16KiB").unwrap().sizes(), [4096, 8192, 16384]);
        assert_eq!(sweep("3..7").unwrap().sizes(), [3, 6]);
        assert_eq!(Sweep { from: 1 << 63, to: u64::MAX }.sizes(), [1 << 63]);
        for wrong in ["4KiB", "2..1", "0..1", "a..b"] {
            assert!(sweep(wrong).is_err(), "{wrong}");
        }
    }
}
