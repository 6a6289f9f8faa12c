//! What is known of a port of a device: link layer, MTU, LID, and whether it is up.
//! Deliberately plain data; the device reads it and `events` keeps it true.

use ibverbs_sys as ffi;

use crate::clock::Nanos;
use crate::sync::{AtomicU64, Ordering};

/// What a port's packets travel in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkLayer {
    /// Addressed by LID within a subnet.
    InfiniBand,
    /// RoCE: addressed by GID.
    Ethernet,
}

/// Whether a port carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortState {
    /// It does.
    Up,
    /// It does not.
    Down {
        /// When that was first seen.
        since: Nanos,
    },
}

/// Largest payload of a packet, as verbs count it: 1 is 256 bytes, 5 is 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mtu(u8);

impl Mtu {
    /// From its number in verbs.
    pub(crate) fn from_verbs(code: u32) -> Option<Self> {
        u8::try_from(code).ok().filter(|code| (1..=5).contains(code)).map(Self)
    }

    /// The largest that is not longer than this; the least there is for less than that.
    pub(crate) fn at_most(bytes: u32) -> Self {
        (1..=5).rev().map(Self).find(|mtu| mtu.bytes() <= bytes).unwrap_or(Self(1))
    }

    /// Its number in verbs, which also goes on the wire.
    pub(crate) fn code(self) -> u8 {
        self.0
    }

    /// Bytes.
    pub(crate) fn bytes(self) -> u32 {
        128 << self.0
    }
}

/// A port, as it was when it was last asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortFacts {
    /// Whether it carried packets.
    pub(crate) is_up: bool,
    /// InfiniBand or Ethernet.
    pub(crate) layer: LinkLayer,
    /// Largest packet at present.
    pub(crate) active_mtu: Mtu,
    /// Its LID; 0 on Ethernet.
    pub(crate) lid: u16,
    /// Longest message, bytes.
    pub(crate) max_message: u32,
    /// Entries of its table of GIDs.
    pub(crate) gids: usize,
}

impl PortFacts {
    pub(super) fn of(attr: &ffi::ibv_port_attr) -> Self {
        let infiniband = u32::from(attr.link_layer) == ffi::IBV_LINK_LAYER_INFINIBAND;
        Self {
            // ACTIVE_DEFER: the link was lost a moment ago and the hardware holds on to its state.
            is_up: attr.state == ffi::ibv_port_state::IBV_PORT_ACTIVE,
            layer: if infiniband { LinkLayer::InfiniBand } else { LinkLayer::Ethernet },
            active_mtu: Mtu::from_verbs(attr.active_mtu).unwrap_or(Mtu(1)),
            lid: attr.lid,
            max_message: attr.max_msg_sz,
            gids: usize::try_from(attr.gid_tbl_len).unwrap_or(0),
        }
    }
}

/// A port's state, to be asked on the data path: one relaxed load. One writer at a time (whoever tends the device).
///
/// Relaxed is enough: nobody concludes from the state that other memory has changed. Who acts on it asks again.
#[derive(Debug, Default)]
pub(crate) struct StateCell(AtomicU64);

impl StateCell {
    /// Notes what was seen at `now`. Whether that is news.
    pub(crate) fn note(&self, is_up: bool, now: Nanos) -> bool {
        match (is_up, self.0.load(Ordering::Relaxed)) {
            (true, 0) => false,
            (true, _) => {
                self.0.store(0, Ordering::Relaxed);
                true
            }
            (false, 0) => {
                self.0.store(now.max(1), Ordering::Relaxed);
                true
            }
            // The first sight of it counts.
            (false, _) => false,
        }
    }

    /// The state.
    pub(crate) fn get(&self) -> PortState {
        match self.0.load(Ordering::Relaxed) {
            0 => PortState::Up,
            since => PortState::Down { since },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every MTU of verbs has its bytes, and bytes are rounded down to one that exists.
    #[test]
    fn mtus() {
        let bytes = |mtu: Mtu| mtu.bytes();
        assert_eq!(
            (1..=5).map(|n| bytes(Mtu::from_verbs(n).unwrap())).collect::<Vec<_>>(),
            [256, 512, 1024, 2048, 4096]
        );
        assert_eq!((Mtu::from_verbs(0), Mtu::from_verbs(6), Mtu::from_verbs(256 + 1)), (None, None, None));
        assert_eq!(
            [0, 255, 256, 4095, 4096, 9000].map(|n| bytes(Mtu::at_most(n))),
            [256, 256, 256, 2048, 4096, 4096]
        );
        assert_eq!(Mtu::at_most(1024).code(), 3);
    }

    /// The time of a port that is down is that of the first sight, whatever is seen again; coming up forgets it.
    #[test]
    fn down_since_it_was_first_seen() {
        let cell = StateCell::default();
        assert_eq!((cell.note(true, 5), cell.get()), (false, PortState::Up));
        assert!(cell.note(false, 7));
        assert!(!cell.note(false, 9));
        assert_eq!(cell.get(), PortState::Down { since: 7 });
        assert!(cell.note(true, 11));
        assert_eq!(cell.get(), PortState::Up);
        assert!(cell.note(false, 0));
        assert_eq!(cell.get(), PortState::Down { since: 1 }, "0 means up");
    }
}
