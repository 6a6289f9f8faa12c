//! The read half of lanes on the dialler's side: answers become completions, READ payload goes straight to
//! registered memory. Only this half completes work requests.
//!
//! Deliberately no deadlines of work requests: a stage keeps them and calls `cancel` or `abort`. It does watch
//! that its lanes move (see [`crate::stall`]). A turn with nothing outstanding costs no system call.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Duration;

use super::epoll::{Epoll, Interest};
use super::frame::{self, ANSWER_BYTES, Answer, COUNT_MAX, HEAD_BYTES, Kind, Violation};
use super::inbox::{Inbox, Received};
use super::lane::ReapEnd;
use super::slots::{Awaited, Left, TakenBack};
use crate::clock::Nanos;
use crate::error::Error;
use crate::link::{Arming, Cancelled, LinkEnd, LinkId, Reap};
use crate::stall::{Looks, Stand};
use crate::wr::{Blame, Completion, Completions, Op, Outcome, WrId};

/// See the file's head.
pub(super) struct TcpReap {
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
    /// Where payload goes that nobody wants.
    scratch: Box<[u8]>,
}

struct ReapLane {
    end: ReapEnd,
    inbox: Inbox,
    answers: [Answer; COUNT_MAX],
    count: usize,
    /// The answer being worked on, and how much of its payload has come.
    next: usize,
    filled: u64,
    readable: bool,
    ending: bool,
    /// All that has come is worked off: only more input makes more work.
    hungry: bool,
    /// Work requests completed or thrown away, of those ever posted.
    completed: u64,
    /// Slots that no answer is awaited for any more, of those ever posted.
    settled: u64,
    /// Taken back before they began, not yet reported.
    dropped: VecDeque<WrId>,
    cancel_hint: u32,
    /// The answer at hand came before the poster said that it has let go of the payload.
    early: bool,
    /// A dead lane: what had come before it died has been read.
    drained: bool,
    /// Flushing a dead lane: the next slot to look at.
    flushed: usize,
    /// Times that bytes came.
    received: u64,
    stand: Stand,
}

impl TcpReap {
    /// `stall`: how long a lane with work outstanding may stand still.
    pub(super) fn new(stall: Option<Duration>) -> Result<Self, Error> {
        Ok(Self {
            lanes: Vec::new(),
            epoll: Epoll::new()?,
            turn: 0,
            armed: true,
            idle_turns: 0,
            looks: Looks::every(stall),
            scratch: vec![0; super::SCRATCH_BYTES].into_boxed_slice(),
        })
    }

    fn find(&self, link: LinkId) -> Option<usize> {
        self.lanes.binary_search_by_key(&link, |l| l.end.0.id).ok()
    }

