//! One race: a field of challengers against the best so far, in rounds in which each has a turn.
//!
//! Sequential halving: the whole field runs once, for a short while; the better third goes on, together with the *unions*: changes
//! that looked good alone, made together. Of these again a third goes on, and from then on
//! the better half after each round. Turns are twice as long from the second round on, so that most of the time goes to those that
//! may win. What counts is the difference to the best so far *in the
//! same round*, so that what the machine does to both of them cancels; and each round goes the other way round, so that what it
//! does steadily to whoever comes later cancels too. The last one has a duel with the best so far until that is decided.
//!
//! Where each start of a candidate is another candidate almost (the system puts its threads elsewhere), a longer turn says little
//! more: there a round has several *passes*, in each of which everybody has a turn, and what counts is the mean over them.

use std::time::Duration;

use super::Estimate;
use super::arena::{Arena, Point, Proposal, Turn};

/// A challenger has won a duel when its lower bound at this confidence is above. It is on its way, and not yet in the file: the
/// end compares once more.
const CONFIDENCE: f64 = 0.85;
/// Rounds of a duel, at most: a difference that is not seen by then is not worth more time.
const DUEL_ROUNDS: usize = 8;
/// Better by this in each of its rounds: no accident, whatever the noise.
const CLEAR: f64 = 0.25;
/// After how many rounds that ends a race, if nobody is better: the next one starts from there.
const LEAP_ROUNDS: usize = 2;
/// After so many rounds a third goes on, and half after each later one: with one the simulations find no more.
const THIRDS: u32 = 2;
/// Turns between two of the best so far.
const BETWEEN: usize = 4;
/// A gain that is not worth changing a file for.
const SMALL: f64 = 0.01;

/// A challenger and what has been seen of it.
#[derive(Clone, Debug)]
pub struct Runner {
    /// Who it is, and why it runs.
    pub proposal: Proposal,
    /// By round: how much better than the best so far.
    pub differences: Vec<f64>,
    /// By round: how much more it saves.
    pub thrift: Vec<f64>,
    /// By round: how much its guard is above that of the best so far.
    pub guards: Vec<f64>,
    /// By round: how far its bounds are missed, beyond what the best so far misses them by.
    pub excess: Vec<f64>,
    /// Why it is out, if it could not run.
    pub trouble: Option<String>,
}

/// What a race came to.
#[derive(Debug)]
pub struct Outcome {
    /// All of the field.
    pub runners: Vec<Runner>,
    /// Which of them beats the best so far, if one does.
    pub winner: Option<usize>,
    /// How many turns it took, those of the best so far included.
    pub turns: u32,
    /// Whether the best so far could not run, which ended it.
    pub is_broken: bool,
}

/// How more is measured of whoever is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// Turns twice as long.
    Longer,
    /// Twice as many of them.
    Oftener,
}

impl More {
    /// What it makes of a turn and of passes.
    pub fn of(self, turn: Duration, passes: u32) -> (Duration, u32) {
        match self {
            Self::Longer => (turn * 2, passes),
            Self::Oftener => (turn, passes * 2),
        }
    }
}

/// The rules of a race.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How long a turn of the first stage is measured.
    pub turn: Duration,
    /// How later stages measure more.
    pub more: More,
    /// Passes of a round of the first stage.
    pub passes: u32,
    /// What a turn costs besides being measured, about.
    pub fixed: Duration,
    /// When it must be over, of the time of all.
    pub until: Duration,
    /// How far the guard may fall.
    pub slack: f64,
}

impl Runner {
    /// A challenger that has not run.
    pub fn new(proposal: Proposal) -> Self {
        let none = Vec::new;
        Self { proposal, differences: none(), thrift: none(), guards: none(), excess: none(), trouble: None }
    }

    /// How much better than the best so far it was.
    pub fn estimate(&self, confidence: f64) -> Estimate {
        Estimate::of(&self.differences, confidence)
    }

    /// The same with what it saves: what it is chosen by.
    pub fn appeal(&self, confidence: f64) -> Estimate {
        let all: Vec<f64> =
            self.differences.iter().zip(&self.thrift).map(|(gain, saved)| gain + saved).collect();
        Estimate::of(&all, confidence)
    }

    /// Whether it keeps to what is guarded and bounded, as far as is known.
    pub fn keeps(&self, slack: f64) -> bool {
        keeps(&self.guards, &self.excess, slack)
    }

    fn note(&mut self, turn: Turn, best: Turn) {
        self.differences.push(turn.worth() - best.worth());
        self.thrift.push(turn.thrift - best.thrift);
        self.guards.push(turn.guard - best.guard);
        self.excess.push(turn.excess - best.excess.max(0.0));
    }

    /// How it stands among others; minus infinity if it is out.
    pub fn rank(&self, slack: f64) -> f64 {
        if self.keeps(slack) { self.appeal(CONFIDENCE).mid } else { f64::NEG_INFINITY }
    }

