//! What the control pool must know to start. Deliberately plain data, so that it can be made from a file, by
//! a builder, or in a test.

use std::time::Duration;

use pipeline_transports::control::SharedKey;
use pipeline_transports::directory::StoreSettings;

/// The directory, as control uses it.
#[derive(Clone, Debug)]
pub struct DirectorySettings {
    /// Which one, and where.
    pub store: StoreSettings,
    /// What every key of ours in it starts with.
    pub prefix: String,
    /// How long a record lives after its node was last heard of.
    pub ttl: Duration,
    /// Whether this node tells of itself; it finds others either way.
    pub publishes: bool,
}

/// Settings of the control pool.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `host:port` of the one listener; port 0 means any free one.
    pub listen: String,
    /// Addresses told to peers; empty: the bound one.
    pub advertise: Vec<String>,
    /// The shared key, if `[auth] key_file` is set.
    pub key: Option<SharedKey>,
    /// `[peers]`: names and their addresses, tried in order.
    pub names: Vec<(String, Vec<String>)>,
    /// Where other nodes are found by name; `None`: only under `names`.
    pub directory: Option<DirectorySettings>,
    /// Silence after which a session ends; the smaller of both sides' counts.
    pub idle: Duration,
    /// Time for one connection attempt, and for one handshake.
    pub connect: Duration,
    /// How long one address is tried alone before the next one joins.
    pub stagger: Duration,
    /// Connections that may be in their handshake at the same time.
    pub handshakes: usize,
    /// Accepted sessions (`limits.peers`).
    pub sessions: usize,
    /// Links, dialled ones overall and accepted ones for each session (`limits.links`).
    pub links: usize,
    /// Most regions of one peer that are remembered; a segment counts as eight.
    pub peer_regions: usize,
    /// The longest pause between two attempts to reach a peer that somebody wants.
    pub backoff_max: Duration,
    /// Whether transports that speak to other engines bind their listeners.
    pub serves: bool,
    /// The longest time that a NIC, or the way between two NICs, rests after a failure (`limits.rest`).
    pub rest_max: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            advertise: Vec::new(),
            key: None,
            names: Vec::new(),
            directory: None,
            idle: Duration::from_secs(10),
            connect: Duration::from_secs(5),
            stagger: Duration::from_millis(200),
            handshakes: 128,
            sessions: 256,
            links: 1024,
            peer_regions: 1 << 20,
            backoff_max: Duration::from_secs(1),
            serves: true,
            rest_max: Duration::from_secs(30),
        }
    }
}

/// The pause after the `failures`-th failure in a row: doubled from 20 ms, up to `max`.
pub(super) fn backoff(failures: u32, max: Duration) -> Duration {
    let pause = Duration::from_millis(20) * (1 << failures.saturating_sub(1).min(16));
    pause.min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses double and stay at the bound for ever, however many failures came before.
    #[test]
    fn backoff_is_bounded() {
        let max = Duration::from_secs(1);
        let pauses: Vec<u64> = (1..9).map(|n| backoff(n, max).as_millis() as u64).collect();
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(backoff(u32::MAX, max), max);
    }
}
