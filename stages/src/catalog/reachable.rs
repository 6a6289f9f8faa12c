//! Rules of transports that speak to other engines: what they tell others must lead to this node, and nobody else of one file
//! may have the same place or name. Deliberately about the file only: whether a port is free, or a host is this machine's, is
//! for the start to find out.

use std::net::IpAddr;

use pipeline_configs::{Config, SettingObjection, TransportConfig, address, peers};
use pipeline_transports::directory::StoreSettings;
use pipeline_transports::mooncake::name::{HostPort, NoAddress};
use pipeline_transports::mooncake::{Metadata, is_every_address};

use super::mooncake::{is_name, settings};

/// What goes into a key of a directory: longer is nobody's intent.
const CLUSTER_MAX: usize = 128;

/// All of them.
pub(super) fn checks(config: &Config) -> Vec<SettingObjection> {
    let foreign = || config.transports.iter().enumerate().filter(|(_, t)| t.foreign);
    let mut objections: Vec<_> = foreign().flat_map(|(index, transport)| alone(index, transport)).collect();
    objections.extend(foreign().filter_map(|(index, _)| taken_name(config, index)));
    objections.extend(foreign().flat_map(|(index, _)| taken_ports(config, index)));
    objections.extend(foreign().flat_map(|(index, _)| no_addresses(config, index)));
    objections
}

/// What is wrong with one, whatever the others say.
fn alone(transport: usize, config: &TransportConfig) -> Vec<SettingObjection> {
    let mut found = Vec::new();
    let mut object = |key, text: String, help: &str| {
        found.push(SettingObjection { transport, key, text, help: help.to_owned() });
    };
    let said = settings(config);
    let host =
        "write the host alone, by which others reach this node, such as \"10.0.0.2\" or \"decode-0.example\"";
    match said.advertise.as_deref() {
        None if is_every_address(&said.listen.host) => object(
            "listen",
            format!("others would be told to connect to {}, which leads nowhere", said.listen.host),
            "add advertise = \"HOST\", with a host by which others reach this node",
        ),
        None => {}
        Some(at) if !is_host(at) => object("advertise", format!("\"{at}\" is no host"), host),
        Some(at) if is_every_address(bare(at)) => {
            object("advertise", format!("\"{at}\" leads nowhere"), host);
        }
        Some(_) => {}
    }
    if let Metadata::Central(url) = &said.metadata
        && let Err(error) = StoreSettings::from_url(url)
    {
        object(
            "metadata",
            error.to_string(),
            "write \"P2PHANDSHAKE\", or \"http://HOST:PORT/metadata\", \"etcd://HOST:PORT\", \"redis://HOST:PORT\"",
        );
    }
    let is_cluster = |text: &String| text.len() <= CLUSTER_MAX && text.bytes().all(|b| b.is_ascii_graphic());
    if let Some(cluster) = said.cluster.filter(|cluster| !is_cluster(cluster)) {
        let help = format!(
            "at most {CLUSTER_MAX} printable characters without spaces, as in MC_METADATA_CLUSTER_ID"
        );
        object("cluster", format!("{cluster:?} cannot be a part of keys"), &help);
    }
    if let Some(name) = said.server_name.filter(|name| !is_name(name)) {
        object(
            "server_name",
            format!("{name:?} cannot be a name"),
            "write what others shall open, such as \"decode-0\"",
        );
    }
    found
}

/// An address without brackets.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// A name or an IP address, without a port.
fn is_host(text: &str) -> bool {
    let is_v6 = bare(text).parse::<std::net::Ipv6Addr>().is_ok();
    is_v6 || (!text.contains([':', '[']) && address::parse(text).is_ok())
}

/// Entries of two of one name in one directory would replace each other again and again.
fn taken_name(config: &Config, index: usize) -> Option<SettingObjection> {
    let entry = |t: &TransportConfig| {
        let said = settings(t);
        let Metadata::Central(url) = said.metadata else { return None };
        // Keys of no cluster and of an empty one are the same.
        Some((url, said.cluster.unwrap_or_default(), said.server_name.unwrap_or(config.node.name.clone())))
    };
    let own = entry(&config.transports[index])?;
    let mut earlier = config.transports[..index].iter().filter(|t| t.foreign);
    let other = earlier.rfind(|t| entry(t).as_ref() == Some(&own))?;
    Some(SettingObjection {
        transport: index,
        key: "server_name",
        text: format!("transport `{}` is called \"{}\" in this directory", other.name, own.2),
        help: "give each a server_name of its own".into(),
    })
}

