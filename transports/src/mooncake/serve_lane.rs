//! One data connection, seen from its target: requests in, bytes to and from regions, replies out, all in order.
//!
//! An address from the wire is a number that is looked up: bytes move only between the socket and a range that a guard of
//! the region table holds, until its last byte has moved. What is refused costs the connection, as in Mooncake, because
//! nobody can tell where the next request begins once a payload is not wanted.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::buffers::{Buffers, Table};
use super::hall::Guest;
use super::replies::{Replies, Reply};
use super::waking::{LARGE_BYTES, bytes_worth_waking};
use super::wire::{Framing, HEADER_BYTES, Header, Status};
use crate::clock::Nanos;
use crate::link::LinkId;
use crate::memory::{Guard, Regions};
use crate::stall::{Looks, Stand};
use crate::tcp::TURN_BYTES;
use crate::tcp::inbox::{Inbox, Received};
use crate::tcp::socket;
use crate::wr::{Op, Refusal};

/// How long what a refused peer still sends is thrown away: closing at once would reset the connection, and the status
/// that says why would be lost on its way.
const LINGER_NS: Nanos = 1_000_000_000;

/// What a turn works with.
pub(super) struct Turn<'a> {
    pub(super) now: Nanos,
    pub(super) regions: &'a Arc<Regions>,
    pub(super) buffers: &'a Buffers,
    pub(super) table: &'a mut Arc<Table>,
    pub(super) scratch: &'a mut [u8],
    /// Requests it may still answer.
    pub(super) left: usize,
    pub(super) bytes: u64,
    /// Payload of WRITEs that was put in its place, and of READs that were answered.
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    /// The request that ended the connection, and why.
    pub(super) refused: Option<(Header, Refusal)>,
}

/// See the file's head.
pub(super) struct ServeLane {
    pub(super) id: LinkId,
    pub(super) guest: Arc<Guest>,
    inbox: Inbox,
    /// The WRITE at hand, and bytes of it that have come.
    write: Option<(Guard, Framing)>,
    filled: u64,
    /// The last WRITE was a large one: then the next one is, as a rule, and payload is only ever read to its place; what came
    /// along with a header would be copied.
    large: bool,
    /// Bytes that must have come before the socket says so.
    awaited: u32,
    replies: Replies,
    readable: bool,
    ending: bool,
    /// Nothing more will come.
    ended: bool,
    /// All that has come is worked off: only more input makes more work.
    hungry: bool,
    pub(super) closed: bool,
    leaving: Option<Leaving>,
    moved: u64,
    stand: Stand,
}

/// How a connection ends that had a request refused.
#[derive(Clone, Copy)]
enum Leaving {
    /// When earlier replies are out: nothing says why, and a peer that waits for nothing should not go on sending.
    AtOnce,
    /// When its peer hangs up, or then.
    By { at: Nanos, shut: bool },
}

impl Turn<'_> {
    /// Opens the bytes that a request names. Of a table that does not know them a newer one is asked for once.
    fn grant(&mut self, header: &Header) -> Result<Guard, Refusal> {
        if header.size == 0 {
            return Err(Refusal::Malformed);
        }
        let found = self.look_up(header);
        if !matches!(found, Err(Refusal::UnknownRegion)) {
            return found;
        }
        match self.buffers.newer(self.table) {
            None => found,
            Some(newer) => {
                *self.table = newer;
                self.look_up(header)
            }
        }
    }

    fn look_up(&self, header: &Header) -> Result<Guard, Refusal> {
        let found = self.table.find(header.addr, header.size).ok_or(Refusal::UnknownRegion)?;
        self.regions.open(found.0, found.1, header.size, header.op)
    }
}

impl ServeLane {
    pub(super) fn new(id: LinkId, guest: Arc<Guest>) -> Self {
        Self {
            id,
            guest,
            inbox: Inbox::new(1),
            write: None,
            filled: 0,
            large: false,
            awaited: 1,
            replies: Replies::new(),
            readable: false,
            ending: false,
            ended: false,
            hungry: true,
            closed: false,
            leaving: None,
            moved: 0,
            stand: Stand::default(),
        }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.guest.stream.as_fd()
    }

