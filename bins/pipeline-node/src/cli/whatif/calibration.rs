//! A calibration: what was measured on a machine, and the costs that follow from it; kept as JSON, so that a model can be run
//! elsewhere. What is run is in [`super::trials`], what follows in [`super::costing`].

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::costing;
use super::measure::{about_s, announce, opposite, round};
use super::micro::Micro;
use super::model::costs::Costs;
use super::site::Site;
use super::trials::{Trial, middle, shapes, trials};
use crate::cli::exit::Failure;
use crate::cli::load::machine::machine;
use crate::cli::load::tally::median;
use crate::cli::put::put;
use crate::cli::work::Against;

/// Of the format.
const SCHEMA_VERSION: u32 = 2;
/// Bytes of a file of costs, at most: it has some ten thousand.
const BYTES_MAX: u64 = 1 << 20;
/// How long each cell, in each round.
const CELL: Duration = Duration::from_millis(250);
/// Rounds; the middle one of each size counts.
const ROUNDS: usize = 5;

/// See the file's head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Of this format.
    pub schema_version: u32,
    /// The machine, in words.
    pub machine: String,
    /// Its CPUs.
    pub cores: f64,
    /// What was run.
    pub cells: Vec<Ran>,
    /// What follows.
    pub costs: Costs,
    /// How much longer than in the model the p99 of a batch is, for a median as long: what the scheduler, interrupts and
    /// other guests of the host do to it.
    pub stretch: f64,
}

/// A cell, for who reads the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Its shape.
    pub shape: String,
    /// Rounds in which it had the CPUs to itself: those count, if there are any.
    #[serde(default)]
    pub rounds_alone: usize,
    /// What it came to.
    pub gb_per_s: f64,
    /// What the model says of it.
    pub model_gb_per_s: f64,
    /// Seconds of CPU time for 10⁹ bytes.
    pub cpu_s_per_gb_initiator: f64,
    /// Of the target.
    pub cpu_s_per_gb_target: f64,
    /// Of both, in the model.
    pub model_cpu_s_per_gb: f64,
}

/// What is measured in one round.
pub struct Round {
    /// By trial.
    pub cells: Vec<Cell>,
    /// What was measured by itself.
    pub micro: Micro,
}

impl Round {
    /// All trials once.
    ///
    /// # Errors
    /// As of [`round`].
    pub fn take(trials: &[Trial], against: &Against, cell: Duration) -> Result<Self, Failure> {
        Ok(Self { cells: round(trials, against, cell)?, micro: Micro::take() })
    }
}

impl Calibration {
    /// Measures this machine: about fifteen seconds.
    ///
    /// # Errors
    /// When the preset does not start here, or the target does not; when nothing moves with what was measured.
    pub fn take() -> Result<Self, Failure> {
        let trials = trials()?;
        announce("measuring what things cost here", ROUNDS as f64 * about_s(&trials, CELL));
        let opposite = opposite(&shapes(&trials))?;
        let rounds =
            (0..ROUNDS).map(|_| Round::take(&trials, &opposite, CELL)).collect::<Result<Vec<_>, _>>()?;
        let taken = Self::of(&trials, &rounds);
        taken.tell_of_others();
        taken.judged()
    }

    /// Says on stderr where others used the CPUs beside it.
    pub fn tell_of_others(&self) {
        let (busy, all) = (self.cells.iter().filter(|cell| cell.rounds_alone == 0).count(), self.cells.len());
        if busy > 0 {
            eprintln!(
                "# other programs used the CPUs in every round of {busy} of {all} cells, so costs are less certain; best run this again \
                 when nothing else runs"
            );
        }
    }

    /// Itself, if anything moves with it.
    fn judged(self) -> Result<Self, Failure> {
        match self.cells.iter().find(|cell| cell.model_gb_per_s <= 0.0) {
            Some(cell) => Err(Failure::failed(format!(
                "with the costs that were measured nothing moves in `{}`; run this again when nothing else runs",
                cell.shape
            ))),
            None => Ok(self),
        }
    }

    /// From rounds.
    pub fn of(trials: &[Trial], rounds: &[Round]) -> Self {
        let cores = Site::here().cores;
        let nth = |i: usize| rounds.iter().filter_map(move |round| round.cells.get(i));
        let cells: Vec<Cell> = (0..trials.len()).map(|i| middle(nth(i), cores)).collect();
        let micro = Micro::middle(&rounds.iter().map(|round| round.micro).collect::<Vec<_>>());
        let costs = costing::costs(trials, &cells, &micro);
        let mut stretches = Vec::new();
        let ran = trials.iter().zip(&cells).enumerate().map(|(i, (trial, cell))| {
            let outcome = costing::run(trial, &costs);
            if let Some(outcome) = &outcome {
                let seen = cell.p99_us / cell.p50_us.max(1e-3);
                stretches.push(seen / (outcome.p99_ns / outcome.p50_ns.max(1.0)).max(1.0));
            }
            Ran {
                shape: trial.name.clone(),
                rounds_alone: nth(i).filter(|cell| cell.is_alone(cores)).count(),
                gb_per_s: cell.gb_per_s,
                model_gb_per_s: outcome.as_ref().map_or(0.0, |outcome| outcome.gb_per_s),
                model_cpu_s_per_gb: outcome.map_or(0.0, |outcome| outcome.cpus / outcome.gb_per_s.max(1e-9)),
                cpu_s_per_gb_initiator: cell.cpu_s_per_gb() - cell.target_ns / cell.bytes.max(1.0),
                cpu_s_per_gb_target: cell.target_ns / cell.bytes.max(1.0),
            }
        });
        let ran = ran.collect();
        Self {
            schema_version: SCHEMA_VERSION,
            machine: machine().join("; "),
            cores,
            cells: ran,
            stretch: median(&mut stretches).max(1.0),
            costs,
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// 71 when it cannot be read, 65 when it is none, or of another version.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let mut text = String::new();
        let file = File::open(path).map_err(|e| Failure::system(format!("{name}: {e}")))?;
        let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|e| Failure::system(format!("{name}: {e}")))?;
        if text.len() as u64 > BYTES_MAX {
            return Err(Failure::data(format!(
                "{name} is no calibration: it has more than {} KiB",
                BYTES_MAX >> 10
            )));
        }
        let read: Self = serde_json::from_str(&text)
            .map_err(|e| Failure::data(format!("{name} is no calibration: {e}; take one with --save")))?;
        if read.schema_version != SCHEMA_VERSION {
            let version = read.schema_version;
            return Err(Failure::data(format!(
                "{name} is of version {version}, and this program reads {SCHEMA_VERSION}; take one anew with --save"
            )));
        }
        let no_sense = |why| Failure::data(format!("{name} is no calibration: {why}; take one with --save"));
        read.costs.check().map_err(no_sense)?;
        Ok(read)
    }

    /// Writes it, as a whole or not at all.
    ///
    /// # Errors
    /// 71 when it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).map_err(Failure::system)?;
        put(path, &(text + "\n")).map_err(Failure::system)
    }
}
