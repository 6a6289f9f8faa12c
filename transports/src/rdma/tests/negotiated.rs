//! What queue pairs really are once they are connected, asked of the device.

use std::sync::Arc;

use ibverbs_sys as ffi;

use super::super::link::PostEnd;
use super::super::settings::{RdmaNic, RdmaSettings};
use super::super::transport::RdmaTransport;
use crate::clock::{Nanos, now};
use crate::control::Control;
use crate::error::Error;
use crate::link::{LinkId, Waker, Wakes};
use crate::transport::{Asking, BoxFuture, NicId, PairId, Path, SessionId, Transport};

const SESSION: SessionId = SessionId([3; 16]);

type QueryQueuePair =
    unsafe extern "C" fn(*mut ffi::ibv_qp, *mut ffi::ibv_qp_attr, i32, *mut ffi::ibv_qp_init_attr) -> i32;

struct Wire<'a>(&'a RdmaTransport);

impl Control for Wire<'_> {
    fn exchange<'a>(&'a mut self, body: &'a [u8], by: Nanos) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        self.0.answer(Asking { peer: "dialler".into(), session: SESSION, incarnation: 1 }, body, by)
    }
}

fn side(n: usize, change: impl Fn(&mut RdmaSettings)) -> RdmaTransport {
    let nics = vec![RdmaNic::named(&format!("rxe{n}"))];
    let mut settings = RdmaSettings { nics, ..RdmaSettings::default() };
    change(&mut settings);
    let transport = RdmaTransport::new("rdma", settings, 4).unwrap();
    let wakes = Wakes { post: Waker::none(), reap: Waker::none(), serve: Waker::none() };
    drop(transport.attach(NicId(0), PairId(0), wakes).unwrap());
    transport
}

/// READs under way, bytes of a packet, retries and timeout of a dialled queue pair, and what memory it opens to its peer.
fn dialled(near: &RdmaTransport, far: &RdmaTransport) -> (u8, u32, u8, u8, u32) {
    let path = Path {
        link: LinkId(1),
        nic: NicId(0),
        pair: PairId(0),
        lane: 0,
        peer: "acceptor".into(),
        address: "127.0.0.1:1".parse().unwrap(),
        addresses: Arc::new([]),
        session: SESSION,
        incarnation: 1,
        avoid: Vec::new(),
    };
    let (offer, by) = (far.offer(), now() + 5_000_000_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let link = runtime.block_on(near.dial(&path, &offer, &mut Wire(far), by)).unwrap();
    let end = link.post.unwrap().body.downcast::<PostEnd>().unwrap();
    let (link, mut attr) = (Arc::clone(&end.0), ffi::ibv_qp_attr::default());
    let mut init = ffi::ibv_qp_init_attr::default();
    let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE
        | ffi::ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC
        | ffi::ibv_qp_attr_mask::IBV_QP_PATH_MTU
        | ffi::ibv_qp_attr_mask::IBV_QP_RETRY_CNT
        | ffi::ibv_qp_attr_mask::IBV_QP_TIMEOUT
        | ffi::ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
    // Nothing but this test asks, so it looks the function up by itself.
    // SAFETY: the library that the transport has loaded; the type is that of the bindings.
    let failed = unsafe {
        let library = libloading::Library::new("libibverbs.so.1").unwrap();
        let query = library.get::<QueryQueuePair>(b"ibv_query_qp\0").unwrap();
        query(link.queue_pair.raw(), &mut attr, mask.0 as i32, &mut init)
    };
    assert_eq!((failed, attr.qp_state), (0, ffi::ibv_qp_state::IBV_QPS_RTS));
    (attr.max_rd_atomic, 128 << attr.path_mtu, attr.retry_cnt, attr.timeout, attr.qp_access_flags)
}

/// READs and packets are what both sides can do, by whichever can do less; never one READ at a time where more was offered.
/// Retries and timeout are the dialler's, and its queue pair opens no memory of its own.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn both_sides_count() {
    let _alone = super::alone();
    let usual = side(1, |_| {});
    assert_eq!(dialled(&side(0, |_| {}), &usual), (16, 4096, 7, 14, 0));
    let modest = |settings: &mut RdmaSettings| (settings.read_depth, settings.mtu_bytes) = (4, 1024);
    assert_eq!(dialled(&side(0, |_| {}), &side(1, modest)), (4, 1024, 7, 14, 0));
    assert_eq!(dialled(&side(0, modest), &usual), (4, 1024, 7, 14, 0));
    let retries = |settings: &mut RdmaSettings| settings.retries = 2;
    assert_eq!(dialled(&side(0, retries), &usual), (16, 4096, 2, 14, 0));
}
