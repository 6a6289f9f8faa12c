//! The options of a replay. Deliberately beside those of the loop: both take the target, `--memory`, `--check`, `--json`
//! and the thresholds.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::kv::Kv;
use crate::cli::quantity::bytes;

/// Bytes of a block when nobody says.
const BLOCK_BYTES: u64 = 64 << 10;
/// Blocks asked for together when nobody says.
const BATCH: u64 = 16;

/// How a block lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// All of it in one run.
    Block,
    /// A run for each layer, for keys and for values.
    Layer,
}

/// What the peers hold when the replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fill {
    /// Every block of the trace: one that is not held here is READ.
    Warm,
    /// Nothing: a block that nobody has seen is made here and WRITTEN to the peer that will keep it.
    Cold,
}

impl Fill {
    /// As in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

/// How fast time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// A request begins as soon as `--depth` lets it.
    Max,
    /// So many times as fast as in the file.
    Times(f64),
}

/// `--trace` and what belongs to it.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Replay of a trace of a KV cache")]
pub struct TraceArgs {
    /// Replay this trace instead: one JSON object a line with timestamp (ms), input_length, output_length, hash_ids.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["op", "size", "sweep", "threads", "seconds", "iterations", "rounds", "rate"]
    )]
    pub trace: Option<PathBuf>,
    /// Bytes of a block; --iov cuts it into pieces [default: 64KiB].
    #[arg(long, value_name = "BYTES", value_parser = bytes, conflicts_with = "kv")]
    pub block_bytes: Option<u64>,
    /// Blocks of this model on one of N ranks, as in llama-3.1-70b:tp8; the table is in docs/traces.md.
    #[arg(long, value_name = "MODEL:tpN", value_parser = Kv::parse, conflicts_with = "iov")]
    pub kv: Option<Kv>,
    /// How a block of --kv lies in memory [default: layer].
    #[arg(long, value_enum)]
    pub layout: Option<Shape>,
    /// Tokens of a block.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub block_tokens: u64,
    /// What the peers hold when the replay begins.
    #[arg(long, value_enum, default_value = "warm")]
    pub store: Fill,
    /// So many times as fast as in the file, or `max`: each request as soon as --depth lets it.
    #[arg(long, default_value = "max", value_name = "N", value_parser = speed)]
    pub speedup: Speed,
    /// Replay the first N requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
}

impl TraceArgs {
    /// Bytes of a block, and the pieces it lies in.
    pub fn block(&self, iov: u64) -> (u64, u64) {
        match (&self.kv, self.layout) {
            (None, _) => (self.block_bytes.unwrap_or(BLOCK_BYTES), iov),
            (Some(kv), Some(Shape::Block)) => (kv.bytes(self.block_tokens), 1),
            (Some(kv), _) => (kv.bytes(self.block_tokens), kv.runs()),
        }
    }

    /// Blocks asked for together, of those a request needs.
    pub fn batch(asked: Option<u64>) -> u64 {
        asked.unwrap_or(BATCH)
    }
}

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    match text.parse() {
        Ok(times) if (0.001..=1e6).contains(&times) => Ok(Speed::Times(times)),
        _ => Err("`max`, or a number from 0.001 to 1e6".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speeds are numbers within reason, or `max`.
    #[test]
    fn speeds() {
        assert_eq!((speed("max"), speed("2.5")), (Ok(Speed::Max), Ok(Speed::Times(2.5))));
        for wrong in ["", "0", "-1", "inf", "nan", "1e7", "fast"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
