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

/// Starts that differ by a fifth, one from the other: in two minutes it comes within 25 % of the optimum, in ten within 10 %, in half
/// an hour within 5 %, in at least 95 of 100 seeds; what is nearer cannot be told from it in that time.
#[test]
fn starts_that_differ() {
    for (budget_s, within) in [(120, 0.25), (600, 0.1), (1800, 0.05)] {
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
