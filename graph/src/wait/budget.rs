//! How long to spin before a sleep: the time with the least expected cost.
//!
//! A worker that spins for `s` and then sleeps pays `price × gap` for a gap up to `s`, and `price × s` plus the price of
//! a sleep for a longer one. With the gaps of a worker as a histogram the expectation is a sum, and each upper end of
//! a bucket is a candidate, as is not to spin at all. What was never seen counts a little, evenly over the logarithm of
//! the gap: a worker that only knows gaps of 1 µs spins a little longer than that.
//!
//! Deliberately nothing about time passing: it judges what [`Gaps`] and [`Toll`] have gathered.

use super::gaps::{BUCKETS, Gaps, floor_of};
use super::toll::{Toll, class_of};
use crate::clock::Nanos;

/// What each bucket weighs beyond what it has seen, as a share of all that was seen.
const UNSEEN: f32 = 1.0 / 2048.0;
/// Another time is chosen only if it costs less than this share of what the present one does,
const BETTER: f32 = 7.0 / 8.0;
/// or if it is shorter and cheaper, and of all gaps less than this share ends between the two.
const BETWEEN: f32 = 1.0 / 16.0;

/// The time to spin (and yield) from now on, at most `limit`; `present` if no other is clearly better.
pub(super) fn choose(gaps: &Gaps, toll: &Toll, price: f32, limit: Nanos, present: Nanos) -> Nanos {
    let (weights, all) = gaps.weights();
    let (unseen, sleeps) = (all * UNSEEN, toll.costs(price));
    let sleep = |i: usize| sleeps[class_of(floor_of(i))];
    // What gaps cost that end while it spins; weight and cost of the sleeps of those that do not.
    let (mut spun, mut longer, mut asleep) = (0.0, all + unseen * BUCKETS as f32, 0.0);
    for (i, weight) in weights.iter().enumerate() {
        asleep += (weight + unseen) * sleep(i);
    }
    // Each with its cost, and the weight of the gaps that end later.
    let mut best = (0, asleep, longer);
    let mut kept = (if present == 0 { asleep } else { f32::INFINITY }, longer);
    for (i, weight) in weights[..BUCKETS - 1].iter().enumerate() {
        let (from, to) = (floor_of(i), floor_of(i + 1).min(limit));
        if from >= to {
            break;
        }
        // The bucket that the limit lies in is caught in part.
        let share = (to - from) as f32 / (floor_of(i + 1) - from) as f32;
        let caught = (weight + unseen) * share;
        spun += caught * price * from.midpoint(to) as f32;
        longer -= caught;
        asleep -= caught * sleep(i);
        let cost = spun + longer * price * to as f32 + asleep;
        if to == present {
            kept = (cost, longer);
        }
        if cost < best.1 {
            best = (to, cost, longer);
        }
    }
    let (to, cost, later) = best;
    let idle = to < present && cost < kept.0 && later - kept.1 < all * BETWEEN;
    if idle || cost < kept.0 * BETTER { to } else { present }
}
