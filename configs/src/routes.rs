//! `[[routes]]`: which transport a transfer takes, by peer, segment, operation and size. The first match counts.

use crate::body::{self, Form};
use crate::codes;
use crate::config::RouteConfig;
use crate::finding::Finding;
use crate::schema::{Change, Key, Kind, Later};
use crate::source::Span;
use crate::suggest;
use crate::tree::{Entry, Node, Tree};
use crate::value::Scope;

/// Routes that a file may have.
const MOST: usize = 1024;

const fn key(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, default: None, required: false, doc, change: Change::Live, ..Key::PLAIN }
}

/// What must be true of a transfer, besides the other keys of its `match`.
pub const MATCH: &[Key] = &[
    key("peer", Kind::Text, "Name of a peer of `[peers]`."),
    key("segment", Kind::Text, "Name of the peer's segment."),
    key("op", Kind::Word(&["read", "write"]), "Direction of the transfer, seen from this node."),
    key("min_size", Kind::Bytes { min: 0, max: u64::MAX }, "Requests of this size and larger."),
    key("max_size", Kind::Bytes { min: 0, max: u64::MAX }, "Requests of this size and smaller."),
];

/// Keys of a route besides `match`.
pub const KEYS: &[Key] = &[Key { required: true, ..key("use", Kind::Text, "The transport it takes.") }];

/// Routes are judged; taking them comes later.
pub const LATER: Later = Later::refused("routes");

/// Reads all of them. `peers`: names that are declared; `None` if a directory may know more.
pub fn read(entry: Option<&Entry>, peers: Option<&[&str]>, scope: &mut Scope<'_>) -> Vec<RouteConfig> {
    let Some(entry) = entry else { return Vec::new() };
    let Tree::Array(items) = &entry.node.value else {
        let message = format!("`routes` must be an array of tables, not {}", entry.node.value.type_name());
        let finding = Finding::error(codes::TYPE, entry.node.span, message);
        scope.report.push(finding.help("write [[routes]] above match = { peer = \"…\" } and use = \"tcp\""));
        return Vec::new();
    };
    if items.len() > MOST {
        let finding =
            Finding::error(codes::RANGE, entry.key_span, format!("[[routes]] has {} entries", items.len()));
        scope.report.push(finding.help(format!("permitted: at most {MOST}")));
        return Vec::new();
    }
    if !items.is_empty() {
        scope.report.push(body::comes_later("[[routes]]", LATER, entry.key_span));
    }
    items.iter().filter_map(|route| one(route, peers, scope)).collect()
}

fn one(node: &Node, peers: Option<&[&str]>, scope: &mut Scope<'_>) -> Option<RouteConfig> {
    let form = Form { also: &["match"], ..Form::new("a route", KEYS) };
    let body = body::read_node(node, node.span, &form, scope)?;
    let Some(said) = node.as_table().and_then(|t| t.get("match")) else {
        let finding = Finding::error(codes::KEY_MISSING, node.span, "a route lacks `match`");
        scope.report.push(finding.help("add match = { peer = \"…\" }; match = {} takes every transfer"));
        return None;
    };
    let when = body::read_node(&said.node, said.key_span, &Form::new("`match` of a route", MATCH), scope)?;
    let transport = body.values.text("use")?.to_owned();
    if !scope.transports.is_empty() && !scope.transports.contains(&transport) {
        let help = suggest::help(&transport, "transports", scope.transports.iter().map(String::as_str));
        let at = body.span("use", node.span);
        let finding =
            Finding::error(codes::TRANSPORT_UNKNOWN, at, format!("unknown transport `{transport}`"));
        scope.report.push(finding.help(help));
    }
    if let (Some(peer), Some(peers)) = (when.values.text("peer"), peers) {
        known(peer, peers, when.span("peer", said.key_span), scope);
    }
    if let (Some(least), Some(most)) = (when.values.number("min_size"), when.values.number("max_size"))
        && least > most
    {
        let at = when.span("max_size", said.key_span);
        let finding =
            Finding::error(codes::RANGE, at, "`max_size` is smaller than `min_size`: nothing matches");
        scope.report.push(finding.help("exchange the two, or take one out"));
    }
    Some(RouteConfig { when: when.values, transport })
}

fn known(peer: &str, peers: &[&str], at: Span, scope: &mut Scope<'_>) {
    if !peers.contains(&peer) {
        let finding = Finding::error(codes::PEER_UNKNOWN, at, format!("unknown peer `{peer}`"));
        let help = suggest::help(peer, "peers", peers.iter().copied());
        scope.report.push(finding.help(help).help("peers are declared by peers.NAME = \"host:port\""));
    }
}
