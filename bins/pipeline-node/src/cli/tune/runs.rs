//! Candidates on the real path: each turn starts the candidate's engine in this process, lets it do the work against the target, and
//! stops it, as `compare` does. Deliberately no judgement here: figures become a score by the goal, and that is all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pipeline_node::limit;

use super::args::Goal;
use super::bound::{About, Bound, Figure};
use super::candidates::Candidates;
use super::progress::Progress;
use super::propose::{Seen, proposals};
use super::search::{Arena, Estimate, News, Point, Proposal, Turn};
use super::space::Space;
use crate::cli::exit::Failure;
use crate::cli::work::{Against, Course, Measured, Session};

/// What half the CPU time is worth for latency: as much as 10 % of it. Less than that is hardly told apart there in any time, and of
/// two such files nobody wants the one whose threads look for work all day.
const THRIFT: f64 = 0.14;
/// The shortest cell that says anything.
const CELL_MIN: Duration = Duration::from_millis(20);

/// Everything that a turn needs.
pub struct Runs<'a> {
    /// What may be changed.
    pub space: &'a Space,
    /// Files.
    pub candidates: Candidates<'a>,
    /// The target.
    pub against: &'a Against,
    /// Its segment.
    pub segment: &'a str,
    /// The work.
    pub course: &'a Course,
    /// What is made better.
    pub goal: Goal,
    /// What must hold.
    pub bounds: &'a [Bound],
    /// When all began.
    pub begin: Instant,
    /// Set when somebody wants it to end.
    pub stop: &'a AtomicBool,
    /// Whether the target has what the work needs.
    pub is_filled: bool,
    /// What was measured last, and of whom.
    pub seen: Vec<(Point, Seen)>,
    /// The figures of all turns.
    pub cells: Vec<(Point, Vec<Measured>)>,
    /// Why the last turn failed, if it did.
    pub failure: Option<Failure>,
    /// For whoever looks on.
    pub progress: Progress,
    /// CPUs that this process may use.
    pub cpus: f64,
}

impl Runs<'_> {
    /// What was measured of a candidate last.
    pub fn seen(&self, of: &Point) -> Option<&Seen> {
        self.seen.iter().find(|(candidate, _)| candidate == of).map(|(_, seen)| seen)
    }

    /// # Errors
    /// 71 when it cannot be started, 69 when the target cannot be reached, 1 when its work fails.
    fn once(&mut self, of: &Point, measured: Duration) -> Result<Turn, Failure> {
        let ready = self.candidates.ready(of).map_err(Failure::failed)?;
        let config = ready.config.clone();
        let session = Session::start(ready.config, ready.waits, self.against, self.segment, self.course)?;
        let cells = u32::try_from(self.course.shapes.len()).unwrap_or(1).max(1);
        let before = session.observe();
        let cells = session
            .run(self.course, (measured / cells).max(CELL_MIN), self.is_filled)
            .map_err(Failure::failed)?;
        let interval = session.observe().since(&before);
        self.is_filled = true;
        drop(session);
        let turn = turn(self.goal, self.bounds, &cells, ready.excess).map_err(Failure::failed)?;
        let limit = limit(&interval, &config);
        let seen = Seen { interval, limit, cpus: self.cpus };
        self.seen.retain(|(candidate, _)| candidate != of);
        self.seen.push((of.clone(), seen));
        self.cells.push((of.clone(), cells));
        Ok(turn)
    }
}

impl Arena for Runs<'_> {
    fn turn(&mut self, candidate: &Point, measured: Duration) -> Result<Turn, String> {
        self.progress.tell(self.begin.elapsed(), &self.space.words(candidate));
        let turn = self.once(candidate, measured);
        let told = turn.as_ref().map(|turn| *turn).map_err(Failure::to_string);
        self.failure = turn.err();
        told
    }

    fn propose(&mut self, best: &Point) -> Vec<Proposal> {
        let mut all = proposals(self.space, best, self.seen(best), self.goal);
        // What the file's own rules refuse is not worth a word; nor is what a bound on sizes rules out.
        let base = self.candidates.ready(&self.space.base()).map_or(0.0, |ready| ready.excess);
        all.retain(|proposal| {
            self.candidates.ready(&proposal.candidate).is_ok_and(|ready| ready.excess <= base.max(0.0))
        });
        all
    }

    fn plain(&self, candidate: &Point) -> Point {
        let level = |knob: usize| if self.space.is_moot(knob, candidate) { 0 } else { candidate[knob] };
        (0..candidate.len()).map(level).collect()
    }

    fn spent(&self) -> Duration {
        self.begin.elapsed()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn tell(&mut self, news: &News<'_>) {
        self.progress.news(news, self.space);
    }
}

/// What the figures of a turn are worth.
///
/// # Errors
/// Nothing was moved.
fn turn(goal: Goal, bounds: &[Bound], cells: &[Measured], sizes: f64) -> Result<Turn, String> {
    let first = cells.first().filter(|_| cells.iter().all(|cell| cell.gb_per_s > 0.0));
    let first = first.ok_or("no request ended well")?;
    let rate = mean(cells, |cell| cell.gb_per_s.ln());
    let cpu = mean(cells, |cell| cpu(cell).max(1e-9).ln());
    let (score, guard) = match goal {
        Goal::Throughput => (rate, 0.0),
        Goal::Latency => (-first.p50_us.max(1e-3).ln(), -first.p99_us.max(1e-3).ln()),
        Goal::Efficiency => (-cpu, rate),
    };
    let thrift = if goal == Goal::Latency { -THRIFT * cpu } else { 0.0 };
    let missed = bounds.iter().filter_map(|bound| {
        let About::Figure(figure) = bound.about else { return None };
        let has = match figure {
            Figure::P50 => first.p50_us * 1e3,
            Figure::P99 => first.p99_us * 1e3,
            Figure::GbPerS => rate.exp(),
            Figure::CpuSPerGb => cpu.exp(),
        };
        let ratio = (has.max(1e-9) / bound.value.max(1e-9)).ln();
        Some(if bound.at_most { ratio } else { -ratio })
    });
    // A bound on sizes either holds or does not; how near it is says nothing.
    let excess =
        missed.fold(f64::NEG_INFINITY, f64::max).max(if sizes > 0.0 { sizes } else { f64::NEG_INFINITY });
    Ok(Turn { score, thrift, guard, excess: excess.max(-1.0) })
}

/// How much CPU time a candidate takes beside another, by the difference of their thrift; `None` where nothing is told by that.
pub fn cpu_ratio(thrift: &[f64]) -> Option<f64> {
    let middle = Estimate::of(thrift, 0.5).mid;
    (middle != 0.0).then(|| (-middle / THRIFT).exp())
}

/// CPU seconds of both sides for 10⁹ bytes.
fn cpu(cell: &Measured) -> f64 {
    cell.cpu_initiator + cell.cpu_target.unwrap_or(0.0)
}

fn mean(cells: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    cells.iter().map(of).sum::<f64>() / cells.len().max(1) as f64
}
