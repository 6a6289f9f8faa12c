//! Where each start of a candidate is another one almost: latency of one request at a time, as it was measured (docs/tuning.md).

use super::*;

/// How much above the least the median of a start was, of twenty starts of one file: the system had put its threads elsewhere.
const STARTS: &[f64] = &[
    0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.23, 0.23, 0.23, 0.23, 0.23, 0.23, 0.23, 0.4, 0.4, 0.4,
    0.75,
];
/// What a start costs: it, the way to the target, its warm-up, its end.
const LATENCY_START_S: f64 = 0.19;

fn world(seed: u64) -> Synthetic {
    let mut arena = Synthetic::new(seed, (0.02, 0.3, 0.0));
    (arena.starts, arena.start_s) = (STARTS, LATENCY_START_S);
    arena
}

fn plan(budget_s: u64) -> Plan {
    let (budget, turn) = (Duration::from_secs(budget_s), Duration::from_millis(50));
    Plan { budget, turn, more: More::Oftener, passes: (budget_s / 40).min(16) as u32, slack: f64::INFINITY }
}

fn found(budget_s: u64, within: f64) -> usize {
    let is_found = |seed: &u64| {
        let mut arena = world(*seed);
        let base = bad(&arena);
        let found = search(&mut arena, &base, plan(budget_s)).unwrap();
        arena.truth(&taken(&found, &base)) > (1.0 - within).ln() - 1e-9
    };
    (0..100).filter(is_found).count()
}

/// Starts that differ by a fifth, one from the other: in two minutes it comes within 25 % of the optimum, in ten within 5 %, in at
/// least 95 of 100 seeds; what is nearer cannot be told from it in that time.
#[test]
fn starts_that_differ() {
    for (budget_s, within) in [(120, 0.25), (600, 0.05)] {
        let found = found(budget_s, within);
        assert!(found >= 95, "{found} of 100 within {within} in {budget_s} s");
    }
}

/// From the optimum it changes nothing, but for at most 2 of 100 seeds.
#[test]
fn the_optimum_is_left_alone() {
    let is_changed = |seed: &u64| {
        let mut arena = world(*seed);
        let base = arena.optimum.clone();
        let found = search(&mut arena, &base, plan(120)).unwrap();
        taken(&found, &base) != base
    };
    let changed = (0..100).filter(is_changed).count();
    assert!(changed <= 2, "{changed} of 100");
}

/// The files of the proof, about: one worker for all is a third better, handing over inline half of that, sleeping at once twice as
/// bad, and all else makes no difference.
struct Proof {
    world: Synthetic,
    /// From when until when a structure is worth little, seconds: the host has put the CPUs elsewhere.
    lulls: Vec<(f64, f64)>,
}

/// What is left of a gain in a lull.
const LULL: f64 = 0.05;
/// One worker; its wait; threads; two queues; depth; how stages hand over.
const PROOF_LEVELS: [u8; 7] = [2, 4, 2, 3, 3, 4, 3];

impl Proof {
    fn new(seed: u64) -> Self {
        Self { world: world(seed), lulls: Vec::new() }
    }

    /// The same where some 15 to 45 seconds in a hundred are a lull.
    fn with_lulls(seed: u64) -> Self {
        let mut draw = Draw::new(seed + 7_000);
        let mut seconds = |least: u64, most: u64| (least + draw.below(most - least)) as f64;
        let mut at = 0.0;
        let lulls = (0..20).map(|_| {
            let from = at + seconds(10, 60);
            at = from + seconds(5, 30);
            (from, at)
        });
        Self { lulls: lulls.collect(), ..Self::new(seed) }
    }

    fn found(mut self) -> f64 {
        let base: Point = vec![0, 0, 0, 0, 1, 0, 0];
        let found = search(&mut self, &base, plan(120)).unwrap();
        Self::truth(&taken(&found, &base))
    }

    fn truth(candidate: &Point) -> f64 {
        let structure = match (candidate[0], candidate[6]) {
            (1, _) => 0.3,
            (_, 2) => 0.22,
            _ => 0.0,
        };
        structure - [0.0, 0.03, 0.0, 0.6][usize::from(candidate[1])]
    }
}

impl Arena for Proof {
    fn turn(&mut self, candidate: &Point, measured: Duration) -> Result<Turn, String> {
        // What the other one makes of a candidate of its own, and this one's truth instead of that one's.
        let optimum = self.world.optimum.clone();
        let turn = self.world.turn(&optimum, measured)?;
        let at = self.world.spent_s;
        let is_lull = self.lulls.iter().any(|(from, until)| (*from..*until).contains(&at));
        let truth = Self::truth(candidate);
        let gain = if is_lull { truth.min(LULL) } else { truth };
        // One worker takes half the CPU time.
        let thrift = if candidate[0] == 1 { 0.05 } else { 0.0 };
        Ok(Turn { score: turn.score + gain, thrift, ..turn })
    }

    fn propose(&mut self, best: &Point) -> Vec<Proposal> {
        let proposal = |candidate, hope| Proposal { candidate, hope, why: String::new() };
        let whole =
            [[1, 1, 1, 2, 0, 0, 2], [1, 2, 1, 2, 0, 0, 2], [1, 3, 1, 2, 0, 0, 2], [0, 1, 1, 2, 0, 0, 0]];
        let mut all: Vec<Proposal> = whole.iter().map(|whole| proposal(whole.to_vec(), 0.2)).collect();
        for (knob, levels) in PROOF_LEVELS.iter().enumerate() {
            for level in (0..*levels).filter(|level| *level != best[knob]) {
                let mut candidate = best.clone();
                candidate[knob] = level;
                all.push(proposal(candidate, 0.05));
            }
        }
        all
    }

    fn spent(&self) -> Duration {
        self.world.spent()
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

/// A gain of a third, as the proof's, is found in two minutes in at least 95 of 100 seeds, where starts differ by as much.
#[test]
fn a_third_is_found_in_two_minutes() {
    let found = (0..100).filter(|seed| Proof::new(*seed).found() > 0.24).count();
    assert!(found >= 95, "{found} of 100");
}

/// The same where for some seconds of every minute the host makes all structures alike, in at least 95 of 100.
#[test]
fn lulls_do_not_hide_it() {
    let found = (0..100).filter(|seed| Proof::with_lulls(*seed).found() > 0.24).count();
    assert!(found >= 95, "{found} of 100");
}
