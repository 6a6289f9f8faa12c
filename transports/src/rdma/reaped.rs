//! One link, as its reap half sees it: what completes, and how it ends once it is dead.
//!
//! ```text
//! alive ──▶ dead: stopped (ERR) ──▶ its poster is quiet: a marker is posted ──▶ the marker is back: out of use (RESET) ──▶ closed
//! ```
//! Behind the marker nothing is flushed any more, so every work request is known: done, begun, or never handed over. Its
//! queue pair is then destroyed elsewhere ([`super::graveyard`]), because that may take seconds and nobody need wait for it. If
//! the marker does not come back, the queue pair is destroyed here after [`DRAIN_NS`], and what it left has begun.
//! Deliberately ignorant of other links and of queues.

use super::batch::hand_over_marker;
use super::completion::{self, Cause, Flushed};
use super::gid::Gid;
use super::link::{ReapEnd, Tag};
use super::ring::Fate;
use crate::clock::Nanos;
use crate::link::LinkId;
use crate::stall::{Looks, Stand};
use crate::wr::{Blame, Completion, Completions, Outcome, WrId};

/// How long a stopped queue pair may take to flush.
const DRAIN_NS: Nanos = 500_000_000;

/// How far a dead link has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its poster may still post, or its queue pair has not flushed all.
    Waits,
    /// All of it has completed, and its queue pair touches no memory any more.
    Over,
}

/// See the file's head.
pub(super) struct Reaped {
    end: ReapEnd,
    /// Work requests that have completed, for telling whether it moves.
    completed: u64,
    stand: Stand,
    stopped: bool,
    drain: Drain,
    /// Its queue pair is out of use.
    retired: bool,
}

/// What is known of the flush of a stopped queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// Its poster is not quiet yet.
    NotBegun,
    /// It is to be over by then.
    By(Nanos),
    /// Whatever has not completed by now has done so without a word, because it was not signalled.
    Complete,
    /// It took too long.
    GivenUp,
}

impl Reaped {
    pub(super) fn new(end: ReapEnd) -> Self {
        Self {
            end,
            completed: 0,
            stand: Stand::default(),
            stopped: false,
            drain: Drain::NotBegun,
            retired: false,
        }
    }

    pub(super) fn id(&self) -> LinkId {
        self.end.link.id
    }

    pub(super) fn tag(&self) -> Tag {
        self.end.link.tag.get()
    }

    /// The address its queue pair was made with.
    pub(super) fn address(&self) -> Gid {
        self.end.link.queue_pair.gid()
    }

    pub(super) fn is_dead(&self) -> bool {
        self.end.link.life.is_dead()
    }

