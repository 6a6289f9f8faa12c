//! `tune`: lets the machine find the sizes of a file. What is tried is a file as a user could have written it, what is measured is
//! the real path, and what is written is only what was seen to be better. How it searches, and why so: docs/tuning.md.
//!
//! Deliberately apart: `space` knows files, `propose` knows what limits nodes, `runs` knows engines, `search` knows none of them and
//! decides.

mod args;
mod bound;
mod candidates;
mod live;
mod progress;
mod propose;
mod report;
mod runs;
mod search;
mod space;
mod stop;
mod write;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub use args::Args;
use args::Goal;
use candidates::{Candidates, first};
use pipeline_graph::Cpus;
use progress::Progress;
use report::Report;
use runs::Runs;
use search::{End, Found, More, Plan, search};
use space::Space;

use super::exit::{Failure, Outcome};
use super::put::{can_be_written, put};
use super::work::args::{Work, WorkArgs};
use super::work::{Against, Course, Over, Whom};
use super::{file, logs, whatif};

/// How long a turn of the first stage of a race is measured, of all of the budget.
const TURN_SHARE: f64 = 1.0 / 300.0;
/// Bounds of that.
const TURN_MIN: Duration = Duration::from_millis(60);
const TURN_MAX: Duration = Duration::from_secs(1);
/// How long a turn of latency is measured: a thousand requests and more, whose median is exact. What it is worth depends on where the
/// system has put the threads of this start, so what more time is for is more starts.
const LATENCY_TURN: Duration = Duration::from_millis(50);
/// Passes of latency: one for so much of the budget, within bounds.
const PASS_SHARE: Duration = Duration::from_secs(40);
const PASSES_MAX: u32 = 16;

/// Runs it.
///
/// # Errors
/// 2 for options that do not go together, 65 for work that makes no sense, 69 for a target that cannot be reached, goes away or has
/// other traffic, 71 and 78 for a file that does not start or validate, 1 when its work fails, when what was found cannot be
/// written, or when it was stopped before anything was sure.
pub fn run(args: &Args) -> Outcome {
    if args.what_if.what_if.is_some() {
        return whatif::run(args);
    }
    let begin = Instant::now();
    let source = args.file.source();
    let loaded = file::load(&source)?;
    loaded.runnable().map_err(|findings| file::refused(&findings))?;
    written_to(args).map_or(Ok(()), can_be_written)?;
    logs::of_command();
    let work = WorkArgs { work: Some(usual_work(args)), ..args.work.clone() };
    let course = Course::new(&work)?;
    let cpus = Cpus::of_process();
    let space = Space::new(loaded, &args.bound, &args.allow, cpus.budget());
    if let Some((bound, help)) = space.stray(&args.bound) {
        return Err(Failure::usage(format!("--bound '{bound}' is about nothing that is tuned here; {help}")));
    }
    let stop = stop::on_interrupt()?;
    let against = target(args, &space, course.target_bytes())?;
    live::refuse(args, &against, &space)?;
    let mut runs = Runs {
        space: &space,
        candidates: Candidates::new(source, &space, &args.bound, args.target.is_some()),
        against: &against,
        segment: &args.segment,
        course: &course,
        goal: args.goal(),
        bounds: &args.bound,
        begin,
        stop,
        is_filled: args.target.is_some(),
        seen: Vec::new(),
        cells: Vec::new(),
        failure: None,
        progress: Progress::new(args.budget),
        cpus: cpus.quota.unwrap_or(f64::INFINITY).min(cpus.allowed.len() as f64),
    };
    report::head(args, &course, &against, &space)?;
    let found = search(&mut runs, &space.base(), plan(args, &course))
        .map_err(|why| failed(&mut runs, "the file as it is cannot be measured", &why))?;
    runs.progress = Progress::new(Duration::ZERO);
    let broken = match &found.end {
        End::Broken(why) => Some(failed(&mut runs, "the file as it is ran, and no longer does", why)),
        _ => None,
    };
    finish(args, &space, &runs, &found)?;
    broken.map_or(Ok(()), Err)
}

/// Latency is measured by requests that go one at a time, and everything else by a sweep.
fn usual_work(args: &Args) -> Work {
    match (&args.work.work, &args.work.trace, args.goal) {
        (None, None, Some(Goal::Latency)) => Work::Latency,
        _ => args.work.work(),
    }
}

