//! How the transport `mooncake_tcp` is made of what a file says of it. Deliberately no listener yet: that is bound when its
//! node starts.

use std::sync::Arc;
use std::time::Duration;

use pipeline_configs::{TransportConfig, address};
use pipeline_transports::mooncake::name::HostPort;
use pipeline_transports::mooncake::wire::Framing;
use pipeline_transports::mooncake::{Metadata, MooncakeTcp, P2P, Settings};
use pipeline_transports::{Error, Regions, Transport};

/// Makes it.
///
/// # Errors
/// Settings by which others could not reach it.
pub(super) fn make(
    config: &TransportConfig,
    _: u64,
    regions: &Arc<Regions>,
) -> Result<Arc<dyn Transport>, Error> {
    let settings = settings(config);
    if let Some(name) = settings.server_name.as_deref().filter(|name| !is_name(name)) {
        let what = format!("transport `{}`: `server_name` = {name:?} cannot be a name", config.name);
        return Err(Error::BadArgument(format!(
            "{what}; write what others shall open, such as \"decode-0\""
        )));
    }
    Ok(Arc::new(MooncakeTcp::new(&config.name, settings, regions.clone())?))
}

/// Mooncake takes anything; what is empty or has blanks in it is nobody's name by intent.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}

/// What a file says of a Mooncake transport: where it listens, what it is called, how it sends.
pub fn settings(config: &TransportConfig) -> Settings {
    let (values, usual) = (&config.values, Settings::default());
    let number = |key, usual: u64| values.number(key).unwrap_or(usual);
    let text = |key| values.text(key).map(str::to_owned);
    // The value of a key for an address is one: the reader has judged it.
    let at = |key| values.text(key).and_then(|said| address::parse(said).ok());
    let at = |key| at(key).map(|read| HostPort::new(&read.host, read.port));
    let metadata = match values.text("metadata") {
        None => Metadata::Peers,
        // Not a host of that name, whose etcd would be asked for ever.
        Some(said) if said.eq_ignore_ascii_case(P2P) => Metadata::Peers,
        Some(url) => Metadata::Central(url.to_owned()),
    };
    Settings {
        listen: at("listen").unwrap_or(usual.listen),
        data_listen: at("data_listen"),
        advertise: text("advertise"),
        metadata,
        cluster: text("cluster"),
        server_name: text("server_name"),
        lanes: number("lanes", u64::from(usual.lanes)) as u16,
        depth: number("depth", u64::from(usual.depth)) as u32,
        preferred_bytes: number("prefers", usual.preferred_bytes),
        stall: values.time("stall").filter(|stall| *stall > Duration::ZERO),
        connections: number("connections", usual.connections as u64) as usize,
        framing: if values.text("protocol") == Some("v1") { Framing::V1 } else { Framing::V2 },
        max_handshake_bytes: number("max_handshake", usual.max_handshake_bytes),
    }
}

#[cfg(test)]
mod tests {
    use pipeline_configs::{Options, load_str};

    use super::super::catalog;
    use super::*;

    /// The settings of a transport `m` of which a file says this.
    fn of(text: &str) -> Settings {
        let text =
            format!("version = 1\nuse = \"tcp\"\ntransports.m = {{ type = \"mooncake_tcp\", {text} }}\n");
        let loaded = load_str("t", &text, &catalog(), &Options::default()).unwrap_or_else(|f| panic!("{f}"));
        settings(loaded.config.transports.iter().find(|t| t.name == "m").unwrap())
    }

    /// A file that says nothing gets the transport's own defaults: those in the documentation are those that hold.
    #[test]
    fn defaults_are_the_transports() {
        assert_eq!(of("lanes = 4"), Settings::default());
    }

    /// However it is written, a set-up without a directory is one; what is no name is refused before anything listens.
    #[test]
    fn odd_words() {
        for word in ["P2PHANDSHAKE", "p2phandshake", "P2PHandshake"] {
            assert_eq!(of(&format!("metadata = \"{word}\"")).metadata, Metadata::Peers, "{word}");
        }
        assert_eq!(
            ["decode-0", "10.0.0.1:7", "", "a b", "a\n"].map(is_name),
            [true, true, false, false, false]
        );
    }

    /// What a file says arrives: both families of addresses, a directory, the first version of requests.
    #[test]
    fn all_of_it() {
        let said = of(
            "listen = \"[::1]:12001\", data_listen = \"10.0.0.1:0\", advertise = \"node-7\", stall = \"0s\", \
                       metadata = \"etcd://10.0.0.9:2379\", protocol = \"v1\", max_handshake = \"8MiB\", connections = 9",
        );
        assert_eq!((said.listen.host.as_str(), said.listen.port), ("::1", 12001));
        assert_eq!(said.data_listen, Some(HostPort::new("10.0.0.1", 0)));
        assert_eq!((said.advertise.as_deref(), said.stall), (Some("node-7"), None));
        assert_eq!(said.metadata, Metadata::Central("etcd://10.0.0.9:2379".into()));
        assert_eq!((said.framing, said.max_handshake_bytes, said.connections), (Framing::V1, 8 << 20, 9));
    }
}
