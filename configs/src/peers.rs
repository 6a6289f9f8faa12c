//! `[peers]`: names for addresses. `NAME = "host:port"` or a list of addresses; the default port is 7001.

use crate::address;
use crate::codes;
use crate::finding::Finding;
use crate::names;
use crate::tree::{Entry, Node, Tree};
use crate::value::Scope;

/// Addresses one peer may have.
const MAX_ADDRESSES: usize = 64;

/// Reads it: name and addresses, always with a port, in the order of the file.
pub fn read(entry: Option<&Entry>, scope: &mut Scope<'_>) -> Vec<(String, Vec<String>)> {
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
        peers.push((peer.key.clone(), addresses(&peer.key, &peer.node, scope)));
    }
    peers
}

fn addresses(name: &str, node: &Node, scope: &mut Scope<'_>) -> Vec<String> {
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
    items.iter().filter_map(|item| one(name, item, scope)).collect()
}

fn one(name: &str, node: &Node, scope: &mut Scope<'_>) -> Option<String> {
    let Some(text) = node.as_text() else {
        let message =
            format!("the address of peer `{name}` must be a string, not {}", node.value.type_name());
        let finding = Finding::error(codes::TYPE, node.span, message);
        scope.report.push(finding.help(format!("write {name} = \"host:{}\"", address::DEFAULT_PORT)));
        return None;
    };
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
