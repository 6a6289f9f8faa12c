//! What another node's descriptor says to whoever dials it, and which regions it has.
//! Deliberately no sockets: how a descriptor is got is the same for all of Mooncake's transports.

use serde::{Deserialize, Serialize};

use super::keys::NICS_MAX;
use crate::mooncake::descriptor::{Descriptor, Device, RDMA};

/// The body of the offer that is made of a descriptor: within this process only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reached {
    /// What stands before the NIC in its paths.
    pub(super) server: String,
    /// Its NICs, by the index that its keys have.
    pub(super) devices: Vec<Device>,
}

impl Reached {
    /// From a descriptor.
    ///
    /// # Errors
    /// Why it cannot be reached by RDMA.
    pub(super) fn of(descriptor: &Descriptor) -> Result<Self, String> {
        if !descriptor.speaks(RDMA) {
            return Err(format!("it speaks {:?}, not rdma", descriptor.protocol));
        }
        let devices = descriptor.devices.clone();
        if devices.is_empty() || devices.len() > NICS_MAX {
            return Err(format!("it has {} NICs: 1 to {NICS_MAX} can be told apart", devices.len()));
        }
        let server = descriptor.rdma_server_name.clone().filter(|server| !server.is_empty());
        Ok(Self { server: server.unwrap_or_else(|| descriptor.name.clone()), devices })
    }

    /// To the body of an offer.
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain structs with text as keys: always JSON")
    }

    /// From the body of an offer.
    ///
    /// # Errors
    /// It is none of ours.
    pub(super) fn decode(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What 0.3.13.post1 told of itself over soft-RoCE.
    const CAPTURED: &str = "{\"buffers\":[{\"addr\":139820628180992,\"length\":8388608,\"lkey\":[623],\"name\":\"cpu:0\",\"rkey\":[623]}],\"devices\":[{\"gid\":\"00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:0a\",\"lid\":0,\"name\":\"rxe0\"}],\"name\":\"10.9.0.10:16241\",\"priority_matrix\":{\"cpu:0\":[[],[\"rxe0\"]]},\"protocol\":\"rdma\",\"tcp_data_port\":0,\"tcp_proto_version\":1,\"timestamp\":\"2026-11-30 06:57:31.784147\"}\n";

    /// The descriptor of a real node says by which path its NIC is asked; a server name for RDMA goes before its own.
    #[test]
    fn captured_text() {
        let mut descriptor = Descriptor::decode(CAPTURED.as_bytes()).unwrap();
        assert_eq!(descriptor.encode_line(), CAPTURED.as_bytes());
        let reached = Reached::of(&descriptor).unwrap();
        assert_eq!((reached.server.as_str(), reached.devices[0].name.as_str()), ("10.9.0.10:16241", "rxe0"));
        assert_eq!(Reached::decode(&reached.encode()).unwrap(), reached);
        for (said, server) in [("", "10.9.0.10:16241"), ("192.0.2.1:16241", "192.0.2.1:16241")] {
            descriptor.rdma_server_name = Some(said.into());
            assert_eq!(Reached::of(&descriptor).unwrap().server, server);
        }
    }

    /// A node that speaks TCP only, or has no NIC, is refused with the reason.
    #[test]
    fn not_by_rdma() {
        let descriptor = Descriptor::decode(CAPTURED.as_bytes()).unwrap();
        let tcp = Descriptor { protocol: Default::default(), ..descriptor.clone() };
        assert!(Reached::of(&tcp).unwrap_err().contains("tcp"));
        let bare = Descriptor { devices: Vec::new(), ..descriptor };
        assert!(Reached::of(&bare).unwrap_err().contains("0 NICs"));
    }
}
