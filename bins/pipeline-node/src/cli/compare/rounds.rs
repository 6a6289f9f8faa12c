//! The rounds: in each the bare loop and then every file has its turn, the next round beginning with another file.
//! Deliberately dull: nothing is judged here. A file that fails is left out of what follows, so a run takes no longer than
//! was told.

use std::time::Duration;

use super::args::Args;
use super::bare::BareLoop;
use super::entrant::{Entrant, Ready, Why};
use super::figure::counting;
use super::progress::Progress;
use crate::cli::bench::ceiling::Bare;
use crate::cli::exit::Failure;
use crate::cli::work::{Against, Course, IDLE, Measured, SETTLE, Session, Shape};

/// What a start, a way to the target and a stop take together, about.
const START: Duration = Duration::from_millis(200);
/// What the bare loop warms itself with, about.
const BARE_START: Duration = Duration::from_millis(120);

/// What all rounds came to.
pub struct Results {
    /// By cell and round; empty without a bare loop.
    pub bare: Vec<Vec<Bare>>,
    /// By file, cell and round. A file that failed has no whole row.
    pub cells: Vec<Vec<Vec<Measured>>>,
    /// By file and round, percent of a core.
    pub idle_pct: Vec<Vec<f64>>,
    /// By cell: which rounds count.
    pub counts: Vec<Vec<bool>>,
}

impl Results {
    /// Nothing was measured: no file can run.
    pub fn none(files: usize, course: &Course) -> Self {
        let cells = course.shapes.len();
        Self {
            bare: Vec::new(),
            cells: vec![vec![Vec::new(); cells]; files],
            idle_pct: vec![Vec::new(); files],
            counts: vec![Vec::new(); cells],
        }
    }
}

/// What a file's turn came to: its cells, and percent of a core when it was idle.
type Turn = (Vec<Measured>, Option<f64>);

/// Runs them.
pub struct Rounds<'a> {
    /// What was asked for.
    pub args: &'a Args,
    /// What every file does.
    pub course: &'a Course,
    /// The target.
    pub against: &'a Against,
    /// The bare loop.
    pub bare: &'a BareLoop,
}

impl Rounds<'_> {
    /// About how long all will take.
    pub fn about(&self, entrants: &[Entrant]) -> Duration {
        let Self { args, course, .. } = self;
        let ready = entrants.iter().filter_map(|entrant| entrant.state.as_ref().ok());
        let file = |ready: &Ready| {
            let idle = if args.no_idle { Duration::ZERO } else { SETTLE + IDLE };
            START + course.about(self.duration(), ready.config.limits.requests) + idle
        };
        let files: Duration = ready.map(file).sum();
        let each = |shape: &Shape| match self.bare {
            BareLoop::None => Duration::ZERO,
            BareLoop::Copy => BARE_START + self.duration(),
            BareLoop::Tcp(_) => BARE_START + self.duration() + shape.tail(u64::MAX),
        };
        let bare: Duration = course.shapes.iter().map(each).sum();
        (files + bare) * args.rounds as u32
    }

    fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.args.seconds)
    }

    /// All rounds. What fails is noted with the file.
    ///
    /// # Errors
    /// When the bare loop fails: then there is nothing to compare with.
    pub fn run(&self, entrants: &mut [Entrant], progress: &Progress) -> Result<Results, Failure> {
        let shapes = &self.course.shapes;
        let mut results = Results {
            bare: shapes.iter().map(|_| Vec::new()).collect(),
            cells: vec![vec![Vec::new(); shapes.len()]; entrants.len()],
            idle_pct: vec![Vec::new(); entrants.len()],
            counts: Vec::new(),
        };
        // Nothing is put into a target that is not ours but what the work writes.
        let mut is_filled = self.args.target.is_some();
        for round in 0..self.args.rounds {
            let told = format!("round {} of {}", round + 1, self.args.rounds);
            progress.tell(&format!("{told}: {}", self.bare.title()));
            for (shape, bare) in shapes.iter().zip(&mut results.bare) {
                bare.extend(self.bare.round(shape, self.duration())?);
            }
            progress.step();
            for i in 0..entrants.len() {
                let file = (i + round as usize) % entrants.len();
                let entrant = &mut entrants[file];
                progress.tell(&format!("{told}: {}", entrant.model));
                let turn = self.turn(entrant, &mut is_filled);
                progress.step();
                match turn {
                    Ok(Some((cells, idle_pct))) => {
                        results.cells[file].iter_mut().zip(cells).for_each(|(all, one)| all.push(one));
                        results.idle_pct[file].extend(idle_pct);
                    }
                    Ok(None) => {}
                    Err(failure) => entrant.state = Err(Why::Failed(failure)),
                }
            }
        }
        results.counts = results.bare.iter().map(|bare| self.counts(bare)).collect();
        Ok(results)
    }

    fn counts(&self, bare: &[Bare]) -> Vec<bool> {
        match bare {
            [] => vec![true; self.args.rounds as usize],
            _ => counting(&bare.iter().map(|bare| bare.gb_per_s).collect::<Vec<_>>()),
        }
    }

    /// One file in one round: its cells, and its CPU when it is idle, if somebody wants to know. `None` if it does not take part.
    fn turn(&self, entrant: &Entrant, is_filled: &mut bool) -> Result<Option<Turn>, Failure> {
        let Ok(ready) = &entrant.state else { return Ok(None) };
        let of_file = |failure: Failure| failure.of(&entrant.file.display());
        let session = Session::start(
            ready.config.clone(),
            ready.application.waits,
            self.against,
            &self.args.segment,
            self.course,
        )
        .map_err(of_file)?;
        let cells = session.run(self.course, self.duration(), *is_filled);
        let cells = cells.map_err(|trouble| of_file(Failure::failed(trouble)))?;
        *is_filled = true;
        Ok(Some((cells, (!self.args.no_idle).then(|| session.idle_cpu_pct()))))
    }
}
