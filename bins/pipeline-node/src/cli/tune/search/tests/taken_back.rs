//! What came along with a winner and does not matter.

use super::*;

/// Three knobs that make no difference, and a structure that changes all six.
fn world(seed: u64) -> (Synthetic, Point) {
    let mut arena = Synthetic::new(seed, (0.05, 0.3, 0.0));
    arena.weights = [0.25, 0.0, 0.15, 0.0, 0.0, 0.5];
    let base: Point =
        arena.optimum.iter().zip(LEVELS).map(|(best, levels)| (best + levels / 2) % levels).collect();
    arena.seeds = vec![arena.optimum.clone()];
    (arena, base)
}

/// Of what came along and makes no difference a third and more is taken back, as far as the time for it goes, and nothing that
/// matters.
#[test]
fn what_does_not_matter_goes() {
    let (mut left, mut found) = (0, 0);
    for seed in 0..100 {
        let (mut arena, base) = world(seed);
        let taken = taken(&run(&mut arena, &base), &base);
        left += [1, 3, 4].into_iter().filter(|knob| taken[*knob] != base[*knob]).count();
        found += usize::from(arena.truth(&taken) > 0.95_f64.ln());
    }
    assert!(left <= 200, "{left} of 300 changes that make no difference are left");
    assert!(found >= 95, "{found} of 100");
}

/// A change that costs as much as another one brings is taken back, and the other one stays: what is written is only what helps.
#[test]
fn halves_of_a_group_are_told_apart() {
    let mut told = 0;
    for seed in 0..20 {
        let (mut arena, base) = world(seed);
        arena.weights = [0.3, 0.2, 0.0, 0.0, 0.0, 0.0];
        let mut best = base.clone();
        // The first knob is put right, the second one further off.
        best[0] = arena.optimum[0];
        arena.optimum[1] = base[1];
        best[1] = (base[1] + 1) % LEVELS[1];
        let mut changed = best.clone();
        let both = prune::Changed { along: vec![1, 0], alone: Vec::new() };
        let pruned = prune(
            &mut arena,
            &base,
            &mut changed,
            &both,
            plan().rules(Duration::from_millis(350), plan().budget),
        );
        told += usize::from(changed[0] == best[0] && changed[1] == base[1]);
        assert!(pruned.iter().all(|tried| tried.runners.len() == 1));
    }
    assert!(told >= 18, "{told} of 20");
}
