//! Counters that one worker writes and anybody reads: a plain load and store, no locked instruction.
//! Deliberately no sums and no rates here: readers make those. Cells have cache lines of their own (128
//! bytes, since processors fetch lines in pairs), so that workers never share one by accident.

use std::ops::Range;

use crate::clock::Nanos;
use crate::sync::{AtomicU64, Ordering};

/// A counter with one writer at a time, and any number of readers. A second writer would lose counts, and nothing else.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        // One writer: a lost update is impossible, so no read-modify-write is needed.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn max(&self, n: u64) {
        if n > self.0.load(Ordering::Relaxed) {
            self.0.store(n, Ordering::Relaxed);
        }
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// What was added so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Buckets a power of two is cut into: 12.5 % wide, and interpolated within.
const SUB_BITS: u32 = 3;
/// Values from 2⁴⁰ ns (18 minutes) on share the last bucket.
const BUCKETS: usize = (40 - SUB_BITS as usize + 1) << SUB_BITS;

fn bucket(value: u64) -> usize {
    if value < 1 << SUB_BITS {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    let sub = (value >> (exponent - SUB_BITS)) & ((1 << SUB_BITS) - 1);
    ((((exponent - SUB_BITS + 1) << SUB_BITS) as usize) + sub as usize).min(BUCKETS - 1)
}

/// Lowest value of a bucket.
fn floor_of(bucket: usize) -> u64 {
    let (group, sub) = (bucket >> SUB_BITS, (bucket & ((1 << SUB_BITS) - 1)) as u64);
    if group == 0 { sub } else { ((1 << SUB_BITS) + sub) << (group - 1) }
}

/// A histogram with one writer at a time. Not in a box of its own, whose neighbour could be another worker's.
#[derive(Debug)]
pub struct HistogramCell {
    counts: [Count; BUCKETS],
    sum: Count,
}

impl Default for HistogramCell {
    fn default() -> Self {
        Self { counts: std::array::from_fn(|_| Count::default()), sum: Count::default() }
    }
}

impl HistogramCell {
    /// Records a value, as often as `times` says.
    #[inline]
    pub fn record(&self, value: u64, times: u64) {
        self.counts[bucket(value)].add(times);
        self.sum.add(value.wrapping_mul(times));
    }
}

/// A histogram that was read: sums and differences of it are exact, quantiles are within a bucket of 12.5 %.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into(), sum: 0 }
    }
}

/// Of values, and how often each was seen.
impl FromIterator<(u64, u64)> for Histogram {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(values: I) -> Self {
        let mut all = Self::default();
        values.into_iter().for_each(|(value, times)| all.record(value, times));
        all
    }
}

impl Histogram {
    /// Adds what a cell has recorded so far.
    pub fn add_cell(&mut self, cell: &HistogramCell) {
        for (all, count) in self.counts.iter_mut().zip(&cell.counts) {
            *all += count.get();
        }
        self.sum = self.sum.wrapping_add(cell.sum.get());
    }

    /// What was recorded since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts: Box<[u64]> =
            self.counts.iter().zip(&earlier.counts).map(|(a, b)| a.saturating_sub(*b)).collect();
        // A sum of many items' nanoseconds wraps after days (65 536 slices that wait: after three); its differences are right.
        let sum = if counts.iter().all(|count| *count == 0) { 0 } else { self.sum.wrapping_sub(earlier.sum) };
        Self { counts, sum }
    }

    /// Adds a value, so many times: for histograms that are not read from cells.
    pub fn record(&mut self, value: u64, times: u64) {
        self.counts[bucket(value)] += times;
        self.sum = self.sum.wrapping_add(value.wrapping_mul(times));
    }

    /// Its buckets from the smallest on: which values of whole nanoseconds each holds, and how many were recorded.
    pub fn buckets(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.counts.iter().enumerate().map(|(i, count)| (floor_of(i)..floor_of(i + 1), *count))
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all values recorded, modulo 2⁶⁴: of two readings the difference is exact. What needs the sum itself takes [`Self::total`].
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Sum of all values recorded, also where 64 bits do not hold it: how often it has wrapped is told by the buckets, which know it
    /// within an eighth. (Values beyond the last bucket are counted as if they were in it.)
    pub fn total(&self) -> f64 {
        /// 2⁶⁴.
        const WRAP: f64 = 18_446_744_073_709_551_616.0;
        let middle = |values: &Range<u64>| (values.start as f64 + (values.end - 1) as f64) / 2.0;
        let about: f64 = self.buckets().map(|(values, times)| middle(&values) * times as f64).sum();
        let sum = self.sum as f64;
        sum + ((about - sum) / WRAP).round().max(0.0) * WRAP
    }

    /// The value that a share `quantile` (0 to 1) of all recorded values does not exceed, interpolated
    /// within a bucket of 12.5 %. 0 when nothing was recorded.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let count = self.count();
        if count == 0 {
            return 0;
        }
        let rank = (quantile.clamp(0.0, 1.0) * count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (i, &n) in self.counts.iter().enumerate() {
            if below + n >= rank {
                let (low, high) = (floor_of(i), floor_of(i + 1));
                let share = (rank - below) as f64 / n as f64;
                return low + ((high - low - 1) as f64 * share) as u64;
            }
            below += n;
        }
        floor_of(BUCKETS - 1)
    }
}

/// What one worker measures of one stage.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct StageCell {
    pub items: Count,
    pub batches: Count,
    pub polls: Count,
    pub busy_polls: Count,
    pub busy_ns: Count,
    pub blocked_ns: Count,
    pub panics: Count,
    pub strays: Count,
    pub wait: HistogramCell,
    pub service: HistogramCell,
    /// How long the stage held items: see [`crate::stage::Held`].
    pub held: HistogramCell,
    /// While draining: what is left in the stage, its inputs and its outlet.
    pub left: Count,
}

