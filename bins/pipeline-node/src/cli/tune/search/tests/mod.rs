//! The search over functions that are known, under noise, accidents and drift like those of a machine that others use too.

mod broken;
mod starts;
mod taken_back;

use super::*;
use crate::cli::draw::{Draw, mix};

/// Levels of each knob.
const LEVELS: [u8; 6] = [4, 5, 3, 6, 4, 2];
/// What a turn costs besides being measured, seconds.
const START_S: f64 = 0.35;

/// A machine that is not there.
struct Synthetic {
    seed: u64,
    draw: Draw,
    spent_s: f64,
    optimum: Point,
    /// Standard deviation of a turn of half a second.
    noise: f64,
    /// How far the machine swings within a minute, and what it loses in one, as a logarithm.
    drift: f64,
    /// How much slower it is for three seconds of each fourteen, as a logarithm.
    slow: f64,
    /// By how much the guard falls with each step of the first knob.
    guard: f64,
    /// What a turn costs besides being measured, seconds.
    start_s: f64,
    /// How much worse than at its best a start may be, as logarithms, each as likely; the same for all of a turn.
    starts: &'static [f64],
    /// What each step of a knob costs.
    weights: [f64; 6],
    /// Whole structures to propose.
    seeds: Vec<Point>,
}

impl Synthetic {
    fn new(seed: u64, (noise, drift, slow): (f64, f64, f64)) -> Self {
        let mut draw = Draw::new(seed);
        let optimum = LEVELS.iter().map(|levels| draw.below(u64::from(*levels)) as u8).collect();
        let weights = [0.25, 0.06, 0.15, 0.08, 0.03, 0.5];
        let (guard, start_s, starts, seeds) = (0.0, START_S, &[0.0][..], Vec::new());
        Self { seed, draw, spent_s: 0.0, optimum, noise, drift, slow, guard, start_s, starts, weights, seeds }
    }

    /// How good a candidate really is: each knob costs by its distance from the optimum, some together more than alone.
    fn truth(&self, candidate: &Point) -> f64 {
        let off: Vec<f64> =
            candidate.iter().zip(&self.optimum).map(|(a, b)| f64::from(a.abs_diff(*b))).collect();
        let alone: f64 = off.iter().zip(self.weights).map(|(off, weight)| weight * off).sum();
        let is_free = |knob: usize| self.weights[knob] == 0.0;
        let pair = if is_free(3) { 0.0 } else { 0.1 * off[0] * off[3].min(1.0) };
        let root = if is_free(1) { 0.0 } else { 0.05 * (off[1] * off[2]).sqrt() };
        -alone - pair - root
    }

    fn normal(&mut self) -> f64 {
        let mut unit = || (self.draw.below(1 << 20) as f64 + 0.5) / f64::from(1 << 20);
        let (a, b) = (unit(), unit());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// What the machine is like now.
    fn machine(&self) -> f64 {
        let slow = if (self.spent_s / 14.0).fract() > 0.8 { self.slow } else { 0.0 };
        self.drift * (0.5 * (self.spent_s / 9.0).sin() - self.spent_s / 60.0) - slow
    }
}

impl Arena for Synthetic {
    fn turn(&mut self, candidate: &Point, measured: Duration) -> Result<Turn, String> {
        self.spent_s += self.start_s + measured.as_secs_f64();
        let noise = self.noise * (0.5 / measured.as_secs_f64()).sqrt() * self.normal();
        let accident = if self.draw.below(20) == 0 { -0.5 } else { 0.0 };
        let start = self.starts[self.draw.below(self.starts.len() as u64) as usize];
        let score = self.truth(candidate) + noise + accident + self.machine() - start;
        Ok(Turn { score, thrift: 0.0, guard: -self.guard * f64::from(candidate[0]), excess: 0.0 })
    }

    fn propose(&mut self, best: &Point) -> Vec<Proposal> {
        let seed =
            |candidate: &Point| Proposal { candidate: candidate.clone(), hope: 0.2, why: String::new() };
        self.seeds.iter().map(seed).chain(neighbours(best, self)).collect()
    }

