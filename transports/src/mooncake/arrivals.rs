//! The answers of a lane as they come: which bytes belong where is known before they are there, because answers come in the
//! order of the requests and have no frame of their own. So one `readv` places the payload of many READs straight in
//! registered memory, with the statuses between them in a small array of ours; nothing is ever copied, and nothing is read
//! that nobody has asked for.
//!
//! Deliberately no decision on how a request ends: that is the reaper's.

use std::io;
use std::os::fd::BorrowedFd;

use super::ring::{Entered, Ring, Stand};
use super::wire::{Framing, STATUS_BYTES};
use crate::tcp::vector::Vector;
use crate::wr::Op;

/// Answers that one call takes in.
const ANSWERS: usize = 128;
/// Pieces of one call: a status and a payload each, and some that are thrown away in parts.
const PIECES: usize = 2 * ANSWERS + 64;

/// See the file's head.
pub(super) struct Arrivals {
    framing: Framing,
    statuses: Box<[[u8; STATUS_BYTES]]>,
    /// Which of them is the status of the answer at hand.
    status: usize,
    /// Bytes of the answer at hand that have come.
    filled: u64,
    /// Bytes that have come and have not been accounted for.
    placed: u64,
    vector: Vector,
}

/// What one receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// Bytes; the socket may hold more.
    More,
    /// Bytes, and the socket is empty now.
    Drained,
    /// Nothing: the socket was empty.
    Nothing,
    /// The stream has ended.
    Ended,
    /// The target sends what nobody asked for.
    Unasked,
}

/// How much of the answer at hand is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// There is no answer of its own: bytes of a later one have come, or not yet.
    None { behind: bool },
    /// Its status is whole now; look at it before anything else.
    Status([u8; STATUS_BYTES]),
    /// Some, and more is to come.
    Part,
    /// All of it.
    Whole,
}

impl Arrivals {
    pub(super) fn new(framing: Framing) -> Self {
        Self {
            framing,
            statuses: vec![[0; STATUS_BYTES]; ANSWERS].into_boxed_slice(),
            status: 0,
            filled: 0,
            placed: 0,
            vector: Vector::with_capacity(PIECES),
        }
    }

    /// Whether an answer is in the middle of coming.
    pub(super) fn is_midstream(&self) -> bool {
        self.filled > 0
    }

    /// Bytes that the answer at hand lacks, if some of it has come.
    pub(super) fn missing(&self, of: &Entered) -> u64 {
        let (head, payload) = self.parts(of);
        if self.filled == 0 { 0 } else { (head + payload).saturating_sub(self.filled) }
    }

    /// Bytes before the payload of an answer, and of the payload.
    fn parts(&self, of: &Entered) -> (u64, u64) {
        match (self.framing, of.op) {
            (Framing::V2, Op::Read) => (STATUS_BYTES as u64, of.length),
            (Framing::V2, Op::Write) => (STATUS_BYTES as u64, 0),
            (Framing::V1, Op::Read) => (0, of.length),
            // The answer to the question behind it: a byte that says enough by coming.
            (Framing::V1, Op::Write) => (u64::from(of.confirmed), 0),
        }
    }

    /// Accounts for what has come of the answer at hand. Adds to `bytes` what it found.
    pub(super) fn take(&mut self, of: &Entered, bytes: &mut u64) -> Taken {
        let (head, payload) = self.parts(of);
        if head + payload == 0 {
            return Taken::None { behind: self.placed > 0 };
        }
        let wanted = if self.filled < head { head } else { head + payload };
        let got = self.placed.min(wanted - self.filled);
        self.placed -= got;
        *bytes += got;
        let before = self.filled;
        self.filled += got;
        if before < head && self.filled == head && head == STATUS_BYTES as u64 {
            return Taken::Status(self.statuses[self.status]);
        }
        if self.filled < head + payload { Taken::Part } else { Taken::Whole }
    }