/// What the last turn ended with, by which the search gave up.
fn failed(runs: &mut Runs<'_>, what: &str, why: &str) -> Failure {
    runs.failure.take().unwrap_or_else(|| Failure::failed(why)).of(&what)
}

fn plan(args: &Args, course: &Course) -> Plan {
    let slack = match args.goal() {
        Goal::Throughput => f64::INFINITY,
        Goal::Latency => 1.25_f64.ln(),
        Goal::Efficiency => -(0.95_f64.ln()),
    };
    let budget = args.budget;
    if course.is_latency() {
        let passes = (budget.as_secs_f64() / PASS_SHARE.as_secs_f64()) as u32;
        let passes = passes.clamp(1, PASSES_MAX);
        return Plan { budget, turn: LATENCY_TURN, more: More::Oftener, passes, slack };
    }
    let turn = budget.mul_f64(TURN_SHARE).clamp(TURN_MIN, TURN_MAX);
    Plan { budget, turn, more: More::Longer, passes: 1, slack }
}

/// The peer that was named; else a node of our own that speaks what the file prefers.
fn target(args: &Args, space: &Space, bytes: u64) -> Result<Against, Failure> {
    let transports = &space.loaded.config.transports;
    let has = |kind: &str| transports.iter().any(|transport| transport.kind == kind);
    let over = [Over::Tcp, Over::Loopback, Over::Sim].into_iter().find(|over| has(over.kind()));
    let whom = |over| Whom { peer: args.target.as_deref(), segment: &args.segment, over };
    match (&args.target, over) {
        (Some(_), _) => Against::start(whom(Over::Tcp), bytes),
        (None, Some(over)) => Against::start(whom(over), bytes),
        (None, None) => Against::of_file(args.file.path(), args.file.overrides(), &args.segment, bytes),
    }
}

/// Says what came of it, and writes. What was found is told whatever becomes of the file.
fn finish(args: &Args, space: &Space, runs: &Runs<'_>, found: &Found) -> Outcome {
    let is_better = found.verdict.as_ref().is_some_and(|verdict| verdict.is_better);
    let new = is_better.then(|| rewritten(args, space, found)).transpose();
    let (new, mut trouble) = match new {
        Ok(new) => (new, None),
        Err(trouble) => (None, Some(trouble)),
    };
    let mut written = None;
    if let (Some(new), Some(to)) = (&new, written_to(args)) {
        match put(to, new) {
            Ok(()) => written = Some(to),
            Err(why) => trouble = Some(by_hand(&space.changes(&found.best), &why)),
        }
    }
    Report { args, space, runs, found }.print(new.as_deref(), written)?;
    if let Some(trouble) = trouble {
        return Err(trouble);
    }
    if found.end == End::Stopped && !is_better {
        return Err(Failure::failed("stopped before anything was sure; nothing was written"));
    }
    Ok(())
}

/// Where the changes go, if anywhere.
fn written_to(args: &Args) -> Option<&Path> {
    args.write.as_ref().map(|to| to.as_deref().unwrap_or_else(|| args.file.path()))
}

/// The new text, which says what was measured, wherever it will stand.
fn rewritten(args: &Args, space: &Space, found: &Found) -> Result<String, Failure> {
    let path = args.file.path();
    let changes = space.changes(&found.best);
    let in_place = |text: &str| -> Result<String, String> {
        let now = args.file.source().load().map_err(|findings| first(&findings));
        now.and_then(|now| write::same(&now, &space.loaded))
            .map_err(|why| format!("it was changed meanwhile: {why}"))?;
        let preset = write::preset_of(&space.loaded);
        let new = write::rewrite(text, preset, &changes, &report::note(args, found))?;
        let to = written_to(args).unwrap_or(path);
        let written = args.file.source_of(to, &new).load().map_err(|findings| first(&findings))?;
        let set: Vec<String> = changes.iter().map(space::Change::set).collect();
        let measured = args.file.source().set(set).load().map_err(|findings| first(&findings))?;
        write::same(&written, &measured).map(|()| new)
    };
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string());
    text.and_then(|text| in_place(&text)).map_err(|why| by_hand(&changes, &why))
}

/// What was found is not lost where it cannot be written.
fn by_hand(changes: &[space::Change], why: &str) -> Failure {
    let set: String = changes.iter().map(|change| format!("\n  --set '{}'", change.set())).collect();
    Failure::failed(format!("the file cannot be rewritten ({why}); these overrides say the same:{set}"))
}

/// A flag that somebody may set.
type Stop = &'static AtomicBool;
