//! Answers on their way back to a dialler: queued, batched into frames, gathered straight from regions.
//! Deliberately of fixed size: when it is full the lane is not read from.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;

use super::frame::{self, ANSWER_BYTES, ANSWERS_BYTES_MAX, Answer, COUNT_MAX, HEAD_BYTES, Kind, Tag};
use super::vector::Vector;
use crate::memory::Guard;
use crate::wr::Refusal;

/// Sends in a row before it is another lane's turn.
const SENDS_A_TURN: usize = 4;
/// Applied bytes after which acks do not wait for company.
const DUE_BYTES: u64 = 1 << 20;

/// One answer, and for a READ the guard of its payload.
pub(super) struct Pushed {
    answer: Answer,
    guard: Option<Guard>,
    applied: u64,
}

impl Pushed {
    /// A WRITE whose bytes are in place.
    pub(super) fn applied(tag: Tag, bytes: u64) -> Self {
        Self { answer: Answer { tag, refusal: None, length: 0 }, guard: None, applied: bytes }
    }

    /// A READ; its payload follows the frame's head.
    pub(super) fn read(tag: Tag, guard: Guard) -> Self {
        let answer = Answer { tag, refusal: None, length: guard.len() };
        Self { answer, guard: Some(guard), applied: 0 }
    }

    /// Not done.
    pub(super) fn refused(tag: Tag, why: Refusal) -> Self {
        Self { answer: Answer { tag, refusal: Some(why), length: 0 }, guard: None, applied: 0 }
    }
}

/// See the file's head.
pub(super) struct Answers {
    queue: VecDeque<Pushed>,
    /// Bytes that queued answers stand for.
    weight: u64,
    head: Box<[u8; ANSWERS_BYTES_MAX]>,
    vector: Vector,
    /// Answers of the frame in `vector`.
    sending: usize,
    /// Guards of the payload in `vector`.
    held: Vec<Guard>,
    blocked: bool,
    /// Entries and payload bytes a frame may have.
    count_max: usize,
    frame_bytes: u64,
}

impl Answers {
    pub(super) fn new(count_max: usize, frame_bytes: u64) -> Self {
        Self {
            queue: VecDeque::with_capacity(2 * COUNT_MAX),
            weight: 0,
            head: Box::new([0; ANSWERS_BYTES_MAX]),
            vector: Vector::with_capacity(1 + COUNT_MAX),
            sending: 0,
            held: Vec::with_capacity(COUNT_MAX),
            blocked: false,
            count_max,
            frame_bytes,
        }
    }

    /// Whether no further answer fits.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() == self.queue.capacity()
    }

    /// Answers queued or in the frame being sent.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + if self.vector.is_empty() { 0 } else { self.sending }
    }

    /// Whether nothing is queued or being sent.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.vector.is_empty()
    }

    /// Whether a frame has been begun and not ended.
    pub(super) fn is_sending(&self) -> bool {
        !self.vector.is_empty()
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
        self.queue.len() >= self.count_max || self.weight >= DUE_BYTES
    }

    /// Queues an answer; there must be room.
    pub(super) fn push(&mut self, pushed: Pushed) {
        debug_assert!(!self.is_full());
        self.weight += pushed.applied + pushed.answer.length;
        self.queue.push_back(pushed);
    }

    /// Sends what is queued, as far as the socket and the turn allow; adds the bytes sent to `moved`. `false`: the lane
    /// is broken.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, moved: &mut u64) -> bool {
        let mut sent = 0;
        for _ in 0..SENDS_A_TURN {
            if sent >= super::TURN_BYTES {
                break;
            }
            if self.vector.is_empty() {
                self.held.clear();
                if self.queue.is_empty() {
                    return true;
                }
                self.build();
            }
            // SAFETY: the head is ours, payload is under the guards in `held`.
            match unsafe { self.vector.send(socket, super::TURN_BYTES) } {
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
            self.held.clear();
        }
        true
    }

    /// Makes the next frame.
    fn build(&mut self) {
        self.vector.clear();
        let (mut count, mut payload) = (0, 0u64);
        while count < self.count_max && payload < self.frame_bytes {
            let Some(Pushed { answer, guard, applied }) = self.queue.pop_front() else { break };
            self.weight -= applied + answer.length;
            frame::put_answer(&mut self.head[..], count, &answer);
            payload += answer.length;
            count += 1;
            self.held.extend(guard);
        }
        self.sending = count;
        frame::put_head(&mut self.head[..], Kind::Answer, count);
        self.vector.push(self.head.as_mut_ptr(), HEAD_BYTES + count * ANSWER_BYTES);
        for guard in &self.held {
            self.vector.push(guard.ptr(), guard.len() as usize);
        }
    }
}
