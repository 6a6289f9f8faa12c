//! The search: races of proposals against the best so far, then old against new. Why this one and not another, with its
//! sources, is in docs/tuning.md.
//!
//! Deliberately without any knowledge of files, engines and the machine: candidates are points of a space of levels, somebody else
//! proposes them, and an [`Arena`] lets them run.

mod arena;
mod memory;
mod prune;
mod race;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use arena::{Arena, News, Point, Proposal, Turn};
use memory::Memory;
use prune::prune;
pub use race::{More, Runner};
use race::{Rules, keeps, race, turns_of};

pub use crate::cli::interval::Estimate;
use crate::cli::interval::pairs_for;

/// The share of the budget that belongs to old against new.
const FINAL_SHARE: f64 = 0.2;
/// How long old against new lasts where starts differ, if the last race has found nothing better: what one start is worth beside
/// another comes and goes for up to half a minute, as the host places its CPUs, and so must not be asked in one such time.
const FINAL_STARTS: Duration = Duration::from_secs(60);
/// The share of the budget that this may take.
const FINAL_STARTS_SHARE: f64 = 0.4;
/// The share of the budget that may be used to take back what does not matter.
const PRUNE_SHARE: f64 = 0.15;
/// The same where starts differ: less can be told apart there.
const PRUNE_STARTS_SHARE: f64 = 0.1;
/// How sure it must be before a file is changed.
pub const SURE: f64 = 0.98;
/// How much better it must be.
pub const WORTH: f64 = 0.02;
/// What a turn costs besides being measured is not believed to be more than this, or than two turns.
const FIXED_MAX: Duration = Duration::from_millis(300);
/// Challengers of a race, at most.
const FIELD_MAX: usize = 16;
/// Whoever is behind the winner by no more, as a logarithm, may be better after all.
const NEAR: f64 = 0.25;
/// So many of them, at most: one more duel, or a small race where starts differ.
const RIVALS_MAX: usize = 1;
/// See [`RIVALS_MAX`].
const RIVALS_STARTS_MAX: usize = 4;
/// A race takes this share of the time that is left for searching, at most.
const RACE_SHARE: f64 = 0.5;

/// How it goes about it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// All the time there is.
    pub budget: Duration,
    /// How long a turn of the first stage of a race is measured.
    pub turn: Duration,
    /// How later ones measure more: up to three times as long, or again and again.
    pub more: More,
    /// Passes of a round of the first stage.
    pub passes: u32,
    /// How far what is guarded may fall, as a logarithm.
    pub slack: f64,
}

/// What it came to.
#[derive(Debug)]
pub struct Found {
    /// The best one, and whether it is to be taken.
    pub best: Point,
    /// Old against new, if there is a new one: differences round by round.
    pub verdict: Option<Verdict>,
    /// All races, in order.
    pub races: Vec<Race>,
    /// What was tried to take back of what they came to: fields of one, who won where it was.
    pub pruned: Vec<Race>,
    /// Why it ended.
    pub end: End,
}

/// One race, as it is told afterwards.
#[derive(Debug)]
pub struct Race {
    /// Who was the best so far.
    pub best: Point,
    /// The field.
    pub runners: Vec<Runner>,
    /// Who won.
    pub winner: Option<usize>,
}

/// Old against new.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// How many times as good the new one is, as a logarithm, at [`SURE`].
    pub gain: Estimate,
    /// Whether what is guarded and bounded holds.
    pub keeps: bool,
    /// Whether the new one is to be taken.
    pub is_better: bool,
}

/// Why a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to propose.
    Exhausted,
    /// Time.
    Budget,
    /// Somebody stopped it.
    Stopped,
    /// The base has run, and no longer does, for this reason: of the rest nothing can be told.
    Broken(String),
}