    /// Whether it is alive and work is outstanding.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_dead() && self.outstanding() > 0
    }

    pub(super) fn outstanding(&self) -> usize {
        self.end.link.ring.len()
    }

    pub(super) fn holds(&self, id: WrId) -> bool {
        self.end.link.ring.holds(id)
    }

    /// Whether the poster waits for room; see [`super::ring::Ring::room_wanted`].
    pub(super) fn room_wanted(&self) -> bool {
        self.end.link.ring.room_wanted()
    }

    /// When the flush of its queue pair is given up, while it is under way.
    pub(super) fn drained_at(&self) -> Option<Nanos> {
        match self.drain {
            Drain::By(at) => Some(at),
            _ => None,
        }
    }

    pub(super) fn is_stalled(&mut self, now: Nanos, looks: &Looks) -> bool {
        self.stand.is_stalled(self.is_busy(), self.completed, now, looks)
    }

    /// Kills it.
    pub(super) fn die(&mut self, cause: Cause) {
        self.end.link.die(cause);
    }

    /// Who rests for its end. `is_down`: this side's port is down.
    pub(super) fn blame(&self, is_down: bool) -> Blame {
        self.end.link.cause.get().map_or(Blame::Nobody, |cause| cause.blame(is_down))
    }

    /// A completion came: `number` ended with `status`, and what was posted before it ended well if nobody said otherwise.
    /// `false`: `out` is full; to be called again with the same.
    pub(super) fn complete(&mut self, number: u32, status: u32, out: &mut Completions) -> bool {
        let ring = &self.end.link.ring;
        let (mut at, end) = (ring.ended(), ring.appended());
        let ahead = number.wrapping_sub(at);
        if ahead >= end.wrapping_sub(at) {
            if number == end && self.drain != Drain::NotBegun {
                self.drain = Drain::Complete;
            }
            // Otherwise it has ended already.
            return self.end_here(out);
        }
        if status != 0 {
            self.note_error(status);
        }
        let ring = &self.end.link.ring;
        let last = number.wrapping_add(1);
        while at != last {
            if out.room() == 0 {
                ring.end(at);
                return false;
            }
            let (id, fate) = ring.at(at);
            let outcome = match fate {
                Fate::Ended(outcome) => outcome,
                Fate::Posted if at == number => completion::outcome(status, self.flushed()),
                Fate::Posted => Outcome::Done,
            };
            out.push(Completion { id, link: self.end.link.id, outcome });
            self.completed += 1;
            at = at.wrapping_add(1);
        }
        ring.end(at);
        self.end_here(out)
    }

    /// Ends the oldest ones as long as they never went to the device. `false`: `out` is full, or there is more behind.
    pub(super) fn end_here(&mut self, out: &mut Completions) -> bool {
        let ring = &self.end.link.ring;
        while let Some((number, id, Fate::Ended(outcome))) = ring.oldest() {
            if out.room() == 0 {
                return false;
            }
            out.push(Completion { id, link: self.end.link.id, outcome });
            self.completed += 1;
            ring.end(number.wrapping_add(1));
        }
        true
    }

    /// Stops its queue pair, once: nothing more leaves.
    pub(super) fn stop(&mut self) {
        if !self.stopped {
            self.stopped = true;
            // A device that does not even do that flushes nothing either; that it is out of use is what counts.
            let stopped = self.end.link.queue_pair.stop();
            tracing::debug!(link = self.end.link.id.0, stopped, "an RDMA link is dead");
        }
    }

    /// Goes on with the end of a dead link.
    pub(super) fn bury(&mut self, now: Nanos, out: &mut Completions) -> Ending {
        self.stop();
        let link = &*self.end.link;
        if !link.life.is_quiet() {
            return Ending::Waits;
        }
        if self.drain == Drain::NotBegun {
            self.drain = Drain::By(now.saturating_add(DRAIN_NS));
            let marker = link.tag.get().name(link.ring.appended());
            let is_left = link.ring.len() > 0;
            // SAFETY: only this half destroys, and the poster is quiet. The marker names no memory.
            let is_marked = is_left && unsafe { hand_over_marker(link.queue_pair.raw(), marker) };
            tracing::debug!(link = link.id.0, is_left, is_marked, "the flush of an RDMA link is waited for");
        }
        match self.drain {
            _ if link.ring.len() == 0 => {}
            Drain::By(at) if now < at => return Ending::Waits,
            Drain::By(_) => self.drain = Drain::GivenUp,
            _ => {}
        }
        self.retire();
        if self.end_rest(out) { Ending::Over } else { Ending::Waits }
    }

    /// Takes its queue pair out of use, once: after this the device touches no local memory on its behalf, and buffers may be
    /// given back. What was flushed was so already: a work request whose completion has come is its poster's again, in ERR
    /// none is begun, and what the peer still sends (bytes of a READ) is dropped. RESET is for what a completion does not
    /// say: that the task of soft-RoCE which reads the bytes of a WRITE is not in the middle of one. If the flush was given
    /// up, the device does not do what it is told: nothing less than destroying will do.
    fn retire(&mut self) {
        if self.retired {
            return;
        }
        self.retired = true;
        let queue_pair = &self.end.link.queue_pair;
        if self.drain == Drain::GivenUp || !queue_pair.reset() {
            self.end.link.destroy();
        }
    }

    /// Parts with it after its end was told.
    pub(super) fn leave(self) {
        self.end.leave();
    }

    /// Ends what is left when nothing more can complete. `false`: `out` is full.
    fn end_rest(&mut self, out: &mut Completions) -> bool {
        let ring = &self.end.link.ring;
        let sent = ring.sent();
        while let Some((number, id, fate)) = ring.oldest() {
            if out.room() == 0 {
                return false;
            }
            // Before or after `sent`, with numbers that wrap.
            let was_sent = (sent.wrapping_sub(number) as i32) > 0;
            let outcome = match fate {
                Fate::Ended(outcome) => outcome,
                Fate::Posted if !was_sent => Outcome::NotBegun,
                Fate::Posted if self.drain == Drain::Complete => Outcome::Done,
                Fate::Posted => Outcome::Begun,
            };
            out.push(Completion { id, link: self.end.link.id, outcome });
            ring.end(number.wrapping_add(1));
        }
        true
    }

    fn note_error(&mut self, status: u32) {
        let link = &*self.end.link;
        if !link.life.is_dead() {
            let cause = Cause::Status(status);
            tracing::debug!(peer = link.peer, link = link.id.0, %cause, "an RDMA link fails");
            link.die(cause);
        }
    }

    fn flushed(&self) -> Flushed {
        self.end.link.cause.get().map_or(Flushed::Unknown, Cause::flushed)
    }
}