/// Peers under names that would have to be addresses, and are none.
fn no_addresses(config: &Config, transport: usize) -> Vec<SettingObjection> {
    let own = &config.transports[transport];
    if settings(own).metadata != Metadata::Peers {
        return Vec::new();
    }
    let name = |texts: &[String]| {
        let (by, name) = peers::foreign(texts.first()?)?;
        (by == own.name).then(|| HostPort::parse(name).err()).flatten()
    };
    let object = |peer: &str, why: NoAddress| {
        SettingObjection {
        transport,
        key: "metadata",
        text: format!("peer `{peer}`: {why}"),
        help: "without a directory peers are asked by their addresses; name one with `metadata` to open them by name".into(),
    }
    };
    config.peers.iter().filter_map(|(peer, texts)| Some(object(peer, name(texts)?))).collect()
}

/// A fixed port that somebody before it in the file has already.
fn taken_ports(config: &Config, index: usize) -> Vec<SettingObjection> {
    let place = |text: &str| address::parse(text).ok().filter(|at| at.port != 0);
    let node = place(&config.node.listen).map(|at| ("[node] listen".to_owned(), at));
    let mut taken: Vec<_> = node.into_iter().collect();
    let keys = ["listen", "data_listen"];
    for transport in config.transports[..index].iter().filter(|t| t.foreign) {
        let said = keys.iter().filter_map(|key| Some((*key, place(transport.values.text(key)?)?)));
        taken.extend(said.map(|(key, at)| (format!("`{key}` of transport `{}`", transport.name), at)));
    }
    let mut found = Vec::new();
    for key in keys {
        let Some(at) = config.transports[index].values.text(key).and_then(place) else { continue };
        if let Some((whose, _)) = taken.iter().find(|(_, other)| meet(other, &at)) {
            found.push(SettingObjection {
                transport: index,
                key,
                text: format!("port {} of {} is that of {whose}", at.port, at.host),
                help: "each listener has a port of its own: write another one, or 0 for any".into(),
            });
        }
        taken.push((format!("`{key}`"), at));
    }
    found
}

/// Whether two listeners would want one place.
fn meet(one: &address::Address, other: &address::Address) -> bool {
    let ip = |host: &str| host.parse::<IpAddr>().ok();
    one.port == other.port
        && match (ip(&one.host), ip(&other.host)) {
            // Every address of a family is each of it; that of both families is each at all.
            (Some(a), Some(b)) => {
                let covers =
                    |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
                a == b || covers(a, b) || covers(b, a)
            }
            _ => one.host == other.host,
        }
}

#[cfg(test)]
mod tests {
    use pipeline_configs::{Options, load_str};

    use crate::catalog::catalog;

    /// What `validate` says of a file with these lines besides the preset; empty: nothing.
    fn says(lines: &str) -> String {
        let text = format!("version = 1\nuse = \"tcp\"\n{lines}\n");
        match load_str("t", &text, &catalog(), &Options::default()) {
            Ok(_) => String::new(),
            Err(findings) => findings.to_string(),
        }
    }

    /// Keys of a table; empty ones are none.
    fn table(keys: &[&str]) -> String {
        let said: Vec<&str> = keys.iter().copied().filter(|key| !key.is_empty()).collect();
        format!("{{ type = \"mooncake_tcp\", {} }}", said.join(", "))
    }

    fn one(settings: &str) -> String {
        says(&format!("transports.m = {{ type = \"mooncake_tcp\", {settings} }}"))
    }

