//! `--bwlimit`: a token bucket that is empty at the start and never spent in advance, over intended times: what a late
//! wake-up costs is made up for, up to a quarter of a second; a longer pause is not.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What may be made up for.
const SLACK: Duration = Duration::from_millis(250);

/// See the module. Shared by all workers of a copy.
#[derive(Debug)]
pub struct Pace {
    start: Instant,
    per_s: u64,
    /// When all bytes that were asked for so far have been earned.
    earned: Mutex<Duration>,
}

impl Pace {
    /// So many bytes a second, from now on.
    pub fn new(per_s: u64) -> Self {
        Self { start: Instant::now(), per_s: per_s.max(1), earned: Mutex::default() }
    }

    /// Bytes to be moved at a time: so few that they take a twentieth of a second, but whole pages.
    pub fn chunk(&self) -> u64 {
        (self.per_s / 20).max(4096) / 4096 * 4096
    }

    /// Waits until `bytes` may be moved.
    pub fn take(&self, bytes: u64) {
        let due = self.start + self.reserve(self.start.elapsed(), bytes);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }

    /// When bytes that are asked for at `now` may be moved.
    fn reserve(&self, now: Duration, bytes: u64) -> Duration {
        let mut earned = self.earned.lock().unwrap_or_else(PoisonError::into_inner);
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.per_s);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        *earned = (*earned).max(now.saturating_sub(SLACK)).saturating_add(takes);
        *earned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With eight askers that are each up to 20 ms late, and one pause of two seconds, the rate over what is left is
    /// within 1 % of what was asked, and no moment is ahead of it.
    #[test]
    fn the_rate_is_kept() {
        let pace = Pace::new(10_000_000);
        let (mut now, mut moved) = (Duration::ZERO, 0_u64);
        let mut seed = 7_u64;
        let mut run = |now: &mut Duration, moved: &mut u64| {
            for _ in 0..400 {
                let due = pace.reserve(*now, pace.chunk());
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *now = due.max(*now) + Duration::from_micros(seed >> 44 & 0x3fff);
                *moved += pace.chunk();
                assert!(*moved <= (now.as_secs_f64() * 1e7) as u64 + 1, "ahead at {now:?}");
            }
        };
        run(&mut now, &mut moved);
        let first = moved as f64 / now.as_secs_f64();
        now += Duration::from_secs(2);
        let (paused, before) = (now, moved);
        run(&mut now, &mut moved);
        let second = (moved - before) as f64 / (now - paused + SLACK).as_secs_f64();
        for rate in [first, second] {
            assert!((rate / 1e7 - 1.0).abs() < 0.01, "{rate}");
        }
    }

    /// Chunks are a few pages at least, whatever the rate.
    #[test]
    fn chunks_are_whole_pages() {
        assert_eq!(Pace::new(1).chunk(), 4096);
        assert_eq!(Pace::new(20 << 20).chunk(), 1 << 20);
        assert_eq!(Pace::new(1_000_000).chunk() % 4096, 0);
    }
}