    fn spent(&self) -> Duration {
        Duration::from_secs_f64(self.spent_s)
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

/// All that differ in one knob. What is hoped of them is half of the truth, and the contrary of it for one in three.
fn neighbours(of: &Point, world: &Synthetic) -> Vec<Proposal> {
    let mut all = Vec::new();
    for (knob, levels) in LEVELS.iter().enumerate() {
        for level in (0..*levels).filter(|level| *level != of[knob]) {
            let mut candidate = of.clone();
            candidate[knob] = level;
            let is_wrong = mix(knob as u64 * 64 + u64::from(level) + world.seed * 4096).is_multiple_of(3);
            let truth = world.truth(&candidate) - world.truth(of);
            let hope = if is_wrong { -truth / 2.0 } else { truth / 2.0 };
            all.push(Proposal { candidate, hope, why: String::new() });
        }
    }
    all
}

fn plan() -> Plan {
    let (budget, turn) = (Duration::from_secs(240), Duration::from_millis(400));
    Plan { budget, turn, more: More::Longer, passes: 1, slack: f64::INFINITY }
}

fn run(arena: &mut Synthetic, base: &Point) -> Found {
    search(arena, base, plan()).unwrap()
}

fn taken(found: &Found, base: &Point) -> Point {
    let is_better = found.verdict.as_ref().is_some_and(|verdict| verdict.is_better);
    if is_better { found.best.clone() } else { base.clone() }
}

/// A file that is wrong in every other knob, and far off there.
fn bad(arena: &Synthetic) -> Point {
    let far = |best: u8, levels: u8| if best >= levels / 2 { 0 } else { levels - 1 };
    let knobs = arena.optimum.iter().zip(LEVELS).enumerate();
    knobs.map(|(knob, (best, levels))| if knob % 2 == 0 { far(*best, levels) } else { *best }).collect()
}

/// Of a hundred seeds, how many end so near to the optimum.
fn found_of(machine: (f64, f64, f64), within: f64) -> usize {
    let is_found = |seed: &u64| {
        let mut arena = Synthetic::new(*seed, machine);
        let base = bad(&arena);
        let found = run(&mut arena, &base);
        arena.truth(&taken(&found, &base)) > (1.0 - within).ln() - 1e-9
    };
    (0..100).filter(is_found).count()
}

/// From a bad file it comes within 5 % of the optimum in at least 95 of 100 seeds, where one turn in twenty is an accident.
#[test]
fn it_finds_the_optimum() {
    let found = found_of((0.05, 0.0, 0.0), 0.05);
    assert!(found >= 95, "{found} of 100");
}

/// The same where the machine swings by a third within a minute and loses a quarter of its speed in each.
#[test]
fn drift_does_not_matter() {
    let found = found_of((0.05, 0.3, 0.0), 0.05);
    assert!(found >= 95, "{found} of 100");
}

/// Where it is also a quarter slower for three seconds of each fourteen, it still comes within 10 % in at least 90 of 100.
#[test]
fn slow_seconds_cost_little() {
    let found = found_of((0.05, 0.3, 0.3), 0.1);
    assert!(found >= 90, "{found} of 100");
}

/// From the optimum it changes nothing, but for at most 2 of 100 seeds, whatever the noise.
#[test]
fn the_optimum_is_left_alone() {
    for machine in [(0.05, 0.0, 0.0), (0.25, 0.3, 0.6)] {
        let is_changed = |seed: &u64| {
            let mut arena = Synthetic::new(*seed, machine);
            let base = arena.optimum.clone();
            taken(&run(&mut arena, &base), &base) != base
        };
        let changed = (0..100).filter(is_changed).count();
        assert!(changed <= 2, "{changed} of 100 on {machine:?}");
    }
}

/// What is guarded is never given for the goal: where the first knob costs it more than the slack with each step, that knob stays.
#[test]
fn what_is_guarded_stays() {
    for seed in 0..20 {
        let mut arena = Synthetic::new(seed, (0.05, 0.0, 0.0));
        arena.guard = 0.3;
        arena.optimum[0] = 3;
        let mut base = bad(&arena);
        base[0] = 0;
        let plan = Plan { slack: 0.1, ..plan() };
        let found = search(&mut arena, &base, plan).unwrap();
        assert_eq!(taken(&found, &base)[0], 0, "seed {seed}");
    }
}

/// A budget that holds no seven pairs changes nothing, however large the difference: nobody could be sure.
#[test]
fn too_little_time_changes_nothing() {
    let mut arena = Synthetic::new(1, (0.05, 0.0, 0.0));
    let base = bad(&arena);
    let found = search(&mut arena, &base, Plan { budget: Duration::from_secs(5), ..plan() }).unwrap();
    assert_eq!(taken(&found, &base), base);
    assert_eq!(found.end, End::Budget);
}
