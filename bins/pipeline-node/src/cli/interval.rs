//! What paired runs say: how many times as good one of two is, and between which bounds that lies.
//!
//! Hodges and Lehmann's estimate with Wilcoxon's signed ranks, exact for any number of pairs. Two runs that follow each other
//! and do not differ are exchangeable, so their difference is as often above zero as below by as much: that is all that the test
//! asks for. Deliberately no mean and no t: a machine at half speed for a second is one pair of many here, and does not count
//! more because it was far off.

/// Up to so many pairs the distribution of rank sums is counted out; beyond, it is normal as far as anybody could tell.
const COUNTED_MAX: usize = 240;

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
        let n = differences.len();
        if n == 0 {
            return Self::NONE;
        }
        let mut sorted = differences.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = n * (n + 1) / 2 - 1;
        let mid = (mean_at(&sorted, last / 2) + mean_at(&sorted, last.div_ceil(2))) / 2.0;
        let (low, high) = match beyond(n, (1.0 - confidence) / 2.0) {
            Some(cut) => (mean_at(&sorted, cut), mean_at(&sorted, last - cut)),
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
    (1..COUNTED_MAX).find(|n| beyond(*n, (1.0 - confidence) / 2.0).is_some()).unwrap_or(COUNTED_MAX)
}

/// The mean of two (or of one with itself) before which so many others come, of ascending numbers. Found by halving the numbers there
/// are, and counting: a day of pairs has more means than there is memory.
fn mean_at(sorted: &[f64], place: usize) -> f64 {
    let before = |limit: f64| {
        // The larger one is, the fewer others make a mean up to the limit.
        let (mut count, mut end) = (0, sorted.len());
        for (i, one) in sorted.iter().enumerate() {
            while end > i && (one + sorted[end - 1]) / 2.0 > limit {
                end -= 1;
            }
            if end <= i {
                break;
            }
            count += end - i;
        }
        count
    };
    let (mut low, mut high) = (in_order(sorted[0]), in_order(sorted[sorted.len() - 1]));
    while low < high {
        let middle = low.midpoint(high);
        match before(in_order_of(middle)) > place {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    in_order_of(low)
}

const SIGN: u64 = 1 << 63;

/// A whole number for each number, in the same order.
fn in_order(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The number of such a one.
fn in_order_of(whole: u64) -> f64 {
    f64::from_bits(if whole & SIGN == 0 { !whole } else { whole & !SIGN })
}

/// How many of the sorted means lie below the lower end: the largest rank sum `k` with P(T <= k) <= `tail`. (The end itself is the next
/// mean: the truth is below it when at most `k` means are below the truth.) `None` when even P(T <= 0) is more.
fn beyond(n: usize, tail: f64) -> Option<usize> {
    if n > COUNTED_MAX {
        // As many standard deviations below the middle as where it is counted.
        let deviations = (middle(COUNTED_MAX) - beyond(COUNTED_MAX, tail)? as f64) / deviation(COUNTED_MAX);
        return Some((middle(n) - deviations * deviation(n)) as usize);
    }
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

/// The middle of the rank sums of so many pairs, and their standard deviation.
fn middle(n: usize) -> f64 {
    (n * (n + 1)) as f64 / 4.0
}

/// See [`middle`].
fn deviation(n: usize) -> f64 {
    ((n * (n + 1) * (2 * n + 1)) as f64 / 24.0).sqrt()
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

    /// All pairs have a say, however many there are: what comes late as much as what comes first, and each more makes the interval
    /// narrower, without a step where rank sums are no longer counted out.
    #[test]
    fn many_pairs_count_all() {
        let pairs = |n: usize| -> Vec<f64> { (0..n).map(|i| ((i * 7919) % n) as f64 / n as f64).collect() };
        let width = |n: usize| {
            let Estimate { low, high, pairs, .. } = Estimate::of(&pairs(n), 0.98);
            assert_eq!(pairs, n);
            high - low
        };
        let (before, after) = (width(240), width(241));
        assert!((after / before - 1.0).abs() < 0.01, "{before} {after}");
        let ratio = width(960) / before;
        assert!((0.48..0.52).contains(&ratio), "four times the pairs, half as wide: {ratio}");
        let late: Vec<f64> = (0..1000).map(|i| if i < 240 { 0.0 } else { 0.1 }).collect();
        assert!((Estimate::of(&late, 0.98).mid - 0.1).abs() < 1e-9);
    }

    /// The mean at each place is that of all means in order.
    #[test]
    fn means_are_found_in_order() {
        for n in 1..12_usize {
            let mut numbers: Vec<f64> = (0..n).map(|i| ((i * 37) % 11) as f64 - 5.0).collect();
            numbers.sort_by(f64::total_cmp);
            let mut means: Vec<f64> = (0..n)
                .flat_map(|i| (i..n).map(move |j| (i, j)))
                .map(|(i, j)| (numbers[i] + numbers[j]) / 2.0)
                .collect();
            means.sort_by(f64::total_cmp);
            let found: Vec<f64> = (0..means.len()).map(|place| mean_at(&numbers, place)).collect();
            assert_eq!(found, means);
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
