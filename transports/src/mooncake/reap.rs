//! The read half of lanes: answers become completions, READ payload goes straight to registered memory. Only this half
//! completes work requests.
//!
//! A target that rejects a request says so and reads on no further: it answers a connection in order and closes it then. So
//! the requests behind have not begun; nothing of them is ever applied, and they may be sent again elsewhere. Behind any
//! other end of a connection they may have.
//!
//! Deliberately no deadlines of work requests: a stage keeps them and calls `cancel` or `abort`. It does watch that its lanes
//! move (see [`crate::stall`]): a target that is frozen keeps its connections, and nobody else would tell. A turn with nothing
//! outstanding costs no system call.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Duration;

use super::arrivals::{Arrivals, Received, Taken};
use super::lane::ReapEnd;
use super::ring::{Entered, Stand, TakenBack};
use super::waking::bytes_worth_waking;
use super::wire::Status;
use crate::clock::Nanos;
use crate::error::Error;
use crate::fault::broken_by;
use crate::link::{Arming, Cancelled, LinkEnd, LinkId, Reap};
use crate::stall::{Looks, Stand as Standing};
use crate::tcp::epoll::{Epoll, Interest};
use crate::tcp::socket;
use crate::wr::{Blame, Completion, Completions, Outcome, Refusal, WrId};

/// Bytes of the buffer that takes payload nobody wants; its content is never looked at.
const SCRATCH_BYTES: usize = 64 << 10;

/// See the file's head.
pub(super) struct MooncakeReap {
    /// By ascending id.
    lanes: Vec<ReapLane>,
    epoll: Epoll,
    /// Where the next round begins.
    turn: usize,
    /// A sleep was armed since the last poll of the epoll set.
    armed: bool,
    /// Turns since the last poll of the epoll set; with nothing outstanding only every 256th asks whether a
    /// lane has died.
    idle_turns: u8,
    looks: Looks,
    scratch: Box<[u8]>,
}

struct ReapLane {
    end: ReapEnd,
    arrivals: Arrivals,
    /// The request whose answer is at hand; those before have ended.
    next: u64,
    readable: bool,
    /// The target has ended its direction, or the socket is broken.
    ending: bool,
    /// All that has come is worked off: only more input makes more work.
    hungry: bool,
    /// The answer at hand came before the poster said that it has let go of the bytes.
    early: bool,
    /// The request that was rejected: it ends so, and what is behind has not begun.
    rejected: Option<u64>,
    /// Completed or thrown away, of all ever posted.
    completed: u64,
    /// Taken back before they began, not yet reported.
    dropped: VecDeque<WrId>,
    cancel_hint: u64,
    /// A dead lane: what had come before it died has been read.
    drained: bool,
    /// Times that bytes came.
    received: u64,
    /// Bytes that must have come before the socket says so.
    awaited: u32,
    standing: Standing,
}

/// What a target must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Violation {
    #[error("it answered with {0:02x?}, which is no status")]
    NotAStatus([u8; 8]),
    #[error("it answered with status {0}, which nobody has defined")]
    UnknownStatus(u32),
    #[error("it sent bytes that nobody has asked for")]
    Unasked,
}

impl MooncakeReap {
    /// `stall`: how long a lane with work outstanding may stand still.
    pub(super) fn new(stall: Option<Duration>) -> Result<Self, Error> {
        Ok(Self {
            lanes: Vec::new(),
            epoll: Epoll::new()?,
            turn: 0,
            armed: true,
            idle_turns: 0,
            looks: Looks::every(stall),
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
        })
    }

    fn find(&self, link: LinkId) -> Option<usize> {
        self.lanes.binary_search_by_key(&link, |l| l.end.0.id).ok()
    }

    /// Kills lanes that stand still.
    fn look_for_stalled(&mut self, now: Nanos) {
        for lane in &mut self.lanes {
            let moved = lane.received.wrapping_add(lane.end.0.ring.handed());
            if lane.standing.is_stalled(lane.awaits_answers(), moved, now, &self.looks) {
                let end = &lane.end.0;
                tracing::warn!(
                    peer = end.peer,
                    link = end.id.0,
                    "closed a lane to a Mooncake peer: nothing moved on it for `stall`"
                );
                end.kill_for(Blame::Peer);
            }
            // Bytes that are too few to wake anybody are no standstill.
            lane.readable |= lane.awaited > 1;
        }
        self.looks.looked(now);
    }