    /// The answer at hand has been dealt with: the next one's turn.
    pub(super) fn next(&mut self, of: &Entered) {
        self.status += usize::from(self.parts(of).0 > 0);
        self.filled = 0;
    }

    /// Receives once. `next` is the request whose answer is at hand; all that came before has been accounted for.
    ///
    /// # Safety
    /// Of requests from `next` on that are published, the local bytes of READs that have begun must be writable until this
    /// returns.
    ///
    /// # Errors
    /// The lane is broken.
    pub(super) unsafe fn receive(
        &mut self,
        ring: &Ring,
        next: u64,
        socket: BorrowedFd<'_>,
        scratch: &mut [u8],
    ) -> io::Result<Received> {
        debug_assert!(self.placed == 0);
        let end = ring.published();
        self.gather(ring, next..end, scratch);
        if self.vector.is_empty() {
            return peek(ring, end, socket);
        }
        let wanted = self.vector.bytes();
        // SAFETY: pieces are statuses of ours, the scratch, and local bytes of READs by the caller's promise.
        let got = unsafe { self.vector.receive(socket) };
        self.vector.clear();
        match got {
            Ok(0) => Ok(Received::Ended),
            Ok(n) => {
                self.placed = n as u64;
                Ok(if n < wanted { Received::Drained } else { Received::More })
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Received::More),
            Err(e) => Err(e),
        }
    }

    /// Names where the next bytes belong.
    fn gather(&mut self, ring: &Ring, requests: std::ops::Range<u64>, scratch: &mut [u8]) {
        self.vector.clear();
        if self.status != 0 {
            // Of the answer at hand a part may be there.
            self.statuses[0] = self.statuses.get(self.status).copied().unwrap_or_default();
            self.status = 0;
        }
        let (mut filled, mut status, mut bytes) = (self.filled, 0, 0);
        for number in requests {
            let entered = ring.at(number);
            match entered.stand {
                Stand::Begun | Stand::Discarding => {}
                Stand::Cancelled | Stand::Ended(_) => continue,
                // Taken back by a poster that has seen the end of the lane.
                Stand::Queued => return,
            }
            let (head, payload) = self.parts(&entered);
            if head > 0 {
                if status == ANSWERS {
                    return;
                }
                let into = &mut self.statuses[status][filled.min(head) as usize..head as usize];
                if !self.vector.push(into.as_mut_ptr(), into.len()) {
                    return;
                }
                status += 1;
                bytes += into.len();
            }
            let there = filled.saturating_sub(head);
            let missing = (payload - there) as usize;
            let fits = missing.min(super::MOVE_BYTES.saturating_sub(bytes));
            let placed = if entered.stand == Stand::Discarding {
                self.throw_away(fits, scratch)
            } else if self.vector.push(entered.at.wrapping_add(there as usize), fits) {
                fits
            } else {
                0
            };
            if placed < missing {
                return;
            }
            bytes += missing;
            filled = 0;
        }
    }

    /// Adds pieces for `bytes` that nobody wants; answers for how many there was room.
    fn throw_away(&mut self, bytes: usize, scratch: &mut [u8]) -> usize {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(scratch.len());
            if !self.vector.push(scratch.as_mut_ptr(), piece) {
                break;
            }
            left -= piece;
        }
        bytes - left
    }
}

/// Looks whether something has come while nothing was awaited of the requests before `end`. What was published before a byte
/// came is seen after it: a byte beside no new request is nobody's.
fn peek(ring: &Ring, end: u64, socket: BorrowedFd<'_>) -> io::Result<Received> {
    use rustix::net::{RecvFlags, recv};
    match recv(socket, &mut [0u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) => Ok(Received::Ended),
        Ok(_) if ring.published() != end => Ok(Received::More),
        Ok(_) => Ok(Received::Unasked),
        Err(rustix::io::Errno::AGAIN) => Ok(Received::Nothing),
        Err(rustix::io::Errno::INTR) => Ok(Received::More),
        Err(e) => Err(e.into()),
    }
}
