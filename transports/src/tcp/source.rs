//! Which address a lane leaves from, and whether a NIC can be used at all: judged by what the file says of the NIC and
//! by the interfaces as they are. Deliberately pure, so that every case is in one table; binding is done elsewhere.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use super::settings::Nic;
use crate::interfaces::{Assigned, Interface, Interfaces};

/// The interface that stands for a NIC: the named one, or the one that has its address.
pub(super) fn interface<'a>(nic: &Nic, on: &'a Interfaces) -> Option<&'a Interface> {
    let named = nic.device.as_deref().and_then(|device| on.named(device));
    named.or_else(|| nic.address.and_then(|address| on.holding(address)))
}

/// Why no lane can leave from the NIC now, and what to do; `None` if one can.
pub fn illness(nic: &Nic, on: &Interfaces) -> Option<String> {
    let name = &nic.name;
    let through = match (nic.address, nic.device.as_deref()) {
        (Some(address), device) => match on.holding(address) {
            Some(holder) => holder,
            None => {
                let device = device.filter(|device| on.named(device).is_some()).unwrap_or("INTERFACE");
                return Some(format!(
                    "no interface has its address {address}; give it back (ip address add {address}/24 dev \
                     {device}) or correct nics.{name}.address"
                ));
            }
        },
        (None, Some(device)) => match on.named(device) {
            Some(found) => found,
            None => {
                return Some(format!(
                    "there is no interface `{device}`; see `ip -br link` and correct nics.{name}.device, or set \
                     nics.{name}.address"
                ));
            }
        },
        (None, None) => return None,
    };
    let device = &through.name;
    if !through.is_up {
        return Some(format!(
            "interface `{device}` is down; switch it on (ip link set {device} up) or see to its link"
        ));
    }
    // One of the link has every interface by itself; whoever wants to use that names it.
    let counts = |a: &Assigned| a.is_usable && !is_link_local(a.ip);
    let has_some = nic.address.is_some() || through.addresses.iter().any(counts);
    (!has_some).then(|| without_address(name, device, "IP"))
}

fn without_address(name: &str, device: &str, family: &str) -> String {
    format!(
        "interface `{device}` has no {family} address; add one (ip address add ADDRESS/24 dev {device}) or set \
         nics.{name}.address"
    )
}

/// The address and port 0 that a lane of a NIC to `to` is bound to; `None`: as the system routes.
///
/// # Errors
/// Why there is none, and what to do.
pub(super) fn source(nic: &Nic, to: SocketAddr, on: &Interfaces) -> Result<Option<SocketAddr>, String> {
    if let Some(why) = illness(nic, on) {
        return Err(why);
    }
    let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
    match (nic.address, interface(nic, on)) {
        (Some(own), _) if own.is_ipv4() != to.is_ipv4() => Err(format!(
            "its address {own} cannot reach {to}, which takes an {family} address; name the peer by one of the \
             other family, or correct nics.{}.address",
            nic.name
        )),
        (Some(own), on) => Ok(Some(bound(own, to, on))),
        (None, Some(through)) => {
            let best =
                through.addresses.iter().filter(|a| suits(a, to.ip())).max_by_key(|a| rank(a, to.ip()));
            let best = best.ok_or_else(|| without_address(&nic.name, &through.name, family))?;
            Ok(Some(bound(best.ip, to, Some(through))))
        }
        (None, None) => Ok(None),
    }
}

/// Why what a lane of a NIC sends to a peer with these addresses leaves by another interface than the NIC's, and what to do:
/// the system routes by destination first, and a source address alone changes nothing of that. `None` if it leaves as it
/// should, or if nobody can tell.
pub fn stray(nic: &Nic, peer: &[SocketAddr], on: &Interfaces) -> Option<String> {
    let own = interface(nic, on).filter(|own| !own.is_loopback)?;
    // Lanes go to no others where there are such.
    let is_near = |to: &&SocketAddr| is_on_link(nic, to.ip(), on);
    let has_near = peer.iter().any(|to| is_near(&to));
    peer.iter().filter(|to| !has_near || is_near(to)).find_map(|to| {
        let from = source(nic, *to, on).ok()??.ip();
        let by = on.leaving_by(from, to.ip()).ok()??;
        let is_stray = by.index != own.index && !by.is_loopback;
        is_stray.then(|| {
            format!(
                "what it sends from {from} to {} leaves by `{}` and not by `{}`; set bind = \"device\" on its \
                 transport, or give it routes of its own (ip rule add from {from} table NUMBER)",
                to.ip(),
                by.name,
                own.name
            )
        })
    })
}