    fn poll_readable(&mut self) {
        self.idle_turns = self.idle_turns.wrapping_add(1);
        let asleep = !self.armed && self.idle_turns != 0;
        let lanes = &mut self.lanes;
        if asleep && lanes.iter().all(|l| !l.awaits_answers() || l.readable || l.is_midstream()) {
            // In midstream the next bytes are as good as there: the sockets are asked, by the call that would follow.
            lanes.iter_mut().for_each(|lane| lane.readable |= lane.is_midstream());
            return;
        }
        self.idle_turns = 1;
        self.armed = self.epoll.poll(|ready| {
            if let Ok(i) = lanes.binary_search_by_key(&ready.id, |l| l.end.0.id) {
                lanes[i].readable |= ready.readable;
                lanes[i].ending |= ready.ending;
            }
        });
    }

    /// Completes what a dead lane still holds, once its poster is quiet; then reports it closed.
    fn bury(&mut self, i: usize, out: &mut Completions) {
        let lane = &mut self.lanes[i];
        if !lane.drained || !lane.end.0.life.is_quiet() || !lane.flush(out) || out.closed_room() == 0 {
            return;
        }
        out.push_closed_by(lane.end.0.id, lane.end.0.fault.get());
        self.epoll.remove(lane.end.0.stream.as_fd());
        self.lanes.remove(i);
    }
}

impl Reap for MooncakeReap {
    fn adopt(&mut self, end: LinkEnd) {
        let Ok(end) = end.body.downcast::<ReapEnd>() else {
            tracing::error!(link = end.id.0, "an end that is not the reap end of a Mooncake lane: dropped");
            return;
        };
        if let Err(error) = self.epoll.add(end.0.stream.as_fd(), end.0.id, Interest::Read) {
            // It stays, dead, so that whatever is posted on it completes and its end is reported.
            tracing::warn!(peer = end.0.peer, %error, "a lane cannot be watched: closed");
            end.0.kill();
        }
        if let Err(at) = self.lanes.binary_search_by_key(&end.0.id, |l| l.end.0.id) {
            self.lanes.insert(at, ReapLane::new(*end));
            self.armed = true;
        }
    }

    fn reap(&mut self, now: Nanos, out: &mut Completions) -> usize {
        let before = out.room();
        self.poll_readable();
        let lanes = self.lanes.len();
        for k in 0..lanes {
            let lane = &mut self.lanes[(self.turn + k) % lanes];
            if !lane.end.0.life.is_dead() {
                lane.turn(out, &mut self.scratch);
            } else if !lane.drained {
                lane.last_words(out, &mut self.scratch);
            }
        }
        self.turn = self.turn.wrapping_add(1) % lanes.max(1);
        if self.looks.is_due(now) {
            self.look_for_stalled(now);
        }
        for i in (0..lanes).rev() {
            if self.lanes[i].end.0.life.is_dead() {
                self.bury(i, out);
            }
        }
        before - out.room()
    }

    fn cancel(&mut self, link: LinkId, id: WrId) -> Cancelled {
        let Some(i) = self.find(link) else { return Cancelled::NotHere };
        let lane = &mut self.lanes[i];
        if lane.dropped.len() == lane.dropped.capacity() {
            return Cancelled::MustAbort;
        }
        match lane.end.0.ring.cancel(id, &mut lane.cancel_hint) {
            TakenBack::Dropped => {
                lane.dropped.push_back(id);
                Cancelled::Dropped
            }
            TakenBack::Discarding => {
                lane.completed += 1;
                Cancelled::Discarding
            }
            TakenBack::MustAbort => Cancelled::MustAbort,
            TakenBack::NotHere => Cancelled::NotHere,
        }
    }

    fn abort(&mut self, link: LinkId) {
        if let Some(i) = self.find(link) {
            self.lanes[i].end.0.kill();
        }
    }

