//! `[node]`: who this node is, where it listens, and what it asks of its machine.

use crate::body::{self, Form};
use crate::config::Node;
use crate::names;
use crate::schema::{Change, Key, Kind};
use crate::source::Span;
use crate::tree::Entry;
use crate::value::Scope;

/// Keys of `[node]`.
pub const KEYS: &[Key] = &[
    Key {
        name: "name",
        kind: Kind::Text,
        default: Some("node"),
        required: false,
        doc: "Name told to peers: A-Z, a-z, 0-9, `.`, `_`, `-`.",
        change: Change::Restart,
        ..Key::PLAIN
    },
    Key {
        name: "listen",
        kind: Kind::Address,
        default: Some("127.0.0.1:0"),
        required: false,
        doc: "Address of the one listener; port 0 takes any free one. Loopback unless the file says otherwise.",
        change: Change::Rebuild,
        ..Key::PLAIN
    },
    Key {
        name: "advertise",
        kind: Kind::Addresses,
        default: None,
        required: false,
        doc: "Addresses told to peers; without it the bound one, or those of the machine where it is bound to all.",
        change: Change::Rebuild,
        ..Key::PLAIN
    },
    Key {
        name: "cpu_dma_latency",
        kind: Kind::Time { min_ns: 0, max_ns: 1_000_000_000 },
        default: None,
        required: false,
        doc: "While the node runs, no CPU of this machine sleeps so deeply that it takes longer to wake (whole microseconds): holds /dev/cpu_dma_latency, which takes root. 0 keeps all CPUs awake, which costs power; what it brings is in docs/tuning.md.",
        change: Change::Restart,
        ..Key::PLAIN
    },
];

/// Reads it; without the table all defaults hold.
pub fn read(entry: Option<&Entry>, scope: &mut Scope<'_>) -> Node {
    let form = Form::new("[node]", KEYS);
    let body = match entry {
        Some(entry) => body::read_node(&entry.node, entry.key_span, &form, scope).unwrap_or_default(),
        None => body::read(&crate::tree::Table::default(), Span::default(), &form, scope),
    };
    let name = body.values.text("name").unwrap_or("node").to_owned();
    if let Some(at) = body.spans.get("name") {
        names::check_node("node", &name, *at, scope.report);
    }
    Node {
        name,
        listen: body.values.text("listen").unwrap_or("127.0.0.1:0").to_owned(),
        advertise: body.values.texts("advertise").to_vec(),
        cpu_dma_latency: body.values.time("cpu_dma_latency"),
    }
}
