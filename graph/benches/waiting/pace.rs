//! Gaps between messages, drawn from a seed, and a producer's way of letting one pass.

use std::time::Duration;

use pipeline_graph::clock::now;
use pipeline_graph::sim::Dice;
use rustix::thread::{ClockId, NanosleepRelativeResult, clock_nanosleep_relative};

/// How gaps are spread around their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All the same.
    Fixed,
    /// As of a Poisson process.
    Exponential,
    /// Bursts: nine of ten are a tenth of the mean, the tenth is 9.1 times the mean.
    Bimodal,
}

impl Shape {
    /// As the table names it.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Fixed => "fixed",
            Shape::Exponential => "exponential",
            Shape::Bimodal => "bimodal",
        }
    }

    /// So many gaps around `mean`, in ns; the same for a seed.
    pub fn draw(self, mean: Duration, count: usize, seed: u64) -> Vec<u64> {
        let (mut dice, mean) = (Dice::new(seed), mean.as_nanos() as f64);
        let share = |dice: &mut Dice| (dice.below(1 << 53) as f64 + 0.5) / (1u64 << 53) as f64;
        let gap = |_| match self {
            Shape::Fixed => mean,
            Shape::Exponential => -share(&mut dice).ln() * mean,
            Shape::Bimodal if dice.percent(10) => 9.1 * mean,
            Shape::Bimodal => 0.1 * mean,
        };
        (0..count).map(gap).map(|ns: f64| ns as u64).collect()
    }
}

/// From here on a producer sleeps through a gap; shorter ones it works through, as an application would.
const SLEEP_NS: u64 = 300_000;

/// Lets time pass until `at`, on the machine's monotonic clock.
pub fn until(at: u64) {
    let left = at.saturating_sub(now());
    if left >= SLEEP_NS {
        let limit = rustix::thread::Timespec {
            tv_sec: (left / 1_000_000_000) as _,
            tv_nsec: (left % 1_000_000_000) as _,
        };
        let slept = clock_nanosleep_relative(ClockId::Monotonic, &limit);
        if matches!(slept, NanosleepRelativeResult::Ok) {
            return;
        }
    }
    while now() < at {
        std::hint::spin_loop();
    }
}