    fn outstanding(&self) -> usize {
        self.lanes.iter().map(|l| l.end.0.ring.appended().saturating_sub(l.completed) as usize).sum()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        if self.lanes.is_empty() {
            return;
        }
        if self.lanes.iter().any(ReapLane::has_news) {
            on.busy();
        }
        if let Some(at) = self.looks.next()
            && self.lanes.iter().any(ReapLane::awaits_answers)
        {
            on.deadline(at);
        }
        self.armed = true;
        on.fd(self.epoll.fd());
    }
}

impl ReapLane {
    fn new(end: ReapEnd) -> Self {
        let depth = end.0.ring.places();
        Self {
            arrivals: Arrivals::new(end.0.framing),
            end,
            next: 0,
            readable: false,
            ending: false,
            hungry: true,
            early: false,
            rejected: None,
            completed: 0,
            dropped: VecDeque::with_capacity(depth),
            cancel_hint: 0,
            drained: false,
            received: 0,
            awaited: 1,
            standing: Standing::default(),
        }
    }

    fn awaits_answers(&self) -> bool {
        self.end.0.ring.appended() != self.next
    }

    /// Whether payload is on its way, and nothing but more of it makes work.
    fn is_midstream(&self) -> bool {
        self.arrivals.is_midstream() && self.awaited == 1 && self.hungry && !self.early
    }

    /// Whether a reap would find something without waiting for the socket.
    fn has_news(&self) -> bool {
        let lane = &self.end.0;
        if lane.life.is_dead() {
            return !self.drained || lane.life.is_quiet();
        }
        let input = (self.readable || !self.hungry) && !self.early;
        input || !self.dropped.is_empty() || self.has_passed()
    }

    /// Whether the request at hand is one that the poster has passed without sending it.
    fn has_passed(&self) -> bool {
        let ring = &self.end.0.ring;
        ring.published() > self.next && matches!(ring.at(self.next).stand, Stand::Cancelled | Stand::Ended(_))
    }

    /// Answers that had come before the lane died still count: fewer WRITEs end with an unknown effect.
    fn last_words(&mut self, out: &mut Completions, scratch: &mut [u8]) {
        (self.readable, self.ending) = (true, false);
        self.turn(out, scratch);
        // An early answer is settled by the flush: its payload will never be handed over.
        self.drained |= (!self.readable && self.hungry) || self.early;
    }

    fn turn(&mut self, out: &mut Completions, scratch: &mut [u8]) {
        let next = self.next;
        while out.room() > 0
            && let Some(id) = self.dropped.pop_front()
        {
            self.complete(id, Outcome::NotBegun, out);
        }
        if let Err(violation) = self.read(out, scratch) {
            let lane = &self.end.0;
            tracing::warn!(peer = lane.peer, link = lane.id.0, reason = %violation, "closed a lane to a Mooncake peer");
            lane.kill_for(Blame::Peer);
            self.drained = true;
        }
        if !self.readable && !self.end.0.life.is_dead() {
            self.wait();
        }
        if self.next != next && self.end.0.ring.room_wanted() {
            self.end.0.pair.wakes.post.wake();
        }
    }

    /// Says for how many bytes the socket shall wake us: within a large payload not for each piece. Where it will not be told,
    /// it does for one.
    fn wait(&mut self) {
        let missing = match self.next < self.end.0.ring.published() {
            true => self.arrivals.missing(&self.end.0.ring.at(self.next)),
            false => 0,
        };
        let awaited = bytes_worth_waking(missing);
        if awaited != self.awaited && socket::wait_for(&self.end.0.stream, awaited).is_ok() {
            self.awaited = awaited;
        }
    }

    fn complete(&mut self, id: WrId, outcome: Outcome, out: &mut Completions) {
        self.completed += 1;
        out.push(Completion { id, link: self.end.0.id, outcome });
    }

    /// Reads until the socket is empty, `out` is full, or it is the next lane's turn.
    fn read(&mut self, out: &mut Completions, scratch: &mut [u8]) -> Result<(), Violation> {
        let mut bytes = 0;
        loop {
            self.hungry = self.digest(out, &mut bytes)?;
            if !self.hungry || self.drained || bytes >= super::TURN_BYTES as u64 || !self.readable {
                return Ok(());
            }
            let lane = &*self.end.0;
            // SAFETY: local bytes of READs that are begun and not taken back: only this half completes or takes back, and it
            // is busy here.
            let received =
                unsafe { self.arrivals.receive(&lane.ring, self.next, lane.stream.as_fd(), scratch) };
            match received {
                Ok(Received::More) => self.note_received(out),
                Ok(Received::Drained) => {
                    self.note_received(out);
                    self.readable = self.ending;
                }
                Ok(Received::Nothing) => self.readable = false,
                Ok(Received::Unasked) => return Err(Violation::Unasked),
                Ok(Received::Ended) => return self.ended(Blame::Nobody),
                Err(e) => return self.ended(broken_by(&e)),
            }
        }
    }

