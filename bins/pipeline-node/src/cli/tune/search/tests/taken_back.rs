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

/// What has run alone counts as that when it is taken back, also after a second look at all others has begun; what came along does not.
#[test]
fn what_ran_alone_is_remembered() {
    let (base, best) = (vec![0, 0, 0], vec![1, 1, 0]);
    let mut runner = Runner::new(Proposal { candidate: vec![1, 0, 0], hope: 0.0, why: String::new() });
    runner.differences = vec![0.1; 4];
    let mut memory = Memory::default();
    memory.note(&base, &[runner]);
    memory.look_again();
    let changed = memory.changed(&base, &best);
    assert_eq!((changed.alone, changed.along), (vec![0], vec![1]));
}

/// A pass of so many takes as many turns as are counted for it, whatever their number: fields and rounds are sized by that.
#[test]
fn turns_are_counted() {
    for field in 1..=16_usize {
        let (mut arena, base) = world(1);
        let proposal = |i: usize| {
            let mut candidate = base.clone();
            candidate[i % 6] = (candidate[i % 6] + 1) % LEVELS[i % 6];
            Proposal { candidate, hope: 0.0, why: String::new() }
        };
        let mut runners: Vec<Runner> = (0..field).map(|i| Runner::new(proposal(i))).collect();
        let alive: Vec<usize> = (0..field).collect();
        let order = (Duration::from_millis(400), 1, 0);
        race::one_round(&mut arena, &base, &mut runners, &alive, order);
        let turns = (arena.spent_s / (START_S + 0.4)).round();
        assert_eq!(turns, f64::from(race::turns_of(field)), "a field of {field}");
    }
}
