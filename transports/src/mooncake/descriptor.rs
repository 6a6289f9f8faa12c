//! What a node of Mooncake tells of itself: its name, where its data is reached, and its registered buffers, as JSON.
//!
//! Keys that are not known here are passed over, because every release adds some; but what is known must make sense, all of
//! it, as Mooncake's own reader wants it. Written as 0.3.13 writes it: compact, keys sorted. Deliberately no store and no
//! socket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bodies;
use super::wire::Framing;

/// The version that this engine speaks: requests are acknowledged.
pub const PROTO_VERSION: u32 = 2;
/// The name in `protocol` of what goes over TCP.
pub const TCP: &str = "tcp";
/// The name in `protocol` of what goes over RDMA.
pub const RDMA: &str = "rdma";

/// See the file's head. Fields are in the order of their keys: that is how they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Registered buffers.
    #[serde(default)]
    pub buffers: Vec<Buffer>,
    /// NICs of RDMA; the `rkey` of a buffer has one entry for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Name of the segment.
    pub name: String,
    /// Preferred and other NICs for each place of memory.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub priority_matrix: BTreeMap<String, (Vec<String>, Vec<String>)>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Where its queue pairs are asked for, if not by its name; 0.3.13 always says it, and mostly nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma_server_name: Option<String>,
    /// Host of its data listener, from 0.3.13.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_data_host: Option<String>,
    /// Port of its data listener; 0 where there is none.
    #[serde(default)]
    pub tcp_data_port: u16,
    /// The version of requests that it understands; missing means 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_proto_version: Option<u32>,
    /// When it was written, for people: nobody reckons with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

/// One protocol, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Protocol {
    /// As a rule.
    One(String),
    /// Of builds with several; each buffer says its own then.
    Many(Vec<String>),
}

impl Default for Protocol {
    fn default() -> Self {
        Self::One(TCP.to_owned())
    }
}

/// A registered buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Address of its first byte.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Local keys, one a device; only of RDMA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lkey: Vec<u32>,
    /// Where its memory is (`cpu:0`), or over TCP the name of the node. Never empty.
    pub name: String,
    /// What it is reached by, in nodes that speak several protocols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Remote keys, one a device; only of RDMA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rkey: Vec<u32>,
}

/// A NIC of RDMA.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Sixteen bytes in hex with colons.
    pub gid: String,
    /// 0 on Ethernet.
    #[serde(default)]
    pub lid: u16,
    /// `mlx5_0`.
    pub name: String,
}