    /// The stream is over. A target that leaves while something is asked of it is to blame; one that closes an idle lane
    /// may do so.
    fn ended(&mut self, blame: Blame) -> Result<(), Violation> {
        self.readable = false;
        let blame = if blame == Blame::Nobody && self.awaits_answers() { Blame::Peer } else { blame };
        self.end.0.kill_for(blame);
        Ok(())
    }

    fn note_received(&mut self, out: &mut Completions) {
        self.received += 1;
        out.note_moved();
    }

    /// Works off what has come. `Ok(true)`: more input is needed; `Ok(false)`: it must wait, for room in
    /// `out` or for the poster.
    fn digest(&mut self, out: &mut Completions, bytes: &mut u64) -> Result<bool, Violation> {
        self.early = false;
        while self.rejected.is_none() && self.next < self.end.0.ring.published() {
            if out.room() == 0 {
                return Ok(false);
            }
            let entered = self.end.0.ring.at(self.next);
            match entered.stand {
                Stand::Cancelled => self.pass(),
                Stand::Ended(outcome) => {
                    self.complete(entered.id, outcome, out);
                    self.pass();
                }
                Stand::Queued => return Ok(true),
                Stand::Begun | Stand::Discarding => match self.arrivals.take(&entered, bytes) {
                    Taken::Part | Taken::None { behind: false } => return Ok(true),
                    Taken::Status(status) => self.judge(status)?,
                    Taken::Whole | Taken::None { behind: true } => {
                        // Not before its own bytes have left, whatever the target says.
                        self.early = !self.end.0.ring.has_left(self.next);
                        if self.early {
                            return Ok(false);
                        }
                        self.finish(&entered, out);
                    }
                },
            }
        }
        Ok(true)
    }

    fn finish(&mut self, entered: &Entered, out: &mut Completions) {
        if entered.stand == Stand::Begun {
            self.complete(entered.id, Outcome::Done, out);
        }
        self.arrivals.next(entered);
        self.pass();
    }

    fn pass(&mut self) {
        self.next += 1;
        self.end.0.ring.end(self.next);
    }

    fn judge(&mut self, status: [u8; 8]) -> Result<(), Violation> {
        match Status::decode(&status) {
            Some(Status::Done) => Ok(()),
            Some(Status::Rejected) => {
                // Its payload may still be leaving: the flush ends it when the poster has let go.
                (self.rejected, self.drained) = (Some(self.next), true);
                self.end.0.kill();
                Ok(())
            }
            Some(Status::Unknown(code)) => Err(Violation::UnknownStatus(code)),
            None => Err(Violation::NotAStatus(status)),
        }
    }

    /// Ends what a dead lane still holds; `false` when `out` is full first.
    fn flush(&mut self, out: &mut Completions) -> bool {
        while out.room() > 0
            && let Some(id) = self.dropped.pop_front()
        {
            self.complete(id, Outcome::NotBegun, out);
        }
        while self.next < self.end.0.ring.appended() {
            if out.room() == 0 {
                return false;
            }
            let entered = self.end.0.ring.at(self.next);
            let outcome = match (entered.stand, self.rejected) {
                (Stand::Begun, None) => Some(Outcome::Begun),
                (Stand::Begun, Some(at)) if at == self.next => Some(Outcome::Refused(Refusal::Unsaid)),
                (Stand::Begun | Stand::Queued, _) => Some(Outcome::NotBegun),
                (Stand::Ended(outcome), _) => Some(outcome),
                (Stand::Discarding | Stand::Cancelled, _) => None,
            };
            if let Some(outcome) = outcome {
                self.complete(entered.id, outcome, out);
            }
            self.pass();
        }
        self.dropped.is_empty()
    }
}
