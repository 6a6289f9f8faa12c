//! The key `policy`, and what the other keys of the stage say. Deliberately only words: [`super::spread`] carries them out.

use pipeline_configs::schema::Change;
use pipeline_configs::{Config, Key, Kind, Values};

/// How a NIC is chosen where a transport has several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Of the nearest group the one that was given least for its speed, and that is not behind with its outstanding bytes.
    #[default]
    Topology,
    /// Of all NICs the one with the least outstanding bytes over its measured speed, distance weighed.
    LeastLoaded,
    /// Of the nearest group one after the other.
    RoundRobin,
    /// Of the nearest group always the same for the same bytes.
    Hash,
}

/// Keys of the stage.
pub(super) const KEYS: &[Key] = &[
    Key {
        name: "policy",
        kind: Kind::Word(&["topology", "least_loaded", "round_robin", "hash"]),
        default: Some("topology"),
        required: false,
        doc: "How it chooses among several NICs; topology: of the nearest ones in equal shares for their speeds, as long as none is behind, and farther ones while those are saturated or down; least_loaded: of all by outstanding bytes over measured speed, distance weighed; round_robin: the nearest ones in turn; hash: of the nearest ones always the same for the same bytes. Within a NIC the lane with least work outstanding.",
        change: Change::Live,
        ..Key::PLAIN
    },
    Key {
        name: "saturated_at",
        kind: Kind::Count { min: 1, max: 1_048_576 },
        doc: "Slices outstanding on each lane of a NIC from which on it is saturated, so that farther ones help; without it, the `depth` of the transport.",
        change: Change::Live,
        ..Key::PLAIN
    },
];

impl Policy {
    pub(super) fn of(values: &Values) -> Self {
        match values.text("policy") {
            Some("least_loaded") => Self::LeastLoaded,
            Some("round_robin") => Self::RoundRobin,
            Some("hash") => Self::Hash,
            _ => Self::Topology,
        }
    }
}

/// From how many slices on each lane of a NIC it is saturated: of each transport.
pub(super) fn saturations(config: &Config, values: &Values) -> Vec<u32> {
    const USUAL: u64 = 256;
    let depth = |transport: &pipeline_configs::TransportConfig| {
        let said = values.number("saturated_at").or_else(|| transport.values.number("depth"));
        u32::try_from(said.unwrap_or(USUAL)).unwrap_or(u32::MAX)
    };
    config.transports.iter().map(depth).collect()
}
