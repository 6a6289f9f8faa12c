//! How much of the tables is taken, and what was counted so far: for users, tests and the drain.
//! Deliberately kept nowhere: it is summed up when somebody asks.

use std::sync::atomic::Ordering::Relaxed;

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
    /// Keys and completions that came too late or twice, so far: counted and dropped.
    pub stale: u64,
    /// Callbacks and wakers of the application that panicked, so far: caught, logged and counted.
    pub callback_panics: u64,
    /// Requests that entered the graph, so far: those of which nothing was wrong at `submit`.
    pub submitted: u64,
    /// As how many they did: neighbours that touch on both sides are merged (`coalesce` of the stage `admit`).
    pub entered: u64,
    /// Wake-ups that ends of batches have cost so far: one a batch for all threads that slept for it, one for each task and
    /// descriptor, one for all that a doorbell had not told before; none where they poll.
    pub wakes: u64,
    /// Work requests whose bytes a transport has copied through a staging buffer, so far.
    pub staged_copies: u64,
    /// Bytes of those.
    pub staged_bytes: u64,
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
        let (submitted, entered) = self.runs.counts();
        Usage {
            slices: self.slices - self.free.len(),
            requests: self.requests_limit() - self.free_requests.len(),
            batches: self.batches.limit() - self.batches.free_len(),
            bytes: self.window.bytes(),
            stale: self.stale.load(Relaxed),
            callback_panics: self.ways.panics(),
            submitted,
            entered,
            wakes: self.wakes(),
            // Transports count them: see `World::usage`.
            staged_copies: 0,
            staged_bytes: 0,
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
