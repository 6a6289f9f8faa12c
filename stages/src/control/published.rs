//! The addresses by which a node is found: those the file advertises, and only those; else the one it listens on; and where it
//! listens on all, those of its machine that another machine may reach. Deliberately a guess in that last case, ordered by how
//! likely it is right: who dials tries one after the other, and `[node] advertise` ends the guessing.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use pipeline_transports::interfaces::{Interface, Interfaces};

use super::addresses;
use super::shared::Shared;

/// Guessed addresses, at most.
const GUESSED_MAX: usize = 8;

/// Of this node, now: interfaces come and go.
pub(super) fn published(shared: &Shared) -> Vec<String> {
    let Some(local) = shared.local.get() else { return Vec::new() };
    match shared.settings.advertise.as_slice() {
        [] if !local.ip().is_unspecified() => vec![local.to_string()],
        [] => {
            // The file has named its NICs: then it has said where its peers are.
            let of_nics = addresses::told(shared);
            if !of_nics.is_empty() {
                return of_nics;
            }
            let guessed = Interfaces::now().map(|all| guess(&all, *local, &is_bridge)).unwrap_or_default();
            // Somebody on this machine may still find it.
            if guessed.is_empty() { vec![loopback(*local).to_string()] } else { guessed }
        }
        advertise => advertise.to_vec(),
    }
}

fn loopback(local: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match local.ip() {
        IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, local.port())
}

/// Addresses of interfaces that are up, without those that only this machine knows (loopback, link-local). Those of bridges
/// come last: containers' bridges have the same address on many machines, and nobody else reaches them.
fn guess(all: &Interfaces, local: SocketAddr, is_bridge: &dyn Fn(&str) -> bool) -> Vec<String> {
    let up = all.iter().filter(|interface| interface.is_up && !interface.is_loopback);
    let mut found: Vec<(bool, IpAddr)> = up.flat_map(|i| usable(i, local, is_bridge(&i.name))).collect();
    found.sort_by_key(|(bridge, _)| *bridge);
    found.truncate(GUESSED_MAX);
    found.into_iter().map(|(_, ip)| SocketAddr::new(ip, local.port()).to_string()).collect()
}

fn usable(interface: &Interface, local: SocketAddr, bridge: bool) -> Vec<(bool, IpAddr)> {
    let fits = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_link_local() && !ip.is_loopback(),
        // A listener on [::] takes both families, one on 0.0.0.0 only its own. fe80::/10 needs a zone that is ours alone.
        IpAddr::V6(ip) => local.is_ipv6() && (ip.segments()[0] & 0xffc0) != 0xfe80 && !ip.is_loopback(),
    };
    let addresses = interface.addresses.iter().filter(|a| a.is_usable && !a.is_deprecated).map(|a| a.ip);
    addresses.filter(fits).map(|ip| (bridge, ip)).collect()
}

fn is_bridge(name: &str) -> bool {
    !name.contains('/') && Path::new("/sys/class/net").join(name).join("bridge").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline_transports::interfaces::Assigned;

    fn interface(name: &str, is_up: bool, addresses: &[&str]) -> Interface {
        let assigned = |ip: &&str| Assigned {
            ip: ip.parse().unwrap(),
            prefix: 24,
            is_usable: true,
            is_deprecated: false,
        };
        let addresses = addresses.iter().map(assigned).collect();
        Interface { name: name.into(), is_up, is_loopback: name == "lo", addresses, ..Interface::default() }
    }

    /// Field case B24: a node that listens on all addresses publishes those of its machine that others may reach, the bridge of
    /// its containers last, and neither loopback, link-local ones nor those of an interface that is down.
    #[test]
    fn a_guess_is_ordered() {
        let all: Interfaces = [
            interface("lo", true, &["127.0.0.1", "::1"]),
            interface("docker0", true, &["172.17.0.1"]),
            interface("eth0", true, &["10.0.0.5", "fe80::5", "2001:db8::5"]),
            interface("eth1", false, &["10.1.0.5"]),
            interface("eth2", true, &["169.254.7.7", "10.2.0.5"]),
        ]
        .into_iter()
        .collect();
        let guessed = |local: &str| guess(&all, local.parse().unwrap(), &|name| name == "docker0").join(" ");
        assert_eq!(guessed("0.0.0.0:7001"), "10.0.0.5:7001 10.2.0.5:7001 172.17.0.1:7001");
        assert_eq!(guessed("[::]:9"), "10.0.0.5:9 [2001:db8::5]:9 10.2.0.5:9 172.17.0.1:9");
    }
}