/// Searches from `base`.
///
/// # Errors
/// Why the base cannot run.
pub fn search(arena: &mut dyn Arena, base: &Point, plan: Plan) -> Result<Found, String> {
    let mut state = State {
        best: base.clone(),
        gain: 0.0,
        memory: Memory::default(),
        rivals: Vec::new(),
        races: Vec::new(),
    };
    state.memory.tried(base, usize::MAX);
    let begin = arena.spent();
    // Warms whatever there is to warm, and says what a turn costs.
    arena.turn(base, plan.turn)?;
    let cost = arena.spent().saturating_sub(begin);
    // A bad file takes long to end what it has begun; that is no measure for others.
    let fixed = cost.saturating_sub(plan.turn).min(FIXED_MAX.max(plan.turn * 2));
    let mut turns = 1;
    let (end, pruning) = loop {
        // Pairs that it takes to be sure, however short, come before everything else.
        let mean = arena.spent().saturating_sub(begin) / turns;
        let least = (cost.max(mean) + mean) * final_pairs();
        let is_still = state.best != *base && state.races.last().is_some_and(|race| race.winner.is_none());
        let reserved = least.max(plan.for_verdict(is_still)).min(plan.budget / 2);
        let pruning = plan.budget.saturating_sub(reserved);
        let searching = pruning.saturating_sub(plan.for_pruning());
        let left = searching.saturating_sub(arena.spent());
        let room = room(left, fixed, plan);
        if room == 0 {
            break (End::Budget, pruning);
        }
        let field = state.field(arena, room);
        if field.is_empty() || arena.is_stopped() {
            break (End::Exhausted, pruning);
        }
        let (of_race, is_broken) = state.race(arena, field, plan.rules(fixed, searching));
        turns += of_race;
        if is_broken {
            if let Err(why) = still_runs(arena, base, plan) {
                break (End::Broken(why), pruning);
            }
            state.start_anew(base);
        }
    };
    if let End::Broken(_) = end {
        let State { best, races, .. } = state;
        return Ok(Found { best, verdict: None, races, pruned: Vec::new(), end });
    }
    state.best = arena.plain(&state.best);
    let changed = state.memory.changed(base, &state.best);
    let pruned = prune(arena, base, &mut state.best, &changed, plan.rules(fixed, pruning));
    let told = match state.best == *base {
        // Whoever ran last may have failed because of what the base needs as well.
        true if state.ends_in_trouble() => still_runs(arena, base, plan).map(|()| None),
        true => Ok(None),
        false => verdict(arena, base, &state.best, plan, fixed),
    };
    let (verdict, end) = match (told, arena.is_stopped()) {
        (Ok(verdict), true) => (verdict, End::Stopped),
        (Ok(verdict), false) => (verdict, end),
        (Err(why), _) => (None, End::Broken(why)),
    };
    Ok(Found { best: state.best, verdict, races: state.races, pruned, end })
}

/// Asks the base once more after something has failed that runs as a rule, unless all was stopped.
///
/// # Errors
/// Why it does not run, either: then it was no fault of what failed.
fn still_runs(arena: &mut dyn Arena, base: &Point, plan: Plan) -> Result<(), String> {
    if arena.is_stopped() {
        return Ok(());
    }
    let ran = arena.turn(base, plan.turn).map(|_| ());
    // An interrupt reaches whoever the turn needs, too.
    if arena.is_stopped() { Ok(()) } else { ran }
}

impl Plan {
    /// What old against new may count on: more if the races are still, so that nothing is lost by leaving them.
    fn for_verdict(self, is_still: bool) -> Duration {
        let least = self.budget.mul_f64(FINAL_SHARE);
        match self.more {
            More::Oftener if is_still => least.max(FINAL_STARTS.min(self.budget.mul_f64(FINAL_STARTS_SHARE))),
            _ => least,
        }
    }

    fn for_pruning(self) -> Duration {
        self.budget.mul_f64(match self.more {
            More::Longer => PRUNE_SHARE,
            More::Oftener => PRUNE_STARTS_SHARE,
        })
    }

    fn rules(self, fixed: Duration, until: Duration) -> Rules {
        let Self { turn, more, passes, slack, .. } = self;
        Rules { turn, more, passes, fixed, until, slack }
    }
}

struct State {
    best: Point,
    /// Of the best against the base, by the races it has won.
    gain: f64,
    memory: Memory,
    /// Those who were hardly behind the winner of the last race.
    rivals: Vec<Proposal>,
    races: Vec<Race>,
}

impl State {
    /// Who runs next: rivals among themselves, as there are few of them and much time for each; else those that have not run; else
    /// those that were sent off after a glance.
    fn field(&mut self, arena: &mut dyn Arena, room: usize) -> Vec<Proposal> {
        let mut rivals = std::mem::take(&mut self.rivals);
        rivals.truncate(room);
        if !rivals.is_empty() {
            return rivals;
        }
        let field = self.memory.pick(arena.propose(&self.best), &self.best, room);
        if !field.is_empty() {
            return field;
        }
        self.memory.look_again();
        self.memory.pick(arena.propose(&self.best), &self.best, room)
    }

    /// What has failed in the middle is not to be trusted: the base is the best so far again.
    fn start_anew(&mut self, base: &Point) {
        (self.best, self.gain) = (base.clone(), 0.0);
        self.rivals.clear();
    }

    /// Whether somebody of the last race could not run.
    fn ends_in_trouble(&self) -> bool {
        self.races.last().is_some_and(|race| race.runners.iter().any(|runner| runner.trouble.is_some()))
    }

    /// Runs a race; answers how many turns it took, and whether the best so far failed in it.
    fn race(&mut self, arena: &mut dyn Arena, field: Vec<Proposal>, rules: Rules) -> (u32, bool) {
        arena.tell(&News::Race { field: field.len() });
        let outcome = race(arena, &self.best, field, rules);
        self.memory.note(&self.best, &outcome.runners);
        let best = self.best.clone();
        if let Some(winner) = outcome.winner.map(|winner| &outcome.runners[winner]) {
            self.best = winner.proposal.candidate.clone();
            self.rivals = rivals(&outcome.runners, winner, rules);
            self.gain += winner.estimate(SURE).mid;
            arena.tell(&News::Best { candidate: &self.best, gain: self.gain });
        }
        self.races.push(Race { best, runners: outcome.runners, winner: outcome.winner });
        (outcome.turns, outcome.is_broken)
    }
}