/// Of a NIC whose lanes are tied to its interface: why that may lead nowhere, and what to do. The kernel takes every address to be
/// a neighbour there, so it is only asked about what did not answer. `None` if the peer is in a network of the NIC, or the
/// system's own routes go that way too.
pub(super) fn tied_astray(nic: &Nic, to: SocketAddr, on: &Interfaces) -> Option<String> {
    let own = interface(nic, on).filter(|_| !is_on_link(nic, to.ip(), on))?;
    let from = source(nic, to, on).ok()??.ip();
    let by = on.leaving_by(from, to.ip()).ok()??;
    (by.index != own.index && !by.is_loopback).then(|| {
        format!(
            "nothing answers at {to} by interface `{0}`, to which bind = \"device\" ties it, and the system's routes lead there by \
             `{1}`; correct nics.{2}.device, or take out bind = \"device\"",
            own.name, by.name, nic.name
        )
    })
}

/// Whether `to` lies in a network of the NIC, so that no router is between them.
pub(super) fn is_on_link(nic: &Nic, to: IpAddr, on: &Interfaces) -> bool {
    let through = interface(nic, on);
    through.is_some_and(|through| through.addresses.iter().any(|a| a.is_usable && a.is_on_link(to)))
}

/// Whether connections from an address to `to` can be.
fn suits(own: &Assigned, to: IpAddr) -> bool {
    own.is_usable
        && own.ip.is_ipv4() == to.is_ipv4()
        && (!own.ip.is_loopback() || to.is_loopback())
        && (!is_link_local(own.ip) || is_link_local(to))
}

