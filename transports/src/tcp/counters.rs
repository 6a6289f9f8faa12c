//! What a TCP transport counts, and the one log line a second and peer that violations may cost.
//! Deliberately not per lane: lanes come and go, a transport stays.

use crate::clock::Nanos;
use crate::sync::{AtomicU64, Ordering};

const QUIET_NS: Nanos = 1_000_000_000;
const PEERS: usize = 64;

/// Counters of one transport; read at any time, from any thread.
pub struct Counters {
    violations: AtomicU64,
    refused: AtomicU64,
    /// When a peer (by hash of its name) was last complained about; 0: never.
    spoken: [AtomicU64; PEERS],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            violations: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            spoken: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Counters {
    /// Lanes closed because the peer broke the protocol.
    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    /// Work requests of peers that were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a refused work request, and says so at most once a second and peer.
    pub(super) fn refuse(&self, now: Nanos, peer: &str, why: crate::wr::Refusal) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        if self.may_speak(now, peer) {
            tracing::warn!(peer, reason = ?why, "refused a work request of a peer");
        }
    }

    /// Counts a violation, and says so at most once a second and peer.
    pub(super) fn violation(&self, now: Nanos, peer: &str, what: super::frame::Violation) {
        self.violations.fetch_add(1, Ordering::Relaxed);
        if self.may_speak(now, peer) {
            tracing::warn!(peer, reason = %what, "closed a lane: the peer broke the protocol");
        }
    }

    fn may_speak(&self, now: Nanos, peer: &str) -> bool {
        let hash = peer
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        let last = &self.spoken[(hash % PEERS as u64) as usize];
        let seen = last.load(Ordering::Relaxed);
        let due = seen == 0 || now.saturating_sub(seen) >= QUIET_NS;
        due && last.compare_exchange(seen, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// However often a peer offends, it costs one line a second; every offence is counted.
    #[test]
    fn speaks_once_a_second_and_counts_all() {
        let counters = Counters::default();
        let lines = (0..1000).filter(|i| counters.may_speak(5 + i * 1_000_000, "a")).count();
        assert_eq!(lines, 1);
        assert!(counters.may_speak(5 + QUIET_NS, "a"));
        counters.violation(0, "b", crate::tcp::frame::Violation::NotAFrame);
        counters.violation(1, "b", crate::tcp::frame::Violation::NotAFrame);
        assert_eq!(counters.violations(), 2);
    }
}
