//! Names of segments where they are addresses: `host:port`, `[v6]:port`, a host alone.
//! Deliberately without look-ups.

use std::fmt;
use std::net::Ipv6Addr;

/// The handshake port of a name that has none.
pub const DEFAULT_PORT: u16 = 12001;

/// A host and its handshake port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The handshake port.
    pub port: u16,
}

/// Why a name is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no host and port; write host:port, or [v6]:port")]
pub struct NoAddress(pub String);

impl HostPort {
    /// Of a host and a port; brackets around the host are taken off.
    pub fn new(host: &str, port: u16) -> Self {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        Self { host: bare.to_owned(), port }
    }

    /// Reads a name. Without a port it is [`DEFAULT_PORT`].
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(name: &str) -> Result<Self, NoAddress> {
        let wrong = || NoAddress(name.to_owned());
        if let Some(rest) = name.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
            if !is_v6(host) {
                return Err(wrong());
            }
            return match rest.strip_prefix(':') {
                Some(port) => Ok(Self::new(host, parse_port(port).ok_or_else(wrong)?)),
                None if rest.is_empty() => Ok(Self::new(host, DEFAULT_PORT)),
                None => Err(wrong()),
            };
        }
        if is_v6(name) {
            return Ok(Self::new(name, DEFAULT_PORT));
        }
        match name.split_once(':') {
            Some((host, port)) if is_host(host) => Ok(Self::new(host, parse_port(port).ok_or_else(wrong)?)),
            None if is_host(name) => Ok(Self::new(name, DEFAULT_PORT)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// An IPv6 address, with or without a zone.
fn is_v6(text: &str) -> bool {
    text.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control() || ":/@[]".contains(c))
}

fn parse_port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of both families are read with and without a port, and written as Mooncake writes them.
    #[test]
    fn names() {
        for (name, host, port, written) in [
            ("127.0.0.1:15123", "127.0.0.1", 15123, "127.0.0.1:15123"),
            ("decode-0.cluster:1", "decode-0.cluster", 1, "decode-0.cluster:1"),
            ("decode-0", "decode-0", 12001, "decode-0:12001"),
            ("[::1]:15123", "::1", 15123, "[::1]:15123"),
            ("[fe80::1%eth0]:7", "fe80::1%eth0", 7, "[fe80::1%eth0]:7"),
            ("[::1]", "::1", 12001, "[::1]:12001"),
            ("2001:db8::5", "2001:db8::5", 12001, "[2001:db8::5]:12001"),
        ] {
            let got = HostPort::parse(name).unwrap();
            assert_eq!((got.host.as_str(), got.port, got.to_string().as_str()), (host, port, written));
        }
        assert_eq!(HostPort::new("[::1]", 5).to_string(), "[::1]:5");
    }

    /// What is no address is refused by name.
    #[test]
    fn what_is_no_name() {
        for name in [
            "", ":1", "a:", "a:0", "a:65536", "a:+1", "a:b", "a:1:2", "[::1", "[a]:1", "[::1]x", "a b:1",
            "a/b",
        ] {
            assert_eq!(HostPort::parse(name), Err(NoAddress(name.into())), "{name}");
        }
    }
}
