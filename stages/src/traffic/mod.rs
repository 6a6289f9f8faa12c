//! What moved over each NIC of each transport, as its reapers saw it end. Each pair of workers counts in cells of its own,
//! by a plain load and store once a batch of completions; whoever asks sums them up.
//! Deliberately only what a reaper knows: what peers send here their own nodes count.

mod peers;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use pipeline_transports::{NicFacts, NicId};

use crate::control::NicFailures;
use crate::world::World;

pub use peers::PeerStats;

/// The cells of one reaper: one writer, on lines of their own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Moved {
    slices: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl Moved {
    /// Slices that are applied at their destination, with their bytes.
    #[inline]
    pub(crate) fn done(&self, slices: u64, bytes: u64) {
        // One writer, so nothing is lost between the load and the store.
        self.slices.store(self.slices.load(Relaxed) + slices, Relaxed);
        self.bytes.store(self.bytes.load(Relaxed) + bytes, Relaxed);
    }

    /// One that came back without having been done.
    pub(crate) fn failed(&self) {
        self.errors.store(self.errors.load(Relaxed) + 1, Relaxed);
    }

    /// Adds what was counted to a sum.
    pub(crate) fn add_to(&self, sum: &mut Counts) {
        sum.slices += self.slices.load(Relaxed);
        sum.bytes += self.bytes.load(Relaxed);
        sum.errors += self.errors.load(Relaxed);
    }
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    slices: u64,
    bytes: u64,
    errors: u64,
}

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

impl World {
    /// All NICs of all transports, in the order of the file.
    pub fn nics(&self) -> Vec<NicStats> {
        let mut all = Vec::new();
        for (t, entry) in self.transports.iter().enumerate() {
            for (n, name) in entry.transport.nics().iter().enumerate() {
                let nic = NicId(n as u16);
                let Counts { slices, bytes, errors } = self.seats.counts(t as u16, nic.0);
                let (outstanding, links) = self.on(t as u16, nic);
                all.push(NicStats {
                    transport: entry.name.clone(),
                    name: name.clone(),
                    slices,
                    bytes,
                    errors,
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

    /// Slices on a NIC, and its links that live.
    fn on(&self, transport: u16, nic: NicId) -> (u64, usize) {
        let (mut outstanding, mut links) = (0, 0);
        for (_, peer) in self.peers.iter() {
            let all = peer.links.load();
            let here = all.iter().filter(|l| (l.transport, l.nic) == (transport, nic) && !l.life.is_dead());
            for link in here {
                outstanding += u64::from(link.life.outstanding.load(Relaxed));
                links += 1;
            }
        }
        (outstanding, links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums over reapers are exact, differences too, and how a NIC stands is always as of now.
    #[test]
    fn sums_and_differences() {
        let (a, b) = (Moved::default(), Moved::default());
        a.done(3, 3 << 40);
        a.done(0, 0);
        b.done(1, 7);
        b.failed();
        let mut sum = Counts::default();
        [&a, &b].iter().for_each(|moved| moved.add_to(&mut sum));
        assert_eq!(sum, Counts { slices: 4, bytes: (3 << 40) + 7, errors: 1 });
        let at =
            |slices, bytes, errors, links| NicStats { slices, bytes, errors, links, ..NicStats::default() };
        assert_eq!(at(9, 90, 2, 1).since(&at(4, 40, 2, 7)), at(5, 50, 0, 1));
        assert_eq!(at(1, 1, 0, 0).since(&at(4, 40, 2, 7)), at(0, 0, 0, 0), "an earlier engine");
    }
}
