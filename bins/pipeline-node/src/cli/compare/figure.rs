//! The arithmetic over rounds: which count, medians, and how far they lie apart. Deliberately nothing else.

use crate::cli::load::tally::{median, ratio};

/// A round whose bare loop is under this share of the median of all saw another machine.
const SLOW: f64 = 0.7;

/// A median with the least and the most of its rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The middle of the rounds.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// How many rounds they are of.
    pub rounds: usize,
}

impl Figure {
    /// Of the rounds; `None` of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        let median = (!values.is_empty()).then(|| median(&mut values))?;
        Some(Self { median, least: *values.first()?, most: *values.last()?, rounds: values.len() })
    }

    /// How far the rounds lie apart, percent of the median; one round says nothing of that.
    pub fn spread_pct(self) -> Option<f64> {
        (self.rounds > 1).then(|| 100.0 * ratio(self.most - self.least, self.median))
    }
}

/// Which rounds count, by the rates of their bare loops: those that were not slow.
pub fn counting(bare: &[f64]) -> Vec<bool> {
    let middle = median(&mut bare.to_vec());
    bare.iter().map(|rate| *rate >= SLOW * middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure is the median with its ends, whatever the order; of nothing there is none, and of one round no spread.
    #[test]
    fn figures() {
        let figure = Figure::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!(figure, Figure { median: 2.0, least: 1.0, most: 3.0, rounds: 3 });
        assert_eq!((figure.spread_pct(), Figure::of([])), (Some(100.0), None));
        let spread = |values: &[f64]| Figure::of(values.iter().copied()).unwrap().spread_pct();
        assert_eq!([spread(&[0.0, 0.0]), spread(&[7.0])], [Some(0.0), None]);
    }

    /// Rounds whose bare loop is under 0.7 of its median do not count; faster ones do.
    #[test]
    fn slow_rounds_do_not_count() {
        assert_eq!(counting(&[10.0, 6.9, 7.1, 50.0, 10.0]), [true, false, true, true, true]);
        assert_eq!((counting(&[3.0]), counting(&[])), (vec![true], vec![]));
    }
}
