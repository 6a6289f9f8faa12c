//! `[node]`: who this node is, where it listens, and what it asks of its machine.

use std::time::Duration;

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
        doc: "While the node runs, no CPU of this machine sleeps so deeply that it takes longer to wake (whole microseconds, at least one of them unless it is 0): holds /dev/cpu_dma_latency, which takes root. 0 keeps all CPUs awake, which costs power; what it brings is in docs/tuning.md.",
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
        cpu_dma_latency: body.values.time("cpu_dma_latency").map(whole_us),
    }
}

/// The kernel takes whole microseconds, and 0 for never asleep: which is only meant where it is written.
fn whole_us(time: Duration) -> Duration {
    let us = Duration::from_micros(time.as_micros().try_into().unwrap_or(u64::MAX));
    if time.is_zero() { us } else { us.max(Duration::from_micros(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Less than a microsecond is one, and not the 0 that keeps all CPUs awake; else what is asked for is not exceeded.
    #[test]
    fn only_nothing_is_nothing() {
        let us = |ns: u64| whole_us(Duration::from_nanos(ns)).as_nanos();
        assert_eq!([us(0), us(500), us(1_000), us(20_999)], [0, 1_000, 1_000, 20_000]);
    }
}
