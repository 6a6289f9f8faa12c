//! The network interfaces of this machine as the kernel has them now: whether they are up, which addresses they have,
//! and what `/sys` says of speed and NUMA node. Asked of the kernel by route netlink, so in the network namespace that
//! this process is in. Deliberately only looks: nothing is configured, and no name is resolved.

mod message;
mod netlink;
mod sysfs;
mod watch;

use std::io;
use std::net::IpAddr;

pub use netlink::Monitor;
pub use watch::Watch;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The address.
    pub ip: IpAddr,
    /// Bits of its network.
    pub prefix: u8,
    /// It may be used: not one that the kernel still checks for duplicates, or has found one of.
    pub is_usable: bool,
    /// It should not be used for new connections any more.
    pub is_deprecated: bool,
}

impl Assigned {
    /// Whether `other` lies in its network, so that no router is between them.
    pub fn is_on_link(&self, other: IpAddr) -> bool {
        let same = |own: u128, other: u128, bits: u32| {
            let host = bits - u32::from(self.prefix).min(bits);
            own.checked_shr(host) == other.checked_shr(host)
        };
        match (self.ip, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => same(u32::from(own).into(), u32::from(other).into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.into(), other.into(), 128),
            _ => false,
        }
    }
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name, as `ip link` lists it.
    pub name: String,
    /// The kernel's number of it.
    pub index: u32,
    /// It is switched on and its link works (`operstate` up, or one that does not tell).
    pub is_up: bool,
    /// It leads to this machine itself: all of its networks are addresses of its own.
    pub is_loopback: bool,
    /// Its addresses.
    pub addresses: Vec<Assigned>,
}

impl Interface {
    /// Whether packets to `ip` would come in here.
    fn holds(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|a| a.ip == ip || (self.is_loopback && a.is_on_link(ip)))
    }

    /// Bits per second of its port; 0 where nobody knows.
    pub fn bits_per_s(&self) -> u64 {
        sysfs::bits_per_s(self)
    }

    /// NUMA node of its device, where it has one and the system knows.
    pub fn numa(&self) -> Option<u16> {
        sysfs::numa(self)
    }
}

/// All interfaces at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces(Vec<Interface>);

impl Interfaces {
    /// Those of now.
    ///
    /// # Errors
    /// When the kernel gives no netlink socket, or no answer.
    pub fn now() -> io::Result<Self> {
        netlink::dump().map(Self)
    }

    /// The one by which packets from one address to another would leave now, as the system routes.
    ///
    /// # Errors
    /// The system's reason, such as that there is no way.
    pub fn leaving_by(&self, from: IpAddr, to: IpAddr) -> io::Result<Option<&Interface>> {
        let by = netlink::route_by(from, to)?;
        Ok(self.0.iter().find(|interface| interface.index == by))
    }

    /// By name.
    pub fn named(&self, name: &str) -> Option<&Interface> {
        self.0.iter().find(|interface| interface.name == name)
    }

    /// The one that has an address.
    pub fn holding(&self, ip: IpAddr) -> Option<&Interface> {
        let exactly = |interface: &&Interface| interface.addresses.iter().any(|a| a.ip == ip);
        self.0.iter().find(exactly).or_else(|| self.0.iter().find(|interface| interface.holds(ip)))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.0.iter()
    }
}

impl FromIterator<Interface> for Interfaces {
    fn from_iter<I: IntoIterator<Item = Interface>>(interfaces: I) -> Self {
        Self(interfaces.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(ip: &str, prefix: u8) -> Assigned {
        Assigned { ip: ip.parse().unwrap(), prefix, is_usable: true, is_deprecated: false }
    }

    /// What lies in a network is what its bits say, at the ends of both families too; families are never mixed.
    #[test]
    fn networks() {
        let link = |own: &str, prefix, other: &str| assigned(own, prefix).is_on_link(other.parse().unwrap());
        assert!(link("10.7.0.1", 24, "10.7.0.255") && !link("10.7.0.1", 24, "10.7.1.0"));
        assert!(link("10.7.0.1", 0, "192.0.2.1") && !link("10.7.0.1", 32, "10.7.0.2"));
        assert!(link("fd00::1", 64, "fd00::ffff:1") && !link("fd00::1", 64, "fd00:0:0:1::1"));
        assert!(link("fd00::1", 0, "2001:db8::1") && link("::1", 128, "::1") && !link("::1", 128, "::2"));
        assert!(!link("10.0.0.1", 0, "::1"));
    }

    /// Every address of the loopback network is held by it, but an interface that has one exactly comes first.
    #[test]
    fn who_holds_an_address() {
        let lo = Interface {
            name: "lo".into(),
            is_loopback: true,
            addresses: vec![assigned("127.0.0.1", 8)],
            ..Interface::default()
        };
        let eth = |name: &str, ip| Interface {
            name: name.into(),
            addresses: vec![assigned(ip, 24)],
            ..Interface::default()
        };
        let all: Interfaces = [lo, eth("a", "127.0.0.12"), eth("b", "10.0.0.1")].into_iter().collect();
        let at = |ip: &str| all.holding(ip.parse().unwrap()).map(|i| i.name.as_str());
        assert_eq!([at("127.0.0.11"), at("127.0.0.12")], [Some("lo"), Some("a")]);
        assert_eq!([at("10.0.0.1"), at("10.0.0.2"), at("::1")], [Some("b"), None, None]);
    }

    /// The kernel's own answer: the loopback interface is there, up, with its address, and says nothing of a speed.
    #[test]
    fn this_machine() {
        let now = Interfaces::now().unwrap();
        let lo = now.iter().find(|interface| interface.is_loopback).unwrap();
        assert!(lo.is_up && lo.index > 0, "{lo:?}");
        assert_eq!(now.holding("127.0.0.17".parse().unwrap()).map(|i| &i.name), Some(&lo.name));
        assert_eq!((lo.numa(), lo.bits_per_s()), (None, 0));
        assert!(now.named("no-such-interface").is_none());
        let here = "127.0.0.1".parse().unwrap();
        let by = now.leaving_by("127.0.0.11".parse().unwrap(), here).unwrap();
        assert_eq!(by.map(|i| &i.name), Some(&lo.name));
        // Nobody sends from an address that is not there.
        assert!(now.leaving_by("192.0.2.1".parse().unwrap(), here).is_err());
    }
}
