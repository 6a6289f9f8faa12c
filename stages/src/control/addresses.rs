//! The addresses of a peer's listener beyond the one where its session was reached, so that lanes of several NICs take
//! several ways. The file's own list comes first; a peer that was named by one address may tell more of its own.
//! Deliberately bounded, and of what a peer tells only IP addresses at the port where it was reached: a peer cannot make this
//! node resolve names or knock at other ports.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pipeline_transports::control::message::ADDRESSES_MAX;
use pipeline_transports::control::{Address, Message};
use pipeline_transports::{Nanos, NicId, clock};
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::session::Session;
use super::shared::Shared;

/// What is not looked up or answered in this time is left out; the session's own address stands anyway.
const LOOK_UP: Duration = Duration::from_secs(1);

/// All that are known of a peer, in the order in which somebody said them; empty where that is only the session's.
pub(super) async fn known(own: &[Address], session: &Session, by: Nanos) -> Arc<[SocketAddr]> {
    let mut found = Vec::new();
    if own.len() > 1 {
        for address in own.iter().take(ADDRESSES_MAX) {
            let looked_up = timeout(LOOK_UP, lookup_host((address.host.as_str(), address.port))).await;
            found.extend(looked_up.ok().and_then(Result::ok).and_then(|mut all| all.next()));
        }
    } else {
        let by = by.min(clock::now() + LOOK_UP.as_nanos() as Nanos);
        if let Ok(Message::Addresses(told)) = session.request(&Message::GetAddresses, by).await {
            found = accepted(&told, session.remote);
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|address| seen.insert(*address));
    found.into()
}

/// Of what a peer tells, that which is used.
fn accepted(told: &[String], remote: SocketAddr) -> Vec<SocketAddr> {
    let parsed = told.iter().filter_map(|text| text.parse().ok());
    let usable = |address: &SocketAddr| address.port() == remote.port() && !address.ip().is_unspecified();
    parsed.filter(usable).collect()
}

/// Those of this node: what the file advertises, or where it listens on all addresses, those of its NICs.
pub(super) fn told(shared: &Shared) -> Vec<String> {
    let Some(local) = shared.local.get() else { return Vec::new() };
    let advertised = &shared.settings.advertise;
    if !advertised.is_empty() || !local.ip().is_unspecified() {
        return advertised.iter().take(ADDRESSES_MAX).cloned().collect();
    }
    let mut told: Vec<String> = Vec::new();
    for entry in &shared.world.transports {
        for nic in 0..entry.transport.nics().len() as u16 {
            let address = entry.transport.nic_facts(NicId(nic)).address.parse::<IpAddr>();
            let address = address.map(|ip| SocketAddr::new(ip, local.port()).to_string());
            if let Ok(address) = address
                && !told.contains(&address)
            {
                told.push(address);
            }
        }
    }
    told.truncate(ADDRESSES_MAX);
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of what a peer tells only IP addresses at the port of its session count, in their order.
    #[test]
    fn what_is_told_is_judged() {
        let told =
            ["10.0.0.2:7001", "name:7001", "10.0.0.3:22", "0.0.0.0:7001", "[fd00::2]:7001", "10.0.0.2", ""];
        let told: Vec<String> = told.iter().map(|text| (*text).to_owned()).collect();
        let found = accepted(&told, "10.9.0.2:7001".parse().unwrap());
        let found: Vec<String> = found.iter().map(SocketAddr::to_string).collect();
        assert_eq!(found, ["10.0.0.2:7001", "[fd00::2]:7001"]);
    }
}
