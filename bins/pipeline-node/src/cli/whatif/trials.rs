//! What a calibration runs: cells of three subjects, all of them the preset `tcp`, so that what a file changes is predicted, not
//! fitted. One parked worker runs sizes, from which the costs of a call, an item and a byte show apart; the same with large requests
//! in small slices, which cost something else than small requests; and three workers, which have to share CPUs with each other
//! and with the target.

use pipeline_configs::Config;

use super::cell::{Cell, alone};
use crate::cli::exit::Failure;
use crate::cli::file;
use crate::cli::load::Direction;
use crate::cli::work::Shape;

/// A worker that sleeps at once: what its thread has used is then work and sleeps, and no looking around.
const PARKED: &str = "pools.nic.wait='park'";

/// What a cell is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// One request at a time: a sleep.
    Single,
    /// Small requests in batches: a request.
    Small,
    /// Sizes between.
    Middle,
    /// Requests of a size of which a few are in flight.
    Large,
    /// Large requests: a byte.
    Largest,
    /// The same the other way.
    Read,
    /// Large requests in small slices: a slice.
    Cut,
    /// Several workers.
    Crowd,
}

const ONE: &[&str] = &[PARKED];
/// So small that slices are most of what it costs, and a file's slices lie between these and the largest.
const CUT: &[&str] = &[PARKED, "stages.split.slice='2KiB'"];
const CROWD: &[&str] = &[PARKED, "pools.nic.threads=3", "transports.tcp.lanes=3"];
/// Subject, shape, direction.
type Plan = (About, &'static [&'static str], &'static str, Direction);
const PLANS: [Plan; 8] = [
    (About::Single, ONE, "1x4KiBx1", Direction::Write),
    (About::Small, ONE, "64x4KiBx4", Direction::Write),
    (About::Middle, ONE, "16x64KiBx4", Direction::Write),
    (About::Large, ONE, "8x256KiBx4", Direction::Write),
    (About::Largest, ONE, "8x1MiBx4", Direction::Write),
    (About::Read, ONE, "8x1MiBx4", Direction::Read),
    (About::Cut, CUT, "8x1MiBx4", Direction::Write),
    (About::Crowd, CROWD, "8x1MiBx4", Direction::Write),
];

/// One cell.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What it is for.
    pub about: About,
    /// How it is called.
    pub name: String,
    /// Who runs it.
    pub config: Config,
    /// What is asked.
    pub shape: Shape,
    subject: &'static [&'static str],
}

/// All of them, those of a subject one after the other.
///
/// # Errors
/// None: the preset is part of the program.
pub fn trials() -> Result<Vec<Trial>, Failure> {
    let trial = |(about, subject, text, op): &Plan| {
        let set: Vec<String> = subject.iter().map(|&set| set.to_owned()).collect();
        let what = match about {
            About::Read => " read",
            About::Cut => " cut",
            About::Crowd => " crowd",
            _ => "",
        };
        Ok(Trial {
            about: *about,
            name: format!("{text}{what}"),
            // Without its warnings: they would be about our choice, not about anybody's file.
            config: file::source(None, &set).load().map_err(|findings| file::refused(&findings))?.config,
            shape: Shape::parse(text).map_err(Failure::usage)?.towards(*op),
            subject,
        })
    };
    PLANS.iter().map(trial).collect()
}

/// The shapes of all of them.
pub fn shapes(trials: &[Trial]) -> Vec<Shape> {
    trials.iter().map(|trial| trial.shape).collect()
}

/// The same, those of a subject together.
pub fn subjects(trials: &[Trial]) -> impl Iterator<Item = &[Trial]> {
    trials.chunk_by(|a, b| a.subject == b.subject)
}

/// The cell in the middle by throughput, of those that had so many CPUs to themselves.
pub fn middle<'a>(cells: impl Iterator<Item = &'a Cell>, cores: f64) -> Cell {
    let mut cells = alone(cells, cores);
    cells.sort_by(|a, b| a.gb_per_s.total_cmp(&b.gb_per_s));
    cells.get(cells.len() / 2).map_or_else(Cell::default, |cell| (*cell).clone())
}
