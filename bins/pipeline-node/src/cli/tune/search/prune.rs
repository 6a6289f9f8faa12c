//! Taking back what does not matter: changes that came along with others (a whole structure, a union), and each line of a file that
//! is there for nothing is one that somebody has to explain.
//!
//! By halves (as delta debugging does, Zeller 1999): half of the changes are taken back at once, those of least use first; if that
//! costs nothing they stay away, else each half of them is tried. Changes for which nothing spoke but that others did well with them
//! go when they are not seen to help; those that have run alone stay while it is not seen that they do not. Where there is no time to
//! see what a change is worth, it stays.

use super::Estimate;
use super::arena::{Arena, Point, Proposal};
use super::race::{Ended, Rules, Runner, one_round};
use super::{Race, WORTH};

/// How sure it must be that something costs something.
const CONFIDENCE: f64 = 0.7;
/// Rounds after which the middle decides, and never before: who stops as soon as it looks good stops at accidents.
const ROUNDS: u32 = 12;
/// Worse in each of so many rounds: no more are needed.
const LOST_ROUNDS: usize = 3;

/// Changes by knob, in the order in which they are taken back.
#[derive(Debug, Default)]
pub struct Changed {
    /// Those for which nothing speaks but their company.
    pub along: Vec<usize>,
    /// Those that have run alone as well.
    pub alone: Vec<usize>,
}

/// Takes back of `best` what costs nothing. What was tried, in the order in which it was.
pub fn prune(
    arena: &mut dyn Arena,
    base: &Point,
    best: &mut Point,
    changed: &Changed,
    rules: Rules,
) -> Vec<Race> {
    let mut tried = Vec::new();
    for (order, must_be_seen) in [(&changed.along, false), (&changed.alone, true)] {
        tried.extend(of(arena, base, best, (order, must_be_seen), rules));
    }
    tried
}

fn of(
    arena: &mut dyn Arena,
    base: &Point,
    best: &mut Point,
    (order, must_be_seen): (&[usize], bool),
    rules: Rules,
) -> Vec<Race> {
    let mut tried = Vec::new();
    let mut groups = vec![order.to_vec()];
    while let Some(group) = groups.pop() {
        let rounds = rules.passes * ROUNDS;
        // Half of the rounds may do to see that something is worth its place; what is not begun stays.
        if arena.is_stopped() || arena.spent() + (rules.fixed + rules.turn) * rounds > rules.until {
            break;
        }
        let mut candidate = best.clone();
        group.iter().for_each(|knob| candidate[*knob] = base[*knob]);
        // Something else that was taken back may have taken the meaning from these.
        let candidate = arena.plain(&candidate);
        if candidate == *best {
            continue;
        }
        if candidate == *base {
            // Nothing is left then, and that has lost already.
            groups.extend(halves(&group));
            continue;
        }
        let why = "taken back: does it cost anything?".to_owned();
        let mut runner = Runner::new(Proposal { candidate, hope: 0.0, why });
        // Where the best itself does not run, nothing is seen of others.
        let Some(is_free) = is_free(arena, best, &mut runner, rules) else { break };
        let is_free = is_free && (!must_be_seen || is_seen(&runner.appeal(CONFIDENCE)));
        let next = runner.proposal.candidate.clone();
        tried.push(Race { best: best.clone(), runners: vec![runner], winner: is_free.then_some(0) });
        match is_free {
            true => *best = next,
            false => groups.extend(halves(&group)),
        }
    }
    tried
}

/// Whether it is seen, and not only not excluded, that something costs nothing.
fn is_seen(without: &Estimate) -> bool {
    without.mid > 0.0 && without.low > -WORTH
}

/// The first half last: it is taken from the end. What is single has none.
fn halves(group: &[usize]) -> Vec<Vec<usize>> {
    let (first, second) = group.split_at(group.len().div_ceil(2));
    if second.is_empty() { Vec::new() } else { vec![second.to_vec(), first.to_vec()] }
}

/// Whether a candidate that has less is as good as the best. `None` when it was stopped, or the best could not run.
fn is_free(arena: &mut dyn Arena, best: &Point, runner: &mut Runner, rules: Rules) -> Option<bool> {
    let mut fixed = rules.fixed;
    for round in 0..ROUNDS {
        let (turns, begin) = (2 * rules.passes, arena.spent());
        if begin + (fixed + rules.turn) * turns > rules.until {
            return Some(false);
        }
        let runners = std::slice::from_mut(runner);
        if one_round(arena, best, runners, &[0], (rules.turn, rules.passes, round)) != Ended::Well {
            return None;
        }
        fixed = (arena.spent().saturating_sub(begin) / turns).saturating_sub(rules.turn);
        if runner.trouble.is_some() || !runner.keeps(rules.slack) {
            return Some(false);
        }
        let appeal = runner.appeal(CONFIDENCE);
        let is_lost = runner.differences.len() >= LOST_ROUNDS
            && runner.differences.iter().all(|difference| *difference < -WORTH);
        if is_lost || appeal.high < 0.0 {
            return Some(false);
        }
    }
    Some(runner.appeal(CONFIDENCE).mid > -WORTH / 2.0)
}
