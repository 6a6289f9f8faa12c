//! Addresses as people write them: `host`, `host:port`, `::1`, `[::1]:7001`, `[fe80::1%eth0]:7001`.
//! Deliberately without look-ups: names are resolved by the control pool, when somebody dials.

use std::fmt;
use std::net::Ipv6Addr;

/// The port of an address that names none.
pub const DEFAULT_PORT: u16 = 7001;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name, an IPv4 address, or an IPv6 address without brackets, with its zone.
    pub host: String,
    /// The port; 0 means any free one, where a listener is meant.
    pub port: u16,
}

/// Why an address cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

impl AddressError {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Reads an address. Without a port it is [`DEFAULT_PORT`].
///
/// # Errors
/// The text is not an address; the error says what to write.
pub fn parse(text: &str) -> Result<Address, AddressError> {
    if text.is_empty() {
        return Err(AddressError::new("the address is empty", "write host:port, such as \"127.0.0.1:7001\""));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let Some((host, rest)) = rest.split_once(']') else {
            return Err(AddressError::new(
                format!("\"{text}\" has no closing bracket"),
                "write an IPv6 address with its port as \"[::1]:7001\"",
            ));
        };
        let host = v6(host).ok_or_else(|| {
            let help = "inside the brackets stands an IPv6 address, such as \"[2001:db8::5]:7001\"";
            AddressError::new(format!("\"{host}\" is not an IPv6 address"), help)
        })?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok(Address { host, port: number(port, text)? }),
            None if rest.is_empty() => Ok(Address { host, port: DEFAULT_PORT }),
            None => Err(AddressError::new(
                format!("\"{rest}\" follows the bracket"),
                format!("write \"[{host}]:{DEFAULT_PORT}\""),
            )),
        };
    }
    match text.matches(':').count() {
        0 => Ok(Address { host: host(text, text)?, port: DEFAULT_PORT }),
        1 => {
            let (name, port) = text.split_once(':').unwrap_or((text, ""));
            if name.is_empty() {
                let help = format!(
                    "write \"0.0.0.0{text}\" or \"[::]{text}\" to listen on every address, \"127.0.0.1{text}\" for this machine only"
                );
                return Err(AddressError::new(format!("\"{text}\" has no host"), help));
            }
            Ok(Address { host: host(name, text)?, port: number(port, text)? })
        }
        _ => match v6(text) {
            Some(host) => Ok(Address { host, port: DEFAULT_PORT }),
            None => {
                let help = match text.rsplit_once(':') {
                    Some((left, port)) if v6(left).is_some() => format!("write \"[{left}]:{port}\""),
                    _ => String::from("write an IPv6 address with its port as \"[::1]:7001\""),
                };
                Err(AddressError::new(format!("\"{text}\" is neither host:port nor an IPv6 address"), help))
            }
        },
    }
}

fn v6(text: &str) -> Option<String> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    address.parse::<Ipv6Addr>().ok()?;
    // Names of interfaces: printable, no slash, at most 15 bytes.
    let fits = |zone: &str| {
        (1..=15).contains(&zone.len()) && zone.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b']')
    };
    zone.is_none_or(fits).then(|| text.to_owned())
}

fn host(name: &str, text: &str) -> Result<String, AddressError> {
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && !l.starts_with('-')
            && !l.ends_with('-')
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let plain = name.strip_suffix('.').unwrap_or(name);
    if plain.len() > 253 || !plain.split('.').all(label) {
        let help = "write a host name or an IP address, such as \"node-1.example:7001\" or \"10.0.0.5:7001\"";
        return Err(AddressError::new(format!("\"{text}\" has no readable host"), help));
    }
    let numeric = plain.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if numeric && plain.parse::<std::net::Ipv4Addr>().is_err() {
        let help = "an IPv4 address has four numbers from 0 to 255, such as \"10.0.0.5:7001\"";
        return Err(AddressError::new(format!("\"{plain}\" is not an IPv4 address"), help));
    }
    Ok(name.to_owned())
}

fn number(port: &str, text: &str) -> Result<u16, AddressError> {
    let digits = !port.is_empty() && port.len() <= 6 && port.bytes().all(|b| b.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if digits => Ok(port),
        _ if port.is_empty() => Err(AddressError::new(
            format!("\"{text}\" has no port after its colon"),
            format!("write \"{text}{DEFAULT_PORT}\""),
        )),
        _ => Err(AddressError::new(
            format!("\"{port}\" is not a port"),
            format!("a port is a number from 1 to 65535, such as {DEFAULT_PORT}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field case B22: the good half of its table.
    #[test]
    fn good_addresses() {
        let table: &[(&str, &str, u16)] = &[
            ("[::1]:7001", "::1", 7001),
            ("::1", "::1", 7001),
            ("2001:db8::5", "2001:db8::5", 7001),
            ("[fe80::1%lo]:7001", "fe80::1%lo", 7001),
            ("127.0.0.1:7001", "127.0.0.1", 7001),
            ("localhost", "localhost", 7001),
            ("[::1]", "::1", 7001),
            ("node_1.rack-2.example.:9", "node_1.rack-2.example.", 9),
            ("127.0.0.1:0", "127.0.0.1", 0),
        ];
        for (text, host, port) in table {
            let address = parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
            assert_eq!((address.host.as_str(), address.port), (*host, *port), "{text}");
            assert_eq!(parse(&address.to_string()), Ok(address), "{text} reads back");
        }
    }

    /// Field case B22: the bad half, `:7001` included; each says what to write.
    #[test]
    fn bad_addresses() {
        for text in [
            ":7001",
            "[::1",
            "::1:99999",
            "host:",
            "host:70000",
            "",
            "[::1]7001",
            "[host]:1",
            "a b:1",
            "256.0.0.1:1",
            "host:-1",
            "host:+1",
            "-x:1",
            "1.2.3:1",
            "[fe80::1%]:1",
            "a..b",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.help.is_empty(), "{text}");
        }
        assert!(parse(":7001").unwrap_err().help.contains("\"0.0.0.0:7001\""));
    }
}
