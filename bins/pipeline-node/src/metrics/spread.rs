//! A histogram of the engine given to a recorder: for each of its buckets one value, as often as the bucket says.
//!
//! The value lies strictly inside its bucket, and where the sum of all values is known it is chosen so that they add up to
//! just that: at the same share of the way through every bucket. Else it is the middle, which misses the sum by half a bucket
//! (6.25 %) at most.

use pipeline_graph::Histogram;

/// Values in nanoseconds, and how many of each. `sum_ns`: what they add up to, where somebody has counted it.
pub(super) fn spread(histogram: &Histogram, sum_ns: Option<u64>) -> impl Iterator<Item = (f64, u64)> {
    let share = share(histogram, sum_ns);
    let filled = histogram.buckets().filter(|(_, count)| *count > 0);
    filled.map(move |(range, count)| (least(range.start) + share * room(&range), count))
}

/// The least value in a bucket that no bound of whole nanoseconds below it holds as well.
fn least(start: u64) -> f64 {
    start as f64 + 0.25
}

/// From there to the end of the bucket.
fn room(range: &std::ops::Range<u64>) -> f64 {
    (range.end - range.start) as f64 - 0.5
}

fn share(histogram: &Histogram, sum_ns: Option<u64>) -> f64 {
    let Some(sum_ns) = sum_ns else { return 0.5 };
    let (mut floor, mut width) = (0.0, 0.0);
    for (range, count) in histogram.buckets() {
        floor += count as f64 * least(range.start);
        width += count as f64 * room(&range);
    }
    if width > 0.0 { ((sum_ns as f64 - floor) / width).clamp(0.0, 1.0) } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: &[u64]) -> Histogram {
        values.iter().map(|value| (*value, 1)).collect()
    }

    /// Where the sum is known the values add up to it; and each lies strictly inside its bucket, so that it counts on the right
    /// side of every bound that is one of the engine's.
    #[test]
    fn sums_are_exact() {
        let values: Vec<u64> =
            (0..2000).map(|i| 3 + i * i * 37 % 5_000_011).chain([1 << 10, (1 << 20) - 1, 1 << 35]).collect();
        let (histogram, sum) = (histogram(&values), values.iter().sum::<u64>());
        let spread: Vec<_> = spread(&histogram, Some(sum)).collect();
        let total: f64 = spread.iter().map(|(value, count)| value * *count as f64).sum();
        assert!((total - sum as f64).abs() < 1e-9 * sum as f64, "{total} and {sum}");
        let filled: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled.len(), spread.len());
        for ((range, count), (value, times)) in filled.iter().zip(&spread) {
            assert!(range.start as f64 + 0.2 < *value && *value < range.end as f64 - 0.2 && count == times);
        }
    }

    /// Where it is not known, the middle of each bucket misses it by less than half a bucket; a sum that cannot be right moves no
    /// value out of its bucket.
    #[test]
    fn sums_that_nobody_counted() {
        let values: Vec<u64> = (0..2000).map(|i| 100 + i * i * 37 % 5_000_011).collect();
        let (histogram, sum) = (histogram(&values), values.iter().sum::<u64>() as f64);
        let add = |sum| spread(&histogram, sum).map(|(value, count)| value * count as f64).sum::<f64>();
        assert!((add(None) - sum).abs() < 0.0625 * sum, "{} and {sum}", add(None));
        assert!(add(Some(0)) < sum && add(Some(u64::MAX)) > sum);
        assert_eq!(spread(&Histogram::default(), None).count(), 0);
    }
}
