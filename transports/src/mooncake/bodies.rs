//! The short texts of the handshake port, and the entry that leads to it in a directory.
//! Deliberately as Mooncake writes them: compact, keys sorted, a newline behind; read whatever the order, unknown keys ignored.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Why a text is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// The text of a body, with the newline that Mooncake's writer puts behind.
pub fn encode(body: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(body).expect("plain structs with text as keys: always JSON");
    text.push(b'\n');
    text
}

/// Reads a body.
///
/// # Errors
/// What is wrong with it, and where.
pub fn decode<T: DeserializeOwned>(text: &[u8]) -> Result<T, Unreadable> {
    // The reader would take an array for the fields in their order.
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err(Unreadable("it is no JSON object".to_owned()));
    }
    serde_json::from_slice(text).map_err(|error| Unreadable(error.to_string()))
}

/// What a notice says, and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notify {
    /// Who says it; empty in an answer.
    #[serde(default)]
    pub name: String,
    /// What is said. An initiator takes an answer without it for a failure.
    #[serde(default)]
    pub notify_msg: String,
}

impl Notify {
    /// What a node answers that has taken the notice.
    pub fn taken() -> Self {
        Self { name: String::new(), notify_msg: "success".into() }
    }
}

/// The answer to a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    /// `success`.
    #[serde(default)]
    pub status: String,
}

impl Alive {
    /// What a living node answers.
    pub fn yes() -> Self {
        Self { status: "success".into() }
    }
}

/// Two ends of an RDMA connection tell each other their queue pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The sender's GID, its sixteen bytes in hex with colons; empty up to 0.3.10.
    #[serde(default)]
    pub local_gid: String,
    /// The sender's LID; 0 on Ethernet.
    #[serde(default)]
    pub local_lid: u16,
    /// `SERVER@NIC` of the sender.
    #[serde(default)]
    pub local_nic_path: String,
    /// Of no use here.
    #[serde(default)]
    pub payload: String,
    /// `SERVER@NIC` that is meant.
    #[serde(default)]
    pub peer_nic_path: String,
    /// Numbers of the sender's queue pairs, to be connected in this order.
    #[serde(default)]
    pub qp_num: Vec<u32>,
    /// That it is there says that the sender knows of it (from 0.3.12); `true`: its queue pairs are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_ack: Option<bool>,
    /// Why it was refused; empty: it was not.
    #[serde(default)]
    pub reply_msg: String,
}

/// Where the handshake port of a node with central metadata is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcMeta {
    /// Its host.
    pub ip_or_host_name: String,
    /// Its handshake port.
    pub rpc_port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &impl Serialize) -> String {
        String::from_utf8(encode(body)).unwrap()
    }

    /// The texts are those that were captured.
    #[test]
    fn captured_texts() {
        assert_eq!(text(&Notify::taken()), "{\"name\":\"\",\"notify_msg\":\"success\"}\n");
        assert_eq!(text(&Alive::yes()), "{\"status\":\"success\"}\n");
        assert_eq!(
            text(&Connection::default()),
            "{\"local_gid\":\"\",\"local_lid\":0,\"local_nic_path\":\"\",\"payload\":\"\",\"peer_nic_path\":\"\",\"qp_num\":[],\"reply_msg\":\"\"}\n"
        );
        assert_eq!(
            text(&RpcMeta { ip_or_host_name: "192.0.2.2".into(), rpc_port: 16000 }),
            "{\"ip_or_host_name\":\"192.0.2.2\",\"rpc_port\":16000}\n"
        );
    }

    /// Keys that other releases have are no error, and those they lack have their empty meaning.
    #[test]
    fn other_releases_are_read() {
        let got: Connection =
            decode(b" {\"qp_num\":[7,8],\"notify_qp_num\":3,\"local_nic_path\":\"a@mlx5_0\"}").unwrap();
        assert_eq!((got.qp_num, got.ready_ack, got.local_gid.as_str()), (vec![7, 8], None, ""));
        let got: Connection = decode(b"{\"ready_ack\":false}").unwrap();
        assert_eq!(got.ready_ack, Some(false));
        assert!(decode::<Notify>(b"[]").is_err() && decode::<RpcMeta>(b"{}").is_err());
    }
}
