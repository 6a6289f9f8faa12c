//! At most one log line a second for things that a stranger can cause as often as he likes.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::shared::lock;

/// Counts what it swallows.
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<(Option<Instant>, u64)>);

impl Throttle {
    /// Whether to log now: how many were swallowed since the last one.
    pub(super) fn pass(&self) -> Option<u64> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.0);
        if state.0.is_some_and(|last| now.saturating_duration_since(last) < Duration::from_secs(1)) {
            state.1 += 1;
            return None;
        }
        state.0 = Some(now);
        Some(std::mem::take(&mut state.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One a second passes, and says how many did not.
    #[test]
    fn one_a_second() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let at = |ms| throttle.pass_at(start + Duration::from_millis(ms));
        assert_eq!([at(0), at(1), at(999), at(1001), at(1500)], [Some(0), None, None, Some(2), None]);
    }
}