    /// Settings by which others reach a node are taken; those that lead them nowhere, or that nothing can be made of, are
    /// refused at their place, each with what to write.
    #[test]
    fn what_others_are_told_leads_here() {
        for fine in [
            "lanes = 4",
            "listen = \"0.0.0.0:12345\", advertise = \"node-7.example\"",
            "listen = \"[::]:0\", advertise = \"2001:db8::5\"",
            "advertise = \"[2001:db8::5]\"",
            "metadata = \"etcd://10.0.0.1:2379;10.0.0.2\", cluster = \"blue/1\", server_name = \"10.0.0.1:7\"",
            "metadata = \"p2phandshake\", cluster = \"\"",
        ] {
            assert_eq!(one(fine), "", "{fine}");
        }
        for (wrong, wanted) in [
            ("listen = \"0.0.0.0:12345\"", "add advertise"),
            ("listen = \"[::]:0\"", "leads nowhere"),
            ("advertise = \"0.0.0.0\"", "leads nowhere"),
            ("advertise = \"node:7\"", "\"node:7\" is no host"),
            ("advertise = \"http://node\"", "is no host"),
            ("advertise = \"\"", "is no host"),
            ("metadata = \"ftp://a\"", "names no kind"),
            ("metadata = \"https://a/metadata\"", "later release"),
            ("metadata = \"\"", "endpoints"),
            ("cluster = \"a b\"", "part of keys"),
            ("server_name = \"a b\"", "cannot be a name"),
        ] {
            let said = one(wrong);
            assert!(said.contains("P0420") && said.contains(wanted), "{wrong}: {said}");
        }
    }

    /// A port that is written twice in one file is found, on the same host and on all of them; port 0, other hosts and the other
    /// family of addresses are no conflict.
    #[test]
    fn a_port_is_taken_once() {
        let two = |node: &str, a: &str, b: &str| {
            let [a, b] = [a, b].map(|said| table(&["advertise = \"h\"", said]));
            says(&format!("node.listen = \"{node}\"\ntransports.a = {a}\ntransports.b = {b}"))
        };
        for (node, a, b, wanted) in [
            ("127.0.0.1:9", "listen = \"127.0.0.1:9\"", "", "that of [node] listen"),
            ("127.0.0.1:0", "listen = \"h:9\"", "data_listen = \"h:9\"", "`listen` of transport `a`"),
            ("0.0.0.0:9", "listen = \"10.0.0.1:9\"", "", "[node] listen"),
            ("[::]:9", "data_listen = \"10.0.0.1:9\"", "", "[node] listen"),
            ("127.0.0.1:0", "listen = \"h:9\", data_listen = \"h:9\"", "", "is that of `listen`"),
        ] {
            let said = two(node, a, b);
            assert!(said.contains("P0420") && said.contains(wanted), "{node} {a} {b}: {said}");
        }
        for (node, a, b) in [
            ("127.0.0.1:0", "listen = \"127.0.0.1:0\"", "listen = \"127.0.0.1:0\""),
            ("127.0.0.1:9", "listen = \"127.0.0.2:9\"", "listen = \"[::1]:9\""),
            ("0.0.0.0:9", "listen = \"[::1]:9\"", ""),
        ] {
            assert_eq!(two(node, a, b), "", "{node} {a} {b}");
        }
    }

    /// Without a directory the names of peers are addresses; with one they are whatever it knows.
    #[test]
    fn names_of_peers_are_addresses_without_a_directory() {
        let with = |said: &str, peer: &str| {
            says(&format!(
                "transports.m = {{ type = \"mooncake_tcp\", {said} }}\n[peers]\np = \"m://{peer}\""
            ))
        };
        assert_eq!(with("lanes = 1", "10.0.0.2:15123"), "");
        assert_eq!(with("metadata = \"http://h:1/metadata\"", "a:b"), "");
        let said = with("lanes = 1", "a:b");
        assert!(said.contains("peer `p`: `a:b` is no host and port"), "{said}");
    }

    /// Two transports of one name in one directory are found, also where the name is the node's; in two clusters they are two.
    #[test]
    fn a_name_is_taken_once() {
        let two = |a: &str, b: &str| {
            let [a, b] = [a, b].map(|said| table(&["metadata = \"http://h:1/metadata\"", said]));
            says(&format!("node.name = \"n\"\ntransports.a = {a}\ntransports.b = {b}"))
        };
        for (a, b) in [("", ""), ("server_name = \"n\"", ""), ("cluster = \"\"", "server_name = \"n\"")] {
            let said = two(a, b);
            assert!(said.contains("`a` is called \"n\" in this directory"), "{a} {b}: {said}");
        }
        for (a, b) in [("server_name = \"x\"", ""), ("cluster = \"c\"", "")] {
            assert_eq!(two(a, b), "", "{a} {b}");
        }
    }
}
