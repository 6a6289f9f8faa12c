//! Which GID a port is reached by. Deliberately a pure choice from a table that was read: reading is the device's.

use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of a port, as the other side needs it: at connecting time, and not to be kept, because the index of an
/// address changes when addresses come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gid {
    /// Its place in the port's table.
    pub(crate) index: u8,
    /// The address itself.
    pub(crate) raw: [u8; 16],
}

/// What packets to a GID are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GidKind {
    /// Of an InfiniBand fabric.
    InfiniBand,
    /// Ethernet frames of their own type, which no router forwards.
    RoceV1,
    /// UDP over IP.
    RoceV2,
}

/// One line of a port's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GidEntry {
    /// Index and address.
    pub(crate) gid: Gid,
    /// What it is.
    pub(crate) kind: GidKind,
}

/// Which one the file asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GidChoice {
    /// The best by our order: RoCE v2 with an IPv4 address, RoCE v2 with a routable IPv6 address, any other RoCE v2, RoCE v1.
    #[default]
    Best,
    /// The one with this index.
    Index(u8),
    /// The RoCE v2 one with this address of the interface.
    Address(IpAddr),
}

impl Gid {
    /// The IP address that it stands for, where it is one of RoCE v2: IPv4 ones are mapped into IPv6.
    pub(crate) fn address(&self) -> IpAddr {
        Ipv6Addr::from(self.raw).to_canonical()
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.address(), f)
    }
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
        })
    }
}

/// How good an entry is, for somebody who does not say which; more is better.
fn rank(entry: &GidEntry) -> (GidKind, u8) {
    let reach = match entry.gid.address() {
        IpAddr::V4(v4) if v4 != Ipv4Addr::UNSPECIFIED && !v4.is_link_local() => 3,
        IpAddr::V6(v6) if !v6.is_unicast_link_local() => 2,
        IpAddr::V6(_) => 1,
        IpAddr::V4(_) => 0,
    };
    (entry.kind, reach)
}

/// Chooses from the table of one port.
///
/// # Errors
/// What is wrong and what there is, as text that names no device.
pub(crate) fn choose(table: &[GidEntry], choice: GidChoice) -> Result<Gid, String> {
    let found = match choice {
        GidChoice::Best => table.iter().max_by_key(|e| (rank(e), Reverse(e.gid.index))),
        GidChoice::Index(index) => table.iter().find(|e| e.gid.index == index),
        GidChoice::Address(address) => {
            table.iter().find(|e| e.kind == GidKind::RoceV2 && e.gid.address() == address.to_canonical())
        }
    };
    found.map(|entry| entry.gid).ok_or_else(|| {
        let what = match choice {
            GidChoice::Best => {
                return "its port has no GID: give the interface an address (ip address add …)".to_owned();
            }
            GidChoice::Index(index) => format!("it has no GID with index {index}"),
            GidChoice::Address(address) => format!("it has no RoCE v2 GID with the address {address}"),
        };
        let list: Vec<String> =
            table.iter().map(|e| format!("{} {} ({})", e.gid.index, e.gid, e.kind)).collect();
        match list.as_slice() {
            [] => format!("{what}, and no other: give the interface an address (ip address add …)"),
            list => format!("{what}; there are: {}", list.join(", ")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u8, kind: GidKind, address: &str) -> GidEntry {
        let raw = match address.parse().unwrap() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        GidEntry { gid: Gid { index, raw }, kind }
    }

    /// What a NIC with an IPv4 and an IPv6 address has, in the kernel's usual order.
    fn usual() -> Vec<GidEntry> {
        use GidKind::{RoceV1, RoceV2};
        vec![
            entry(0, RoceV1, "fe80::1"),
            entry(1, RoceV2, "fe80::1"),
            entry(2, RoceV1, "10.9.0.10"),
            entry(3, RoceV2, "10.9.0.10"),
            entry(4, RoceV1, "fd00::10"),
            entry(5, RoceV2, "fd00::10"),
            entry(6, RoceV2, "10.9.1.10"),
        ]
    }

    /// Best is RoCE v2 with IPv4, then routable IPv6, then link-local, and v1 only where there is nothing else; of equals,
    /// the first. Holes in the table (an address was removed) and any order of it change nothing.
    #[test]
    fn the_best_one() {
        let mut table = usual();
        for expected in [3, 6, 5, 1, 2, 4, 0] {
            for _ in 0..table.len() {
                table.rotate_left(1);
                assert_eq!(choose(&table, GidChoice::Best).unwrap().index, expected, "of {table:?}");
            }
            table.retain(|e| e.gid.index != expected);
        }
        assert!(choose(&table, GidChoice::Best).unwrap_err().contains("ip address add"));
    }

    /// Link-local IPv4 addresses (no DHCP server answered) lose to everything routable.
    #[test]
    fn link_local_v4_is_last() {
        let table = [entry(1, GidKind::RoceV2, "169.254.3.4"), entry(2, GidKind::RoceV2, "fd00::1")];
        assert_eq!(choose(&table, GidChoice::Best).unwrap().index, 2);
    }

    /// On InfiniBand the first entry is taken.
    #[test]
    fn infiniband() {
        let table = [entry(1, GidKind::InfiniBand, "fe80::b"), entry(0, GidKind::InfiniBand, "fe80::a")];
        assert_eq!(choose(&table, GidChoice::Best).unwrap().index, 0);
    }

    /// An index or an address that the file names is taken as it is; one that is not there is an error that lists what is.
    #[test]
    fn the_files_own_choice() {
        let table = usual();
        assert_eq!(choose(&table, GidChoice::Index(0)).unwrap().to_string(), "fe80::1");
        let v4 = GidChoice::Address("10.9.1.10".parse().unwrap());
        assert_eq!(choose(&table, v4).unwrap().index, 6);
        let mapped = GidChoice::Address("::ffff:10.9.0.10".parse().unwrap());
        assert_eq!(choose(&table, mapped).unwrap().index, 3, "RoCE v2, though v1 has it as well");
        let text = choose(&table, GidChoice::Index(9)).unwrap_err();
        assert!(text.contains("index 9") && text.contains("3 10.9.0.10 (RoCE v2)"), "{text}");
        let absent = GidChoice::Address("10.9.7.7".parse().unwrap());
        assert!(choose(&table, absent).unwrap_err().contains("10.9.7.7"));
        assert!(choose(&[], GidChoice::Index(3)).unwrap_err().contains("no other"));
    }
}
