//! The transport `mooncake_rdma`: its keys, which are those of `rdma` and of Mooncake's handshake port, and how it is made of
//! them. Deliberately each key said once: what is the same is taken from the other two.

use pipeline_configs::schema::Change;
use pipeline_configs::{Key, Kind, TransportKind};

use super::transport_kinds::{MOONCAKE_TCP, RDMA};

/// Keys of `rdma` that mean nothing here: nodes of Mooncake know no rails.
const LEFT_OUT: &str = "rails";
/// Keys of the handshake port.
const OF_PORT: [&str; 6] = ["listen", "advertise", "metadata", "cluster", "server_name", "max_handshake"];

/// All of them, and its own.
const COUNT: usize = RDMA.keys.len() - 1 + OF_PORT.len() + 1;

const KEYS: [Key; COUNT] = keys();

const QUEUE_PAIRS: Key = Key {
    name: "queue_pairs",
    kind: Kind::Count { min: 1, max: 64 },
    default: Some("2"),
    required: false,
    doc: "Queue pairs that are connected at once for a link, as MC_NUM_QP_PER_EP of the others, of which the first carries the work. Of a node that connects another number that is found out.",
    change: Change::Rebuild,
    ..Key::PLAIN
};

/// `mooncake_rdma`.
pub(super) const KIND: TransportKind = TransportKind {
    name: "mooncake_rdma",
    summary: "Mooncake's RDMA protocol, to and from nodes that run its Transfer Engine. It has no passwords: who connects may do what a region allows. In programs built with the feature `rdma`.",
    keys: &KEYS,
    preferred_bytes: RDMA.preferred_bytes,
    foreign: true,
    later: None,
};

const fn keys() -> [Key; COUNT] {
    let mut all = [QUEUE_PAIRS; COUNT];
    let (mut from, mut to) = (0, 0);
    while from < RDMA.keys.len() {
        if !is(RDMA.keys[from].name, LEFT_OUT) {
            all[to] = RDMA.keys[from];
            to += 1;
        }
        from += 1;
    }
    let mut at = 0;
    while at < OF_PORT.len() {
        all[to] = of_port(OF_PORT[at]);
        (at, to) = (at + 1, to + 1);
    }
    assert!(to == COUNT - 1, "the last place is for its own key");
    all
}

const fn of_port(name: &str) -> Key {
    let mut at = 0;
    while !is(MOONCAKE_TCP.keys[at].name, name) {
        at += 1;
    }
    MOONCAKE_TCP.keys[at]
}

const fn is(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Makes it.
///
/// # Errors
/// As for `rdma`; settings by which others could not reach it.
#[cfg(feature = "rdma")]
pub(super) fn make(
    config: &pipeline_configs::TransportConfig,
    _: u64,
    regions: &std::sync::Arc<pipeline_transports::Regions>,
) -> Result<std::sync::Arc<dyn pipeline_transports::Transport>, pipeline_transports::Error> {
    use std::sync::Arc;

    use pipeline_transports::mooncake::rdma::MooncakeRdma;

    let (port, wire) = (super::mooncake::settings(config), super::rdma::settings(config));
    let queue_pairs = config.values.number("queue_pairs").unwrap_or(2) as u16;
    Ok(Arc::new(MooncakeRdma::new(&config.name, port, wire, queue_pairs, regions.clone())?))
}

#[cfg(not(feature = "rdma"))]
pub(super) use super::rdma::make;

#[cfg(test)]
mod tests {
    use super::*;

    /// It has every key of `rdma` but that of rails, those of the handshake port, and its own, each once.
    #[test]
    fn all_keys_once() {
        let mut names: Vec<&str> = KIND.keys.iter().map(|key| key.name).collect();
        assert!(names.contains(&"listen") && names.contains(&"ack_timeout"));
        assert!(
            !names.contains(&LEFT_OUT) && names.contains(&"queue_pairs") && !names.contains(&"data_listen")
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RDMA.keys.len() + OF_PORT.len());
    }
}
