//! What has moved to and from each peer, and how it stands now.
//! Deliberately a line for each name in the table of peers, whose size is `limits.peers`: whoever connects here has none.

use std::sync::atomic::Ordering::Relaxed;

use crate::control::PeerFailures;
use crate::peer::PeerState;
use crate::world::World;

/// One peer that was opened by a name or address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerStats {
    /// Name or address it was opened by.
    pub label: String,
    /// Where it stands.
    pub state: PeerState,
    /// Why it is down; empty while it is not.
    pub reason: String,
    /// Links to it that live.
    pub links: usize,
    /// Slices on those links now.
    pub outstanding: u64,
    /// Slices moved to and from it that are applied at their destination.
    pub slices: u64,
    /// Bytes of those that were read from it.
    pub bytes_read: u64,
    /// Bytes of those that were written to it.
    pub bytes_written: u64,
    /// Attempts of slices that came back without having been done. Most are tried again.
    pub errors: u64,
    /// Slices that were sent to it again.
    pub retries: u64,
    /// Links that ended because of the way between two NICs.
    pub path_failures: u64,
    /// Links that ended because of the peer as a whole.
    pub peer_failures: u64,
}

impl PeerStats {
    /// What was counted since `earlier`, and how it stands now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            slices: self.slices.saturating_sub(earlier.slices),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            errors: self.errors.saturating_sub(earlier.errors),
            retries: self.retries.saturating_sub(earlier.retries),
            path_failures: self.path_failures.saturating_sub(earlier.path_failures),
            peer_failures: self.peer_failures.saturating_sub(earlier.peer_failures),
            ..self.clone()
        }
    }
}

impl World {
    /// All peers that were opened, in the order in which they came into the table, with what control blames on the ways to
    /// them (sorted by peer).
    pub fn peer_stats(&self, failures: &[PeerFailures]) -> Vec<PeerStats> {
        self.peers
            .iter()
            .map(|(_, peer)| {
                let links = peer.links.load();
                let live = || links.iter().filter(|link| !link.life.is_dead());
                let state = peer.state();
                let blamed =
                    failures.binary_search_by(|f| (*f.peer).cmp(&peer.label)).ok().map(|i| &failures[i]);
                let (down, moved) = (state == PeerState::Down, peer.moved.sum());
                PeerStats {
                    label: peer.label.to_string(),
                    state,
                    reason: if down { peer.reason.load().to_string() } else { String::new() },
                    links: live().count(),
                    outstanding: live().map(|link| u64::from(link.life.outstanding.load(Relaxed))).sum(),
                    slices: moved.slices,
                    bytes_read: moved.bytes_read,
                    bytes_written: moved.bytes_written,
                    errors: moved.errors,
                    retries: peer.retries.load(Relaxed),
                    path_failures: blamed.map_or(0, |f| f.path),
                    peer_failures: blamed.map_or(0, |f| f.peer_failures),
                }
            })
            .collect()
    }
}
