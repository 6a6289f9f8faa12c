//! Replies on their way back on one data connection: statuses in a row as one piece, payload straight from its region.
//! Deliberately of fixed size: when it is full the connection is not read from.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;

use super::wire::{STATUS_BYTES, Status};
use crate::memory::Guard;
use crate::tcp::TURN_BYTES;
use crate::tcp::vector::Vector;

/// Replies that may wait, and that go out in one call.
const REPLIES_MAX: usize = 64;
/// Sends in a row before it is another connection's turn.
const SENDS_A_TURN: usize = 4;
/// Bytes that replies stand for after which they do not wait for company.
const DUE_BYTES: u64 = 1 << 20;

/// A reply.
pub(super) struct Reply {
    /// What goes first; nothing in the first version of the protocol.
    pub(super) status: Option<Status>,
    /// The payload of a READ.
    pub(super) payload: Option<Guard>,
    /// Bytes that a WRITE has brought.
    pub(super) applied: u64,
}

impl Reply {
    fn weight(&self) -> u64 {
        self.applied + self.payload.as_ref().map_or(0, Guard::len)
    }
}

/// See the file's head.
pub(super) struct Replies {
    queue: VecDeque<Reply>,
    weight: u64,
    statuses: Box<[u8; REPLIES_MAX * STATUS_BYTES]>,
    vector: Vector,
    /// Replies in `vector`.
    sending: usize,
    /// Guards of the payload in `vector`.
    held: Vec<Guard>,
    /// Payloads queued or being sent.
    payloads: usize,
    blocked: bool,
}

impl Replies {
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::with_capacity(REPLIES_MAX),
            weight: 0,
            statuses: Box::new([0; REPLIES_MAX * STATUS_BYTES]),
            vector: Vector::with_capacity(2 * REPLIES_MAX),
            sending: 0,
            held: Vec::with_capacity(REPLIES_MAX),
            payloads: 0,
            blocked: false,
        }
    }

    /// Whether no further reply fits.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() == REPLIES_MAX
    }

    /// Replies queued or being sent.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.sending
    }

    /// Whether nothing is queued or being sent.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.vector.is_empty()
    }

    /// Whether bytes of regions are still to be sent.
    pub(super) fn has_payload(&self) -> bool {
        self.payloads > 0
    }

    /// Whether the socket took no more at the last try, and has not said since that it does.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// The socket takes bytes again.
    pub(super) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Whether enough has gathered to be sent although more is coming in.
    pub(super) fn is_due(&self) -> bool {
        self.is_full() || self.weight >= DUE_BYTES
    }

    /// Queues a reply; there must be room.
    pub(super) fn push(&mut self, reply: Reply) {
        debug_assert!(!self.is_full());
        self.weight += reply.weight();
        self.payloads += usize::from(reply.payload.is_some());
        self.queue.push_back(reply);
    }

    /// Sends what is queued, as far as the socket and the turn allow; adds the bytes sent to `moved`. `false`: the
    /// connection is broken.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, moved: &mut u64) -> bool {
        let mut sent = 0;
        for _ in 0..SENDS_A_TURN {
            if sent >= TURN_BYTES {
                break;
            }
            if self.vector.is_empty() {
                self.finish();
                if self.queue.is_empty() {
                    return true;
                }
                self.build();
            }
            // SAFETY: the statuses are ours, payload is under the guards in `held`.
            match unsafe { self.vector.send(socket, TURN_BYTES) } {
                Ok(n) => {
                    sent += n;
                    *moved += n as u64;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return true;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        if self.vector.is_empty() {
            self.finish();
        }
        true
    }

    /// What was in the vector has been sent.
    fn finish(&mut self) {
        self.payloads -= self.held.len();
        self.held.clear();
        self.sending = 0;
    }

    /// Makes pieces of all that is queued.
    fn build(&mut self) {
        self.vector.clear();
        // Statuses that no payload parts are one piece: from `first` to `end`.
        let (mut first, mut end) = (0, 0);
        while let Some(reply) = self.queue.pop_front() {
            self.weight -= reply.weight();
            if let Some(status) = reply.status {
                self.statuses[end..end + STATUS_BYTES].copy_from_slice(&status.encode());
                end += STATUS_BYTES;
            }
            if let Some(guard) = reply.payload {
                self.vector.push(self.statuses[first..].as_mut_ptr(), end - first);
                self.vector.push(guard.ptr(), guard.len() as usize);
                first = end;
                self.held.push(guard);
            }
            self.sending += 1;
        }
        if first < end {
            self.vector.push(self.statuses[first..].as_mut_ptr(), end - first);
        }
    }
}
