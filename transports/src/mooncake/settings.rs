//! What a file may say about a Mooncake transport. Deliberately plain data.

use std::time::Duration;

use super::handshake::LENGTH_MAX_USUAL;
use super::name::HostPort;
use super::wire::Framing;
use crate::error::Error;

/// The least `stall`: below it a busy machine would look dead.
pub const STALL_MIN: Duration = Duration::from_millis(100);

/// Settings of one transport of Mooncake's TCP protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the handshake port listens; port 0 means any free one.
    pub listen: HostPort,
    /// Where data connections are taken; `None`: on the host of `listen`, any free port.
    pub data_listen: Option<HostPort>,
    /// The host that others are told; `None`: that of `listen`.
    pub advertise: Option<String>,
    /// Where nodes learn of each other.
    pub metadata: Metadata,
    /// Goes into every key of central metadata (`MC_METADATA_CLUSTER_ID`).
    pub cluster: Option<String>,
    /// Name in central metadata; `None`: that of the node.
    pub server_name: Option<String>,
    /// Connections a path.
    pub lanes: u16,
    /// Work requests outstanding on a lane.
    pub depth: u32,
    /// The meaning of `slice = "auto"`, bytes.
    pub preferred_bytes: u64,
    /// How long a connection with work outstanding may stand still before it counts as dead. `None`: for ever.
    pub stall: Option<Duration>,
    /// Data connections of others at a time.
    pub connections: usize,
    /// The highest version of requests that is sent, whatever a peer understands.
    pub framing: Framing,
    /// Longest message that is read at the handshake port, bytes.
    pub max_handshake_bytes: u64,
}

/// Where nodes learn of each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Metadata {
    /// From each other, by address (`P2PHANDSHAKE`).
    #[default]
    Peers,
    /// From a directory with this URL.
    Central(String),
}

/// What says [`Metadata::Peers`] in a file.
pub const P2P: &str = "P2PHANDSHAKE";

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: HostPort::new("127.0.0.1", 0),
            data_listen: None,
            advertise: None,
            metadata: Metadata::Peers,
            cluster: None,
            server_name: None,
            lanes: 4,
            depth: 256,
            preferred_bytes: 1 << 20,
            stall: Some(Duration::from_secs(30)),
            connections: 1024,
            framing: Framing::V2,
            max_handshake_bytes: LENGTH_MAX_USUAL,
        }
    }
}

impl Settings {
    /// The host that others are told, without brackets.
    ///
    /// # Errors
    /// [`Error::BadArgument`] where it would be that of every address, which leads others nowhere.
    pub fn advertised(&self) -> Result<String, Error> {
        let said = self.advertise.as_deref().unwrap_or(&self.listen.host);
        let host = HostPort::new(said, 0).host;
        match is_every_address(&host) {
            false => Ok(host),
            true => Err(Error::BadArgument(format!(
                "others would be told to connect to {host}, which leads nowhere: say `advertise = \"HOST\"` with a host by \
                 which they reach this node"
            ))),
        }
    }
}

/// Whether a listener there hears on every address of the machine.
pub fn is_every_address(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others are told is `advertise`, else the host of `listen`, and never every address.
    #[test]
    fn advertised_host() {
        let of = |listen: &str, advertise: Option<&str>| {
            let (listen, advertise) = (HostPort::new(listen, 1), advertise.map(str::to_owned));
            Settings { listen, advertise, ..Settings::default() }.advertised()
        };
        assert_eq!(of("127.0.0.1", None).unwrap(), "127.0.0.1");
        assert_eq!(of("0.0.0.0", Some("10.0.0.2")).unwrap(), "10.0.0.2");
        assert_eq!(of("::", Some("[::1]")).unwrap(), "::1");
        for listen in ["0.0.0.0", "::"] {
            assert!(of(listen, None).unwrap_err().to_string().contains("advertise"));
        }
        assert!(of("127.0.0.1", Some("0.0.0.0")).is_err());
    }
}
