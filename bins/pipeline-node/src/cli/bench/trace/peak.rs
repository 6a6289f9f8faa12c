//! The best 100 ms of a replay. Whole batches end at once, and many of them together: so a batch counts evenly over the
//! time that it was under way, not where it ended. A word for each 100 ms is kept.

use crate::cli::load::tally::WINDOW_NS;

/// Bytes by 100 ms from the start.
#[derive(Default)]
pub struct Peak {
    windows: Vec<f64>,
}

impl Peak {
    /// `bytes` were under way from `from_ns` until `to_ns`.
    pub fn add(&mut self, bytes: u64, from_ns: u64, to_ns: u64) {
        let (from_ns, to_ns) = (from_ns.min(to_ns.saturating_sub(1)), to_ns.max(1));
        let a_ns = bytes as f64 / (to_ns - from_ns) as f64;
        let (first, last) = (from_ns / WINDOW_NS, (to_ns - 1) / WINDOW_NS);
        if self.windows.len() <= last as usize {
            self.windows.resize(last as usize + 1, 0.0);
        }
        for window in first..=last {
            let (begin, end) = (window * WINDOW_NS, (window + 1) * WINDOW_NS);
            self.windows[window as usize] += a_ns * (to_ns.min(end) - from_ns.max(begin)) as f64;
        }
    }

    /// GB/s (10⁹) of the best one.
    pub fn gb_per_s(&self) -> f64 {
        self.windows.iter().copied().fold(0.0, f64::max) / WINDOW_NS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes count where they were under way: batches that end together do not add up to more than moved at a time, and
    /// what came at once within a window counts there whole.
    #[test]
    fn bytes_count_where_they_moved() {
        let mut peak = Peak::default();
        for _ in 0..10 {
            peak.add(1_000_000_000, 50_000_000, 10_050_000_000);
        }
        assert!((peak.gb_per_s() - 1.0).abs() < 1e-9, "{}", peak.gb_per_s());
        peak.add(300_000_000, 20_000_000_000, 20_000_000_001);
        assert!((peak.gb_per_s() - 3.0).abs() < 1e-9, "{}", peak.gb_per_s());
        peak.add(5, 0, 0);
        let all: f64 = peak.windows.iter().sum();
        assert!((all - 10_300_000_005.0).abs() < 1.0, "{all}");
    }
}
