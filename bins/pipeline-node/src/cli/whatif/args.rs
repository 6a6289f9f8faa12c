//! The options of a what-if: part of those of `tune`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::site::Site;
use crate::cli::exit::Failure;
use crate::cli::work::args::Work;
use crate::cli::work::{Course, Shape, WorkArgs};

/// Rounds of `--against`, if nobody says otherwise.
const ROUNDS: u64 = 7;
/// What is asked of a file that is held against the model: large requests, so that slices of all sizes differ.
const AGAINST: &str = "8x1MiBx4";
/// What is asked of one on another machine: what moves a cache, blocks of 64 KiB, and weights.
const USUAL: [&str; 2] = ["64x64KiBx4", "8x1MiBx4"];
const LATENCY: &str = "1x4KiBx1";

/// What a model does not do: it changes no file, asks no target, and is done when it is done.
const MEASURED: [&str; 8] = ["goal", "bound", "budget", "target", "segment", "live", "allow", "write"];

/// See the file's head.
#[derive(Debug, ClapArgs)]
pub struct WhatIfArgs {
    /// Change nothing: say what would limit the file on another machine, and which sizes it would take there, by a model
    /// that is fed with costs measured on this one: 'cores=64 nics=8x400Gbit/s peers=1000 [rtt=20us] [memory=300GB/s]',
    /// or 'here'.
    #[arg(long, value_name = "MACHINE", value_parser = Site::parse, conflicts_with_all = MEASURED)]
    pub what_if: Option<Site>,
    /// With --what-if here: measure these files and print how far the model is off for each.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub against: Vec<PathBuf>,
    /// With --what-if: requests of a batch, their size, batches in flight, as in 8x1MiBx4; may be repeated [default: as --work
    /// says].
    #[arg(long, value_name = "SHAPE", value_parser = Shape::parse)]
    pub shape: Vec<Shape>,
    /// With --what-if: costs measured before, by --save, maybe on another machine, in place of fifteen seconds of measuring.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// With --what-if: keep the measured costs in a file.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// With --against: how often each file is measured.
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(1..=999))]
    pub rounds: u64,
}

impl WhatIfArgs {
    /// What is asked of the file. Of a trace or a record that is what it does most: batches of its mean length, of requests of
    /// its mean size.
    ///
    /// # Errors
    /// Options that do not go together, and a trace or a record that cannot be read.
    pub fn shapes(&self, work: &WorkArgs) -> Result<Vec<Shape>, Failure> {
        if let Some(why) = work.without_meaning() {
            return Err(Failure::usage(why));
        }
        let (op, is_said) = (work.op(), work.batch.is_some() || work.depth.is_some());
        let is_loop = !matches!(work.work(), Work::Trace(_) | Work::Record(_));
        if is_said && (is_loop || !self.shape.is_empty()) {
            return Err(Failure::usage(
                "--batch and --depth are in a shape already, as in --shape 8x1MiBx4; leave them out",
            ));
        }
        if !self.shape.is_empty() {
            return Ok(self.shape.iter().map(|shape| shape.towards(op)).collect());
        }
        let texts = match work.work() {
            Work::Trace(_) | Work::Record(_) => return Ok(Course::new(work)?.shapes),
            Work::Latency => &[LATENCY][..],
            Work::Sweep if !self.against.is_empty() => &[AGAINST],
            Work::Sweep => &USUAL,
        };
        let shape = |text: &&str| Shape::parse(text).map(|shape| shape.towards(op)).map_err(Failure::usage);
        texts.iter().map(shape).collect()
    }
}