    /// The socket has said something.
    pub(super) fn note(&mut self, readable: bool, writable: bool, ending: bool) {
        self.readable |= readable && !self.ended;
        self.ending |= ending;
        if writable {
            self.replies.unblock();
        }
    }

    /// Requests that have come, at least in part, and whose replies have not been taken by the socket.
    pub(super) fn under_way(&self) -> usize {
        let coming = self.write.is_some() || !self.inbox.bytes().is_empty();
        match self.leaving {
            Some(_) => self.replies.len(),
            None => usize::from(coming) + self.replies.len(),
        }
    }

    /// Whether payload is on its way, and nothing but more of it makes work.
    pub(super) fn is_midstream(&self) -> bool {
        let comes_soon = self.write.is_some() && self.awaited == 1;
        comes_soon && self.hungry && self.leaving.is_none() && !self.replies.is_blocked()
    }

    /// Whether a turn would get anywhere without waiting for the socket.
    pub(super) fn has_news(&self) -> bool {
        !self.closed
            && !self.replies.is_blocked()
            && (self.readable || !self.replies.is_empty() || (!self.hungry && self.leaving.is_none()))
    }

    /// When it must be looked at although nothing comes.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        match self.leaving {
            Some(Leaving::By { at, .. }) => Some(at),
            _ => None,
        }
    }

    /// Ends what lingered long enough; `true` where work stood still for too long, which ends it too.
    pub(super) fn look(&mut self, now: Nanos, looks: &Looks) -> bool {
        self.closed |= self.deadline().is_some_and(|at| now >= at);
        let stalled =
            looks.is_due(now) && self.stand.is_stalled(self.under_way() > 0, self.moved, now, looks);
        self.closed |= stalled;
        // Bytes that are too few to wake anybody are no standstill.
        self.readable |= looks.is_due(now) && self.awaited > 1;
        stalled
    }

    /// Reads, moves and replies until the socket is empty, replies are blocked, or the budget is spent.
    pub(super) fn turn(&mut self, turn: &mut Turn<'_>) {
        let before = turn.bytes;
        while !self.closed && self.advance(turn) {}
        if !self.readable && !self.closed {
            self.wait();
        }
        self.moved = self.moved.wrapping_add(turn.bytes - before);
        match self.under_way() {
            0 => self.guest.idles(turn.now),
            _ => self.guest.works(),
        }
    }

    /// Says for how many bytes the socket shall wake us. Where it will not be told, it does for one.
    fn wait(&mut self) {
        let missing = self.write.as_ref().map_or(0, |(guard, _)| guard.len() - self.filled);
        let awaited = bytes_worth_waking(missing);
        if awaited != self.awaited && socket::wait_for(&self.guest.stream, awaited).is_ok() {
            self.awaited = awaited;
        }
    }

    /// One round; `false`: nothing more to do now.
    fn advance(&mut self, turn: &mut Turn<'_>) -> bool {
        if self.leaving.is_none() {
            self.hungry = self.digest(turn);
        }
        let is_turn_over = turn.left == 0 || turn.bytes >= TURN_BYTES as u64;
        let reads_on = self.hungry && self.readable && !is_turn_over && self.leaving.is_none();
        // While more comes in, replies gather.
        if self.replies.is_due() || !reads_on {
            let socket = self.guest.stream.as_fd();
            if !self.replies.is_empty() && !self.replies.send(socket, &mut turn.bytes) {
                self.closed = true;
                return false;
            }
            if !self.replies.is_empty() {
                return false;
            }
        }
        if let Some(leaving) = self.leaving {
            return self.leave(leaving, turn);
        }
        self.closed = self.ended && self.hungry;
        match reads_on {
            true => self.receive(),
            // Replies were full and have been sent: that leaves room to go on.
            false => !self.hungry && !is_turn_over,
        }
    }

    /// Works off what has come. `true`: more input is needed; `false`: replies or the budget are full, or it is over.
    fn digest(&mut self, turn: &mut Turn<'_>) -> bool {
        loop {
            if self.write.is_some() && !self.place(turn) {
                return true;
            }
            if self.replies.is_full() || turn.left == 0 {
                return false;
            }
            let Some(bytes) = self.inbox.bytes().first_chunk::<HEADER_BYTES>() else { return true };
            let header = Header::decode(bytes);
            // A READ that came before it must not see it: its bytes are sent from where they lie.
            if header.op == Op::Write && self.replies.has_payload() {
                return false;
            }
            self.inbox.consume(HEADER_BYTES);
            turn.left -= 1;
            match (turn.grant(&header), header.op) {
                (Ok(guard), Op::Write) => {
                    self.large = guard.len() >= LARGE_BYTES;
                    (self.write, self.filled) = (Some((guard, header.framing)), 0);
                }
                (Ok(guard), Op::Read) => {
                    turn.bytes_out += guard.len();
                    self.replies.push(Reply {
                        status: (header.framing == Framing::V2).then_some(Status::Done),
                        payload: Some(guard),
                        applied: 0,
                    });
                }
                (Err(why), _) => {
                    turn.refused = Some((header, why));
                    self.refuse(header.framing, turn.now);
                    return false;
                }
            }
        }
    }

    /// Accounts for payload of the WRITE at hand; `true` when all of it is in its place, and that has been queued to be said.
    fn place(&mut self, turn: &mut Turn<'_>) -> bool {
        let Some((guard, framing)) = &self.write else { return true };
        let (len, framing) = (guard.len(), *framing);
        let at = guard.ptr().wrapping_add(self.filled as usize);
        // SAFETY: `at` lies in the range of a guard that was opened for WRITE with `len` bytes.
        let got = unsafe { self.inbox.take(Some(at), len - self.filled) };
        self.filled += got;
        turn.bytes += got;
        turn.bytes_in += got;
        if self.filled < len {
            return false;
        }
        // The copy is done: here the guard ends, and only then is there a status. It has room: nothing was queued since its
        // header was taken.
        self.write = None;
        if framing == Framing::V2 {
            self.replies.push(Reply { status: Some(Status::Done), payload: None, applied: len });
        }
        true
    }

    fn refuse(&mut self, framing: Framing, now: Nanos) {
        self.leaving = Some(match framing {
            Framing::V1 => Leaving::AtOnce,
            Framing::V2 => {
                self.replies.push(Reply { status: Some(Status::Rejected), payload: None, applied: 0 });
                Leaving::By { at: now.saturating_add(LINGER_NS), shut: false }
            }
        });
    }

    /// Receives once, payload straight to its place; whether to go on.
    fn receive(&mut self) -> bool {
        if let Some((guard, _)) = &self.write {
            let missing = (guard.len() - self.filled) as usize;
            self.inbox.pieces().push(guard.ptr().wrapping_add(self.filled as usize), missing);
            if self.large {
                self.inbox.stop_at_pieces();
            }
        } else if self.large {
            self.inbox.stop_after(HEADER_BYTES.saturating_sub(self.inbox.bytes().len()));
        }
        let socket = self.guest.stream.as_fd();
        // SAFETY: the piece is a range under the guard in `write`, which stays there.
        match unsafe { self.inbox.receive(socket) } {
            Received::More => {}
            Received::Drained => self.readable = self.ending,
            Received::Nothing => self.readable = false,
            // What came before the end is answered; if its peer is not only silent, that fails.
            Received::Closed(_) => (self.readable, self.ended) = (false, true),
        }
        true
    }

    /// All replies are out: the end of what we say, and then of what we hear.
    fn leave(&mut self, leaving: Leaving, turn: &mut Turn<'_>) -> bool {
        match leaving {
            Leaving::AtOnce => self.closed = true,
            Leaving::By { at, shut } => {
                if !shut {
                    // One that is gone already ends the reading too.
                    let _ = self.guest.stream.shutdown(std::net::Shutdown::Write);
                    self.leaving = Some(Leaving::By { at, shut: true });
                }
                let mut thrown_away = 0;
                while self.readable && thrown_away < TURN_BYTES {
                    match rustix::io::read(self.guest.stream.as_fd(), &mut *turn.scratch) {
                        Ok(0) => self.closed = true,
                        Ok(n) => {
                            thrown_away += n;
                            continue;
                        }
                        Err(rustix::io::Errno::INTR) => continue,
                        Err(rustix::io::Errno::AGAIN) => self.readable = false,
                        Err(_) => self.closed = true,
                    }
                    break;
                }
            }
        }
        false
    }
}
