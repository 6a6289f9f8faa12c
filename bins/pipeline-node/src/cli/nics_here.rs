//! Whether the NICs of a file's TCP transports can be used on this machine: what `validate` warns of, `doctor` calls an
//! error and a lane is refused for, all in the same words. Deliberately only looks: at interfaces, their addresses, and
//! which way the system would send; nothing is sent and no name is resolved.

use std::net::SocketAddr;

use pipeline_configs::Config;
use pipeline_stages::catalog::tcp_settings;
use pipeline_transports::interfaces::Interfaces;
use pipeline_transports::tcp::{illness, stray};

/// What was found of one NIC.
pub struct Here {
    /// The transport that uses it.
    pub transport: String,
    /// Its name.
    pub nic: String,
    /// Why it cannot be used, and what to do.
    pub illness: Option<String>,
}

/// NICs whose packets to a peer of the file leave by another interface, with the first such peer: by transport, NIC and why.
pub fn strays(config: &Config, on: &Interfaces) -> Vec<(String, String, String)> {
    let addresses = |peer: &(String, Vec<String>)| -> Vec<SocketAddr> {
        peer.1.iter().filter_map(|address| address.parse().ok()).collect()
    };
    let peers: Vec<Vec<SocketAddr>> = config.peers.iter().map(addresses).collect();
    let mut found = Vec::new();
    for transport in config.transports.iter().filter(|transport| transport.kind == "tcp") {
        let settings = tcp_settings(transport);
        for nic in settings.nics.iter().filter(|_| !settings.bind_device) {
            if let Some(why) = peers.iter().find_map(|peer| stray(nic, peer, on)) {
                found.push((transport.name.clone(), nic.name.clone(), why));
            }
        }
    }
    found
}

/// All NICs that TCP transports name, in the order of the file.
pub fn nics_here(config: &Config, on: &Interfaces) -> Vec<Here> {
    let tcp = config.transports.iter().filter(|transport| transport.kind == "tcp");
    let of = |transport: &pipeline_configs::TransportConfig| {
        let here = |nic: pipeline_transports::tcp::Nic| Here {
            transport: transport.name.clone(),
            illness: illness(&nic, on),
            nic: nic.name,
        };
        tcp_settings(transport).nics.into_iter().map(here).collect::<Vec<_>>()
    };
    tcp.flat_map(of).collect()
}
