//! What the search needs of the world: somebody who proposes candidates, lets one run once, and tells what it came to. Deliberately
//! that little, so that tests can put any function, noise and drift in its place.

use std::time::Duration;

/// A candidate: for each knob of the space which of its levels it has.
pub type Point = Vec<u8>;

/// What one turn of a candidate came to. All three are natural logarithms, or differences of them, so that their differences
/// are ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// The goal; more is better.
    pub score: f64,
    /// What it saves besides, where the goal hardly tells two apart: counts when one is chosen, and never for old against new.
    pub thrift: f64,
    /// What must not fall by more than the slack of the goal (throughput, or one over p99); 0 where nothing is guarded.
    pub guard: f64,
    /// How far the worst of the bounds on figures is missed; at most 0 where all hold.
    pub excess: f64,
}

impl Turn {
    /// What one miss of a bound by a factor of e costs, in the same units: enough that a file which breaks one is given up for
    /// one that breaks it less, and only then for one that is faster.
    const MISS: f64 = 10.0;

    /// The mean of several; of none there is none.
    pub fn mean(of: &[Self]) -> Option<Self> {
        let mean = |what: fn(&Self) -> f64| of.iter().map(what).sum::<f64>() / of.len() as f64;
        let all = || Self {
            score: mean(|t| t.score),
            thrift: mean(|t| t.thrift),
            guard: mean(|t| t.guard),
            excess: mean(|t| t.excess),
        };
        (!of.is_empty()).then(all)
    }

    /// How good it is, all in all.
    pub fn worth(&self) -> f64 {
        self.score - Self::MISS * self.excess.max(0.0)
    }
}

/// Lets candidates run.
pub trait Arena {
    /// One turn, measured for about so long, over all shapes of the work.
    ///
    /// # Errors
    /// Why it cannot run, or what failed: it is out then.
    fn turn(&mut self, candidate: &Point, measured: Duration) -> Result<Turn, String>;

    /// What to try instead of the best so far; what has run before may be among it.
    fn propose(&mut self, best: &Point) -> Vec<Proposal>;

    /// The same candidate without levels that mean nothing in it.
    fn plain(&self, candidate: &Point) -> Point {
        candidate.clone()
    }

    /// Time used since the start of all.
    fn spent(&self) -> Duration;

    /// Whether somebody wants it to end now.
    fn is_stopped(&self) -> bool;

    /// What goes on, for whoever looks on.
    fn tell(&mut self, _news: &News<'_>) {}
}

/// What goes on.
#[derive(Debug)]
pub enum News<'a> {
    /// A field of so many runs against the best so far.
    Race {
        /// How many there are, the best so far not counted.
        field: usize,
    },
    /// There is a new best one: it is about so many times (as a logarithm) as good as the file was.
    Best {
        /// Which.
        candidate: &'a Point,
        /// How good.
        gain: f64,
    },
    /// Old and new run once more, in turns.
    Final,
}

/// Something to try instead of the best so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The candidate.
    pub candidate: Point,
    /// What is expected of it, as a logarithm; 0 where nothing is. Only its order counts.
    pub hope: f64,
    /// Why it is worth a try.
    pub why: String,
}
