//! What is said: before it begins, and of all that was tried. Deliberately the same facts for people and for programs.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::args::{Allow, Args, Goal};
use super::runs::{Runs, cpu_ratio};
use super::search::{End, Estimate, Found, Point, Race, Runner};
use super::space::Space;
use super::write::unified;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::file;
use crate::cli::idle::Idle;
use crate::cli::load::machine::machine;
use crate::cli::load::tally::median;
use crate::cli::work::{Against, Course};

/// How sure an interval is that is told of a candidate which lost.
const TOLD: f64 = 0.8;

/// What is said before it begins.
///
/// # Errors
/// 71 when stdout takes nothing.
pub fn head(args: &Args, course: &Course, against: &Against, space: &Space) -> Outcome {
    let mut lines = machine();
    lines.push(course.words());
    lines.push(against.words.clone());
    let candidates: f64 = space.knobs.iter().map(|knob| (knob.levels.len() as f64).log10()).sum();
    lines.push(format!(
        "goal {}, budget {} s; {} knobs, about 10^{candidates:.0} candidates",
        words(args.goal()),
        args.budget.as_secs(),
        space.knobs.len()
    ));
    let text: String = lines.iter().map(|line| format!("# {line}\n")).collect();
    match args.json {
        true => eprint!("{text}"),
        false => file::print(&text)?,
    }
    Ok(())
}

fn words(goal: Goal) -> &'static str {
    match goal {
        Goal::Throughput => "throughput (geometric mean of the shapes)",
        Goal::Latency => "latency (p50 of one at a time; p99 may not grow by more than a quarter)",
        Goal::Efficiency => {
            "efficiency (bytes for a CPU second of both sides; 95 % of the throughput must stay)"
        }
    }
}

/// What stands in the comment behind a changed line.
pub fn note(args: &Args, found: &Found) -> String {
    let what = match args.goal() {
        Goal::Throughput => "throughput",
        Goal::Latency => "latency (1/p50)",
        Goal::Efficiency => "bytes for a CPU second",
    };
    let gain = found.verdict.as_ref().map_or(Estimate::NONE, |verdict| verdict.gain);
    format!("{what} {} with all changes", gain.words())
}

/// All that there is to tell.
pub struct Report<'a> {
    /// What was asked for.
    pub args: &'a Args,
    /// What could be changed.
    pub space: &'a Space,
    /// What was measured.
    pub runs: &'a Runs<'a>,
    /// What came of it.
    pub found: &'a Found,
}

