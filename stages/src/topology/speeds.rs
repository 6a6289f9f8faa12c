//! How fast each NIC is seen to be: bytes that completed while more was outstanding, per second, averaged over time. Reapers
//! measure, `nic_select` reads. Deliberately no clock of its own, and no sum of what waited for work: a NIC that is not busy
//! shows nothing of its speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;
use pipeline_graph::Nanos;

/// Least time that a sample is taken over: completions come in batches.
const SAMPLE_NS: Nanos = 1_000_000;

/// Time over which an old speed is forgotten.
const MEMORY_NS: u64 = 50_000_000;

/// Bytes per second of one NIC, over all of its workers; 0 before anything was measured.
pub(crate) type Speed = Arc<CachePadded<AtomicU64>>;

/// Those of one NIC as one reaper measures them.
pub(crate) struct Gauge {
    total: Speed,
    /// Its own part of the total.
    told: u64,
    /// Since when it has been busy without a pause, with what was not accounted for.
    since: Option<Nanos>,
    bytes: u64,
}

impl Gauge {
    pub(crate) fn new(total: Speed) -> Self {
        Self { total, told: 0, since: None, bytes: 0 }
    }

    /// So many bytes have completed by now, and more is outstanding or not.
    pub(crate) fn note(&mut self, now: Nanos, bytes: u64, is_busy: bool) {
        self.bytes += bytes;
        let Some(since) = self.since else {
            // What came before was not all under way at once.
            (self.since, self.bytes) = (is_busy.then_some(now), 0);
            return;
        };
        let elapsed = now.saturating_sub(since);
        if elapsed >= SAMPLE_NS {
            self.sample(elapsed);
            (self.since, self.bytes) = (Some(now), 0);
        }
        if !is_busy {
            self.since = None;
        }
    }

    fn sample(&mut self, elapsed: Nanos) {
        let seen = (u128::from(self.bytes) * 1_000_000_000 / u128::from(elapsed)) as u64;
        // A long sample replaces what was known, a short one moves it.
        let weight = elapsed.min(MEMORY_NS);
        let mean =
            u128::from(self.told) * u128::from(MEMORY_NS - weight) + u128::from(seen) * u128::from(weight);
        let next = if self.told == 0 { seen } else { (mean / u128::from(MEMORY_NS)) as u64 };
        self.total.fetch_add(next.wrapping_sub(self.told), Relaxed);
        self.told = next;
    }
}

/// A reaper that goes takes its part along.
impl Drop for Gauge {
    fn drop(&mut self) {
        self.total.fetch_sub(self.told, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A NIC that is busy shows its speed, and follows a change within the time that is remembered; pauses are no part of it;
    /// two reapers add up, and one that goes takes its part along.
    #[test]
    fn speed_while_busy() {
        let total = Speed::default();
        let mut gauge = Gauge::new(total.clone());
        let mut now = 0;
        let mut run = |gauge: &mut Gauge, ms: u64, bytes_per_ms: u64, pause_ms: u64| {
            for at in 0..ms {
                now += 1_000_000;
                gauge.note(now, bytes_per_ms, at + 1 < ms);
            }
            now += pause_ms * 1_000_000;
        };
        run(&mut gauge, 100, 1_000, 500);
        assert_eq!(total.load(Relaxed), 1_000_000);
        run(&mut gauge, 100, 1_000, 1);
        assert_eq!(total.load(Relaxed), 1_000_000, "the pause did not count");
        run(&mut gauge, 300, 250, 0);
        assert!((250_000..260_000).contains(&total.load(Relaxed)), "{total:?}");
        let mut other = Gauge::new(total.clone());
        run(&mut other, 100, 500, 0);
        assert!((750_000..760_000).contains(&total.load(Relaxed)), "{total:?}");
        drop(gauge);
        assert_eq!(total.load(Relaxed), 500_000);
    }

    /// What completes with nothing else outstanding shows a latency and no speed: it is not counted.
    #[test]
    fn one_at_a_time_shows_nothing() {
        let total = Speed::default();
        let mut gauge = Gauge::new(total.clone());
        for at in 1..100_u64 {
            gauge.note(at * 5_000_000, 4096, false);
        }
        assert_eq!(total.load(Relaxed), 0);
    }
}
