//! The proof: files are predicted and measured on this machine, and the errors are printed.
//!
//! A calibration and all files take turns, round by round, so that all of them meet the machine in the same moods; medians are
//! compared. Deliberately without a look at what was measured before all is predicted: the model knows the calibration's cells
//! and the files, nothing else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pipeline_configs::Config;
use serde::Serialize;

use super::calibration::{Calibration, Round};
use super::cell::{Cell, alone};
use super::lower::{Given, lower};
use super::measure::{START_S, about_s, announce, cell, opposite, start};
use super::model::simulate;
use super::site::Site;
use super::trials::{shapes, trials};
use crate::cli::exit::Failure;
use crate::cli::file;
use crate::cli::load::tally::median;
use crate::cli::work::{Application, Shape};

/// How long a file runs in a round, and the calibration's cells.
const CELL: Duration = Duration::from_millis(400);
const CALIBRATION_CELL: Duration = Duration::from_millis(250);
/// What the model runs.
const WARM_NS: f64 = 50e6;
const RUN_NS: f64 = 400e6;
/// An error in throughput up to here is a hit.
pub const WITHIN: f64 = 0.15;

/// A file, held against the model.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its name.
    pub file: String,
    /// What was asked of it.
    pub work: String,
    /// 10⁹ bytes a second, measured: the median of the rounds.
    pub measured_gb_per_s: f64,
    /// The least and the most of the rounds.
    pub measured_range: [f64; 2],
    /// Predicted.
    pub predicted_gb_per_s: f64,
    /// Predicted over measured, less one, percent.
    pub error_pct: f64,
    /// Rounds, and those of them that count: nobody else used the CPUs. If none does, all do.
    pub rounds: [usize; 2],
    /// Microseconds from submit to done.
    pub measured_p99_us: f64,
    /// Predicted.
    pub predicted_p99_us: f64,
    /// Percent.
    pub p99_error_pct: f64,
    /// CPU time of both ends, seconds for 10⁹ bytes.
    pub measured_cpu_s_per_gb: f64,
    /// Predicted.
    pub predicted_cpu_s_per_gb: f64,
}

struct Contender {
    name: String,
    config: Config,
    application: Application,
    /// By round and shape.
    rounds: Vec<Vec<Cell>>,
}

/// Measures and predicts; the calibration is taken beside the files unless there is one.
///
/// # Errors
/// Of the first file that does not load, start or work.
pub fn run(
    files: &[PathBuf],
    asked: &[Shape],
    rounds: usize,
    given: Option<Calibration>,
) -> Result<(Calibration, Vec<Line>), Failure> {
    let mut contenders = files.iter().map(|file| contender(file)).collect::<Result<Vec<_>, _>>()?;
    let trials = trials()?;
    let mut all = shapes(&trials);
    all.extend_from_slice(asked);
    let cells_s = files.len() as f64 * (START_S + asked.len() as f64 * CELL.as_secs_f64());
    let trials_s = if given.is_none() { about_s(&trials, CALIBRATION_CELL) } else { 0.0 };
    announce("measuring", rounds as f64 * (cells_s + trials_s));
    let opposite = opposite(&all)?;
    let mut measured = Vec::new();
    for nth in 0..rounds {
        if given.is_none() {
            measured.push(Round::take(&trials, &opposite, CALIBRATION_CELL)?);
        }
        let n = contenders.len();
        for i in 0..n {
            // Each round begins with another file.
            let contender = &mut contenders[(i + nth) % n];
            let session = start(&contender.config, contender.application.waits, &opposite, asked)?;
            let cells = asked.iter().map(|shape| cell(&session, &opposite, shape, CELL));
            contender.rounds.push(cells.collect::<Result<_, _>>()?);
        }
    }
    let calibration = given.unwrap_or_else(|| {
        let taken = Calibration::of(&trials, &measured);
        taken.tell_of_others();
        taken
    });
    let one = |contender| (0..asked.len()).map(move |i| (contender, i));
    let all = contenders.iter().flat_map(one);
    let lines = all.map(|(contender, i)| line(contender, i, &asked[i], &calibration));
    Ok((calibration.clone(), lines.collect::<Result<_, _>>()?))
}

