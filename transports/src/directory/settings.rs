//! Which directory, where it is, and who logs in. Deliberately plain data: made from a file or from one URL, and judged
//! before anything is contacted.

use std::fmt;

use super::endpoint::Endpoint;
use super::password::Password;
use crate::error::Error;

/// Most endpoints of one directory.
const ENDPOINTS_MAX: usize = 16;

/// What keeps the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// A server that speaks Mooncake's HTTP metadata protocol, such as `pipeline-node directory`.
    Http,
    /// etcd, version 3. Only in programs built with the feature `etcd`.
    Etcd,
    /// redis.
    Redis,
}

impl StoreKind {
    /// By the word that files use.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Http, Self::Etcd, Self::Redis].into_iter().find(|kind| kind.word() == word)
    }

    /// The word that files use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Etcd => "etcd",
            Self::Redis => "redis",
        }
    }

    /// Schemes its endpoints may be written with.
    pub(super) fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Http => &["http"],
            Self::Etcd => &["http", "etcd"],
            Self::Redis => &["redis"],
        }
    }

    /// The port of an endpoint that names none.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Etcd => 2379,
            Self::Redis => 6379,
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// What keeps the values.
    pub kind: StoreKind,
    /// Where it is: `http://10.0.0.1:8080/metadata`, `10.0.0.1:2379`. Tried in this order.
    pub endpoints: Vec<String>,
    /// Name to log in with: etcd and redis only.
    pub user: Option<String>,
    /// Password to log in with: etcd (with a user) and redis only.
    pub password: Option<Password>,
    /// Number of the database: redis only. One that an endpoint names (`redis://host/2`) goes first.
    pub database: u32,
}

impl StoreSettings {
    /// A directory without log-in.
    pub fn new(kind: StoreKind, endpoints: Vec<String>) -> Self {
        Self { kind, endpoints, user: None, password: None, database: 0 }
    }

    /// From one URL, as Mooncake's connection strings are written: `http://host:port/metadata`,
    /// `etcd://host:port;host:port`, `redis://host:port`; without a scheme it is etcd.
    ///
    /// # Errors
    /// [`Error::BadArgument`] with what to write instead.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let scheme = url.split_once("://").map_or("etcd", |(scheme, _)| scheme);
        let kind = match scheme {
            // Their own refusals say what is wrong with them.
            "https" => StoreKind::Http,
            "rediss" => StoreKind::Redis,
            "etcds" => StoreKind::Etcd,
            word => StoreKind::named(word).ok_or_else(|| {
                let schemes = "http://host:port/metadata, etcd://host:port or redis://host:port";
                Error::BadArgument(format!("\"{url}\" names no kind of directory; write {schemes}"))
            })?,
        };
        let endpoints = url.split([';', ',']).map(str::trim).filter(|e| !e.is_empty());
        let settings = Self::new(kind, endpoints.map(str::to_owned).collect());
        settings.parsed()?;
        Ok(settings)
    }

    /// Its endpoints, read.
    ///
    /// # Errors
    /// [`Error::BadArgument`] with what to write instead.
    pub(super) fn parsed(&self) -> Result<Vec<Endpoint>, Error> {
        if self.endpoints.is_empty() || self.endpoints.len() > ENDPOINTS_MAX {
            let n = self.endpoints.len();
            return Err(Error::BadArgument(format!(
                "a directory has 1 to {ENDPOINTS_MAX} endpoints, not {n}"
            )));
        }
        self.endpoints.iter().map(|text| Endpoint::parse(self.kind, text)).collect()
    }

    /// Where it is, for messages: `etcd at 10.0.0.1:2379`.
    pub(super) fn place(&self, endpoints: &[Endpoint]) -> String {
        let all: Vec<String> = match self.kind {
            StoreKind::Http => endpoints.iter().map(|e| format!("http://{e}")).collect(),
            _ => endpoints.iter().map(Endpoint::to_string).collect(),
        };
        let what = if self.kind == StoreKind::Http { "directory" } else { self.kind.word() };
        format!("{what} at {}", all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mooncake's connection strings are read as Mooncake reads them; several endpoints of etcd stand in one.
    #[test]
    fn connection_strings() {
        let read = |url: &str| {
            let settings = StoreSettings::from_url(url).unwrap_or_else(|e| panic!("{url}: {e}"));
            let endpoints = settings.parsed().unwrap();
            settings.place(&endpoints)
        };
        assert_eq!(read("http://127.0.0.1:8080/metadata"), "directory at http://127.0.0.1:8080/metadata");
        assert_eq!(read("etcd://10.0.0.1:2379;10.0.0.2"), "etcd at 10.0.0.1:2379, 10.0.0.2:2379");
        assert_eq!(read("10.0.0.1:2379"), "etcd at 10.0.0.1:2379");
        assert_eq!(read("redis://[::1]:6379"), "redis at [::1]:6379");
        for (url, says) in [
            ("https://a:1/metadata", "later release"),
            ("ftp://a", "names no kind"),
            ("etcd://", "host"),
            ("", "1 to 16"),
            ("redis://user:secret@a", "password_file"),
        ] {
            let error = StoreSettings::from_url(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url}: {error}");
        }
    }
}
