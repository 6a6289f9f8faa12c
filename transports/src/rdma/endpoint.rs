//! A queue pair and its life: made in INIT, told its counterpart (RTR), let loose (RTS), stopped (ERR), taken out of use (RESET),
//! destroyed.
//!
//! Whoever connects owns it until it is connected; after that it lies in a link, whose [`crate::life::Life`] says who may
//! use it when. Deliberately no work requests and no policy.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use ibverbs_sys as ffi;

use super::completion_queue::CompletionQueue;
use super::device::{Device, refused};
use super::gid::Gid;
use super::offer::End;
use super::port::{LinkLayer, Mtu};
use super::settings::RdmaSettings;
use crate::error::Error;
use crate::sync::{AtomicPtr, Ordering};

/// Hops that packets may take: there is no reason to be stingy.
const HOPS: u8 = 64;
/// How long a requester waits that finds no receive buffer: 0.64 ms. Nothing here uses any, so this is never waited for.
const RNR_TIMER: u8 = 12;
/// "Again without end": receive buffers are not used, so there is nothing to run out of.
const RNR_RETRIES: u8 = 7;

/// What a queue pair shall be able to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Work requests in its send queue.
    pub(super) send: u32,
    /// Bytes that a WRITE may carry in its work request.
    pub(super) inline_bytes: u32,
    /// Whether the peer may read and write memory through it.
    pub(super) serves: bool,
}

/// See the file's head. Any thread; what must not overlap is said where it matters.
pub(super) struct QueuePair {
    device: Arc<Device>,
    /// Null once destroyed.
    at: AtomicPtr<ffi::ibv_qp>,
    number: u32,
    inline_bytes: u32,
    gid: Gid,
    /// What it completes into must outlive it.
    _queue: Arc<CompletionQueue>,
}

