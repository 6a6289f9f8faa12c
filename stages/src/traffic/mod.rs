//! What moved over each NIC of each transport, as its reapers saw it end. Each pair of workers counts in cells of its own,
//! by a plain load and store once a batch of completions; whoever asks sums them up.
//! Beside that, what peers have moved here through serve halves. Deliberately only what halves know: what the target's CPU
//! takes no part in (RDMA) is counted where it was asked for, and said to be unknown here rather than nothing.

mod counts;
mod moved;
mod peers;

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use pipeline_transports::NicFacts;
use pipeline_transports::NicId;

use crate::control::NicFailures;
use crate::world::World;

pub use counts::Counts;
pub(crate) use counts::FAILURES;
pub(crate) use moved::{Bytes, Moved, Moves, ServedBytes, Sum, index};
pub use peers::PeerStats;

/// One NIC of a transport: what has moved over it since the start, and how it stands now. A transport without NICs of the
/// file has one of its own name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicStats {
    /// The transport's name in the file.
    pub transport: String,
    /// The NIC's name in the file.
    pub name: String,
    /// Slices that this node moved over it and that are applied at their destination.
    pub slices: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Of those, the bytes that were read from peers.
    pub bytes_read: u64,
    /// Of those, the bytes that were written to peers.
    pub bytes_written: u64,
    /// Payload that peers have written here through a serve half of this NIC, by pieces as it came; `None` where this node's
    /// CPU takes no part in that ([`pipeline_transports::Caps::two_sided`]), and so nobody here knows.
    pub served_bytes_in: Option<u64>,
    /// Payload that was sent from here to peers which read it, as it was answered; `None` likewise.
    pub served_bytes_out: Option<u64>,
    /// Attempts of slices that came back without having been done: refused, failed, or on a link that died. Most are
    /// tried again.
    pub errors: u64,
    /// Links on it that ended, and dials that failed, because of it: no fault of any peer.
    pub local_failures: u64,
    /// Links on it that ended because of the way to a NIC of a peer.
    pub path_failures: u64,
    /// Slices on it now.
    pub outstanding: u64,
    /// Links on it that live, over all peers.
    pub links: usize,
    /// Its address, speed and NUMA node, and why it rests if it does.
    pub facts: NicFacts,
}

impl NicStats {
    /// What was counted since `earlier`, and how it stands now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            slices: self.slices.saturating_sub(earlier.slices),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            served_bytes_in: more(self.served_bytes_in, earlier.served_bytes_in),
            served_bytes_out: more(self.served_bytes_out, earlier.served_bytes_out),
            errors: self.errors.saturating_sub(earlier.errors),
            local_failures: self.local_failures.saturating_sub(earlier.local_failures),
            path_failures: self.path_failures.saturating_sub(earlier.path_failures),
            ..self.clone()
        }
    }

    /// With what control blamed on it, and whether it rests for that.
    #[must_use]
    pub fn blamed(mut self, failures: NicFailures) -> Self {
        self.facts.resting = self.facts.resting.or(failures.resting);
        (self.local_failures, self.path_failures) = (failures.local, failures.path);
        self
    }
}

/// What was counted since, where it is counted.
fn more(now: Option<u64>, earlier: Option<u64>) -> Option<u64> {
    now.map(|now| now.saturating_sub(earlier.unwrap_or(0)))
}

impl World {
    /// All NICs of all transports, in the order of the file.
    pub fn nics(&self) -> Vec<NicStats> {
        let mut all = Vec::new();
        let on = self.on_nics();
        for (t, entry) in self.transports.iter().enumerate() {
            for (n, name) in entry.transport.nics().iter().enumerate() {
                let nic = NicId(n as u16);
                let serves = entry.transport.caps().two_sided;
                let sum = self.seats.counts(t as u16, nic.0);
                let (outstanding, links) = on.get(&(t as u16, nic)).copied().unwrap_or_default();
                all.push(NicStats {
                    transport: entry.name.clone(),
                    name: name.clone(),
                    slices: sum.slices,
                    bytes: sum.bytes_read + sum.bytes_written,
                    bytes_read: sum.bytes_read,
                    bytes_written: sum.bytes_written,
                    served_bytes_in: serves.then_some(sum.served_in),
                    served_bytes_out: serves.then_some(sum.served_out),
                    errors: sum.errors,
                    local_failures: 0,
                    path_failures: 0,
                    outstanding,
                    links,
                    facts: entry.transport.nic_facts(nic),
                });
            }
        }
        all
    }

    /// Slices on each NIC of each transport, and its links that live: of all in one walk over the peers, who may be many.
    fn on_nics(&self) -> HashMap<(u16, NicId), (u64, usize)> {
        let mut on: HashMap<_, (u64, usize)> = HashMap::new();
        for (_, peer) in self.peers.iter() {
            for link in peer.links.load().iter().filter(|link| !link.life.is_dead()) {
                let (outstanding, links) = on.entry((link.transport, link.nic)).or_default();
                *outstanding += u64::from(link.life.outstanding.load(Relaxed));
                *links += 1;
            }
        }
        on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences of what was counted are exact, and how a NIC stands is always as of now.
    #[test]
    fn differences() {
        let at =
            |slices, bytes, errors, links| NicStats { slices, bytes, errors, links, ..NicStats::default() };
        assert_eq!(at(9, 90, 2, 1).since(&at(4, 40, 2, 7)), at(5, 50, 0, 1));
        assert_eq!(at(1, 1, 0, 0).since(&at(4, 40, 2, 7)), at(0, 0, 0, 0), "an earlier engine");
        assert_eq!((more(Some(9), Some(4)), more(Some(9), None), more(None, None)), (Some(5), Some(9), None));
    }
}
