//! Whether a NIC can still carry what was posted on it, as far as its events say: its port may be down, and an address
//! that queue pairs were made with may be gone. Soft-RoCE, for one, then completes nothing at all, not even with an error.
//!
//! Deliberately patient: a port that is back, or an address, within the grace was no failure.

use std::sync::Arc;

use super::device::Device;
use super::gid::Gid;
use super::port::{LinkLayer, PortState};
use crate::clock::Nanos;

/// How long a port may be down, or an address gone, before work on it is given up.
const GRACE_NS: Nanos = 300_000_000;

/// Looks at one device, for one reaper.
pub(super) struct Health {
    device: Arc<Device>,
    /// Of the device at the last look.
    generation: u64,
    /// Addresses of queue pairs that were gone at the last look, and since when.
    gone: Vec<(Gid, Nanos)>,
    was_down: bool,
}

impl Health {
    pub(super) fn of(device: &Arc<Device>) -> Self {
        Self { device: device.clone(), generation: device.generation(), gone: Vec::new(), was_down: false }
    }

    /// Whether something may be wrong: then [`Self::look`]. Two relaxed loads.
    pub(super) fn may_ail(&self) -> bool {
        self.was_down || !self.gone.is_empty() || self.device.generation() != self.generation
    }

    /// Looks again. `addresses`: those that queue pairs were made with.
    pub(super) fn look(&mut self, now: Nanos, addresses: impl Iterator<Item = Gid> + Clone) {
        self.was_down = self.is_down();
        // When the last queue pair with an address is gone, the address is nobody's matter.
        self.gone.retain(|(gone, _)| addresses.clone().any(|gid| gid == *gone));
        let generation = self.device.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        if self.device.link_layer() == LinkLayer::InfiniBand {
            return;
        }
        let before = std::mem::take(&mut self.gone);
        for gid in addresses {
            let is_known = self.gone.iter().any(|(gone, _)| *gone == gid);
            if !is_known && !self.device.has_gid(gid) {
                let since = before.iter().find(|(gone, _)| *gone == gid).map_or(now, |(_, since)| *since);
                self.gone.push((gid, since));
            }
        }
    }

    /// Whether the port is down, for whatever time.
    pub(super) fn is_down(&self) -> bool {
        self.device.state() != PortState::Up
    }

    /// When a queue pair with this address is to be given up, if it is to be. One that has nothing to do outlasts any time
    /// that its port is down, but not the end of its address.
    pub(super) fn gives_up_at(&self, address: Gid, is_busy: bool) -> Option<Nanos> {
        let down = match self.device.state() {
            PortState::Down { since } if is_busy => Some(since),
            _ => None,
        };
        let gone = self.gone.iter().find(|(gone, _)| *gone == address).map(|(_, since)| *since);
        down.into_iter().chain(gone).min().map(|since| since.saturating_add(GRACE_NS))
    }
}
