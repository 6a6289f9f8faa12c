//! The acceptor's half: reads request frames, moves payload, answers.
//!
//! Every descriptor is checked against the region table before a byte is placed, and the guard is held until
//! the copy is done: a WRITE's until its payload is in place, a READ's until its payload is sent. An ack
//! is queued after the copy, never before. Refused WRITE payload is drained into a scratch. Deliberately
//! bounded: a peer that does not read its answers is not read from either.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::answers::{Answers, Pushed};
use super::counters::Counters;
use super::epoll::{Epoll, Interest};
use super::frame::{self, COUNT_MAX, DESCRIPTOR_BYTES, Descriptor, HEAD_BYTES, Kind, Violation};
use super::inbox::{Inbox, Received};
use super::lane::ServeEnd;
use crate::clock::Nanos;
use crate::error::Error;
use crate::link::{Arming, LinkEnd, LinkId, Serve, Served};
use crate::memory::{Guard, Regions};
use crate::wr::{Op, Refusal};

/// Turns without news after which only every fourth asks the kernel.
const COLD_TURNS: u8 = 16;

/// See the file's head.
pub(super) struct TcpServe {
    lanes: Vec<ServeLane>,
    /// Lanes that went and were not reported.
    closed: Vec<LinkId>,
    epoll: Epoll,
    turn: usize,
    armed: bool,
    idle_turns: u8,
    scratch: Box<[u8]>,
    regions: Arc<Regions>,
    counters: Arc<Counters>,
}

/// What a descriptor was granted.
enum Grant {
    Open(Guard),
    Refused(Refusal),
}

struct ServeLane {
    grants: VecDeque<Grant>,
    answers: Answers,
    inbox: Inbox,
    descriptors: [Descriptor; COUNT_MAX],
    count: usize,
    next: usize,
    /// Payload bytes of the WRITE at hand that have come.
    filled: u64,
    readable: bool,
    ending: bool,
    /// All that has come is worked off: only more input makes more work.
    hungry: bool,
    closed: bool,
    end: ServeEnd,
}

impl TcpServe {
    pub(super) fn new(regions: Arc<Regions>, counters: Arc<Counters>) -> Result<Self, Error> {
        Ok(Self {
            lanes: Vec::new(),
            closed: Vec::new(),
            epoll: Epoll::new()?,
            turn: 0,
            armed: true,
            idle_turns: 0,
            scratch: vec![0; super::SCRATCH_BYTES].into_boxed_slice(),
            regions,
            counters,
        })
    }

    fn poll_sockets(&mut self) {
        self.idle_turns = self.idle_turns.wrapping_add(1).max(1);
        let cold = self.idle_turns > COLD_TURNS;
        if cold && !self.armed && !self.idle_turns.is_multiple_of(4) {
            return;
        }
        let lanes = &mut self.lanes;
        if !self.armed && lanes.iter().all(ServeLane::is_midstream) {
            // The next bytes are as good as there: the sockets are asked, by the call that would follow.
            lanes.iter_mut().for_each(|lane| lane.readable = true);
            return;
        }
        self.armed = self.epoll.poll(|ready| {
            if let Ok(i) = lanes.binary_search_by_key(&ready.id, |l| l.end.id) {
                lanes[i].readable |= ready.readable;
                lanes[i].ending |= ready.ending;
                if ready.writable {
                    lanes[i].answers.unblock();
                }
            }
        });
    }

    /// Lets go of closed lanes: with a lane go its guards, and its socket with whatever the kernel still held for us.
    fn bury(&mut self) {
        let closed = &mut self.closed;
        self.lanes.retain(|lane| {
            if lane.closed {
                closed.push(lane.end.id);
            }
            !lane.closed
        });
    }
}

impl Serve for TcpServe {
    fn adopt(&mut self, end: LinkEnd) {
        // For every lane there is, so that a step never allocates.
        self.closed.reserve(self.lanes.len() + 1);
        let Ok(end) = end.body.downcast::<ServeEnd>() else {
            tracing::error!(link = end.id.0, "an end that is not the serve end of a TCP lane: dropped");
            return self.closed.push(end.id);
        };
        if let Err(error) = self.epoll.add(end.stream.as_fd(), end.id, Interest::Both) {
            tracing::warn!(peer = end.peer, %error, "a lane cannot be watched: dropped");
            return self.closed.push(end.id);
        }
        if let Err(at) = self.lanes.binary_search_by_key(&end.id, |l| l.end.id) {
            self.lanes.insert(at, ServeLane::new(*end));
            self.armed = true;
        }
    }

