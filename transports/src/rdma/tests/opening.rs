//! Opening devices, and what is found there.

use std::net::IpAddr;

use super::super::gid::GidChoice;
use super::super::port::{LinkLayer, PortState};
use super::super::settings::{RdmaNic, RdmaSettings};
use super::{Device, alone, device, verbs};
use crate::error::Error;

/// A device tells what it is: an Ethernet port that is up with packets of 4096 bytes, limits that are no nonsense, and the
/// GID of its IPv4 address.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn what_a_device_says() {
    let _alone = alone();
    for n in 0..2 {
        let device = device(n);
        assert_eq!((device.link_layer(), device.lid(), device.port()), (LinkLayer::Ethernet, 0, 1));
        assert_eq!((device.active_mtu().bytes(), device.state()), (4096, PortState::Up));
        let attr = device.attr();
        assert!(
            attr.max_qp >= 16 && attr.max_qp_wr >= 256 && attr.max_cqe >= 256 && attr.max_mr >= 16,
            "{attr:?}"
        );
        assert!(attr.max_rd_atom >= 16 && attr.max_init_rd_atom >= 16 && attr.max_sge >= 1, "{attr:?}");
        assert!(attr.max_mr_size >= 1 << 30 && device.max_message() >= 1 << 20, "{attr:?}");
        assert_eq!(device.gid().unwrap().address(), IpAddr::from([10, 9, 0, 10 + n as u8]));
    }
}

/// Each way of not being there has its own error: another name, another port, another GID.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn what_is_not_there() {
    let _alone = alone();
    let verbs = verbs();
    let open = |nic: RdmaNic| {
        let name = nic.name.clone();
        Device::open(&verbs, &name, &RdmaSettings { nics: vec![nic], ..RdmaSettings::default() })
    };
    let absent = open(RdmaNic::named("mlx5_9")).unwrap_err().to_string();
    assert!(absent.contains("mlx5_9") && absent.contains("rxe0, rxe1"), "{absent}");
    let port = open(RdmaNic { port: 2, ..RdmaNic::named("rxe0") }).unwrap_err().to_string();
    assert!(port.contains("no port 2"), "{port}");
    let gid = open(RdmaNic { gid: GidChoice::Index(99), ..RdmaNic::named("rxe0") }).unwrap().gid();
    assert!(
        matches!(&gid, Err(Error::LocalNic { reason, .. }) if reason.contains("10.9.0.10 (RoCE v2)")),
        "{gid:?}"
    );
}

/// The same address can be asked for by index and by address, and one that is link-local only if it is asked for.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn gids_by_index_and_address() {
    let _alone = alone();
    let best = device(0).gid().unwrap();
    let verbs = verbs();
    let with = |gid| {
        let settings = RdmaSettings { gid, ..RdmaSettings::default() };
        Device::open(&verbs, "rxe0", &settings).unwrap().gid().unwrap()
    };
    assert_eq!(with(GidChoice::Index(best.index)), best);
    assert_eq!(with(GidChoice::Address(best.address())), best);
    let other = with(GidChoice::Index(0));
    assert!(other != best && other.to_string().starts_with("fe80::"), "{other}");
}
