//! One endpoint of a directory, as people write it: `http://10.0.0.1:8080/metadata`, `[::1]:2379`, `redis://db:6379/2`.
//! Deliberately strict where a guess would be dangerous: no TLS that is not there, no password in an address.

use std::fmt;

use super::settings::StoreKind;
use crate::control::Address;
use crate::error::Error;

/// Where an HTTP directory is asked when its endpoint names no path: Mooncake's.
const PATH: &str = "/metadata";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: Address,
    /// HTTP: with its leading `/`. Else empty.
    pub(super) path: String,
    /// redis: the database that it names.
    pub(super) database: Option<u32>,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.address, self.path)
    }
}

impl Endpoint {
    /// Reads one; the scheme may be left out.
    pub(super) fn parse(kind: StoreKind, text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::BadArgument(format!("directory endpoint \"{text}\": {why}"));
        let rest = match text.split_once("://") {
            None => text,
            Some(("https" | "rediss" | "etcds", _)) => {
                return Err(wrong(
                    "TLS to directories comes with a later release; write http:// or redis://".into(),
                ));
            }
            Some((scheme, rest)) if kind.schemes().contains(&scheme) => rest,
            Some((scheme, _)) => {
                let schemes = kind.schemes().join("://, ");
                return Err(wrong(format!(
                    "{scheme}:// is none of a directory of type {kind}; write {schemes}://"
                )));
            }
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err(wrong(
                "a user and a password are no part of an address; use `user` and `password_file`".into(),
            ));
        }
        if path.contains(['?', '#']) || !path.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(wrong("only a plain path may follow the port".into()));
        }
        let names_port = match authority.rsplit_once(']') {
            Some((_, after)) => after.starts_with(':'),
            None => authority.matches(':').count() == 1,
        };
        let mut address = Address::parse(authority).map_err(|e| wrong(e.reason))?;
        if !names_port {
            address.port = kind.port();
        }
        let (path, database) = match (kind, path) {
            (StoreKind::Http, "" | "/") => (PATH.to_owned(), None),
            (StoreKind::Http, path) => (path.to_owned(), None),
            (_, "" | "/") => (String::new(), None),
            (StoreKind::Redis, path) => match path[1..].parse() {
                Ok(database) => (String::new(), Some(database)),
                Err(_) => return Err(wrong(format!("\"{}\" is no number of a redis database", &path[1..]))),
            },
            (StoreKind::Etcd, _) => return Err(wrong("an endpoint of etcd has no path".into())),
        };
        Ok(Self { address, path, database })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field case B22: endpoints with IPv6 literals, host names, schemes, paths and default ports read as meant.
    #[test]
    fn good_endpoints() {
        use StoreKind::{Etcd, Http, Redis};
        for (kind, text, address, path) in [
            (Http, "http://10.0.0.1:8080/metadata", "10.0.0.1:8080", "/metadata"),
            (Http, "10.0.0.1:8080", "10.0.0.1:8080", "/metadata"),
            (Http, "http://[::1]", "[::1]:80", "/metadata"),
            (Http, "http://dir.example/a/b", "dir.example:80", "/a/b"),
            (Etcd, "http://[2001:db8::5]:2379", "[2001:db8::5]:2379", ""),
            (Etcd, "etcd://[fe80::1%eth0]:1/", "[fe80::1%eth0]:1", ""),
            (Etcd, "::1", "[::1]:2379", ""),
            (Etcd, "localhost", "localhost:2379", ""),
            (Redis, "redis://cache:7", "cache:7", ""),
        ] {
            let endpoint = Endpoint::parse(kind, text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(
                (endpoint.address.to_string().as_str(), endpoint.path.as_str()),
                (address, path),
                "{text}"
            );
        }
        assert_eq!(Endpoint::parse(Redis, "redis://[::1]:6379/2").unwrap().database, Some(2));
    }

    /// What cannot be meant is refused with what to write: TLS, passwords, paths and ports that make no sense.
    #[test]
    fn bad_endpoints() {
        use StoreKind::{Etcd, Http, Redis};
        for (kind, text, says) in [
            (Http, "https://a:1", "later release"),
            (Redis, "rediss://a:1", "later release"),
            (Http, "redis://a:1", "http://"),
            (Redis, "redis://u:p@a:1", "password_file"),
            (Etcd, "http://a:1/x", "no path"),
            (Redis, "redis://a/x", "database"),
            (Http, "http://:80/metadata", "host"),
            (Http, "http://a:0/metadata", "port 0"),
            (Http, "http://[::1", "without `]`"),
            (Http, "http://a:99999/", "65535"),
            (Http, "http://a:1/m?key=x", "plain path"),
            (Etcd, "", "host"),
        ] {
            let error = Endpoint::parse(kind, text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
