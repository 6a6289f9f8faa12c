//! How much of the tables is taken: for users, tests and the drain. What was counted is in `counted.rs`.
//! Deliberately kept nowhere: it is summed up when somebody asks.

use super::{Ledger, RequestSlot};
use crate::peer::PeerId;

/// How much of each table is taken; for tests, metrics and the drain report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Slices.
    pub slices: u32,
    /// Requests.
    pub requests: u32,
    /// Batches.
    pub batches: u32,
    /// Bytes charged to windows.
    pub bytes: u64,
}

impl Usage {
    /// Whether nothing is taken.
    pub fn is_idle(&self) -> bool {
        (self.slices, self.requests, self.batches, self.bytes) == (0, 0, 0, 0)
    }
}

impl Ledger {
    /// How much is taken now.
    pub fn usage(&self) -> Usage {
        Usage {
            slices: self.slices - self.free.len(),
            requests: self.requests_limit() - self.free_requests.len(),
            batches: self.batches.limit() - self.batches.free_len(),
            bytes: self.window.bytes(),
        }
    }

    /// Requests that have not ended, of one peer (then with the notices that it has not taken) or of all. Looks at every
    /// request there can be (some milliseconds): for rare questions only.
    pub fn unfinished(&self, peer: Option<PeerId>) -> u64 {
        if self.free_requests.len() == self.requests_limit() {
            return 0;
        }
        let notices = peer.map_or(0, |peer| self.outbox.count(peer));
        let is_of = |request: &RequestSlot| peer.is_none_or(|peer| request.peer() == peer);
        let open = self.requests.iter().filter(|request| request.is_open() && is_of(request));
        open.map(|request| 1 + u64::from(request.merged())).sum::<u64>() + notices as u64
    }
}
