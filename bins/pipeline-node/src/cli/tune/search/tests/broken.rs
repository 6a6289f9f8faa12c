//! What fails in the middle: the target of all, or a candidate that seemed to run.

use super::*;

/// A world in which nothing runs for a while, or candidates fail now and then.
struct Failing {
    world: Synthetic,
    turns: usize,
    /// Which turns fail, whoever's they are.
    gone: std::ops::Range<usize>,
    /// Whoever differs from this one fails in one turn of so many.
    flaky: Option<(Point, usize)>,
}

impl Failing {
    fn new(gone: std::ops::Range<usize>) -> Self {
        Self { world: Synthetic::new(1, (0.05, 0.0, 0.0)), turns: 0, gone, flaky: None }
    }
}

impl Arena for Failing {
    fn turn(&mut self, candidate: &Point, measured: Duration) -> Result<Turn, String> {
        self.turns += 1;
        if self.gone.contains(&self.turns) {
            self.world.spent_s += self.world.start_s;
            return Err("the target is gone".into());
        }
        if self.flaky.as_ref().is_some_and(|(base, of)| candidate != base && self.turns.is_multiple_of(*of)) {
            return Err("it failed".into());
        }
        self.world.turn(candidate, measured)
    }

    fn propose(&mut self, best: &Point) -> Vec<Proposal> {
        self.world.propose(best)
    }

    fn spent(&self) -> Duration {
        self.world.spent()
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

/// A target that goes and stays away ends the search at whatever turn, with the reason, after a few more turns at most, and never as if
/// there were nothing to change.
#[test]
fn a_target_that_goes_is_told() {
    let mut whole = Failing::new(0..0);
    let base = bad(&whole.world);
    search(&mut whole, &base, plan()).unwrap();
    let all = whole.turns;
    assert!(all > 100, "{all}");
    for first in 2..=all {
        let mut arena = Failing::new(first..usize::MAX);
        let found = search(&mut arena, &base, plan()).unwrap();
        assert_eq!(found.end, End::Broken("the target is gone".into()), "from turn {first} of {all}");
        assert!(found.verdict.is_none() && arena.turns < first + 10, "{} after {first}", arena.turns);
    }
    let found = search(&mut Failing::new(1..usize::MAX), &base, plan());
    assert_eq!(found.unwrap_err(), "the target is gone");
}

/// A target that is away for one turn costs the race that it was in, and no more: what is found is near the optimum all the same.
#[test]
fn a_target_that_comes_back() {
    for first in [5, 20, 40] {
        let mut arena = Failing::new(first..first + 1);
        let base = bad(&arena.world);
        let found = search(&mut arena, &base, plan()).unwrap();
        assert!(found.verdict.is_some_and(|verdict| verdict.is_better), "from turn {first}");
        assert!(arena.world.truth(&found.best) > -0.1, "from turn {first}");
    }
}

/// Candidates that fail now and then never end a search as if the file no longer ran.
#[test]
fn candidates_that_fail_now_and_then() {
    for of in [5, 17, 60] {
        let mut arena = Failing::new(0..0);
        let base = bad(&arena.world);
        arena.flaky = Some((base.clone(), of));
        let found = search(&mut arena, &base, plan()).unwrap();
        assert!(!matches!(found.end, End::Broken(_)), "one of {of}");
    }
}