fn contender(path: &Path) -> Result<Contender, Failure> {
    let config = file::load(&file::source(Some(path), &[]))?.config;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    Ok(Contender { name, application: Application::of(&config), config, rounds: Vec::new() })
}

fn line(contender: &Contender, i: usize, shape: &Shape, calibration: &Calibration) -> Result<Line, Failure> {
    let site = Site::here();
    let waits = contender.application.waits;
    let given = Given { site: &site, costs: &calibration.costs, waits, callers: 1 };
    let setup = lower(&contender.config, &given, shape).map_err(Failure::data)?;
    let outcome = simulate(&setup, WARM_NS, RUN_NS);
    let all = || contender.rounds.iter().map(|cells| &cells[i]);
    let cells = alone(all(), site.cores);
    let counts = all().filter(|cell| cell.is_alone(site.cores)).count();
    let of = |figure: fn(&Cell) -> f64| -> Vec<f64> { cells.iter().map(|cell| figure(cell)).collect() };
    let speeds = of(|cell| cell.gb_per_s);
    let range = [f64::min, f64::max].map(|f| speeds.iter().copied().reduce(f).unwrap_or(0.0));
    let measured = median(&mut speeds.clone());
    let p99 = median(&mut of(|cell| cell.p99_us));
    let cpu = median(&mut of(Cell::cpu_s_per_gb));
    let off = |predicted: f64, measured: f64| 100.0 * (predicted / measured.max(1e-9) - 1.0);
    Ok(Line {
        file: contender.name.clone(),
        work: shape.words(),
        measured_gb_per_s: measured,
        measured_range: range,
        rounds: [contender.rounds.len(), counts],
        predicted_gb_per_s: outcome.gb_per_s,
        error_pct: off(outcome.gb_per_s, measured),
        measured_p99_us: p99,
        predicted_p99_us: calibration.stretch * outcome.p99_ns / 1e3,
        p99_error_pct: off(calibration.stretch * outcome.p99_ns / 1e3, p99),
        measured_cpu_s_per_gb: cpu,
        predicted_cpu_s_per_gb: outcome.cpus / outcome.gb_per_s.max(1e-9),
    })
}

/// The table as text.
pub fn table(lines: &[Line], calibration: &Calibration) -> String {
    let mut text = format!("on {}\ncalibrated by the preset `tcp`:\n", calibration.machine);
    for ran in &calibration.cells {
        text += &format!(
            "  {:<14} {:>6.2} GB/s, the model {:>6.2}; CPU s/GB {:.3}, the model {:.3}\n",
            ran.shape,
            ran.gb_per_s,
            ran.model_gb_per_s,
            ran.cpu_s_per_gb_initiator + ran.cpu_s_per_gb_target,
            ran.model_cpu_s_per_gb
        );
    }
    let mut work = "";
    text += &format!(
        "{:<16} {:>6} {:>13} {:>4} {:>6} {:>7}   {:>8} {:>8} {:>7}   {:>7} {:>7}\n",
        "file", "GB/s", "(least-most)", "of", "model", "error", "p99 us", "model", "error", "cpu/GB", "model"
    );
    for line in lines {
        if work != line.work && lines.iter().any(|other| other.work != line.work) {
            text += &format!("{}\n", line.work);
        }
        work = &line.work;
        let range = format!("({:.2}-{:.2})", line.measured_range[0], line.measured_range[1]);
        text += &format!(
            "{:<16} {:>6.2} {:>13} {:>4} {:>6.2} {:>+6.1}%   {:>8.0} {:>8.0} {:>+6.1}%   {:>7.3} {:>7.3}\n",
            line.file,
            line.measured_gb_per_s,
            range,
            line.rounds[1],
            line.predicted_gb_per_s,
            line.error_pct,
            line.measured_p99_us,
            line.predicted_p99_us,
            line.p99_error_pct,
            line.measured_cpu_s_per_gb,
            line.predicted_cpu_s_per_gb
        );
    }
    let hits = lines.iter().filter(|line| line.error_pct.abs() <= 100.0 * WITHIN).count();
    text + &format!("within {:.0} % in throughput: {hits} of {}\n", 100.0 * WITHIN, lines.len())
}
