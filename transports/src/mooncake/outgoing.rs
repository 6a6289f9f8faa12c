//! The requests of a lane that are being sent: headers of ours, and payload straight from registered memory, gathered by as
//! few system calls as the socket allows.
//!
//! Without status (the first version of the protocol) nobody says that a WRITE was applied. So behind the last WRITE of what
//! is sent at once stands a question: a READ of one byte of it. A server answers a connection in order, so that byte says
//! that all before it was applied. Deliberately no decision on how a request ends: that is the reaper's.

use std::io;
use std::os::fd::BorrowedFd;

use super::ring::Ring;
use super::wire::{Framing, HEADER_BYTES, Header};
use crate::tcp::vector::Vector;
use crate::wr::Op;

/// Requests that are gathered at once.
const REQUESTS: usize = 128;
/// Payload bytes after which no other request is added.
const BYTES: u64 = 1 << 20;

/// See the file's head.
pub(super) struct Outgoing {
    framing: Framing,
    /// One a request, and one for the question.
    headers: Box<[[u8; HEADER_BYTES]]>,
    vector: Vector,
    /// What is in the vector: numbers, and where their headers end among all bytes of the lane.
    requests: Vec<(u64, u64)>,
    /// Bytes of the lane up to the end of the vector, and those that the kernel has taken.
    built: u64,
    sent: u64,
    /// The next request to be built.
    next: u64,
    /// Of requests in the ring, by their places: where their bytes lie over there.
    addresses: Box<[u64]>,
}

impl Outgoing {
    /// For the requests of `ring`.
    pub(super) fn new(framing: Framing, ring: &Ring) -> Self {
        Self {
            framing,
            headers: vec![[0; HEADER_BYTES]; REQUESTS + 1].into_boxed_slice(),
            vector: Vector::with_capacity(2 * REQUESTS + 1),
            requests: Vec::with_capacity(REQUESTS),
            built: 0,
            sent: 0,
            next: 0,
            addresses: vec![0; ring.places()].into_boxed_slice(),
        }
    }

    /// Where the bytes of a request that was just appended lie.
    pub(super) fn aim(&mut self, ring: &Ring, number: u64, address: u64) {
        self.addresses[ring.place(number)] = address;
    }

    /// Whether there is something to send, or to pass.
    pub(super) fn has_work(&self, ring: &Ring) -> bool {
        !self.vector.is_empty() || self.next != ring.appended()
    }

    /// Whether nothing is left of what was built.
    pub(super) fn is_empty(&self) -> bool {
        self.vector.is_empty()
    }

    /// Bytes that the kernel has taken since the lane began.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Builds the next bytes. Whether it passed requests that are not sent: their turn is the reaper's.
    pub(super) fn build(&mut self, ring: &Ring) -> bool {
        debug_assert!(self.vector.is_empty() && self.built == self.sent);
        self.vector.clear();
        self.requests.clear();
        let (end, mut passed, mut payload) = (ring.appended(), false, 0);
        // Headers that nothing of another's memory has come behind yet: they leave as one piece.
        let mut loose = 0;
        while self.next != end && self.requests.len() < REQUESTS && payload < BYTES {
            let number = self.next;
            self.next += 1;
            let entered = ring.at(number);
            let body = if entered.op == Op::Write { entered.length } else { 0 };
            let header_end = self.built + HEADER_BYTES as u64;
            if !ring.begin(number, header_end + body) {
                passed = true;
                continue;
            }
            self.put_header(self.requests.len(), ring, number, entered.op, entered.length);
            self.requests.push((number, header_end));
            self.built = header_end + body;
            if body > 0 {
                self.push_headers(loose, self.requests.len());
                loose = self.requests.len();
                self.vector.push(entered.at, body as usize);
                payload += body;
            }
        }
        let mut headers = self.requests.len();
        // Where the last piece is payload, the last request is a WRITE.
        if self.framing == Framing::V1 && headers > 0 && loose == headers {
            let number = self.requests[headers - 1].0;
            self.put_header(headers, ring, number, Op::Read, 1);
            self.built += HEADER_BYTES as u64;
            ring.confirm(number, self.built);
            headers += 1;
        }
        self.push_headers(loose, headers);
        ring.publish(self.next);
        passed
    }

    fn put_header(&mut self, at: usize, ring: &Ring, number: u64, op: Op, size: u64) {
        let addr = self.addresses[ring.place(number)];
        self.headers[at] = Header { size, addr, op, framing: self.framing }.encode();
    }

    fn push_headers(&mut self, from: usize, to: usize) {
        let headers = &mut self.headers[from..to];
        self.vector.push(headers.as_mut_ptr().cast(), size_of_val(headers));
    }

    /// Sends up to about `limit` bytes; answers how many the kernel took.
    ///
    /// # Safety
    /// The local bytes of WRITEs that were built must be readable until this returns.
    ///
    /// # Errors
    /// `WouldBlock` when the socket is full; else the lane is broken.
    pub(super) unsafe fn send(&mut self, socket: BorrowedFd<'_>, limit: usize) -> io::Result<usize> {
        // SAFETY: headers are ours; payload by the caller's promise.
        let sent = unsafe { self.vector.send(socket, limit) }?;
        self.sent += sent as u64;
        Ok(sent)
    }

    /// The lane is dead: what was built and cannot have had an effect goes back to "not begun", so that it may be retried
    /// elsewhere. A request has none before its header is whole, a WRITE none before a byte of its payload has left.
    pub(super) fn disown(&mut self, ring: &Ring) {
        for &(number, header_end) in &self.requests {
            let is_write = ring.at(number).op == Op::Write;
            if self.sent < header_end || (is_write && self.sent == header_end) {
                ring.revert(number);
            }
        }
        self.vector.clear();
        self.requests.clear();
    }
}