    /// Better by far in each of at least so many rounds.
    fn is_clear(&self, rounds: usize) -> bool {
        self.differences.len() >= rounds && self.differences.iter().all(|difference| *difference > CLEAR)
    }

    /// Whether the duel is over, and how. What all its rounds do not decide is decided by their middle: whoever was there first is
    /// not better for that.
    fn decided(&self, slack: f64) -> Option<bool> {
        if !self.keeps(slack) {
            return Some(false);
        }
        let rounds = self.differences.len();
        let appeal = self.appeal(CONFIDENCE);
        let is_lost = rounds >= 3 && self.differences.iter().all(|difference| *difference < -SMALL);
        if self.is_clear(LEAP_ROUNDS) || appeal.low > 0.0 && appeal.mid > SMALL {
            return Some(true);
        }
        if is_lost || appeal.high < SMALL {
            return Some(false);
        }
        (rounds >= DUEL_ROUNDS).then_some(appeal.mid > SMALL)
    }
}

/// Whether what is guarded has not fallen by more than the slack, and all bounds hold: by the middle of the rounds.
pub fn keeps(guards: &[f64], excess: &[f64], slack: f64) -> bool {
    // Exactly at its bound is within it, whatever the last digit of a logarithm.
    const ROUNDING: f64 = 1e-9;
    Estimate::of(guards, CONFIDENCE).mid >= -slack - ROUNDING
        && Estimate::of(excess, CONFIDENCE).mid <= ROUNDING
}

/// Runs one.
pub fn race(arena: &mut dyn Arena, best: &Point, field: Vec<Proposal>, rules: Rules) -> Outcome {
    let runners = field.into_iter().map(Runner::new).collect();
    let mut outcome = Outcome { runners, winner: None, turns: 0, is_broken: false };
    let mut alive: Vec<usize> = (0..outcome.runners.len()).collect();
    let (mut turn, mut passes, mut round) = (rules.turn, rules.passes, 0);
    // What a turn costs besides being measured.
    let mut fixed = rules.fixed;
    loop {
        let turns = turns_of(alive.len()) * passes;
        let begin = arena.spent();
        // A round that cannot end in time is not begun: half of one says nothing.
        if arena.is_stopped() || begin + (fixed + turn) * turns > rules.until || alive.is_empty() {
            return outcome;
        }
        let ended = one_round(arena, best, &mut outcome.runners, &alive, (turn, passes, round));
        if ended != Ended::Well {
            outcome.is_broken = ended == Ended::Broken;
            return outcome;
        }
        fixed = (arena.spent().saturating_sub(begin) / turns).saturating_sub(turn);
        round += 1;
        outcome.turns += turns;
        alive.retain(|i| outcome.runners[*i].trouble.is_none());
        if let [last] = alive[..] {
            if let Some(has_won) = outcome.runners[last].decided(rules.slack) {
                outcome.winner = has_won.then_some(last);
                return outcome;
            }
            // A duel is as long as it needs to be, round by round.
            passes = rules.passes;
            continue;
        }
        let rank = |i: &usize| outcome.runners[*i].rank(rules.slack);
        alive.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        // Whoever cannot win needs no more of the time.
        alive.retain(|i| rank(i) > f64::NEG_INFINITY);
        if let Some(leader) = alive.first().filter(|i| outcome.runners[**i].is_clear(LEAP_ROUNDS)) {
            outcome.winner = Some(*leader);
            return outcome;
        }
        alive.truncate(alive.len().div_ceil(if round <= THIRDS { 3 } else { 2 }));
        if round == 1 {
            let unions = unions(best, &outcome.runners, &alive, rules.slack);
            alive.extend(outcome.runners.len()..outcome.runners.len() + unions.len());
            outcome.runners.extend(unions.into_iter().map(Runner::new));
        }
        (turn, passes) = rules.more.of(rules.turn, rules.passes);
    }
}

/// The changes of the best two together, and of all that looked good; where several change the same knob, that of the best.
fn unions(best: &Point, runners: &[Runner], alive: &[usize], slack: f64) -> Vec<Proposal> {
    let mut good: Vec<&Runner> = runners.iter().filter(|runner| runner.rank(slack) > SMALL).collect();
    good.sort_by(|a, b| b.rank(slack).total_cmp(&a.rank(slack)));
    let mut unions: Vec<Proposal> = Vec::new();
    for count in [2, good.len()] {
        let mut candidate = best.clone();
        let mut parts = Vec::new();
        for runner in good.iter().take(count) {
            let change = &runner.proposal.candidate;
            let knobs: Vec<usize> = (0..best.len()).filter(|knob| change[*knob] != best[*knob]).collect();
            if knobs.iter().all(|knob| candidate[*knob] == best[*knob]) {
                knobs.iter().for_each(|knob| candidate[*knob] = change[*knob]);
                parts.push(runner);
            }
        }
        let is_new = runners.iter().all(|runner| runner.proposal.candidate != candidate)
            && unions.iter().all(|union| union.candidate != candidate);
        if parts.len() > 1 && is_new {
            let hope = parts.iter().map(|runner| runner.rank(slack)).sum();
            let why = format!("{} changes that helped alone, together", parts.len());
            unions.push(Proposal { candidate, hope, why });
        }
    }
    // Nothing to unite where nobody is left to race.
    if alive.is_empty() { Vec::new() } else { unions }
}