impl Report<'_> {
    /// Prints it; `new` is the text with the changes, `written` where it went.
    ///
    /// # Errors
    /// 71 when stdout takes nothing.
    pub fn print(&self, new: Option<&str>, written: Option<&Path>) -> Outcome {
        if self.args.json {
            return file::print(&self.json(written)?);
        }
        let mut text = String::new();
        let base = self.space.base();
        let _ = writeln!(text, "the file as it is: {}", self.figures(&base).words());
        if let Some(seen) = self.runs.seen(&base) {
            let _ = writeln!(text, "  limited by: {}", seen.limit);
        }
        for (i, race) in self.found.races.iter().enumerate() {
            self.race(&mut text, i + 1, race);
        }
        self.pruned(&mut text);
        self.verdict(&mut text);
        self.idle(&mut text);
        match (new, written) {
            (Some(_), Some(to)) => {
                let _ = writeln!(text, "written to {}", to.display());
            }
            (Some(new), None) => {
                let path = self.args.file.path();
                let old = std::fs::read_to_string(path).unwrap_or_default();
                text += &unified(&path.display().to_string(), &old, new);
            }
            _ => {}
        }
        file::print(&text)
    }

    fn race(&self, text: &mut String, number: usize, race: &Race) {
        let against = if race.best == self.space.base() { "the file as it is" } else { "the best so far" };
        let _ = writeln!(text, "\nrace {number}: {} against {against}", race.runners.len());
        if let Some(seen) = self.runs.seen(&race.best).filter(|_| number > 1) {
            let _ = writeln!(text, "  limited by: {}", seen.limit.words);
        }
        let mut order: Vec<usize> = (0..race.runners.len()).collect();
        let rank = |i: &usize| (race.runners[*i].differences.len(), race.runners[*i].estimate(TOLD).mid);
        order.sort_by(|a, b| rank(b).partial_cmp(&rank(a)).unwrap_or(std::cmp::Ordering::Equal));
        for i in order {
            let runner = &race.runners[i];
            let mark = if race.winner == Some(i) { "*" } else { " " };
            let changes = self.changed(&race.best, &runner.proposal.candidate);
            let told = match &runner.trouble {
                Some(trouble) => format!("out: {}", trouble.lines().next().unwrap_or_default()),
                None => told(runner),
            };
            let _ = writeln!(text, "{mark} {told:<34} {changes}\n    why: {}", runner.proposal.why);
        }
    }

    /// What was taken back, and what would have cost something.
    fn pruned(&self, text: &mut String) {
        if !self.found.pruned.is_empty() {
            let _ = writeln!(text, "\ntaking back what does not matter");
        }
        for tried in &self.found.pruned {
            for runner in &tried.runners {
                let mark = if tried.winner.is_some() { "*" } else { " " };
                let told =
                    runner.trouble.as_ref().map_or_else(|| told(runner), |_| "needed by others".into());
                let changes = self.changed(&tried.best, &runner.proposal.candidate);
                let _ = writeln!(text, "{mark} {told:<34} {changes}");
            }
        }
    }

    /// What a candidate has that another one has not.
    fn changed(&self, from: &Point, to: &Point) -> String {
        let differs = (0..to.len()).filter(|knob| from[*knob] != to[*knob] && !self.space.is_moot(*knob, to));
        let words = differs.map(|knob| {
            let (old, new) = (self.space.level(knob, from), self.space.level(knob, to));
            format!("{} {} -> {}", self.space.knobs[knob].name, old.words, new.words)
        });
        words.collect::<Vec<_>>().join(", ")
    }

    fn verdict(&self, text: &mut String) {
        let Found { best, verdict, end, .. } = self.found;
        let ended = match end {
            End::Exhausted => "everything that could be proposed was tried",
            End::Budget => "the budget is used up",
            End::Stopped => "stopped",
            End::Broken(_) => "the file as it is no longer runs",
        };
        let spent = self.runs.begin.elapsed().as_secs_f64();
        let _ = writeln!(text, "\n{} turns in {spent:.0} s; {ended}", self.runs.cells.len());
        let Some(verdict) = verdict else {
            let _ = writeln!(text, "{}", self.without_verdict(best, end));
            return;
        };
        let _ =
            writeln!(text, "old against new, {} pairs: {} at 98 %", verdict.gain.pairs, verdict.gain.words());
        let _ = writeln!(text, "  old: {}", self.figures_of_the_end(&self.space.base()).words());
        let _ = writeln!(text, "  new: {}", self.figures_of_the_end(best).words());
        let why = match (verdict.is_better, verdict.keeps, verdict.gain.low.is_finite()) {
            (true, ..) => return,
            (_, false, _) => {
                "nothing to change: what was found breaks a bound, or what must not fall, or failed"
            }
            (_, _, false) => "nothing to change: too few pairs to be sure; raise --budget",
            _ => "nothing to change: the difference is not sure, or under 2 %",
        };
        let _ = writeln!(text, "{why}");
    }

    /// What is told where old and new did not run against each other. Where it was broken off, that there is nothing to change is
    /// not known.
    fn without_verdict(&self, best: &Point, end: &End) -> String {
        let is_whole = matches!(end, End::Exhausted | End::Budget);
        match (is_whole, self.found.races.is_empty()) {
            (false, _) if *best != self.space.base() => {
                format!("best so far, not confirmed: {}", self.space.words(best))
            }
            (false, true) => "it ended before anything was tried".into(),
            (false, false) => "nothing that was tried by then is better".into(),
            (true, true) => "nothing to change: there was no time to try anything; raise --budget".into(),
            (true, false) => "nothing to change: nothing that was tried is better".into(),
        }
    }

    /// What no size of the file changes, where latency is the goal.
    fn idle(&self, text: &mut String) {
        let idle = Idle::of(Path::new("/"));
        let is_asked = self.args.allow.contains(&Allow::Awake)
            || self.space.loaded.config.node.cpu_dma_latency.is_some()
            || self.args.goal() != Goal::Latency;
        if let (Some(words), true, false) = (idle.words(), idle.mend().is_some(), is_asked) {
            let more = "no size of the file changes that: `pipeline-node doctor` says what does, and --allow awake tries it";
            let _ = writeln!(text, "hint: {words}, and {more}");
        }
    }

    /// Over the turns of old against new, if there were any: of two files only what took turns can be compared.
    fn figures_of_the_end(&self, of: &Point) -> Figures {
        let pairs = self.found.verdict.as_ref().map_or(0, |verdict| verdict.gain.pairs);
        let from = if pairs == 0 { 0 } else { self.runs.cells.len().saturating_sub(2 * pairs) };
        self.figures_since(of, from)
    }

    fn figures(&self, of: &Point) -> Figures {
        self.figures_since(of, 0)
    }

    fn figures_since(&self, of: &Point, from: usize) -> Figures {
        let cells = self.runs.cells[from..].iter().filter(|(candidate, _)| candidate == of);
        let turns: Vec<&Vec<_>> = cells.map(|(_, cells)| cells).collect();
        let middle = |what: &dyn Fn(&[crate::cli::work::Measured]) -> f64| {
            median(&mut turns.iter().map(|turn| what(turn)).collect::<Vec<_>>())
        };
        Figures {
            turns: turns.len(),
            gb_per_s: middle(&|turn| {
                (turn.iter().map(|cell| cell.gb_per_s.ln()).sum::<f64>() / turn.len().max(1) as f64).exp()
            }),
            p50_us: middle(&|turn| turn.first().map_or(0.0, |cell| cell.p50_us)),
            p99_us: middle(&|turn| turn.first().map_or(0.0, |cell| cell.p99_us)),
            cpu_s_per_gb: middle(&|turn| {
                let sum: f64 =
                    turn.iter().map(|cell| cell.cpu_initiator + cell.cpu_target.unwrap_or(0.0)).sum();
                sum / turn.len().max(1) as f64
            }),
        }
    }

    /// One object a candidate of each race, and one for all.
    fn json(&self, written: Option<&Path>) -> Result<String, Failure> {
        let mut lines = Vec::new();
        let races = self.found.races.iter().enumerate().map(|(i, race)| (Some(i + 1), race));
        for (number, race) in races.chain(self.found.pruned.iter().map(|tried| (None, tried))) {
            for (j, runner) in race.runners.iter().enumerate() {
                let estimate = runner.estimate(TOLD);
                lines.push(json!({
                    "race": number,
                    "changes": self.changes(&runner.proposal.candidate),
                    "why": runner.proposal.why,
                    "rounds": estimate.pairs,
                    "gain_pct": percent(estimate.mid, estimate.pairs > 0),
                    "gain_low_pct": percent(estimate.low, true),
                    "gain_high_pct": percent(estimate.high, true),
                    "cpu_ratio": cpu_ratio(&runner.thrift),
                    "won": race.winner == Some(j),
                    "trouble": runner.trouble,
                    "limited_by": self.runs.seen(&runner.proposal.candidate).map(|seen| &seen.limit.words),
                }));
            }
        }
        lines.push(self.summary(written));
        let text: Result<Vec<String>, _> = lines.iter().map(serde_json::to_string).collect();
        Ok(text.map_err(Failure::system)?.join("\n") + "\n")
    }

    fn summary(&self, written: Option<&Path>) -> Value {
        let Found { best, verdict, end, races, pruned } = self.found;
        let gain = verdict.as_ref().map_or(Estimate::NONE, |verdict| verdict.gain);
        let is_better = verdict.as_ref().is_some_and(|verdict| verdict.is_better);
        let base = self.space.base();
        json!({
            "changed": is_better,
            "changes": if is_better { self.changes(best) } else { json!([]) },
            "best_so_far": self.changes(best),
            "pairs": gain.pairs,
            "gain_pct": percent(gain.mid, gain.pairs > 0),
            "gain_low_pct": percent(gain.low, true),
            "gain_high_pct": percent(gain.high, true),
            "keeps_bounds": verdict.as_ref().map(|verdict| verdict.keeps),
            "old": self.figures_of_the_end(&base).json(),
            "new": if *best == base { Value::Null } else { self.figures_of_the_end(best).json() },
            "limited_by": self.runs.seen(&base).map(|seen| seen.limit.words.clone()),
            "new_limited_by": self.runs.seen(best).map(|seen| seen.limit.words.clone()),
            "races": races.len(),
            "taken_back": pruned.iter().filter(|tried| tried.winner.is_some()).count(),
            "turns": self.runs.cells.len(),
            "seconds": self.runs.begin.elapsed().as_secs_f64(),
            "budget_s": self.args.budget.as_secs_f64(),
            "end": match end {
                End::Exhausted => "exhausted",
                End::Budget => "budget",
                End::Stopped => "stopped",
                End::Broken(_) => "broken",
            },
            "written": written.map(|path| path.display().to_string()),
        })
    }

    fn changes(&self, of: &Point) -> Value {
        let change = |change: super::space::Change| json!({ "key": change.key(), "value": change.value, "was": change.was });
        Value::Array(self.space.changes(of).into_iter().map(change).collect())
    }
}