/// What one worker measures of one edge: the producer writes `pushed`, `rejected` and `blocked_ns`, the consumer `popped` and
/// the depths.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct EdgeCell {
    pub pushed: Count,
    pub popped: Count,
    pub batches: Count,
    pub rejected: Count,
    pub blocked_ns: Count,
    pub depth_sum: Count,
    pub depth_samples: Count,
    pub depth_max: Count,
}

impl EdgeCell {
    /// A consumer has found a ring so deep.
    #[inline]
    pub(crate) fn found(&self, depth: usize) {
        self.depth_sum.add(depth as u64);
        self.depth_samples.add(1);
        self.depth_max.max(depth as u64);
    }
}

/// How long a worker has slept, with the sleep it is in: who looks meanwhile would else find that it did nothing at all, and after
/// it that it slept for longer than it was looked at. One word, so that nobody sees half of a change: the sum of all sleeps, or
/// within one (marked) how far the clock was ahead of that sum when it began.
/// Deliberately not exact at the end of a sleep: who looks between its end and the word that says so is told a moment too much.
#[derive(Debug, Default)]
pub(crate) struct Asleep(Count);

/// Marks a sleep that goes on. No clock of nanoseconds comes so far: 292 years.
const GOES_ON: u64 = 1 << 63;

impl Asleep {
    pub(crate) fn begin(&self, now: Nanos) {
        self.0.set(GOES_ON | now.saturating_sub(self.at(now)));
    }

    pub(crate) fn end(&self, now: Nanos) {
        self.0.set(self.at(now));
    }

    /// All of it, until now.
    pub(crate) fn at(&self, now: Nanos) -> Nanos {
        let word = self.0.get();
        if word & GOES_ON == 0 { word } else { now.saturating_sub(word & !GOES_ON) }
    }
}

/// What a worker measures of itself.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct WorkerCell {
    pub turns: Count,
    pub busy_ns: Count,
    pub asleep: Asleep,
    pub parks: Count,
    pub timed_wakes: Count,
    pub spins: Count,
    pub yields: Count,
    pub refused_fds: Count,
    /// How it waits now; see [`super::table::WorkerStats`].
    pub gap_ns: Count,
    pub spin_budget_ns: Count,
    pub yield_budget_ns: Count,
    pub parks_at_once: Count,
    pub wake_ns: Count,
    pub wake_cpu_ns: Count,
    pub decisions: Count,
    /// The kernel's number of its thread; 0 while it has none.
    pub thread: Count,
}

impl WorkerCell {
    /// A sleep is over.
    pub(crate) fn slept(&self, timed: bool) {
        self.parks.add(1);
        self.timed_wakes.add(u64::from(timed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value falls into the bucket whose bounds enclose it, and buckets tile the range without gap.
    #[test]
    fn buckets_tile_the_range() {
        for value in (0..4096).chain((12..40).flat_map(|e| [(1u64 << e) - 1, 1 << e, (1 << e) + 1])) {
            let b = bucket(value);
            assert!(floor_of(b) <= value && (value < floor_of(b + 1) || b == BUCKETS - 1), "{value} in {b}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    /// A sleep counts while it goes on, once, and never backwards; what lies between sleeps does not.
    #[test]
    fn sleeps_count_while_they_go_on() {
        let asleep = Asleep::default();
        assert_eq!(asleep.at(50), 0);
        asleep.begin(100);
        assert_eq!([90, 100, 130].map(|now| asleep.at(now)), [0, 0, 30]);
        asleep.end(140);
        assert_eq!([140, 500].map(|now| asleep.at(now)), [40, 40]);
        asleep.begin(600);
        assert_eq!([600, 660].map(|now| asleep.at(now)), [40, 100]);
        asleep.end(700);
        assert_eq!(asleep.at(9999), 140);
    }

    /// Quantiles of an even spread are right within a bucket's width, and differences are exact.
    #[test]
    fn quantiles_and_differences() {
        let cell = HistogramCell::default();
        (1..=1000).for_each(|v| cell.record(v, 1));
        let mut first = Histogram::default();
        first.add_cell(&cell);
        for (q, want) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let got = first.quantile(q) as f64;
            assert!((got - want).abs() / want < 0.13, "{q}: {got}");
        }
        cell.record(1 << 20, 3);
        let mut second = Histogram::default();
        second.add_cell(&cell);
        let between = second.since(&first);
        assert_eq!(between.count(), 3);
        assert!(between.quantile(0.5) >= 1 << 20);
        assert_eq!(Histogram::default().quantile(0.5), 0);
        assert_eq!((between.sum(), first.sum()), (3 << 20, 500_500));
        first.record(7, 2);
        assert_eq!((first.count(), first.since(&Histogram::default()).sum()), (1002, 500_514));
        assert_eq!(Histogram::default().sum(), 0);
        cell.record(1 << 39, (1 << 25) - 1);
        let mut third = Histogram::default();
        third.add_cell(&cell);
        cell.record(1 << 39, 3);
        let mut fourth = Histogram::default();
        fourth.add_cell(&cell);
        assert!(fourth.sum() < third.sum(), "it has wrapped");
        assert_eq!(fourth.since(&third).sum(), 3 << 39);
        let whole = (1_u64 << 25) as f64 * (1_u64 << 39) as f64;
        assert!((fourth.total() / whole - 1.0).abs() < 1e-6, "{} of {whole}", fourth.total());
        assert_eq!((first.total(), fourth.since(&third).total()), (500_514.0, (3_u64 << 39) as f64));
        let again: Histogram = second.buckets().map(|(values, times)| (values.start, times)).collect();
        assert!(again.buckets().eq(second.buckets()));
    }
}
