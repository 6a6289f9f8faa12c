//! What paired runs say: how many times as good one of two is, and between which bounds that lies.
//!
//! Hodges and Lehmann's estimate with Wilcoxon's signed ranks, exact for any number of pairs. Two runs that follow each other
//! and do not differ are exchangeable, so their difference is as often above zero as below by as much: that is all that the test
//! asks for. Deliberately no mean and no t: a machine at half speed for a second is one pair of many here, and does not count
//! more because it was far off.

/// Pairs that are looked at, at most: twice as many would narrow the interval by a third, for eight times the work.
const PAIRS_MAX: usize = 240;

/// A difference of logarithms: `mid.exp()` times as good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The middle of all means of two differences.
    pub mid: f64,
    /// The lower bound; minus infinity with too few pairs for so much confidence.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// Pairs.
    pub pairs: usize,
}

impl Estimate {
    /// Nothing is known.
    pub const NONE: Self = Self { mid: 0.0, low: f64::NEG_INFINITY, high: f64::INFINITY, pairs: 0 };

    /// Of differences, with a confidence such as 0.95.
    pub fn of(differences: &[f64], confidence: f64) -> Self {
        let differences = &differences[..differences.len().min(PAIRS_MAX)];
        let n = differences.len();
        if n == 0 {
            return Self::NONE;
        }
        let mut means: Vec<f64> =
            (0..n).flat_map(|i| (i..n).map(move |j| (differences[i] + differences[j]) / 2.0)).collect();
        means.sort_by(f64::total_cmp);
        let last = means.len() - 1;
        let mid = (means[last / 2] + means[means.len() / 2]) / 2.0;
        let (low, high) = match beyond(n, (1.0 - confidence) / 2.0) {
            Some(cut) => (means[cut], means[last - cut]),
            None => (f64::NEG_INFINITY, f64::INFINITY),
        };
        Self { mid, low, high, pairs: n }
    }

    /// `+12.3 % (+8.1 … +16.0)`.
    pub fn words(&self) -> String {
        let percent = |ln: f64| 100.0 * (ln.exp() - 1.0);
        match self.low.is_finite() {
            true => format!(
                "{:+.1} % ({:+.1} … {:+.1})",
                percent(self.mid),
                percent(self.low),
                percent(self.high)
            ),
            false => format!("{:+.1} % (of {})", percent(self.mid), self.pairs),
        }
    }
}

/// Pairs that it takes before an interval of this confidence has ends.
pub fn pairs_for(confidence: f64) -> usize {
    (1..PAIRS_MAX).find(|n| beyond(*n, (1.0 - confidence) / 2.0).is_some()).unwrap_or(PAIRS_MAX)
}

/// How many of the sorted means lie below the lower end: the largest rank sum `k` with P(T <= k) <= `tail`. (The end itself is the next
/// mean: the truth is below it when at most `k` means are below the truth.) `None` when even P(T <= 0) is more.
fn beyond(n: usize, tail: f64) -> Option<usize> {
    // The share of all 2^n choices of signs that have each rank sum; above the middle it is that of its mirror.
    let largest = n * (n + 1) / 2;
    let mut share = vec![0.0_f64; largest / 2 + 1];
    share[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..share.len()).rev() {
            share[sum] = (share[sum] + if sum >= rank { share[sum - rank] } else { 0.0 }) / 2.0;
        }
    }
    let mut below = 0.0;
    let fits = share.iter().take_while(|share| {
        below += *share;
        below <= tail
    });
    fits.count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::draw::Draw;

    /// The cuts are those of the printed tables of the signed-rank test, two-sided.
    #[test]
    fn cuts_are_those_of_the_tables() {
        // n, tail, largest rank sum in the tail: Wilcoxon 1945 and later tables.
        let table =
            [(6, 0.025, 0), (8, 0.025, 3), (8, 0.005, 0), (10, 0.025, 8), (12, 0.005, 7), (20, 0.025, 52)];
        for (n, tail, sum) in table {
            assert_eq!(beyond(n, tail), Some(sum), "{n} pairs, {tail}");
        }
        assert_eq!((beyond(5, 0.025), beyond(7, 0.005)), (None, None));
        assert_eq!((pairs_for(0.99), pairs_for(0.98), pairs_for(0.95), pairs_for(0.8)), (8, 7, 6, 4));
    }

    /// The estimate is the middle, moves with its data, and one wild pair moves it by little.
    #[test]
    fn one_wild_pair_counts_as_one() {
        let mut pairs = vec![0.09, 0.10, 0.11, 0.10, 0.095, 0.105, 0.1, 0.1];
        let calm = Estimate::of(&pairs, 0.95);
        assert!((calm.mid - 0.1).abs() < 1e-9 && calm.low >= 0.09 && calm.high <= 0.11, "{calm:?}");
        pairs[0] = -3.0;
        let wild = Estimate::of(&pairs, 0.95);
        assert!((wild.mid - 0.1).abs() < 0.01, "{wild:?}");
        let negative: Vec<f64> = pairs.iter().map(|d| -d).collect();
        assert!((Estimate::of(&negative, 0.95).low + wild.high).abs() < 1e-12);
        assert_eq!(Estimate::of(&[], 0.9), Estimate::NONE);
        assert!(Estimate::of(&[1.0; 3], 0.95).low.is_infinite());
    }

    /// With as many pairs as it takes and no more, an interval reaches from the least difference to the largest: each pair has a say.
    #[test]
    fn with_few_pairs_it_is_all_of_them() {
        let pairs = [-0.01, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08];
        for (pairs, confidence) in [(&pairs[..], 0.98), (&pairs[..6], 0.95), (&pairs[..4], 0.8)] {
            let Estimate { low, high, .. } = Estimate::of(pairs, confidence);
            assert_eq!((low, high), (pairs[0], pairs[pairs.len() - 1]), "{confidence}");
        }
    }

    /// An interval misses the truth about as often as it says, also where one pair in ten is an accident of the machine.
    #[test]
    fn intervals_cover_the_truth() {
        let mut missed = 0;
        for seed in 0..2000 {
            let mut draw = Draw::new(seed);
            let mut noise = || {
                let unit = |draw: &mut Draw| (draw.below(1 << 20) as f64 + 0.5) / f64::from(1 << 20);
                let (a, b) = (unit(&mut draw), unit(&mut draw));
                let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
                if draw.below(10) == 0 { normal } else { normal * 0.1 }
            };
            let pairs: Vec<f64> = (0..10).map(|_| 0.05 + noise() - noise()).collect();
            let estimate = Estimate::of(&pairs, 0.95);
            missed += usize::from(estimate.low > 0.05 || estimate.high < 0.05);
        }
        assert!((80..=115).contains(&missed), "{missed} of 2000 where 100 are expected");
    }
}