/// Why a text is no descriptor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// `null`: a node whose metadata is in a directory does not tell it itself.
    #[error(
        "it does not tell what it has: its metadata is in a directory, and `metadata` must name that one"
    )]
    Null,
    /// No JSON, or a known key with a strange value.
    #[error("its descriptor cannot be read: {0}")]
    Json(String),
    /// It speaks nothing, or has no name.
    #[error("its descriptor has no {0}")]
    Missing(&'static str),
    /// A name that would write to the terminal of whoever reads it.
    #[error("its descriptor has control characters in a name")]
    Control,
    /// It speaks TCP and says no port.
    #[error("its descriptor speaks tcp and has no `tcp_data_port`")]
    NoPort,
    /// A buffer that cannot be.
    #[error("buffer {at} of its descriptor (address {addr:#x}, {length} bytes) {why}")]
    Buffer {
        /// Which, from 0.
        at: usize,
        /// Its address.
        addr: u64,
        /// Its length.
        length: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// A NIC without name or GID.
    #[error("device {0} of its descriptor has no name or no GID")]
    Device(usize),
}

impl Descriptor {
    /// Reads and checks one.
    ///
    /// # Errors
    /// See [`Invalid`]: one bad entry makes the whole useless, because then nobody knows what it means by the others.
    pub fn decode(text: &[u8]) -> Result<Self, Invalid> {
        if text.trim_ascii() == b"null" {
            return Err(Invalid::Null);
        }
        let read: Self = bodies::decode(text).map_err(|error| Invalid::Json(error.to_string()))?;
        read.check()?;
        Ok(read)
    }

    /// As it is put under a key over HTTP: without a newline.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain structs with text as keys: always JSON")
    }

    /// As it is sent to who asks, and put into etcd and redis: with the newline that Mooncake's writer puts behind.
    pub fn encode_line(&self) -> Vec<u8> {
        let mut text = self.encode();
        text.push(b'\n');
        text
    }

    /// Whether it speaks this protocol.
    pub fn speaks(&self, protocol: &str) -> bool {
        match &self.protocol {
            Protocol::One(one) => one == protocol,
            Protocol::Many(many) => many.iter().any(|one| one == protocol),
        }
    }

    /// Buffers that are reached by this protocol.
    pub fn buffers_of<'a>(&'a self, protocol: &'a str) -> impl Iterator<Item = &'a Buffer> {
        let reached = move |buffer: &&Buffer| buffer.protocol.as_deref().is_none_or(|said| said == protocol);
        let speaks = self.speaks(protocol);
        self.buffers.iter().filter(move |buffer| speaks && reached(buffer))
    }

    /// The version of requests to send it.
    pub fn framing(&self) -> Framing {
        if self.tcp_proto_version.unwrap_or(1) >= 2 { Framing::V2 } else { Framing::V1 }
    }

    /// The host of its data listener, if it says one.
    pub fn data_host(&self) -> Option<&str> {
        self.tcp_data_host.as_deref().filter(|host| !host.is_empty())
    }

    fn check(&self) -> Result<(), Invalid> {
        if self.name.is_empty() {
            return Err(Invalid::Missing("name"));
        }
        let names = self.devices.iter().map(|device| &device.name).chain([&self.name]);
        if names.into_iter().any(|name| name.contains(char::is_control)) {
            return Err(Invalid::Control);
        }
        if matches!(&self.protocol, Protocol::One(one) if one.is_empty()) {
            return Err(Invalid::Missing("protocol"));
        }
        if self.speaks(TCP) && self.tcp_data_port == 0 {
            return Err(Invalid::NoPort);
        }
        let nameless = |device: &Device| device.name.is_empty() || device.gid.is_empty();
        if let Some(at) = self.devices.iter().position(nameless) {
            return Err(Invalid::Device(at));
        }
        for (at, buffer) in self.buffers.iter().enumerate() {
            if let Some(why) = buffer.fault(self.devices.len()) {
                return Err(Invalid::Buffer { at, addr: buffer.addr, length: buffer.length, why });
            }
        }
        Ok(())
    }
}