fn told(runner: &Runner) -> String {
    let estimate = runner.estimate(TOLD);
    let cpu = cpu_ratio(&runner.thrift).map_or_else(String::new, |ratio| format!(", CPU time × {ratio:.2}"));
    if estimate.pairs == 0 { "not run".into() } else { estimate.words() + &cpu }
}

fn percent(ln: f64, is_known: bool) -> Option<f64> {
    (is_known && ln.is_finite()).then(|| 100.0 * (ln.exp() - 1.0))
}

/// Medians over the turns of a candidate.
struct Figures {
    turns: usize,
    gb_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_s_per_gb: f64,
}

impl Figures {
    fn words(&self) -> String {
        let Self { turns, gb_per_s, p50_us, p99_us, cpu_s_per_gb } = self;
        format!(
            "{gb_per_s:.3} GB/s, p50 {p50_us:.1} us, p99 {p99_us:.1} us, {cpu_s_per_gb:.3} CPU s/GB (medians of {turns} turns)"
        )
    }

    fn json(&self) -> Value {
        let Self { turns, gb_per_s, p50_us, p99_us, cpu_s_per_gb } = self;
        json!({ "turns": turns, "gb_per_s": gb_per_s, "p50_us": p50_us, "p99_us": p99_us, "cpu_s_per_gb": cpu_s_per_gb })
    }
}
