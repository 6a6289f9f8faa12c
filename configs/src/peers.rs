//! `[peers]`: names for addresses. `NAME = "host:port"` or a list of addresses; the default port is 7001. A peer that runs
//! another engine is named by `TRANSPORT://NAME` instead: one name, which its own protocol resolves.

use crate::address;
use crate::codes;
use crate::config::TransportConfig;
use crate::finding::Finding;
use crate::names;
use crate::suggest;
use crate::tree::{Entry, Node, Tree};
use crate::value::Scope;

/// Addresses one peer may have.
const MAX_ADDRESSES: usize = 64;
/// Longest name of a foreign peer, bytes.
pub const MAX_FOREIGN: usize = 512;

/// Reads it: name and addresses, always with a port, or one `TRANSPORT://NAME`; in the order of the file.
pub fn read(
    entry: Option<&Entry>,
    transports: &[TransportConfig],
    scope: &mut Scope<'_>,
) -> Vec<(String, Vec<String>)> {
    let Some(entry) = entry else { return Vec::new() };
    let Tree::Table(table) = &entry.node.value else {
        let message = format!("[peers] must be a table, not {}", entry.node.value.type_name());
        let finding = Finding::error(codes::TYPE, entry.node.span, message);
        scope.report.push(finding.help("write [peers] and under it NAME = \"host:port\""));
        return Vec::new();
    };
    let mut peers = Vec::with_capacity(table.entries.len());
    for peer in &table.entries {
        names::check_node("peer", &peer.key, peer.key_span, scope.report);
        peers.push((peer.key.clone(), addresses(&peer.key, &peer.node, transports, scope)));
    }
    peers
}

/// Takes `TRANSPORT://NAME` apart; `None` for any other text.
pub fn foreign(text: &str) -> Option<(&str, &str)> {
    text.split_once("://")
}

/// Whether a foreign peer can have this name: what a protocol makes of it is for its transport.
pub fn is_foreign_name(name: &str) -> bool {
    (1..=MAX_FOREIGN).contains(&name.len()) && !name.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Whether a name is an IPv6 address, with or without a port that nobody can tell from it.
fn is_bare_v6(name: &str) -> bool {
    let is_v6 = |text: &str| address::parse(text).is_ok_and(|read| read.host.contains(':'));
    !name.starts_with('[') && (is_v6(name) || without_port(name) != name)
}

/// What was meant where the last group is no group of an address but a port.
fn without_port(name: &str) -> &str {
    let is_v6 = |text: &str| text.contains(':') && address::parse(text).is_ok();
    match name.rsplit_once(':') {
        Some((left, port)) if port.parse::<u16>().is_ok_and(|port| port >= 1024) && is_v6(left) => left,
        _ => name,
    }
}

fn addresses(name: &str, node: &Node, transports: &[TransportConfig], scope: &mut Scope<'_>) -> Vec<String> {
    let alone = std::slice::from_ref(node);
    let items = match &node.value {
        Tree::Array(items) if items.is_empty() || items.len() > MAX_ADDRESSES => {
            let message = format!("peer `{name}` has {} addresses", items.len());
            let finding = Finding::error(codes::RANGE, node.span, message);
            scope.report.push(finding.help(format!("permitted: 1 to {MAX_ADDRESSES} addresses")));
            return Vec::new();
        }
        Tree::Array(items) => items.as_slice(),
        _ => alone,
    };
    let is_foreign = |item: &&Node| item.as_text().is_some_and(|text| foreign(text).is_some());
    if let Some(first) = items.iter().find(is_foreign).filter(|_| items.len() > 1) {
        let text = first.as_text().unwrap_or_default();
        let message = format!("peer `{name}` has `{text}` and other addresses beside it");
        let help = "a peer that runs another engine has one name, and no addresses: give the others names of their own";
        scope.report.push(Finding::error(codes::EXCLUSIVE, first.span, message).help(help));
        return Vec::new();
    }
    items.iter().filter_map(|item| one(name, item, transports, scope)).collect()
}

fn one(name: &str, node: &Node, transports: &[TransportConfig], scope: &mut Scope<'_>) -> Option<String> {
    let Some(text) = node.as_text() else {
        let message =
            format!("the address of peer `{name}` must be a string, not {}", node.value.type_name());
        let finding = Finding::error(codes::TYPE, node.span, message);
        scope.report.push(finding.help(format!("write {name} = \"host:{}\"", address::DEFAULT_PORT)));
        return None;
    };
    if let Some((transport, called)) = foreign(text) {
        return elsewhere(name, node, (transport, called), transports, scope).then(|| text.to_owned());
    }
    let error = match address::parse(text) {
        Ok(found) if found.port != 0 => return Some(found.to_string()),
        Ok(_) => address::AddressError {
            message: String::from("port 0 means any free one, which nobody can dial"),
            help: format!("write the port that the peer listens on, such as {}", address::DEFAULT_PORT),
        },
        Err(error) => error,
    };
    let message = format!("the address of peer `{name}`: {}", error.message);
    scope.report.push(Finding::error(codes::ADDRESS, node.span, message).help(error.help));
    None
}

/// Whether a transport of this name speaks to another engine, in which a peer can have that name.
fn elsewhere(
    peer: &str,
    node: &Node,
    (transport, called): (&str, &str),
    transports: &[TransportConfig],
    scope: &mut Scope<'_>,
) -> bool {
    let speaking: Vec<&str> = transports.iter().filter(|t| t.foreign).map(|t| t.name.as_str()).collect();
    let (code, what, help) = match transports.iter().find(|t| t.name == transport) {
        Some(t) if t.foreign && is_bare_v6(called) => {
            let what =
                format!("`{called}` is an IPv6 address without brackets: its port could be a part of it");
            (
                codes::ADDRESS,
                what,
                format!("write {peer} = \"{transport}://[{}]:PORT\"", without_port(called)),
            )
        }
        Some(t) if t.foreign && is_foreign_name(called) => return true,
        Some(t) if t.foreign => {
            let what = format!("`{called}` cannot be the name of a peer");
            let rule = format!("such names have 1 to {MAX_FOREIGN} bytes and no spaces");
            (codes::NAME, what, format!("write {peer} = \"{transport}://NAME\"; {rule}"))
        }
        Some(t) => {
            let what = format!("transport `{transport}` (type {}) speaks to nodes of this kind only", t.kind);
            (codes::ADDRESS, what, format!("write {peer} = \"host:port\", without `{transport}://`"))
        }
        None if speaking.is_empty() && scope.transports.iter().all(|t| t != transport) => {
            let what = format!("no transport `{transport}` is declared");
            let help = "what stands before `://` is the name of a transport that speaks to another engine, such as \
                        [transports.mooncake] with type = \"mooncake_tcp\"; nodes of this kind are named \"host:port\"";
            (codes::TRANSPORT_UNKNOWN, what, help.to_owned())
        }
        // One that could not be read, which has been said.
        None if scope.transports.iter().any(|t| t == transport) => return false,
        None => {
            let what = format!("no transport `{transport}` is declared");
            let help = suggest::help(transport, "transports that speak to another engine", speaking);
            (codes::TRANSPORT_UNKNOWN, what, help)
        }
    };
    let message = format!("the address of peer `{peer}`: {what}");
    scope.report.push(Finding::error(code, node.span, message).help(help));
    false
}