    fn step(&mut self, now: Nanos, budget: usize) -> Served {
        let mut served = Served::default();
        let lanes = self.lanes.len();
        if lanes == 0 {
            return served;
        }
        self.poll_sockets();
        for k in 0..lanes {
            let lane = &mut self.lanes[(self.turn + k) % lanes];
            if !lane.has_news() {
                continue;
            }
            let left = budget.saturating_sub(served.answered);
            if left == 0 {
                break;
            }
            self.idle_turns = 0;
            let mut turn = Turn {
                now,
                regions: &self.regions,
                scratch: &mut self.scratch,
                left,
                bytes: 0,
                bytes_in: 0,
                bytes_out: 0,
            };
            if let Err(violation) = lane.turn(&mut turn) {
                self.counters.violation(now, &lane.end.peer, violation);
                lane.closed = true;
            }
            served.answered += left - turn.left;
            served.bytes += turn.bytes;
            served.bytes_in += turn.bytes_in;
            served.bytes_out += turn.bytes_out;
        }
        self.turn = self.turn.wrapping_add(1) % lanes;
        self.bury();
        served.more = self.lanes.iter().any(ServeLane::has_news);
        served
    }

    fn fence(&mut self, link: LinkId) {
        if let Ok(i) = self.lanes.binary_search_by_key(&link, |l| l.end.id) {
            self.lanes[i].closed = true;
            self.bury();
        }
    }

    fn closed(&mut self) -> Option<LinkId> {
        self.closed.pop()
    }

    fn under_way(&self) -> usize {
        self.lanes.iter().map(ServeLane::under_way).sum()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        if self.lanes.is_empty() {
            return;
        }
        if self.lanes.iter().any(ServeLane::has_news) {
            on.busy();
        }
        self.armed = true;
        on.fd(self.epoll.fd());
    }
}

/// What a lane's turn works with.
struct Turn<'a> {
    now: Nanos,
    regions: &'a Arc<Regions>,
    scratch: &'a mut [u8],
    /// Work requests it may still answer.
    left: usize,
    bytes: u64,
    /// Payload of WRITEs, and of READs.
    bytes_in: u64,
    bytes_out: u64,
}

impl ServeLane {
    fn new(end: ServeEnd) -> Self {
        Self {
            grants: VecDeque::with_capacity(COUNT_MAX),
            answers: Answers::new(usize::from(end.agreed.descriptors), end.agreed.frame_bytes),
            inbox: Inbox::new(COUNT_MAX),
            descriptors: [Descriptor::default(); COUNT_MAX],
            count: 0,
            next: 0,
            filled: 0,
            readable: false,
            ending: false,
            hungry: true,
            closed: false,
            end,
        }
    }

    /// Work requests that have come, at least in part, and whose answers have not been taken by the socket.
    fn under_way(&self) -> usize {
        let coming = usize::from(!self.inbox.bytes().is_empty());
        self.count - self.next + self.answers.len() + coming
    }

    /// Whether payload is on its way, and nothing but more of it makes work.
    fn is_midstream(&self) -> bool {
        self.next < self.count && self.hungry && !self.answers.is_blocked()
    }

    /// Whether a turn would get anywhere without waiting for the socket.
    fn has_news(&self) -> bool {
        !self.answers.is_blocked() && (self.readable || !self.hungry || self.has_to_answer())
    }

    /// Whether answers shall go out now. Within a frame they gather: the rest of its payload is on its way,
    /// and small answers would make the dialler's next frames small.
    fn has_to_answer(&self) -> bool {
        let whole = self.next == self.count && !self.answers.is_empty();
        whole || self.answers.is_sending() || self.answers.is_due()
    }

    /// Reads, moves and answers until the socket is empty, answers are blocked, or the budget is spent.
    fn turn(&mut self, turn: &mut Turn<'_>) -> Result<(), Violation> {
        loop {
            self.hungry = self.digest(turn)?;
            let more_to_read =
                self.hungry && self.readable && turn.left > 0 && turn.bytes < super::TURN_BYTES as u64;
            // While more comes in, answers gather.
            if self.answers.is_due() || (!more_to_read && (self.has_to_answer() || !self.hungry)) {
                if !self.answers.send(self.end.stream.as_fd(), &mut turn.bytes) {
                    self.closed = true;
                    return Ok(());
                }
                if self.answers.is_blocked() {
                    return Ok(());
                }
            }
            if !more_to_read {
                // A full queue of answers that has just been sent leaves room to go on.
                if self.hungry || turn.left == 0 || turn.bytes >= super::TURN_BYTES as u64 {
                    return Ok(());
                }
                continue;
            }
            self.gather(turn);
            let socket = self.end.stream.as_fd();
            // SAFETY: the pieces are the scratch and ranges under the guards in `grants`, which stay there.
            match unsafe { self.inbox.receive(socket) } {
                Received::More => {}
                Received::Drained => self.readable = self.ending,
                Received::Nothing => self.readable = false,
                Received::Closed(_) => {
                    self.closed = true;
                    return Ok(());
                }
            }
        }
    }

