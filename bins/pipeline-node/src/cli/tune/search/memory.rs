//! What earlier races say of proposals: who goes first where there is no time for all. Deliberately only an order: nothing is
//! believed that did not run.

use std::collections::{HashMap, HashSet};

use super::arena::{Point, Proposal};
use super::prune::Changed;
use super::race::Runner;

/// Differences below this are noise as far as the order goes.
const STEP: f64 = 0.02;
/// After so many rounds what was seen of a candidate is no accident.
const ROUNDS_SURE: usize = 3;
/// How often a candidate may be in a field.
const LOOKS: usize = 3;

/// What was tried, and how levels of single knobs did.
#[derive(Debug, Default)]
pub struct Memory {
    /// By candidate: how often it was in a field, and rounds of the last time.
    tried: HashMap<Point, (usize, usize)>,
    /// Those that may run once more.
    again: HashSet<Point>,
    /// By knob and level: how good it was, on a scale of that knob.
    levels: HashMap<(usize, u8), f64>,
    /// The same of all that ran alone, whatever is to be forgotten when they run once more.
    alone: HashMap<(usize, u8), f64>,
    /// By knob: how often it was changed.
    changed: HashMap<usize, usize>,
}

fn knobs(of: &Point, against: &Point) -> Vec<usize> {
    (0..of.len()).filter(|knob| of[*knob] != against[*knob]).collect()
}

impl Memory {
    /// This one has run.
    pub fn tried(&mut self, candidate: &Point, rounds: usize) {
        let (looks, last) = self.tried.entry(candidate.clone()).or_default();
        (*looks, *last) = (*looks + 1, rounds);
        self.again.remove(candidate);
    }

    /// Nothing is left that has not run, and there is time: those that were sent off at once may run once more. One turn is one
    /// accident of the machine. So what it says of their order is forgotten.
    pub fn look_again(&mut self) {
        let is_done = |looks: usize, rounds: usize| looks >= LOOKS || rounds > ROUNDS_SURE;
        self.again = self
            .tried
            .iter()
            .filter(|(_, (looks, rounds))| !is_done(*looks, *rounds))
            .map(|(c, _)| c.clone())
            .collect();
        self.levels.clear();
    }

    /// A race against `best` is over.
    pub fn note(&mut self, best: &Point, runners: &[Runner]) {
        for runner in runners {
            let candidate = &runner.proposal.candidate;
            self.tried(candidate, runner.differences.len());
            let changed = knobs(candidate, best);
            changed.iter().for_each(|knob| *self.changed.entry(*knob).or_default() += 1);
            if let ([knob], false) = (&changed[..], runner.differences.is_empty()) {
                let gain = runner.estimate(0.5).mid;
                for scale in [&mut self.levels, &mut self.alone] {
                    let was = *scale.entry((*knob, best[*knob])).or_insert(0.0);
                    scale.insert((*knob, candidate[*knob]), was + gain);
                }
            }
        }
    }

    /// Knobs in which a candidate differs from the base, those first that brought least alone, and of those that never ran alone the
    /// later ones first: those are plain sizes, and the first ones say who runs what.
    pub fn changed(&self, base: &Point, best: &Point) -> Changed {
        let alone = |knob: usize, level: u8| self.alone.get(&(knob, level)).copied();
        let gain =
            |knob: usize| alone(knob, best[knob]).zip(alone(knob, base[knob])).map(|(new, old)| new - old);
        let mut order = knobs(best, base);
        let least = |knob: usize| gain(knob).unwrap_or(0.0);
        order.sort_by(|a, b| least(*a).total_cmp(&least(*b)).then(b.cmp(a)));
        let (alone, along) = order.into_iter().partition(|knob| gain(*knob).is_some());
        Changed { along, alone }
    }

    fn level(&self, knob: usize, level: u8) -> Option<f64> {
        self.levels.get(&(knob, level)).copied()
    }

    /// What is to be expected of a proposal: how its levels did beside those of the best so far; its own hope only where some of
    /// them have not run.
    fn expect(&self, proposal: &Proposal, best: &Point, hope: f64) -> f64 {
        let (mut sum, mut is_known) = (0.0, true);
        for knob in knobs(&proposal.candidate, best) {
            let (new, old) = (self.level(knob, proposal.candidate[knob]), self.level(knob, best[knob]));
            is_known &= new.is_some();
            sum += new.zip(old).map_or(0.0, |(new, old)| new - old);
        }
        if is_known { sum } else { sum + hope }
    }

    /// So many of the proposals that have not run: those of which most is expected, and of equal ones those whose knobs were
    /// changed least, so that no knob waits for all levels of another. Every third is picked without its hope: who proposes may be
    /// wrong, and would never be told.
    pub fn pick(&self, mut proposals: Vec<Proposal>, best: &Point, count: usize) -> Vec<Proposal> {
        proposals.retain(|proposal| {
            !self.tried.contains_key(&proposal.candidate) || self.again.contains(&proposal.candidate)
        });
        let mut changed = self.changed.clone();
        let mut field: Vec<Proposal> = Vec::new();
        while field.len() < count && !proposals.is_empty() {
            let is_hopeful = field.len() % 3 != 2;
            let key = |proposal: &Proposal| {
                let hope = if is_hopeful { proposal.hope } else { 0.0 };
                let steps = (self.expect(proposal, best, hope) / STEP).round() as i64;
                let least =
                    knobs(&proposal.candidate, best).iter().map(|knob| changed.get(knob).copied()).min();
                (-steps, least.flatten().unwrap_or(0))
            };
            let first = (0..proposals.len()).min_by_key(|i| key(&proposals[*i]));
            let Some(first) = first else { break };
            let chosen = proposals.remove(first);
            proposals.retain(|proposal| proposal.candidate != chosen.candidate);
            knobs(&chosen.candidate, best)
                .into_iter()
                .for_each(|knob| *changed.entry(knob).or_default() += 1);
            field.push(chosen);
        }
        field
    }
}
