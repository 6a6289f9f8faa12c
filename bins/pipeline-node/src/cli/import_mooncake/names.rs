//! Names of Mooncake taken apart: what a node calls itself, where its metadata is, which devices it uses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pipeline_configs::address as ours;

/// A `local_server_name`: `host`, `host:port`, `[v6]:port`, `v6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Own {
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl Own {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']')?;
                (host, rest.strip_prefix(':'))
            }
            None if text.matches(':').count() == 1 => {
                let (host, port) = text.split_once(':')?;
                (host, Some(port))
            }
            None => (text, None),
        };
        let port = match port {
            Some(port) => Some(port.parse().ok()?),
            None => None,
        };
        is_host(host).then(|| Self { host: host.to_owned(), port })
    }

    /// The host to listen at, and the one to tell others if that is another one. A name may stand for an address that only
    /// others have for this machine, so all are listened at.
    pub(super) fn places(&self) -> (String, Option<String>) {
        match self.host.as_str() {
            "localhost" => ("127.0.0.1".to_owned(), None),
            host if host.parse::<IpAddr>().is_ok() => (host.to_owned(), None),
            host => ("0.0.0.0".to_owned(), Some(host.to_owned())),
        }
    }

    /// A node's name of it.
    pub(super) fn node(&self) -> String {
        let good = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '-' };
        self.host.chars().map(good).take(64).collect()
    }
}

/// Whether our file takes it as a host: what it would refuse must be refused by the name that said it, not by a line that
/// nobody has seen.
pub(super) fn is_host(text: &str) -> bool {
    ours::parse(text).is_ok_and(|address| address.host == text)
}

/// `host:port` as an address.
pub(super) fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The metadata server as our key names it: `None` for each telling its own.
///
/// # Errors
/// What has no equivalent, and why.
pub(super) fn metadata(server: &str, kind: Option<&str>) -> Result<Option<String>, String> {
    if server == "P2PHANDSHAKE" {
        return Ok(None);
    }
    let whole = match (server.contains("://"), kind) {
        (true, _) => server.to_owned(),
        (false, Some("http")) if !server.contains('/') => format!("http://{server}/metadata"),
        (false, Some(kind)) => format!("{kind}://{server}"),
        // As Mooncake takes it.
        (false, None) => format!("etcd://{server}"),
    };
    match whole.split_once("://").map(|(scheme, _)| scheme) {
        Some("http" | "etcd" | "redis") => Ok(Some(whole)),
        Some("https") => Err("TLS to a directory comes with a later release".to_owned()),
        scheme => Err(format!(
            "there is no directory of kind `{}`: P2PHANDSHAKE, http, etcd, redis",
            scheme.unwrap_or_default()
        )),
    }
}

/// Devices: a list with commas, or a list for each GPU as JSON: `{"0": "mlx5_0,mlx5_1"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Devices {
    pub(super) nics: Vec<String>,
    pub(super) of_gpus: BTreeMap<u16, Vec<String>>,
}

impl Devices {
    /// `None` for what leaves the choice to Mooncake.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if ["auto", "auto-discovery"].contains(&text.trim()) {
            return None;
        }
        let Ok(of_gpus) = serde_json::from_str::<BTreeMap<u16, String>>(text) else {
            let nics = listed(text);
            return (!nics.is_empty()).then(|| Self { nics, ..Self::default() });
        };
        let of_gpus: BTreeMap<u16, Vec<String>> =
            of_gpus.into_iter().map(|(gpu, nics)| (gpu, listed(&nics))).collect();
        let mut nics: Vec<String> = Vec::new();
        for nic in of_gpus.values().flatten() {
            if !nics.contains(nic) {
                nics.push(nic.clone());
            }
        }
        Some(Self { nics, of_gpus })
    }
}

/// Names between commas.
pub(super) fn listed(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The devices of a priority matrix, in the order of its places.
pub(super) fn of_matrix(text: &str) -> Option<Vec<String>> {
    let places: BTreeMap<String, Vec<Vec<String>>> = serde_json::from_str(text).ok()?;
    let mut nics: Vec<String> = Vec::new();
    for nic in places.into_values().flatten().flatten() {
        if !nics.contains(&nic) {
            nics.push(nic);
        }
    }
    Some(nics)
}

/// Bytes as Mooncake's users write them: a number, `4gb`, `80GB`, `512 MiB`; a unit is one of 1024.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim().trim_end_matches("ib").trim_end_matches('b') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names with and without a port, of hosts and of both kinds of addresses.
    #[test]
    fn own_names() {
        let own = |text: &str| Own::parse(text).map(|own| (own.host.clone(), own.port, own.places().0));
        let s = str::to_owned;
        assert_eq!(own("10.0.0.1"), Some((s("10.0.0.1"), None, s("10.0.0.1"))));
        assert_eq!(own("node-1:12345"), Some((s("node-1"), Some(12345), s("0.0.0.0"))));
        assert_eq!(own("[::1]:9"), Some((s("::1"), Some(9), s("::1"))));
        assert_eq!(own("2001:db8::5"), Some((s("2001:db8::5"), None, s("2001:db8::5"))));
        assert_eq!(own("localhost"), Some((s("localhost"), None, s("127.0.0.1"))));
        for wrong in [":1", "a:b", "", "a:b:c", "a b", "[a:7]:9", "300.0.0.1:9", "-x"] {
            assert_eq!(own(wrong), None, "{wrong}");
        }
        assert_eq!(Own::parse("2001:db8::5").unwrap().node(), "2001-db8--5");
        assert_eq!(address("::1", 7), "[::1]:7");
    }

    /// A server without a scheme is etcd, unless its kind stands beside it; what cannot be had says why.
    #[test]
    fn metadata_servers() {
        assert_eq!(metadata("P2PHANDSHAKE", None), Ok(None));
        assert_eq!(metadata("10.0.0.1:2379", None), Ok(Some("etcd://10.0.0.1:2379".into())));
        assert_eq!(metadata("10.0.0.1:6379", Some("redis")), Ok(Some("redis://10.0.0.1:6379".into())));
        assert_eq!(metadata("10.0.0.1:8080", Some("http")), Ok(Some("http://10.0.0.1:8080/metadata".into())));
        assert!(metadata("https://x/metadata", None).unwrap_err().contains("TLS"));
        assert!(metadata("zk://x", None).unwrap_err().contains("`zk`"));
    }

    /// Lists with commas, lists for each GPU, and the words that leave the choice to Mooncake.
    #[test]
    fn devices() {
        assert_eq!(Devices::parse("mlx5_0, mlx5_1").unwrap().nics, ["mlx5_0", "mlx5_1"]);
        let some = Devices::parse(r#"{"0":"mlx5_0","1":"mlx5_1,mlx5_0"}"#).unwrap();
        assert_eq!((some.nics.len(), some.of_gpus[&1].len()), (2, 2));
        assert_eq!(Devices::parse("auto-discovery"), None);
        assert_eq!(of_matrix(r#"{"cpu:0":[["b"],["a"]],"cuda:0":[["a"],[]]}"#).unwrap(), ["b", "a"]);
    }

    /// Sizes with and without units.
    #[test]
    fn sizes() {
        let all = ["4gb", "80GB", "512 MiB", "1024", "3 apples", ""].map(bytes);
        assert_eq!(all, [Some(4 << 30), Some(80 << 30), Some(512 << 20), Some(1024), None, None]);
    }
}