/// Whoever may be better than the winner after all, best first: a race may end after two rounds, and by accident a start is worth a
/// fifth more or less.
fn rivals(runners: &[Runner], winner: &Runner, rules: Rules) -> Vec<Proposal> {
    let rank = |runner: &Runner| runner.rank(rules.slack);
    let least = rank(winner) - NEAR;
    let is_near = |runner: &&Runner| !std::ptr::eq(*runner, winner) && rank(runner) >= least;
    let has_run = |runner: &&Runner| runner.trouble.is_none() && !runner.differences.is_empty();
    let mut near: Vec<&Runner> = runners.iter().filter(has_run).filter(is_near).collect();
    near.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    let most = if rules.more == More::Longer { RIVALS_MAX } else { RIVALS_STARTS_MAX };
    near.into_iter().take(most).map(|runner| runner.proposal.clone()).collect()
}

/// How large a field there is time for: what a pass of all of it costs, then a third and two unions of twice as much, then half as
/// many, and so on, and a duel of about three rounds. Many races are decided sooner, so of all rounds but the first only one turn of
/// the best so far is counted: counted in full, fields are smaller, and the simulations find less.
fn room(left: Duration, fixed: Duration, plan: Plan) -> usize {
    // What a turn costs besides being measured stays as it is when it is measured for longer, and not when it runs again.
    let of = |(turn, passes): (Duration, u32)| ((fixed + turn) * passes).as_secs_f64();
    let (first, later) = (of((plan.turn, plan.passes)), of(plan.more.of(plan.turn, plan.passes)));
    let duel = if plan.more == More::Oftener { first } else { later };
    let costs = |field: usize| {
        let mut sum = f64::from(turns_of(field)) * first;
        let mut alive = if field > 1 { field.div_ceil(3) + 2 } else { 1 };
        while alive > 1 {
            sum += (alive + 1) as f64 * later;
            alive = alive.div_ceil(2);
        }
        sum + 2.0 * 3.0 * duel
    };
    let left = left.as_secs_f64();
    // The last race may use all that is left.
    let share = if costs(2) > RACE_SHARE * left { left } else { RACE_SHARE * left };
    (1..=FIELD_MAX).rev().find(|field| costs(*field) <= share).unwrap_or(0)
}

/// Pairs of the end: one more than it takes to be sure.
fn final_pairs() -> u32 {
    pairs_for(SURE) as u32 + 1
}

/// Old and new in turns, until the budget is used up: all that has been seen before was seen while choosing, and so counts for
/// nothing here. `None` when it was stopped before it began.
///
/// # Errors
/// Why the old one no longer runs.
fn verdict(
    arena: &mut dyn Arena,
    old: &Point,
    new: &Point,
    plan: Plan,
    fixed: Duration,
) -> Result<Option<Verdict>, String> {
    if arena.is_stopped() {
        return Ok(None);
    }
    arena.tell(&News::Final);
    let left = plan.budget.saturating_sub(arena.spent());
    // As many pairs as it takes to be sure come before long turns.
    let turn = match plan.more {
        More::Longer => {
            (left / (2 * final_pairs())).saturating_sub(fixed).clamp(plan.turn / 2, plan.turn * 3)
        }
        More::Oftener => plan.turn,
    };
    let (mut gains, mut guards, mut excess) = (Vec::new(), Vec::new(), Vec::new());
    let mut pair_cost = Duration::ZERO;
    while !arena.is_stopped() && arena.spent() + pair_cost <= plan.budget {
        let begin = arena.spent();
        let pair = match gains.len() % 2 {
            0 => arena.turn(old, turn).and_then(|old| arena.turn(new, turn).map(|new| (old, new))),
            _ => arena.turn(new, turn).and_then(|new| arena.turn(old, turn).map(|old| (old, new))),
        };
        if arena.is_stopped() {
            break;
        }
        // One that fails now is not to be trusted with a file, unless it fails for what both of them need.
        let Ok((old, new)) = pair else {
            still_runs(arena, old, plan)?;
            let gain = Estimate::of(&gains, SURE);
            return Ok(Some(Verdict { gain, keeps: false, is_better: false }));
        };
        gains.push(new.worth() - old.worth());
        guards.push(new.guard - old.guard);
        excess.push(new.excess - old.excess.max(0.0));
        pair_cost = pair_cost.max(arena.spent().saturating_sub(begin));
    }
    let gain = Estimate::of(&gains, SURE);
    let keeps = keeps(&guards, &excess, plan.slack);
    Ok(Some(Verdict { gain, keeps, is_better: keeps && gain.low > 0.0 && gain.mid >= WORTH.ln_1p() }))
}
