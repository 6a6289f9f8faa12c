//! The options of records. Deliberately beside those of the loop: both take the target, `--memory`, `--json` and the thresholds.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::play::Pace;
use crate::cli::exit::{Failure, Outcome};

/// `--record`, `--replay` and what belongs to them.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Records of what was submitted")]
pub struct RecordArgs {
    /// Keep what is submitted in the timed loops in this file: sizes, gaps, peers and batches, one JSON object a batch
    /// (docs/records.md).
    #[arg(long, value_name = "FILE", conflicts_with = "ceiling_only")]
    pub record: Option<PathBuf>,
    /// Play such a file instead of the loop: each batch when it came, or faster. Peers of the file are the targets in turn.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "trace", "op", "size", "sweep", "batch", "iov", "threads", "seconds", "iterations", "rounds", "rate", "check",
            "ceiling_only"
        ]
    )]
    pub replay: Option<PathBuf>,
    /// So many times as fast as in the file; latency is from the intended time [default: 1].
    #[arg(long, value_name = "X", value_parser = speed, conflicts_with = "asap")]
    pub speed: Option<f64>,
    /// As soon as --depth lets it; latency is from the submit.
    #[arg(long)]
    pub asap: bool,
}

impl RecordArgs {
    /// Whether what is played would be written over while it plays: a record that somebody else may not be able to make again.
    ///
    /// # Errors
    /// 2, with what to do.
    pub fn plays_over_itself(&self) -> Outcome {
        let place = |path: &Option<PathBuf>| {
            path.as_ref().and_then(|path| std::fs::metadata(path).ok()).map(|file| (file.dev(), file.ino()))
        };
        match (place(&self.record), place(&self.replay)) {
            (Some(made), Some(played)) if made == played => Err(Failure::usage(
                "--record would write over what --replay plays; name another file with --record",
            )),
            _ => Ok(()),
        }
    }

    /// How fast to play, with so many batches in flight if it is as fast as possible.
    pub fn pace(&self, depth: u64) -> Pace {
        if self.asap { Pace::Asap(depth) } else { Pace::Times(self.speed.unwrap_or(1.0)) }
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(times) if (0.001..=1e6).contains(&times) => Ok(times),
        _ => Err("a number from 0.001 to 1e6; --asap for as fast as possible".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speeds are numbers within reason; without one a record is played as it was.
    #[test]
    fn speeds() {
        assert_eq!(speed("2.5"), Ok(2.5));
        assert!(["", "0", "-1", "inf", "nan", "1e7", "max"].iter().all(|wrong| speed(wrong).is_err()));
        assert_eq!(RecordArgs::default().pace(7), Pace::Times(1.0));
        assert_eq!(RecordArgs { asap: true, ..RecordArgs::default() }.pace(7), Pace::Asap(7));
    }
}
