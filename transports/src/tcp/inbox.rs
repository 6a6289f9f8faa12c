//! The read side of a socket: heads into a small fixed buffer, payload straight to where it belongs.
//!
//! One `readv` fills the payload pieces of the current frame *and*, behind them, the buffer with the head of
//! the next frame, so that a steady stream costs one call a frame. Payload that came along with a head is
//! copied out: at most a buffer full. Deliberately blind to what the bytes mean.

use std::io;
use std::os::fd::BorrowedFd;

use super::vector::Vector;
use crate::fault::broken_by;
use crate::wr::Blame;

/// Bytes of the buffer: several heads of frames, and little enough to stay in the first-level cache.
const BUFFER_BYTES: usize = 16 << 10;

/// See the file's head.
pub(crate) struct Inbox {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Payload bytes that went straight to their place and have not been accounted for.
    placed: usize,
    vector: Vector,
    /// The pieces do not reach the end of the payload: nothing may be read behind them.
    pieces_only: bool,
    /// Bytes that the next receive may put into the buffer.
    room_max: usize,
}

/// What one receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes; the socket may hold more.
    More,
    /// Bytes, and the socket is empty now.
    Drained,
    /// Nothing: the socket was empty.
    Nothing,
    /// The stream has ended, or is broken: by whose fault.
    Closed(Blame),
}

impl Inbox {
    /// Room for `pieces` payload pieces a call.
    pub(crate) fn new(pieces: usize) -> Self {
        Self {
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            placed: 0,
            vector: Vector::with_capacity(pieces + 1),
            pieces_only: false,
            room_max: BUFFER_BYTES,
        }
    }

    /// Bytes of a head that have come.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Lets go of the first `n` of [`Self::bytes`].
    pub(crate) fn consume(&mut self, n: usize) {
        self.start += n;
        debug_assert!(self.start <= self.end);
    }

    /// Accounts for up to `len` payload bytes: first those that went straight to their place, then those in
    /// the buffer, which are copied to `at` (thrown away without it). Answers how many there were.
    ///
    /// # Safety
    /// `at` must be writable for `len` bytes.
    pub(crate) unsafe fn take(&mut self, at: Option<*mut u8>, len: u64) -> u64 {
        let straight = (self.placed as u64).min(len);
        self.placed -= straight as usize;
        let copied = ((self.end - self.start) as u64).min(len - straight);
        if let (Some(at), true) = (at, copied > 0) {
            let from = self.buffer[self.start..].as_ptr();
            // SAFETY: `copied` bytes are in the buffer; `at` is writable for `len`, of which `straight` are done.
            unsafe { crate::memory::copy::copy(from, at.add(straight as usize), copied as usize) };
        }
        self.start += copied as usize;
        straight + copied
    }

    /// Pieces for the next [`Self::receive`]; only while the buffer is empty, in wire order.
    pub(crate) fn pieces(&mut self) -> &mut Vector {
        debug_assert!(self.placed == 0);
        &mut self.vector
    }

    /// The pieces end before the payload does: the next receive leaves the buffer alone.
    pub(crate) fn stop_at_pieces(&mut self) {
        self.pieces_only = true;
    }

    /// What lies behind so many bytes has a place of its own, which is not known yet: the next receive leaves it where it is.
    pub(crate) fn stop_after(&mut self, bytes: usize) {
        self.room_max = bytes;
    }

    /// Receives once: into the pieces, as far as a turn goes, then into the buffer.
    ///
    /// # Safety
    /// The pieces added since the last call must be writable.
    pub(crate) unsafe fn receive(&mut self, socket: BorrowedFd<'_>) -> Received {
        debug_assert!(self.vector.is_empty() || self.start == self.end, "payload behind buffered bytes");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < BUFFER_BYTES / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.vector.truncate(super::TURN_BYTES) {
            self.pieces_only = true;
        }
        let payload = self.vector.bytes();
        let room_max = std::mem::replace(&mut self.room_max, BUFFER_BYTES);
        let room = match std::mem::take(&mut self.pieces_only) {
            true => 0,
            false => room_max.min(self.buffer.len() - self.end),
        };
        self.vector.push(self.buffer[self.end..].as_mut_ptr(), room);
        // SAFETY: the caller's pieces are writable, and the buffer is ours.
        let got = unsafe { self.vector.receive(socket) };
        self.vector.clear();
        match got {
            Ok(0) => Received::Closed(Blame::Nobody),
            Ok(n) => {
                self.placed = n.min(payload);
                self.end += n - self.placed;
                if n < payload + room { Received::Drained } else { Received::More }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Received::More,
            Err(e) => Received::Closed(broken_by(&e)),
        }
    }
}
