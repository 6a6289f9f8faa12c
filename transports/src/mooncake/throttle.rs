//! One line a second for what strangers do wrong, however often they do it; the others are counted.
//! Deliberately for a whole port: at a port without passwords a peer has no name to be told apart by.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Nanos;

const QUIET_NS: Nanos = 1_000_000_000;

/// See the file's head.
#[derive(Default)]
pub(crate) struct Throttle {
    /// When it last spoke; 0: never.
    spoken: AtomicU64,
    unsaid: AtomicU64,
}

impl Throttle {
    /// Whether to speak now: how many were passed over since the last time.
    pub(crate) fn speak(&self, now: Nanos) -> Option<u64> {
        let last = self.spoken.load(Ordering::Relaxed);
        let due = last == 0 || now.saturating_sub(last) >= QUIET_NS;
        if due && self.spoken.compare_exchange(last, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return Some(self.unsaid.swap(0, Ordering::Relaxed));
        }
        self.unsaid.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flood costs one line a second, which says how many it stands for.
    #[test]
    fn a_flood_is_one_line() {
        let throttle = Throttle::default();
        assert_eq!(throttle.speak(5), Some(0));
        assert_eq!((0..100).filter_map(|i| throttle.speak(6 + i)).count(), 0);
        assert_eq!(throttle.speak(5 + QUIET_NS), Some(100));
    }
}
