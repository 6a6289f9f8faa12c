//! What is told of a what-if: in words with figures, or as one JSON object.

use serde::Serialize;

use super::calibration::Calibration;
use super::limit::Limit;
use super::model::Outcome;
use super::search::Choice;
use super::site::Site;
use crate::cli::work::Shape;

/// Of the JSON.
const SCHEMA_VERSION: u32 = 1;
/// Stages and threads that do less are left out of the text.
const QUIET_PCT: f64 = 0.05;

/// A file on a machine.
#[derive(Serialize)]
pub struct Told<'a> {
    schema_version: u32,
    machine: String,
    calibrated_on: &'a str,
    as_it_is: Vec<Side<'a>>,
    changes: &'a [(String, String)],
    chosen: Vec<Side<'a>>,
    took_s: f64,
}

/// One shape of work.
#[derive(Serialize)]
struct Side<'a> {
    work: String,
    gbit_per_s: f64,
    nic_share: f64,
    limit: &'a Limit,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

impl<'a> Side<'a> {
    fn all(choice: &'a Choice, shapes: &[Shape]) -> Vec<Self> {
        let sides = choice.outcomes.iter().zip(shapes);
        sides.map(|((outcome, limit), shape)| Self::of(outcome, limit, shape)).collect()
    }

    fn of(outcome: &'a Outcome, limit: &'a Limit, shape: &Shape) -> Self {
        Self {
            work: shape.words(),
            gbit_per_s: 8.0 * outcome.gb_per_s,
            nic_share: outcome.nics.iter().copied().fold(0.0, f64::max),
            limit,
            outcome,
        }
    }

    fn text(&self) -> String {
        let outcome = self.outcome;
        let mut text = format!(
            "  {}: {:.1} GB/s ({:.0} Gbit/s), {:.0} requests/s, p50 {:.0} us, p99 {:.0} us, {:.1} CPUs busy",
            self.work,
            outcome.gb_per_s,
            self.gbit_per_s,
            outcome.requests_per_s,
            outcome.p50_ns / 1e3,
            outcome.p99_ns / 1e3,
            outcome.cpus
        );
        if self.nic_share > 0.0 {
            text += &format!(", NICs {:.0} %", 100.0 * self.nic_share);
        }
        if outcome.memory > 0.0 {
            text += &format!(", memory {:.0} %", 100.0 * outcome.memory);
        }
        text += &format!("\n    limit: {}\n    stages:", self.limit.words);
        let busy = outcome.stages.iter().filter(|stage| stage.util_pct >= QUIET_PCT);
        let words: Vec<String> =
            busy.map(|stage| format!(" {} {:.1} %", stage.name, stage.util_pct)).collect();
        text + &words.join(",") + " of their workers' time\n"
    }
}

impl<'a> Told<'a> {
    /// All of it.
    pub fn new(
        site: &Site,
        shapes: &[Shape],
        calibration: &'a Calibration,
        as_it_is: &'a Choice,
        chosen: &'a Choice,
        took_s: f64,
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            machine: site.words(),
            calibrated_on: &calibration.machine,
            as_it_is: Side::all(as_it_is, shapes),
            changes: &chosen.changes,
            chosen: Side::all(chosen, shapes),
            took_s,
        }
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "a model, not a measurement: {}\ncosts measured on: {}\n\nas the file is:\n{}",
            self.machine,
            self.calibrated_on,
            texts(&self.as_it_is)
        );
        if self.changes.is_empty() {
            text += "\nno other sizes of threads, lanes, slices and window are faster there\n";
        } else {
            text += "\nit would choose:\n";
            for (key, value) in self.changes {
                text += &format!("  {key} = {value}\n");
            }
            text += &texts(&self.chosen);
        }
        text + &format!("\ntook {:.1} s\n", self.took_s)
    }
}

fn texts(sides: &[Side<'_>]) -> String {
    sides.iter().map(Side::text).collect()
}
