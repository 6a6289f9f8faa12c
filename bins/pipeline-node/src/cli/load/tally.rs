//! What a timed loop counts: bytes, requests, latencies, and the best 100 ms.
//! Deliberately fixed in size, however long the loop runs.

use hdrhistogram::Histogram;

/// The window of the peak.
pub const WINDOW_NS: u64 = 100_000_000;

/// Counts of one timed loop, or of several merged.
pub struct Tally {
    latency_ns: Histogram<u64>,
    /// Bytes whose end was `done`: applied at the destination.
    pub bytes: u64,
    /// Requests that ended `done`.
    pub requests: u64,
    /// Requests that ended otherwise.
    pub errors: u64,
    /// Time from the first submit to the last end.
    pub elapsed_ns: u64,
    window: Window,
}

/// Bytes of the running 100 ms and of the best one.
#[derive(Default)]
struct Window {
    index: u64,
    bytes: u64,
    best: u64,
    last_ns: u64,
}

impl Window {
    /// `bytes` have ended at `at_ns`. What took longer than a window since the end before cannot all have moved in
    /// one, so only its share counts.
    fn add(&mut self, bytes: u64, at_ns: u64) {
        let gap_ns = at_ns.saturating_sub(self.last_ns);
        let share = if gap_ns > WINDOW_NS { WINDOW_NS as f64 / gap_ns as f64 } else { 1.0 };
        self.last_ns = at_ns;
        let index = at_ns / WINDOW_NS;
        if index != self.index {
            self.index = index;
            self.bytes = 0;
        }
        self.bytes += (bytes as f64 * share) as u64;
        self.best = self.best.max(self.bytes);
    }
}

impl Tally {
    /// Nothing counted yet. Latencies from 1 ns to 5 min keep three digits.
    pub fn new() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, 300_000_000_000, 3)
            .expect("constant bounds are valid: low >= 1, high >= 2 * low, digits <= 5");
        Self { latency_ns, bytes: 0, requests: 0, errors: 0, elapsed_ns: 0, window: Window::default() }
    }

    /// `requests` of `bytes` in all ended well at `at_ns` (from the loop's start), `latency_ns` after their
    /// submit.
    pub fn done(&mut self, requests: u64, bytes: u64, at_ns: u64, latency_ns: u64) {
        self.requests += requests;
        self.bytes += bytes;
        self.latency_ns.saturating_record_n(latency_ns.max(1), requests);
        self.window.add(bytes, at_ns);
    }

    /// `requests` ended badly.
    pub fn failed(&mut self, requests: u64) {
        self.errors += requests;
    }

    /// Takes another thread's or round's counts in. Rounds follow each other, threads run side by side:
    /// `parallel` says which, for the time and the peak.
    pub fn merge(&mut self, other: &Self, parallel: bool) {
        // Both have the same constant bounds, so adding cannot fail.
        let _ = self.latency_ns.add(&other.latency_ns);
        self.bytes += other.bytes;
        self.requests += other.requests;
        self.errors += other.errors;
        if parallel {
            self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
            self.window.best += other.window.best;
        } else {
            self.elapsed_ns += other.elapsed_ns;
            self.window.best = self.window.best.max(other.window.best);
        }
    }

    /// GB/s (10⁹) over the whole time.
    pub fn gb_per_s(&self) -> f64 {
        ratio(self.bytes as f64, self.elapsed_ns as f64)
    }

    /// GB/s of the best 100 ms; the average, where the loop was shorter than that.
    pub fn peak_gb_per_s(&self) -> f64 {
        if self.elapsed_ns < WINDOW_NS {
            return self.gb_per_s();
        }
        (self.window.best as f64 / WINDOW_NS as f64).max(self.gb_per_s())
    }

    /// Microseconds below which `percent` of the requests ended.
    pub fn latency_us(&self, percent: f64) -> f64 {
        self.latency_ns.value_at_percentile(percent) as f64 / 1e3
    }

    /// The longest, microseconds.
    pub fn latency_max_us(&self) -> f64 {
        self.latency_ns.max() as f64 / 1e3
    }
}

/// `a / b`, and 0 where nothing was measured.
pub fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// The middle of `values`; 0 of none. Sorts them.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates are bytes over elapsed time in units of 10⁹, and the peak is the best 100 ms, not the last.
    #[test]
    fn rates_and_peak() {
        let mut tally = Tally::new();
        for i in 0..10 {
            let bytes = if i == 3 { 300_000_000 } else { 100_000_000 };
            tally.done(1, bytes, i * WINDOW_NS + 1, 1_000_000);
        }
        tally.elapsed_ns = 10 * WINDOW_NS;
        assert!((tally.gb_per_s() - 1.2).abs() < 1e-9);
        assert!((tally.peak_gb_per_s() - 3.0).abs() < 1e-9);
    }

    /// One request that takes long has no peak above its average: its bytes did not all move in its last 100 ms.
    #[test]
    fn a_long_request_has_no_peak() {
        let mut tally = Tally::new();
        tally.done(1, 4_294_967_297, 5_000_000_000, 5_000_000_000);
        tally.elapsed_ns = 5_000_000_000;
        assert!((tally.peak_gb_per_s() - tally.gb_per_s()).abs() < 1e-6, "{}", tally.peak_gb_per_s());
    }

    /// Percentiles are those of requests: a batch of 98 fast ones and two slow ones shows in p99, not in p50.
    #[test]
    fn percentiles_count_requests() {
        let mut tally = Tally::new();
        tally.done(98, 98, 0, 10_000);
        tally.done(2, 2, 0, 5_000_000);
        assert!((tally.latency_us(50.0) - 10.0).abs() < 0.1);
        assert!((tally.latency_us(99.0) - 5000.0).abs() < 5.0);
        assert!((tally.latency_max_us() - 5000.0).abs() < 5.0);
    }

    /// Threads add up side by side, rounds one after the other; bytes never wrap at 32 bits.
    #[test]
    fn merging() {
        let one = |bytes| {
            let mut t = Tally::new();
            t.done(1, bytes, 0, 5);
            t.elapsed_ns = 1_000_000_000;
            t
        };
        let (mut threads, mut rounds) = (one(4_294_967_297), one(4_294_967_297));
        threads.merge(&one(4_294_967_297), true);
        rounds.merge(&one(4_294_967_297), false);
        assert_eq!((threads.bytes, rounds.bytes), (8_589_934_594, 8_589_934_594));
        assert!((threads.gb_per_s() - 2.0 * rounds.gb_per_s()).abs() < 1e-9);
    }

    /// The median of an even count lies between the two in the middle, and nothing measured is zero.
    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(ratio(1.0, 0.0), 0.0);
    }
}