/// Turns of one pass of so many, those of the best so far included: one before every few of them and one at the end, and in a duel only one.
pub fn turns_of(alive: usize) -> u32 {
    let own = if alive == 1 { 1 } else { alive.div_ceil(BETWEEN) + 1 };
    (alive + own) as u32
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All who could had their turns.
    Well,
    /// Somebody stopped it.
    Stopped,
    /// The best so far could not run: nothing can be compared with it.
    Broken,
}

/// So many passes, and what each came to on the mean of them, against the best so far of the same pass.
pub fn one_round(
    arena: &mut dyn Arena,
    best: &Point,
    runners: &mut [Runner],
    alive: &[usize],
    (turn, passes, round): (Duration, u32, u32),
) -> Ended {
    let mut seen: Vec<Vec<(Turn, Turn)>> = vec![Vec::new(); runners.len()];
    for pass in 0..passes {
        let order = (turn, round * passes + pass);
        let turns = match one_pass(arena, best, runners, alive, order) {
            Ok(turns) => turns,
            Err(ended) => return ended,
        };
        turns.into_iter().for_each(|(i, turn, own)| seen[i].push((turn, own)));
    }
    for (runner, turns) in runners.iter_mut().zip(seen).filter(|(runner, _)| runner.trouble.is_none()) {
        let (turns, own): (Vec<Turn>, Vec<Turn>) = turns.into_iter().unzip();
        if let Some((turn, own)) = Turn::mean(&turns).zip(Turn::mean(&own)) {
            runner.note(turn, own);
        }
    }
    Ended::Well
}

/// Each has its turn, and the best so far has one before, after, and between every few of them: what it would have come to at the
/// moment of somebody else's turn lies between its own turns before and after that. Whoever has run, with that.
fn one_pass(
    arena: &mut dyn Arena,
    best: &Point,
    runners: &mut [Runner],
    alive: &[usize],
    (turn, pass): (Duration, u32),
) -> Result<Vec<(usize, Turn, Turn)>, Ended> {
    let mut order: Vec<usize> = alive.iter().copied().filter(|i| runners[*i].trouble.is_none()).collect();
    if pass % 2 == 1 {
        order.reverse();
    }
    // A duel alternates, so that both come first as often: one turn of the best each.
    let is_duel = order.len() == 1;
    let mut own: Vec<(f64, Turn)> = Vec::new();
    let mut turns: Vec<(usize, f64, Turn)> = Vec::new();
    let middle = |before: Duration, after: Duration| (before + after).as_secs_f64() / 2.0;
    let of_best = |arena: &mut dyn Arena| {
        let before = arena.spent();
        match arena.turn(best, turn) {
            Ok(turn) => Ok((middle(before, arena.spent()), turn)),
            // An interrupt reaches whoever the turn needs, too.
            Err(_) if arena.is_stopped() => Err(Ended::Stopped),
            Err(_) => Err(Ended::Broken),
        }
    };
    for (place, i) in order.iter().enumerate() {
        if place % BETWEEN == 0 && !(is_duel && pass % 2 == 1) {
            own.push(of_best(arena)?);
        }
        let before = arena.spent();
        match arena.turn(&runners[*i].proposal.candidate, turn) {
            Ok(turn) => turns.push((*i, middle(before, arena.spent()), turn)),
            Err(trouble) => runners[*i].trouble = Some(trouble),
        }
        if arena.is_stopped() {
            return Err(Ended::Stopped);
        }
    }
    if !is_duel || pass % 2 == 1 {
        own.push(of_best(arena)?);
    }
    Ok(turns.into_iter().map(|(i, at, turn)| (i, turn, at_time(&own, at))).collect())
}

/// What the best so far would have come to at a time, by its turns around it.
fn at_time(own: &[(f64, Turn)], at: f64) -> Turn {
    let after = own.iter().position(|(time, _)| *time > at).unwrap_or(own.len());
    let (before, after) = (after.saturating_sub(1), after.min(own.len() - 1));
    let ((t0, a), (t1, b)) = (own[before], own[after]);
    let share = if t1 > t0 { ((at - t0) / (t1 - t0)).clamp(0.0, 1.0) } else { 0.0 };
    let mix = |a: f64, b: f64| a + (b - a) * share;
    Turn {
        score: mix(a.score, b.score),
        thrift: mix(a.thrift, b.thrift),
        guard: mix(a.guard, b.guard),
        excess: mix(a.excess, b.excess),
    }
}