    /// Kills lanes that stand still.
    fn look_for_stalled(&mut self, now: Nanos) {
        for lane in &mut self.lanes {
            let moved = lane.received.wrapping_add(lane.end.0.slots.handed());
            if lane.stand.is_stalled(lane.awaits_answers(), moved, now, &self.looks) {
                let end = &lane.end.0;
                tracing::warn!(
                    peer = end.peer,
                    link = end.id.0,
                    "closed a lane: nothing moved on it for `stall`"
                );
                end.kill_for(Blame::Path);
            }
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
        out.push_closed_by(lane.end.0.id, lane.end.0.blame());
        self.epoll.remove(lane.end.0.stream.as_fd());
        self.lanes.remove(i);
    }
}

impl Reap for TcpReap {
    fn adopt(&mut self, end: LinkEnd) {
        let Ok(end) = end.body.downcast::<ReapEnd>() else {
            tracing::error!(link = end.id.0, "an end that is not the reap end of a TCP lane: dropped");
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
                lane.turn(now, out, &mut self.scratch);
            } else if !lane.drained {
                lane.last_words(now, out, &mut self.scratch);
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
        match lane.end.0.slots.cancel(id, &mut lane.cancel_hint) {
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
        self.lanes.iter().map(|l| l.end.0.slots.posted().saturating_sub(l.completed) as usize).sum()
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
        let depth = end.0.slots.depth();
        Self {
            end,
            inbox: Inbox::new(COUNT_MAX),
            answers: [Answer::default(); COUNT_MAX],
            count: 0,
            next: 0,
            filled: 0,
            readable: false,
            ending: false,
            hungry: true,
            completed: 0,
            settled: 0,
            dropped: VecDeque::with_capacity(depth),
            cancel_hint: 0,
            early: false,
            drained: false,
            flushed: 0,
            received: 0,
            stand: Stand::default(),
        }
    }

    fn awaits_answers(&self) -> bool {
        self.end.0.slots.posted() != self.settled
    }

    /// Whether payload is on its way, and nothing but more of it makes work.
    fn is_midstream(&self) -> bool {
        self.next < self.count && self.hungry && !self.early
    }

    /// Whether a reap would find something without waiting for the socket.
    fn has_news(&self) -> bool {
        let lane = &self.end.0;
        if lane.life.is_dead() {
            return !self.drained || lane.life.is_quiet();
        }
        let input = (self.readable || !self.hungry) && !self.early;
        input || !self.dropped.is_empty() || lane.slots.has_failed()
    }

    /// Answers that had come before the lane died still count: fewer WRITEs end with an unknown effect.
    fn last_words(&mut self, now: Nanos, out: &mut Completions, scratch: &mut [u8]) {
        (self.readable, self.ending) = (true, false);
        self.turn(now, out, scratch);
        // An early answer is settled by the flush: its payload will never be handed over.
        self.drained |= (!self.readable && self.hungry) || self.early;
    }

    fn turn(&mut self, now: Nanos, out: &mut Completions, scratch: &mut [u8]) {
        let settled = self.settled;
        self.local_ends(out);
        if (self.readable || !self.hungry)
            && let Err(violation) = self.read(out, scratch)
        {
            let lane = &self.end.0;
            lane.pair.counters.violation(now, &lane.peer, violation);
            lane.kill();
            self.drained = true;
        }
        if self.settled != settled && self.end.0.slots.room_wanted() {
            self.end.0.pair.wakes.post.wake();
        }
    }

    /// Reports what ended at this side: taken back before it began, or impossible to post.
    fn local_ends(&mut self, out: &mut Completions) {
        while out.room() > 0 {
            let (id, outcome) = if let Some(id) = self.dropped.pop_front() {
                (id, Outcome::NotBegun)
            } else if let Some(id) = self.end.0.slots.take_failed() {
                (id, Outcome::Failed)
            } else {
                return;
            };
            self.settled += 1;
            self.complete(id, outcome, out);
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
            if !self.hungry || bytes >= super::TURN_BYTES as u64 || !self.readable {
                return Ok(());
            }
            self.gather(scratch)?;
            let socket = self.end.0.stream.as_fd();
            // SAFETY: the pieces are the scratch, and local bytes of READs that are begun and not taken back:
            // only this half completes or takes back, and it is busy here.
            match unsafe { self.inbox.receive(socket) } {
                Received::More => self.note_received(out),
                Received::Drained => {
                    self.note_received(out);
                    self.readable = self.ending;
                }
                Received::Nothing => self.readable = false,
                Received::Closed(blame) => {
                    self.readable = false;
                    self.end.0.kill_for(blame);
                    return Ok(());
                }
            }
        }
    }

    fn note_received(&mut self, out: &mut Completions) {
        self.received += 1;
        out.note_moved();
    }

    /// Works off what has come. `Ok(true)`: more input is needed; `Ok(false)`: it must wait, for room in
    /// `out` or for the poster.
    fn digest(&mut self, out: &mut Completions, bytes: &mut u64) -> Result<bool, Violation> {
        loop {
            while self.next < self.count {
                if out.room() == 0 {
                    return Ok(false);
                }
                let answer = self.answers[self.next];
                let awaited = self.awaited(&answer)?;
                self.early = !awaited.handed_over;
                if self.early {
                    return Ok(false);
                }
                let at = (!awaited.discarding).then(|| awaited.at.wrapping_add(self.filled as usize));
                // SAFETY: a READ that is begun and not taken back: its local bytes are pinned, and `length`
                // of them were asked for.
                let got = unsafe { self.inbox.take(at, answer.length - self.filled) };
                self.filled += got;
                *bytes += got;
                if self.filled < answer.length {
                    return Ok(true);
                }
                self.finish(&answer, &awaited, out);
            }
            if !self.parse()? {
                return Ok(true);
            }
        }
    }

    fn finish(&mut self, answer: &Answer, awaited: &Awaited, out: &mut Completions) {
        self.end.0.slots.finish(answer.tag.slot);
        (self.next, self.filled) = (self.next + 1, 0);
        self.settled += 1;
        if !awaited.discarding {
            self.complete(awaited.id, answer.refusal.map_or(Outcome::Done, Outcome::Refused), out);
        }
    }

    /// What an answer answers: something that waits, with the length it waits for.
    fn awaited(&self, answer: &Answer) -> Result<Awaited, Violation> {
        let awaited = self.end.0.slots.awaited(answer.tag).ok_or(Violation::Unexpected(answer.tag.slot))?;
        let payload = if awaited.op == Op::Read && answer.refusal.is_none() { awaited.length } else { 0 };
        if payload == answer.length { Ok(awaited) } else { Err(Violation::Mismatch(answer.length)) }
    }

    /// Reads the next frame's answers off the buffer; `false` until they are all there.
    fn parse(&mut self) -> Result<bool, Violation> {
        let bytes = self.inbox.bytes();
        if bytes.len() < HEAD_BYTES {
            return Ok(false);
        }
        let count = frame::head(bytes, Kind::Answer, usize::from(self.end.0.agreed.descriptors))?;
        let whole = HEAD_BYTES + count * ANSWER_BYTES;
        if bytes.len() < whole {
            return Ok(false);
        }
        for (i, answer) in self.answers[..count].iter_mut().enumerate() {
            *answer = frame::answer(bytes, i)?;
        }
        self.inbox.consume(whole);
        (self.count, self.next, self.filled) = (count, 0, 0);
        Ok(true)
    }

    /// Names where the payload of this frame that has not come yet shall go.
    fn gather(&mut self, scratch: &mut [u8]) -> Result<(), Violation> {
        let mut filled = self.filled;
        for i in self.next..self.count {
            let answer = self.answers[i];
            let awaited = self.awaited(&answer)?;
            let missing = (answer.length - filled) as usize;
            if awaited.discarding {
                self.inbox.pieces().push(scratch.as_mut_ptr(), missing.min(scratch.len()));
                if missing > scratch.len() {
                    // What follows in the stream is not the next answer's yet.
                    self.inbox.stop_at_pieces();
                    break;
                }
            } else {
                self.inbox.pieces().push(awaited.at.wrapping_add(filled as usize), missing);
            }
            filled = 0;
        }
        Ok(())
    }

    /// Ends the slots of a dead lane; `false` when `out` is full first.
    fn flush(&mut self, out: &mut Completions) -> bool {
        while out.room() > 0
            && let Some(id) = self.dropped.pop_front()
        {
            self.complete(id, Outcome::NotBegun, out);
        }
        while self.flushed < self.end.0.slots.depth() {
            if out.room() == 0 {
                return false;
            }
            match self.end.0.slots.flush(self.flushed) {
                Left::NotBegun(id) => self.complete(id, Outcome::NotBegun, out),
                Left::Begun(id) => self.complete(id, Outcome::Begun, out),
                Left::Failed(id) => self.complete(id, Outcome::Failed, out),
                Left::Nothing => {}
            }
            self.flushed += 1;
        }
        self.dropped.is_empty()
    }
}
