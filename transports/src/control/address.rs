//! Addresses of nodes as people write them: `host:port`, IPv6 with or without brackets, zone ids, and a
//! default port. Deliberately pure: nothing is resolved here, so that a bad address is found without a
//! network and with the same words everywhere.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The port of a node when none is written.
pub const DEFAULT_PORT: u16 = 7001;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name, an IPv4 or an IPv6 literal without brackets, the latter perhaps with `%zone`.
    pub host: String,
    /// The port; 0 only where an address to listen on was parsed.
    pub port: u16,
}

/// Why a text is no address, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no address: {reason}")]
pub struct AddressError {
    /// What was written.
    pub text: String,
    /// What is wrong with it and what to do.
    pub reason: String,
}

impl Address {
    /// Parses the address of a peer. A missing port is [`DEFAULT_PORT`].
    ///
    /// # Errors
    /// [`AddressError`] with what to write instead.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let address = Self::parse_listen(text)?;
        if address.port == 0 {
            return Err(wrong(text, "port 0 cannot be dialled; write the peer's port, 1 to 65535"));
        }
        Ok(address)
    }

    /// Parses an address to listen on, where port 0 means any free port.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_listen(text: &str) -> Result<Self, AddressError> {
        let (host, port) = split(text)?;
        let port = match port {
            None => DEFAULT_PORT,
            Some("") => return Err(wrong(text, "the port is missing after `:`; write 1 to 65535")),
            Some(p) if !p.bytes().all(|b| b.is_ascii_digit()) => {
                return Err(wrong(text, "the port is no number; write 1 to 65535"));
            }
            Some(p) => p.parse().map_err(|_| wrong(text, "the port is larger than 65535"))?,
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Cuts host and port apart and judges the host.
fn split(text: &str) -> Result<(&str, Option<&str>), AddressError> {
    if text.contains("://") {
        return Err(wrong(text, "no scheme is used here; write `host:port`"));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let Some((host, after)) = rest.split_once(']') else {
            return Err(wrong(text, "`[` without `]`; write IPv6 as `[::1]:7001`"));
        };
        if !is_ipv6(host) {
            return Err(wrong(text, "what stands in brackets is no IPv6 address; write `[::1]:7001`"));
        }
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(wrong(text, "only `:port` may follow `]`")),
        };
    }
    if text.matches(':').count() > 1 {
        // A port after a bare IPv6 address cannot be told from its last group: it needs brackets.
        return match is_ipv6(text) {
            true => Ok((text, None)),
            false => Err(wrong(text, "no IPv6 address; with a port write it in brackets: `[::1]:7001`")),
        };
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    if host.is_empty() {
        let help = "the host is missing; write `127.0.0.1:7001` for this machine only, `0.0.0.0:7001` or \
                    `[::]:7001` to listen on all interfaces";
        return Err(wrong(text, help));
    }
    if !is_name(host) {
        return Err(wrong(text, "the host is neither an IP address nor a host name"));
    }
    Ok((host, port))
}

fn is_ipv6(text: &str) -> bool {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    // An interface name has at most 15 bytes.
    let plain = |z: &str| (1..=15).contains(&z.len()) && z.bytes().all(|b| b.is_ascii_graphic() && b != b'%');
    address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(plain)
}

fn is_name(host: &str) -> bool {
    let label = |l: &str| {
        (1..=63).contains(&l.len()) && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|b| b.is_ascii_digit()) {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    host.len() <= 253 && host.split('.').all(label)
}

fn wrong(text: &str, reason: &str) -> AddressError {
    AddressError { text: text.to_owned(), reason: reason.to_owned() }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field case B22: every way to write an address gives the right host and port.
    #[test]
    fn good_addresses() {
        for (text, host, port) in [
            ("[::1]:7001", "::1", 7001),
            ("[::1]", "::1", 7001),
            ("::1", "::1", 7001),
            ("2001:db8::5", "2001:db8::5", 7001),
            ("::1:7002", "::1:7002", 7001),
            ("[fe80::1%lo]:7001", "fe80::1%lo", 7001),
            ("fe80::1%eth0.12", "fe80::1%eth0.12", 7001),
            ("127.0.0.1:7001", "127.0.0.1", 7001),
            ("localhost", "localhost", 7001),
            ("decode-0.prod.example.:65535", "decode-0.prod.example.", 65535),
            ("node_1:1", "node_1", 1),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port), "{text}");
            assert_eq!(Address::parse(&address.to_string()).unwrap(), address, "{text} does not round-trip");
        }
        assert_eq!(Address::parse_listen("127.0.0.1:0").unwrap().port, 0);
    }

    /// Field case B22: every bad address is refused with the text and what to do.
    #[test]
    fn bad_addresses() {
        for (text, says) in [
            (":7001", "127.0.0.1:7001"),
            ("", "host is missing"),
            ("[::1", "without `]`"),
            ("::1:99999", "brackets"),
            ("host:", "port is missing"),
            ("host:70000", "larger than 65535"),
            ("host:+80", "no number"),
            ("host:0", "cannot be dialled"),
            ("[localhost]:7001", "no IPv6"),
            ("[::1]7001", "may follow"),
            ("[::1%]:7001", "no IPv6"),
            ("300.1.1.1", "neither"),
            ("1.2.3:80", "neither"),
            ("ho st:1", "neither"),
            ("a..b", "neither"),
            ("http://host", "no scheme"),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(error.reason.contains(says), "{text}: {error}");
            assert_eq!(error.text, text);
        }
    }

    proptest::proptest! {
        /// No text makes the parser panic, and whatever it accepts it prints in a form it accepts again.
        #[test]
        fn never_panics(text in "[\\[\\]:%.a-f0-9é ]{0,24}") {
            if let Ok(address) = Address::parse(&text) {
                proptest::prop_assert_eq!(Address::parse(&address.to_string()), Ok(address));
            }
        }
    }
}