/// The more the better: in the peer's network, of the peer's scope, not deprecated.
fn rank(own: &Assigned, to: IpAddr) -> (bool, bool, bool) {
    (!own.is_deprecated, own.is_on_link(to), is_link_local(own.ip) == is_link_local(to))
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// An address of a link means nothing without the number of its interface.
fn bound(own: IpAddr, to: SocketAddr, through: Option<&Interface>) -> SocketAddr {
    match (own, to) {
        (IpAddr::V6(own), _) if own.is_unicast_link_local() => {
            SocketAddr::V6(SocketAddrV6::new(own, 0, 0, through.map_or(0, |through| through.index)))
        }
        (own, _) => SocketAddr::new(own, 0),
    }
}

/// The address that a NIC is known by, for reports.
pub(super) fn shown(nic: &Nic, on: &Interfaces) -> String {
    let first = || {
        let through = interface(nic, on)?;
        let usable = || through.addresses.iter().filter(|a| a.is_usable && !a.is_deprecated).map(|a| a.ip);
        usable().find(|ip| !is_link_local(*ip)).or_else(|| usable().next())
    };
    nic.address.or_else(first).map(|ip| ip.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(text: &str) -> Assigned {
        let (ip, prefix) = text.split_once('/').unwrap();
        Assigned {
            ip: ip.parse().unwrap(),
            prefix: prefix.parse().unwrap(),
            is_usable: true,
            is_deprecated: false,
        }
    }

    fn interface(index: u32, name: &str, is_up: bool, addresses: &[&str]) -> Interface {
        Interface {
            name: name.into(),
            index,
            is_up,
            is_loopback: name == "lo",
            addresses: addresses.iter().map(|a| assigned(a)).collect(),
        }
    }

    fn machine() -> Interfaces {
        let mut checked = interface(6, "fresh", true, &["10.6.0.1/24"]);
        checked.addresses[0].is_usable = false;
        [
            interface(1, "lo", true, &["127.0.0.1/8", "::1/128"]),
            interface(2, "eth0", true, &["10.0.0.1/24", "192.168.0.1/16", "fd00::1/64", "fe80::1/64"]),
            interface(3, "eth1", true, &["10.1.0.1/24"]),
            interface(4, "bare", true, &["fe80::4/64"]),
            interface(5, "off", false, &["10.5.0.1/24"]),
            checked,
        ]
        .into_iter()
        .collect()
    }

    fn nic(name: &str, device: Option<&str>, address: Option<&str>) -> Nic {
        let address = address.map(|a| a.parse().unwrap());
        Nic { name: name.into(), device: device.map(str::to_owned), address }
    }

    /// A lane leaves from the NIC's own address if it has one, else from the address of its interface that is nearest to
    /// the peer: of its family, in its network, of its scope; without a NIC the system chooses.
    #[test]
    fn the_nearest_address_is_taken() {
        let on = machine();
        let of = |nic: &Nic, to: &str| source(nic, to.parse().unwrap(), &on).unwrap().map(|a| a.to_string());
        let eth0 = nic("eth0", Some("eth0"), None);
        for (to, from) in [
            ("10.0.0.9:7", "10.0.0.1:0"),
            ("192.168.7.7:7", "192.168.0.1:0"),
            ("[fd00::9]:7", "[fd00::1]:0"),
            ("[2001:db8::9]:7", "[fd00::1]:0"),
            ("[fe80::9%2]:7", "[fe80::1%2]:0"),
        ] {
            assert_eq!(of(&eth0, to).as_deref(), Some(from), "to {to}");
        }
        let own = nic("a", Some("a"), Some("127.0.0.11"));
        assert_eq!(of(&own, "127.0.0.1:7").as_deref(), Some("127.0.0.11:0"));
        assert_eq!(of(&nic("tcp", None, None), "10.0.0.9:7"), None);
        // Neither a loopback address nor one of a link reaches another machine.
        let lo = nic("lo", Some("lo"), None);
        assert!(source(&lo, "10.0.0.9:7".parse().unwrap(), &on).is_err());
        assert_eq!(of(&lo, "127.0.0.1:7").as_deref(), Some("127.0.0.1:0"));
        let mut old = machine().iter().cloned().collect::<Vec<_>>();
        old[1].addresses[0].is_deprecated = true;
        let old: Interfaces = old.into_iter().collect();
        let from = source(&eth0, "10.0.0.9:7".parse().unwrap(), &old).unwrap();
        assert_eq!(from.map(|a| a.to_string()).as_deref(), Some("192.168.0.1:0"));
    }

    /// A NIC that cannot be used says why and what to do, whatever is wrong with it; one that can says nothing.
    #[test]
    fn what_is_wrong_is_told() {
        let on = machine();
        for (nic, words) in [
            (nic("x", Some("eth9"), None), ["no interface `eth9`", "nics.x.device"]),
            (nic("x", Some("off"), None), ["`off` is down", "ip link set off up"]),
            (nic("x", Some("bare"), None), ["`bare` has no IP address", "ip address add"]),
            (nic("x", Some("fresh"), None), ["`fresh` has no IP address", "nics.x.address"]),
            (nic("x", Some("eth1"), Some("10.9.0.1")), ["its address 10.9.0.1", "add 10.9.0.1/24 dev eth1"]),
            (nic("x", None, Some("10.5.0.1")), ["`off` is down", "ip link set off up"]),
        ] {
            let why = illness(&nic, &on).unwrap();
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
            assert_eq!(source(&nic, "10.0.0.9:7".parse().unwrap(), &on), Err(why));
        }
        for well in
            [nic("eth0", Some("eth0"), None), nic("a", Some("a"), Some("127.0.0.9")), nic("t", None, None)]
        {
            assert_eq!(illness(&well, &on), None);
        }
        let family = source(&nic("eth1", Some("eth1"), None), "[fd00::9]:7".parse().unwrap(), &on);
        assert!(family.unwrap_err().contains("`eth1` has no IPv6 address"));
        let family = source(&nic("a", None, Some("10.0.0.1")), "[fd00::9]:7".parse().unwrap(), &on);
        assert!(family.unwrap_err().contains("cannot reach [fd00::9]:7"));
    }

    /// What is shown of a NIC is the address that it is used by, not one of a link if there is another.
    #[test]
    fn shown_addresses() {
        let on = machine();
        assert_eq!(shown(&nic("eth0", Some("eth0"), None), &on), "10.0.0.1");
        assert_eq!(shown(&nic("a", Some("a"), Some("127.0.0.9")), &on), "127.0.0.9");
        assert_eq!(shown(&nic("bare", Some("bare"), None), &on), "fe80::4");
        assert_eq!(shown(&nic("gone", Some("eth9"), None), &on), "");
    }
}