impl QueuePair {
    /// A fresh one on the device's port, in INIT.
    ///
    /// # Errors
    /// [`Error::LocalNic`]: the device has no address, or would not make it.
    pub(super) fn new(
        device: &Arc<Device>,
        queue: &Arc<CompletionQueue>,
        sizes: Sizes,
    ) -> Result<Self, Error> {
        let gid = address(device)?;
        let mut init = ffi::ibv_qp_init_attr {
            send_cq: queue.raw(),
            recv_cq: queue.raw(),
            cap: ffi::ibv_qp_cap {
                max_send_wr: sizes.send,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: sizes.inline_bytes,
            },
            qp_type: ffi::ibv_qp_type::IBV_QPT_RC,
            // SAFETY: integers and pointers, all of which may be zero.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: the domain lives as long as the device, the queue as long as what is made here.
        let at = unsafe { (device.verbs().create_qp)(device.pd(), &mut init) };
        let at = NonNull::new(at)
            .ok_or_else(|| refused(device.nic(), "make a queue pair", &io::Error::last_os_error()))?;
        // SAFETY: just made.
        let number = unsafe { at.as_ref() }.qp_num;
        let pair = Self {
            device: device.clone(),
            at: AtomicPtr::new(at.as_ptr()),
            number,
            inline_bytes: init.cap.max_inline_data.min(sizes.inline_bytes),
            gid,
            _queue: queue.clone(),
        };
        let access = match sizes.serves {
            true => {
                ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_READ
            }
            false => ffi::ibv_access_flags(0),
        };
        let mut attr = attributes(ffi::ibv_qp_state::IBV_QPS_INIT);
        attr.port_num = device.port();
        attr.qp_access_flags = access.0;
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE
            | ffi::ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
            | ffi::ibv_qp_attr_mask::IBV_QP_PORT
            | ffi::ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
        let done = pair.modify(&mut attr, mask);
        done.map_err(|e| refused(device.nic(), "take a queue pair into use", &e))?;
        Ok(pair)
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Bytes that a WRITE may carry in its work request.
    pub(super) fn inline_bytes(&self) -> u32 {
        self.inline_bytes
    }

    /// The address that it was made with.
    pub(super) fn gid(&self) -> Gid {
        self.gid
    }

    /// For posting. Null once it is destroyed.
    #[inline]
    pub(super) fn raw(&self) -> *mut ffi::ibv_qp {
        self.at.load(Ordering::Relaxed)
    }

    /// Tells it who its counterpart is: from now on it serves, if it may (RTR). `reads`: READs that it serves at once. The
    /// system looks for the way there, which blocks for up to a second where nobody answers.
    ///
    /// # Errors
    /// The system's: no way from this NIC to that one, or this one's address is gone.
    pub(super) fn meet(&self, peer: &End, mtu: Mtu, reads: u8, settings: &RdmaSettings) -> io::Result<()> {
        let mut attr = attributes(ffi::ibv_qp_state::IBV_QPS_RTR);
        attr.path_mtu = ffi::ibv_mtu::from(mtu.code());
        attr.dest_qp_num = peer.qpn;
        attr.rq_psn = peer.psn;
        attr.max_dest_rd_atomic = reads;
        attr.min_rnr_timer = RNR_TIMER;
        attr.ah_attr = self.way(peer, settings);
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE
            | ffi::ibv_qp_attr_mask::IBV_QP_AV
            | ffi::ibv_qp_attr_mask::IBV_QP_PATH_MTU
            | ffi::ibv_qp_attr_mask::IBV_QP_DEST_QPN
            | ffi::ibv_qp_attr_mask::IBV_QP_RQ_PSN
            | ffi::ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | ffi::ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(&mut attr, mask)
    }

    /// Lets it send (RTS). `reads`: READs under way at once.
    ///
    /// # Errors
    /// [`Error::LocalNic`].
    pub(super) fn let_loose(&self, psn: u32, reads: u8, settings: &RdmaSettings) -> Result<(), Error> {
        let mut attr = attributes(ffi::ibv_qp_state::IBV_QPS_RTS);
        attr.sq_psn = psn;
        attr.max_rd_atomic = reads;
        attr.timeout = settings.timeout_code();
        attr.retry_cnt = settings.retries.min(7);
        attr.rnr_retry = RNR_RETRIES;
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE
            | ffi::ibv_qp_attr_mask::IBV_QP_SQ_PSN
            | ffi::ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC
            | ffi::ibv_qp_attr_mask::IBV_QP_TIMEOUT
            | ffi::ibv_qp_attr_mask::IBV_QP_RETRY_CNT
            | ffi::ibv_qp_attr_mask::IBV_QP_RNR_RETRY;
        let done = self.modify(&mut attr, mask);
        done.map_err(|e| refused(self.device.nic(), "let a queue pair send", &e))
    }

    /// Stops it (ERR): nothing more leaves, and what was posted is flushed. Not while somebody destroys it. Whether the
    /// device did.
    pub(super) fn stop(&self) -> bool {
        let mut attr = attributes(ffi::ibv_qp_state::IBV_QPS_ERR);
        self.modify(&mut attr, ffi::ibv_qp_attr_mask::IBV_QP_STATE).is_ok()
    }

    /// Takes it out of use (RESET), without the wait for packets of it that destroying is: when this answers `true` its
    /// device touches no memory on its behalf any more. RESET forgets whatever was posted, drops whatever comes from the
    /// peer, and does not return before the device is through with what it had begun: hardware does the same when it
    /// destroys, soft-RoCE stops the tasks that copy. What is left is a number and packets that carry their own bytes. Not
    /// while somebody posts on it, nor destroys it.
    pub(super) fn reset(&self) -> bool {
        let mut attr = attributes(ffi::ibv_qp_state::IBV_QPS_RESET);
        let reset = self.modify(&mut attr, ffi::ibv_qp_attr_mask::IBV_QP_STATE);
        if let Err(reason) = &reset {
            tracing::debug!(nic = self.device.nic(), %reason, "a queue pair could not be reset");
        }
        reset.is_ok()
    }

    /// Destroys it: when this returns its device touches no memory on its behalf. May sleep for seconds. Not while somebody
    /// posts on it; a second time does nothing.
    pub(super) fn destroy(&self) {
        let at = self.at.swap(null_mut(), Ordering::AcqRel);
        if at.is_null() || !self.device.verbs().is_here() {
            return;
        }
        // SAFETY: made by `create_qp`, and destroyed by the only one who got it out of the cell.
        let failed = unsafe { (self.device.verbs().destroy_qp)(at) };
        if failed != 0 {
            let reason = io::Error::from_raw_os_error(failed);
            tracing::error!(nic = self.device.nic(), %reason, "a queue pair could not be destroyed");
        }
    }

    /// Whether it has been destroyed.
    pub(super) fn is_destroyed(&self) -> bool {
        self.at.load(Ordering::Acquire).is_null()
    }

    fn way(&self, peer: &End, settings: &RdmaSettings) -> ffi::ibv_ah_attr {
        // SAFETY: integers only.
        let mut way: ffi::ibv_ah_attr = unsafe { std::mem::zeroed() };
        way.port_num = self.device.port();
        way.sl = settings.service_level;
        way.dlid = peer.lid;
        if settings.always_global || self.device.link_layer() == LinkLayer::Ethernet {
            way.is_global = 1;
            way.grh.dgid = ffi::ibv_gid { raw: peer.gid };
            way.grh.sgid_index = self.gid.index;
            way.grh.hop_limit = HOPS;
            way.grh.traffic_class = settings.traffic_class;
        }
        way
    }

    fn modify(&self, attr: &mut ffi::ibv_qp_attr, mask: ffi::ibv_qp_attr_mask) -> io::Result<()> {
        let at = self.raw();
        if at.is_null() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        // SAFETY: not destroyed, by the callers' contracts; attributes of which the mask names what is set.
        let failed = unsafe { (self.device.verbs().modify_qp)(at, attr, mask.0 as i32) };
        if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// Where packets of the device's port come from. On InfiniBand they are addressed by LID, and a GID is not needed.
fn address(device: &Device) -> Result<Gid, Error> {
    match (device.gid(), device.link_layer()) {
        (Err(_), LinkLayer::InfiniBand) => Ok(Gid { index: 0, raw: [0; 16] }),
        (gid, _) => gid,
    }
}

fn attributes(state: ffi::ibv_qp_state::Type) -> ffi::ibv_qp_attr {
    // SAFETY: integers only, all of which may be zero.
    let mut attr: ffi::ibv_qp_attr = unsafe { std::mem::zeroed() };
    attr.qp_state = state;
    attr
}
