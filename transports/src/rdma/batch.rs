//! Work requests in the device's own words, linked to a list and handed over by one call.
//!
//! Deliberately no ring and no link: it does not know what the requests are for. Its memory is made once and used again.

use std::ptr::null_mut;

use ibverbs_sys as ffi;

use crate::wr::Op;

const SIGNALLED: u32 = ffi::ibv_send_flags::IBV_SEND_SIGNALED.0;
const INLINE: u32 = ffi::ibv_send_flags::IBV_SEND_INLINE.0;

/// One work request, every part of it looked up and checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// Comes back in its completion.
    pub(super) name: u64,
    pub(super) op: Op,
    pub(super) local: u64,
    pub(super) lkey: u32,
    pub(super) remote: u64,
    pub(super) rkey: u32,
    pub(super) bytes: u32,
    /// Whether it completes by itself, not only with those behind it.
    pub(super) signalled: bool,
    /// Whether its payload goes into the work request. Only WRITEs.
    pub(super) inline: bool,
}

/// See the file's head.
pub(super) struct Batch {
    requests: Box<[ffi::ibv_send_wr]>,
    pieces: Box<[ffi::ibv_sge]>,
    /// The first that has not been handed over.
    first: usize,
    len: usize,
}

// SAFETY: its pointers lead into its own boxes, which move with it.
unsafe impl Send for Batch {}

/// How far a hand-over came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handed {
    /// All were taken.
    All,
    /// The device had no room for the rest, which stays here. Says whether it took any.
    NoRoom { any: bool },
    /// The device would not take one: an `errno`.
    Failed(i32),
}

impl Batch {
    /// For `capacity` work requests.
    pub(super) fn new(capacity: usize) -> Self {
        // SAFETY: integers, pointers and unions of them, all of which may be zero.
        let (request, piece) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            requests: vec![request; capacity].into_boxed_slice(),
            pieces: vec![piece; capacity].into_boxed_slice(),
            first: 0,
            len: 0,
        }
    }

    /// Whether nothing waits to be handed over.
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.len
    }

    /// The name of the first that waits.
    pub(super) fn next_name(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.requests[self.first].wr_id)
    }

    /// Forgets all.
    pub(super) fn cleared(mut self) -> Self {
        self.clear();
        self
    }

    fn clear(&mut self) {
        (self.first, self.len) = (0, 0);
    }

    /// Adds one. The caller adds no more than its link has room for.
    pub(super) fn push(&mut self, transfer: &Transfer) {
        if self.len == self.requests.len() {
            self.close_gap();
        }
        let at = self.len;
        let piece = &mut self.pieces[at];
        *piece = ffi::ibv_sge { addr: transfer.local, length: transfer.bytes, lkey: transfer.lkey };
        let piece: *mut ffi::ibv_sge = piece;
        let request = &mut self.requests[at];
        request.wr_id = transfer.name;
        request.next = null_mut();
        request.sg_list = piece;
        request.num_sge = 1;
        request.opcode = match transfer.op {
            Op::Write => ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE,
            Op::Read => ffi::ibv_wr_opcode::IBV_WR_RDMA_READ,
        };
        request.send_flags =
            if transfer.signalled { SIGNALLED } else { 0 } | if transfer.inline { INLINE } else { 0 };
        // A union's field that is only written is safe to name; the other members are not used by these operations.
        request.wr.rdma.remote_addr = transfer.remote;
        request.wr.rdma.rkey = transfer.rkey;
        self.len += 1;
    }

    /// Hands over all that waits, by one call.
    ///
    /// # Safety
    /// `queue_pair` is one that has not been destroyed, nobody else posts on it, and nobody destroys it meanwhile. The
    /// memory that the requests name stays valid until they have completed or the queue pair is gone.
    pub(super) unsafe fn hand_over(&mut self, queue_pair: *mut ffi::ibv_qp) -> Handed {
        let base = self.requests.as_mut_ptr();
        for at in self.first..self.len - 1 {
            // SAFETY: both are within the box.
            unsafe { (*base.add(at)).next = base.add(at + 1) };
        }
        // SAFETY: as above; `hand_over` is not called on an empty one.
        let last = unsafe { &mut *base.add(self.len - 1) };
        last.next = null_mut();
        last.send_flags |= SIGNALLED;
        let mut stopped_at = null_mut();
        // SAFETY: the caller's promise; the list ends within the box, and its pieces lie in the other one. Every provider
        // has this function.
        let errno = unsafe {
            let context = (*queue_pair).context;
            match (*context).ops.post_send {
                Some(post) => post(queue_pair, base.add(self.first), &mut stopped_at),
                None => libc::ENOSYS,
            }
        };
        if errno == 0 {
            self.clear();
            return Handed::All;
        }
        let before = self.first;
        // SAFETY: where the device stopped is one of the list's.
        let stopped = unsafe { stopped_at.offset_from(base) };
        self.first = usize::try_from(stopped).map_or(before, |at| at.clamp(before, self.len));
        match errno {
            libc::ENOMEM | libc::EAGAIN => Handed::NoRoom { any: self.first > before },
            errno => Handed::Failed(errno),
        }
    }

    /// Moves what waits to the front: only after a hand-over that stopped in the middle.
    fn close_gap(&mut self) {
        self.requests.copy_within(self.first..self.len, 0);
        self.pieces.copy_within(self.first..self.len, 0);
        (self.first, self.len) = (0, self.len - self.first);
        let pieces = self.pieces.as_mut_ptr();
        for (at, request) in self.requests[..self.len].iter_mut().enumerate() {
            // SAFETY: within the box.
            request.sg_list = unsafe { pieces.add(at) };
        }
    }
}

/// A work request that moves nothing and is flushed at once, on a queue pair that has been stopped: when it comes back
/// all before it have. Whether the device took it.
///
/// # Safety
/// As [`Batch::hand_over`].
pub(super) unsafe fn hand_over_marker(queue_pair: *mut ffi::ibv_qp, name: u64) -> bool {
    // SAFETY: as in `new`.
    let mut marker: ffi::ibv_send_wr = unsafe { std::mem::zeroed() };
    marker.wr_id = name;
    marker.opcode = ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE;
    marker.send_flags = SIGNALLED;
    let mut stopped_at = null_mut();
    // SAFETY: the caller's promise.
    unsafe {
        let context = (*queue_pair).context;
        (*context).ops.post_send.is_some_and(|post| post(queue_pair, &mut marker, &mut stopped_at) == 0)
    }
}
