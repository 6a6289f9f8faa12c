//! What a worker knows of its gaps: the time from running dry to the next work, as a distribution that forgets.
//!
//! A mean would not do: nine gaps of 10 µs and one of 10 ms have a mean of 1 ms, and a spin of 10 µs catches nine of
//! ten. Deliberately without prices: what follows from the gaps is decided in [`super::budget`].

use crate::clock::Nanos;

/// Gaps below 2⁸ ns share the first bucket: a look takes about as long.
const LOW_BITS: u32 = 8;
/// Gaps from 2³⁰ ns (a second) on share the last one.
const HIGH_BITS: u32 = 30;
/// A power of two is cut into four, so a bucket is 14 to 25 % wide.
const SUB_BITS: u32 = 2;

pub(super) const BUCKETS: usize = 2 + (((HIGH_BITS - LOW_BITS) as usize) << SUB_BITS);

/// Each gap weighs this much more than the one before it: all before the newest together weigh 32 times as much.
const GROWTH: f32 = 33.0 / 32.0;
/// When the newest weighs this much, all are scaled down.
const HEAVY: f32 = 1e6;

/// About 400 bytes. Written and read by one worker.
pub(super) struct Gaps {
    weights: [f32; BUCKETS],
    all: f32,
    /// What the next gap weighs.
    next: f32,
    count: u64,
}

impl Gaps {
    pub(super) fn new() -> Self {
        Self { weights: [0.0; BUCKETS], all: 0.0, next: 1.0, count: 0 }
    }

    /// One more.
    pub(super) fn learn(&mut self, gap: Nanos) {
        self.weights[bucket(gap)] += self.next;
        self.all += self.next;
        self.next *= GROWTH;
        self.count += 1;
        if self.next > HEAVY {
            self.lighten();
        }
    }

    #[cold]
    fn lighten(&mut self) {
        let scale = 1.0 / self.next;
        self.weights.iter_mut().for_each(|weight| *weight *= scale);
        // Summed anew, so that rounding does not pile up.
        self.all = self.weights.iter().sum();
        self.next = 1.0;
    }

    /// How many it has seen.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The weight of each bucket, and of all.
    pub(super) fn weights(&self) -> (&[f32; BUCKETS], f32) {
        (&self.weights, self.all)
    }

    /// A middle one: half of them, by weight, were not longer than its bucket. 0 when there were none.
    pub(super) fn median(&self) -> Nanos {
        let mut left = self.all / 2.0;
        for (i, weight) in self.weights.iter().enumerate() {
            left -= weight;
            if *weight > 0.0 && left <= 0.0 {
                return middle_of(i);
            }
        }
        0
    }
}

/// The bucket that a gap falls into.
fn bucket(gap: Nanos) -> usize {
    if gap < 1 << LOW_BITS {
        return 0;
    }
    let exponent = 63 - gap.leading_zeros();
    let sub = (gap >> (exponent - SUB_BITS)) & ((1 << SUB_BITS) - 1);
    let at = (((exponent.min(HIGH_BITS) - LOW_BITS) as usize) << SUB_BITS) + sub as usize;
    (1 + at).min(BUCKETS - 1)
}

/// The shortest gap of a bucket.
pub(super) fn floor_of(bucket: usize) -> Nanos {
    let Some(at) = bucket.checked_sub(1) else { return 0 };
    let (exponent, sub) = (at >> SUB_BITS, (at & ((1 << SUB_BITS) - 1)) as Nanos);
    ((1 << SUB_BITS) + sub) << (LOW_BITS - SUB_BITS + exponent as u32)
}

/// Halfway through a bucket.
fn middle_of(bucket: usize) -> Nanos {
    if bucket + 1 == BUCKETS { floor_of(bucket) } else { floor_of(bucket).midpoint(floor_of(bucket + 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every gap falls into the bucket whose bounds enclose it, and buckets tile the range without a hole.
    #[test]
    fn buckets_tile_the_range() {
        for gap in (0..5_000).chain((8..40).flat_map(|e| [(1u64 << e) - 1, 1 << e, (1 << e) + 1])) {
            let b = bucket(gap);
            assert!(floor_of(b) <= gap && (b + 1 == BUCKETS || gap < floor_of(b + 1)), "{gap} in {b}");
        }
        assert_eq!((bucket(u64::MAX), floor_of(BUCKETS - 1)), (BUCKETS - 1, 1 << HIGH_BITS));
    }

    /// New gaps outweigh old ones after about 23 of them, for ever: scaling down loses nothing.
    #[test]
    fn old_gaps_are_forgotten() {
        let mut gaps = Gaps::new();
        assert_eq!(gaps.median(), 0);
        for round in 0..50u64 {
            let (old, new) = if round.is_multiple_of(2) { (1_000, 1_000_000) } else { (1_000_000, 1_000) };
            let near = |gap: Nanos, to: Nanos| gap.abs_diff(to) * 8 <= to;
            for n in 0..100 {
                gaps.learn(new);
                let says = if n < 20 { old } else { new };
                let doubtful = (20..26).contains(&n) || round == 0;
                assert!(doubtful || near(gaps.median(), says), "round {round}, {n}: {}", gaps.median());
            }
        }
        assert_eq!(gaps.count(), 5_000);
    }
}