    /// Works off what has come. `Ok(true)`: more input is needed; `Ok(false)`: answers or the budget are full.
    fn digest(&mut self, turn: &mut Turn<'_>) -> Result<bool, Violation> {
        loop {
            while self.next < self.count {
                if turn.left == 0 {
                    return Ok(false);
                }
                let descriptor = self.descriptors[self.next];
                if descriptor.op == Op::Write && !self.place(&descriptor, turn) {
                    return Ok(true);
                }
                if !self.answer(&descriptor, &mut turn.bytes_out) {
                    return Ok(false);
                }
                turn.left -= 1;
            }
            if !self.parse(turn)? {
                return Ok(true);
            }
        }
    }

    /// Accounts for payload of the WRITE at hand; `true` when all of it is in its place.
    fn place(&mut self, descriptor: &Descriptor, turn: &mut Turn<'_>) -> bool {
        let at = match self.grants.front() {
            Some(Grant::Open(guard)) => Some(guard.ptr().wrapping_add(self.filled as usize)),
            _ => None,
        };
        // SAFETY: `at` lies in the range of a guard opened for WRITE with `length` bytes.
        let got = unsafe { self.inbox.take(at, descriptor.length - self.filled) };
        self.filled += got;
        turn.bytes += got;
        turn.bytes_in += if at.is_some() { got } else { 0 };
        self.filled == descriptor.length
    }

    /// Queues the answer to the descriptor at hand, and counts the payload that goes with it; `false` when there is no room.
    fn answer(&mut self, descriptor: &Descriptor, bytes_out: &mut u64) -> bool {
        if self.answers.is_full() {
            return false;
        }
        let Some(grant) = self.grants.pop_front() else {
            debug_assert!(false, "one grant a descriptor");
            return false;
        };
        self.answers.push(match (grant, descriptor.op) {
            (Grant::Refused(why), _) => Pushed::refused(descriptor.tag, why),
            (Grant::Open(guard), Op::Read) => {
                *bytes_out += guard.len();
                Pushed::read(descriptor.tag, guard)
            }
            // The copy is done: here the guard ends, and only then is there an ack.
            (Grant::Open(_), Op::Write) => Pushed::applied(descriptor.tag, descriptor.length),
        });
        (self.next, self.filled) = (self.next + 1, 0);
        true
    }

    /// Reads the next frame's descriptors off the buffer and checks each; `false` until they are all there.
    fn parse(&mut self, turn: &Turn<'_>) -> Result<bool, Violation> {
        let bytes = self.inbox.bytes();
        if bytes.len() < HEAD_BYTES {
            return Ok(false);
        }
        let count = frame::head(bytes, Kind::Request, usize::from(self.end.agreed.descriptors))?;
        let whole = HEAD_BYTES + count * DESCRIPTOR_BYTES;
        if bytes.len() < whole {
            return Ok(false);
        }
        for (i, descriptor) in self.descriptors[..count].iter_mut().enumerate() {
            *descriptor = frame::descriptor(bytes, i)?;
            if descriptor.op == Op::Write && descriptor.length > self.end.agreed.max_bytes {
                return Err(Violation::Length(descriptor.length));
            }
        }
        self.inbox.consume(whole);
        (self.count, self.next, self.filled) = (count, 0, 0);
        for i in 0..count {
            let grant = self.grant(&self.descriptors[i], turn);
            self.grants.push_back(grant);
        }
        Ok(true)
    }

    fn grant(&self, d: &Descriptor, turn: &Turn<'_>) -> Grant {
        let opened = if d.length > self.end.agreed.max_bytes {
            Err(Refusal::Malformed)
        } else {
            turn.regions.open(d.region, d.offset, d.length, d.op)
        };
        opened.map_or_else(
            |why| {
                self.end.counters.refuse(turn.now, &self.end.peer, why);
                Grant::Refused(why)
            },
            Grant::Open,
        )
    }

    /// Names where the payload of this frame that has not come yet shall go.
    fn gather(&mut self, turn: &mut Turn<'_>) {
        let mut filled = self.filled;
        for (descriptor, grant) in self.descriptors[self.next..self.count].iter().zip(&self.grants) {
            if descriptor.op == Op::Read {
                continue;
            }
            let missing = (descriptor.length - filled) as usize;
            match grant {
                Grant::Open(guard) => {
                    self.inbox.pieces().push(guard.ptr().wrapping_add(filled as usize), missing);
                }
                Grant::Refused(_) => {
                    let piece = missing.min(turn.scratch.len());
                    self.inbox.pieces().push(turn.scratch.as_mut_ptr(), piece);
                    if piece < missing {
                        self.inbox.stop_at_pieces();
                        return;
                    }
                }
            }
            filled = 0;
        }
    }
}
