//! One lane of the read half: what has come on it, what of that is worked off, and how it ends.
//! Deliberately no protocol and no other lanes.

use std::collections::VecDeque;

use super::connection::{Connected, Connection, ReapEnd};
use super::inbound::{Digested, Ends, Inbound};
use crate::clock::Nanos;
use crate::link::LinkId;
use crate::stall::Stand;
use crate::tcp::TURN_BYTES;
use crate::tcp::inbox::Received;
use crate::wr::{Completions, Outcome, WrId};

/// See the file's head.
pub(super) struct ReapLane<A: Inbound> {
    pub(super) end: ReapEnd<A::Lane>,
    pub(super) answers: A,
    pub(super) readable: bool,
    /// The target has ended its direction, or the socket is broken.
    pub(super) ending: bool,
    digested: Digested,
    /// Work requests completed or thrown away, of those ever posted.
    pub(super) completed: u64,
    /// Taken back before they began, not yet reported.
    pub(super) dropped: VecDeque<WrId>,
    /// A dead lane: what had come before it died has been read.
    pub(super) drained: bool,
    /// Times that bytes came.
    pub(super) received: u64,
    pub(super) stand: Stand,
}

impl<A: Inbound> ReapLane<A> {
    pub(super) fn new(end: ReapEnd<A::Lane>) -> Self {
        let (answers, depth) = (A::new(&end.0), A::depth(&end.0));
        Self {
            end,
            answers,
            readable: false,
            ending: false,
            digested: Digested::All,
            completed: 0,
            dropped: VecDeque::with_capacity(depth),
            drained: false,
            received: 0,
            stand: Stand::default(),
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        self.end.0.connection()
    }

    pub(super) fn id(&self) -> LinkId {
        self.connection().id
    }

    pub(super) fn awaits_answers(&self) -> bool {
        A::posted(&self.end.0) != self.answers.settled()
    }

    /// Whether payload is on its way, and nothing but more of it makes work.
    pub(super) fn is_midstream(&self) -> bool {
        self.answers.is_midstream() && self.digested == Digested::All
    }

    /// Whether a reap would find something without waiting for the socket.
    pub(super) fn has_news(&self) -> bool {
        let life = &self.connection().life;
        if life.is_dead() {
            return !self.drained || life.is_quiet();
        }
        // An early answer waits for the poster, who wakes us.
        let input = match self.digested {
            Digested::All => self.readable,
            Digested::Early => false,
            Digested::Full | Digested::Over => true,
        };
        input || !self.dropped.is_empty() || self.answers.has_ended_here(&self.end.0)
    }

    /// Inbound that had come before the lane died still count: fewer WRITEs end with an unknown effect.
    pub(super) fn last_words(&mut self, now: Nanos, out: &mut Completions, scratch: &mut [u8]) {
        (self.readable, self.ending) = (true, false);
        self.turn(now, out, scratch);
        // An early answer is settled by the flush: its payload will never be handed over.
        self.drained |=
            (!self.readable && self.digested == Digested::All) || self.digested == Digested::Early;
    }

    pub(super) fn turn(&mut self, now: Nanos, out: &mut Completions, scratch: &mut [u8]) {
        let settled = self.answers.settled();
        let id = self.id();
        if self.tell_dropped(out) {
            self.answers.end_here(&self.end.0, &mut Ends { link: id, completed: &mut self.completed, out });
        }
        if (self.readable || self.digested != Digested::All || self.answers.may_go_on(&self.end.0))
            && let Err(violation) = self.read(out, scratch)
        {
            let blame = A::accuse(&self.end.0, now, violation);
            self.connection().kill_for(blame);
            self.drained = true;
        }
        if !self.readable && !self.connection().life.is_dead() {
            self.answers.rest(&self.end.0);
        }
        if self.answers.settled() != settled && A::is_room_wanted(&self.end.0) {
            self.connection().pair.wakes.post.wake();
        }
    }

    /// Reports what was taken back before it began; `false` when `out` is full first.
    fn tell_dropped(&mut self, out: &mut Completions) -> bool {
        let link = self.id();
        let mut ends = Ends { link, completed: &mut self.completed, out };
        while ends.room() > 0
            && let Some(id) = self.dropped.pop_front()
        {
            ends.complete(id, Outcome::NotBegun);
        }
        self.dropped.is_empty()
    }

    /// Reads until the socket is empty, `out` is full, or it is the next lane's turn.
    fn read(&mut self, out: &mut Completions, scratch: &mut [u8]) -> Result<(), A::Violation> {
        let (mut bytes, link) = (0, self.id());
        loop {
            let mut ends = Ends { link, completed: &mut self.completed, out };
            self.digested = self.answers.digest(&self.end.0, &mut ends, &mut bytes)?;
            self.drained |= self.digested == Digested::Over;
            if self.digested != Digested::All || bytes >= TURN_BYTES as u64 || !self.readable {
                return Ok(());
            }
            match self.answers.receive(&self.end.0, scratch)? {
                Received::More => self.note_received(out),
                Received::Drained => {
                    self.note_received(out);
                    self.readable = self.ending;
                }
                Received::Nothing => self.readable = false,
                Received::Closed(said) => {
                    self.readable = false;
                    self.connection().kill_for(A::blame(said, self.awaits_answers()));
                    return Ok(());
                }
            }
        }
    }

    fn note_received(&mut self, out: &mut Completions) {
        self.received += 1;
        out.note_moved();
    }

    /// Ends the work requests of a dead lane; `false` when `out` is full first.
    pub(super) fn flush(&mut self, out: &mut Completions) -> bool {
        let link = self.id();
        self.tell_dropped(out)
            && self.answers.flush(&self.end.0, &mut Ends { link, completed: &mut self.completed, out })
    }
}
