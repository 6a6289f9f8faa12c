//! What this node tells others of itself: its NICs, and the regions of its segments with their keys.
//!
//! A region that took several registrations is as many buffers, which overlap by the longest work request: whatever a
//! peer sends lies whole within one of them. Deliberately no word on which NIC is near to which region: their nodes number
//! NICs in the order in which they come across them in this matrix, and take the key with that number. So each row names
//! all of them, in their order.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::exchange::gid_text;
use crate::memory::RegionId;
use crate::mooncake::descriptor::{Buffer, Descriptor, Device, Protocol, RDMA};
use crate::mooncake::stamp;
use crate::rdma::foreign::PieceKeys;

/// Where memory lies of which nobody knows.
pub(super) const ANYWHERE: &str = "*";

/// Regions that others are told of. Any thread.
#[derive(Debug, Default)]
pub(super) struct Told {
    buffers: Mutex<BTreeMap<RegionId, Vec<Buffer>>>,
    changed: Notify,
}

/// A NIC of this node: name, GID and LID now.
pub(super) type OwnNic<'a> = (&'a str, [u8; 16], u16);

impl Told {
    /// Others are told of a region from now on: its registrations, and where it lies.
    pub(super) fn enter(&self, region: RegionId, pieces: Vec<PieceKeys>, location: &str) {
        let buffer = |piece: PieceKeys| Buffer {
            addr: piece.address,
            length: piece.len,
            lkey: piece.lkeys,
            name: location.to_owned(),
            protocol: None,
            rkey: piece.rkeys,
        };
        self.table().insert(region, pieces.into_iter().map(buffer).collect());
        self.changed.notify_one();
    }

    /// They are not any more.
    pub(super) fn leave(&self, region: RegionId) {
        if self.table().remove(&region).is_some() {
            self.changed.notify_one();
        }
    }

    /// Returns after a change that came since the last call returned, for one caller.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What the node of this name tells of itself now.
    pub(super) fn descriptor(&self, name: &str, nics: &[OwnNic<'_>]) -> Descriptor {
        let buffers: Vec<Buffer> = self.table().values().flatten().cloned().collect();
        let device = |(name, gid, lid): &OwnNic<'_>| Device {
            gid: gid_text(gid),
            lid: *lid,
            name: (*name).to_owned(),
        };
        let row: Vec<String> = nics.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let mut places: Vec<&str> = buffers.iter().map(|buffer| buffer.name.as_str()).collect();
        // Their nodes refuse a matrix without a row.
        places.extend(buffers.is_empty().then_some(ANYWHERE));
        let priority_matrix =
            places.iter().map(|place| ((*place).to_owned(), (row.clone(), Vec::new()))).collect();
        Descriptor {
            devices: nics.iter().map(device).collect(),
            name: name.to_owned(),
            priority_matrix,
            protocol: Protocol::One(RDMA.to_owned()),
            rdma_server_name: None,
            tcp_data_host: None,
            tcp_data_port: 0,
            tcp_proto_version: Some(1),
            timestamp: Some(stamp::now()),
            buffers,
        }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<RegionId, Vec<Buffer>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(address: u64, rkeys: &[u32]) -> PieceKeys {
        PieceKeys { address, len: 8_388_608, lkeys: rkeys.to_vec(), rkeys: rkeys.to_vec() }
    }

    const NIC: [OwnNic<'static>; 2] = [("rxe0", [0x0a; 16], 0), ("rxe1", [0xfe; 16], 7)];

    /// A node tells what 0.3.13.post1 tells, byte for byte, but that its NIC is preferred, and when.
    #[test]
    fn as_mooncake_writes_it() {
        let node = Told::default();
        node.enter(RegionId::new(0, 1), vec![piece(139_820_628_180_992, &[623])], "cpu:0");
        let mut told = node.descriptor("10.9.0.10:16241", &NIC[..1]);
        assert!(told.timestamp.is_some());
        told.timestamp = Some("2026-11-30 06:57:31.784147".into());
        let want = "{\"buffers\":[{\"addr\":139820628180992,\"length\":8388608,\"lkey\":[623],\"name\":\"cpu:0\",\"rkey\":[623]}],\"devices\":[{\"gid\":\"0a:0a:0a:0a:0a:0a:0a:0a:0a:0a:0a:0a:0a:0a:0a:0a\",\"lid\":0,\"name\":\"rxe0\"}],\"name\":\"10.9.0.10:16241\",\"priority_matrix\":{\"cpu:0\":[[\"rxe0\"],[]]},\"protocol\":\"rdma\",\"tcp_data_port\":0,\"tcp_proto_version\":1,\"timestamp\":\"2026-11-30 06:57:31.784147\"}";
        assert_eq!(String::from_utf8(told.encode()).unwrap(), want);
    }

    /// Every place of a buffer has a row, every row names all NICs in the order of the keys, and a node without buffers has a
    /// row as well; what is read back is valid.
    #[test]
    fn rows_and_keys() {
        let node = Told::default();
        let rows = |told: &Descriptor| told.priority_matrix.keys().cloned().collect::<Vec<_>>();
        let bare = node.descriptor("n", &NIC);
        assert_eq!(rows(&bare), [ANYWHERE]);
        let pieces = vec![piece(4096, &[1, 2]), piece(8192, &[3, 4])];
        node.enter(RegionId::new(1, 1), pieces, "cpu:1");
        node.enter(RegionId::new(0, 1), vec![piece(1 << 30, &[5, 6])], ANYWHERE);
        let told = Descriptor::decode(&node.descriptor("n", &NIC).encode()).unwrap();
        assert_eq!(rows(&told), [ANYWHERE, "cpu:1"]);
        let named = ["rxe0".to_owned(), "rxe1".to_owned()];
        assert!(told.priority_matrix.values().all(|(all, none)| *all == named && none.is_empty()));
        assert_eq!(told.buffers.iter().map(|b| b.rkey[1]).collect::<Vec<_>>(), [6, 2, 4]);
        node.leave(RegionId::new(1, 1));
        assert_eq!(node.descriptor("n", &NIC).buffers.len(), 1);
    }
}