impl Buffer {
    fn fault(&self, devices: usize) -> Option<&'static str> {
        let counts_differ = |keys: &[u32]| !keys.is_empty() && keys.len() != devices;
        match self {
            _ if self.name.is_empty() => Some("has no name"),
            _ if self.addr == 0 => Some("has no address"),
            _ if self.length == 0 => Some("has no length"),
            _ if self.addr.checked_add(self.length).is_none() => Some("passes the end of memory"),
            _ if counts_differ(&self.rkey) || self.rkey.len() != self.lkey.len() => {
                Some("has not one key for each device")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What 0.3.13.post1 sent when it asked, but for its newline.
    const CAPTURED: &str = "{\"buffers\":[{\"addr\":140194041421840,\"length\":1048576,\"name\":\"127.0.0.1:16772\"}],\"name\":\"127.0.0.1:16772\",\"protocol\":\"tcp\",\"rdma_server_name\":\"\",\"tcp_data_host\":\"127.0.0.1\",\"tcp_data_port\":16285,\"tcp_proto_version\":2,\"timestamp\":\"2026-11-29 12:42:44.416635\"}";

    /// The descriptor of a real node is read, and written again byte for byte.
    #[test]
    fn captured_text() {
        let got = Descriptor::decode(CAPTURED.as_bytes()).unwrap();
        assert_eq!(
            (got.tcp_data_port, got.framing(), got.data_host()),
            (16285, Framing::V2, Some("127.0.0.1"))
        );
        assert_eq!((got.buffers[0].addr, got.buffers[0].length), (140_194_041_421_840, 1 << 20));
        assert_eq!(got.encode(), CAPTURED.as_bytes());
        assert_eq!(got.encode_line(), [CAPTURED.as_bytes(), b"\n"].concat());
    }

    /// The least that all releases accept is accepted here, and means the first version.
    #[test]
    fn the_least() {
        let text = r#" { "tcp_data_port" : 7, "protocol":"tcp", "name":"n", "buffers":[] } "#;
        let got = Descriptor::decode(text.as_bytes()).unwrap();
        assert_eq!((got.framing(), got.data_host(), got.buffers.len()), (Framing::V1, None, 0));
    }

    /// Unknown keys, at the top and in a buffer, are passed over; of several protocols the right buffers are taken.
    #[test]
    fn unknown_keys_and_several_protocols() {
        let text = r#"{"name":"n","protocol":["tcp","rdma"],"tcp_data_port":9,"metadata_version":3,"rank_info":{"a":[1]},
            "buffers":[{"name":"x","addr":4096,"length":8,"protocol":"tcp","shm_name":"s"},
                       {"name":"x","addr":8192,"length":8,"protocol":"rdma"}]}"#;
        let got = Descriptor::decode(text.as_bytes()).unwrap();
        assert!(got.speaks("tcp") && got.speaks("rdma") && !got.speaks("nvlink"));
        assert_eq!(got.buffers_of(TCP).map(|b| b.addr).collect::<Vec<_>>(), [4096]);
        assert_eq!(got.buffers_of("nvlink").count(), 0);
    }

    /// Keys of RDMA are read and written in their order, and a buffer must have one for each device.
    #[test]
    fn rdma() {
        let text = r#"{"buffers":[{"addr":4096,"length":8,"lkey":[1],"name":"cpu:0","rkey":[2]}],"devices":[{"gid":"fe:80","lid":0,"name":"mlx5_0"}],"name":"n","priority_matrix":{"cpu:0":[["mlx5_0"],[]]},"protocol":"rdma","tcp_data_port":0}"#;
        let got = Descriptor::decode(text.as_bytes()).unwrap();
        assert_eq!(got.encode(), text.as_bytes());
        let two = text.replace("\"rkey\":[2]", "\"rkey\":[2,3]");
        assert!(matches!(Descriptor::decode(two.as_bytes()), Err(Invalid::Buffer { at: 0, .. })));
        let nameless = text.replace("\"gid\":\"fe:80\"", "\"gid\":\"\"");
        assert_eq!(Descriptor::decode(nameless.as_bytes()), Err(Invalid::Device(0)));
    }

    /// One bad buffer makes the whole descriptor invalid, and the error says which and why.
    #[test]
    fn one_bad_buffer() {
        for (buffer, why) in [
            (r#"{"name":"","addr":1,"length":1}"#, "no name"),
            (r#"{"name":"x","addr":0,"length":1}"#, "no address"),
            (r#"{"name":"x","addr":1,"length":0}"#, "no length"),
            (r#"{"name":"x","addr":18446744073709551615,"length":1}"#, "end of memory"),
            (r#"{"name":"x","addr":1,"length":1,"rkey":[1]}"#, "one key"),
        ] {
            let text = format!(
                r#"{{"name":"n","protocol":"tcp","tcp_data_port":1,"buffers":[{{"name":"x","addr":1,"length":1}},{buffer}]}}"#
            );
            let error = Descriptor::decode(text.as_bytes()).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Invalid::Buffer { at: 1, .. }) && text.contains(why), "{text}");
        }
    }

    /// What is missing, and what is no JSON, is told; `null` is the answer of a node with central metadata.
    #[test]
    fn other_errors() {
        let error = |text: &str| Descriptor::decode(text.as_bytes()).unwrap_err();
        assert_eq!(error("null\n"), Invalid::Null);
        assert_eq!(error(r#"{"name":"n","protocol":"tcp"}"#), Invalid::NoPort);
        assert_eq!(error(r#"{"name":"","protocol":"tcp","tcp_data_port":1}"#), Invalid::Missing("name"));
        let evil = r#"{"name":"\u001b[31m\n","protocol":"tcp","tcp_data_port":1}"#;
        assert_eq!(error(evil), Invalid::Control);
        for text in ["", "[]", "{}", r#"{"name":"n","protocol":"tcp","tcp_data_port":70000}"#] {
            assert!(matches!(error(text), Invalid::Json(_)), "{text}");
        }
    }

    proptest! {
        /// Bytes of any kind are read or refused, never a panic; what is read is written so that it reads back the same.
        #[test]
        fn any_bytes(text: Vec<u8>, at in 0..CAPTURED.len(), byte: u8) {
            let _ = Descriptor::decode(&text);
            let mut bent = CAPTURED.as_bytes().to_vec();
            bent[at] = byte;
            if let Ok(read) = Descriptor::decode(&bent) {
                prop_assert_eq!(Descriptor::decode(&read.encode()).unwrap(), read);
            }
        }
    }
}
