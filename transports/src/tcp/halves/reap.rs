//! The read half: lanes take turns, what has come is given to their protocol, and work requests end. Only this half
//! completes work requests.
//!
//! Deliberately no deadlines of work requests: a stage keeps them and calls `cancel` or `abort`. It does watch that its lanes
//! move (see [`crate::stall`]): a target that is frozen keeps its connections, and nobody else would tell. A turn with nothing
//! outstanding costs no system call.

use std::os::fd::AsFd;
use std::time::Duration;

use super::connection::{Connected, ReapEnd};
use super::inbound::{Inbound, TakenBack};
use super::reap_lane::ReapLane;
use crate::clock::Nanos;
use crate::error::Error;
use crate::link::{Arming, Cancelled, LinkEnd, LinkId, Reap};
use crate::stall::Looks;
use crate::tcp::SCRATCH_BYTES;
use crate::tcp::epoll::{Epoll, Interest};
use crate::wr::{Completions, WrId};

/// See the file's head.
pub(crate) struct StreamReap<A: Inbound> {
    /// By ascending id.
    lanes: Vec<ReapLane<A>>,
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

impl<A: Inbound> StreamReap<A> {
    /// `stall`: how long a lane with work outstanding may stand still.
    pub(crate) fn new(stall: Option<Duration>) -> Result<Self, Error> {
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
        self.lanes.binary_search_by_key(&link, ReapLane::id).ok()
    }

    /// Kills lanes that stand still.
    fn look_for_stalled(&mut self, now: Nanos) {
        for lane in &mut self.lanes {
            let moved = lane.received.wrapping_add(A::handed(&lane.end.0));
            if lane.stand.is_stalled(lane.awaits_answers(), moved, now, &self.looks) {
                let end = lane.connection();
                let (peer, link) = (&end.peer, end.id.0);
                tracing::warn!(
                    peer,
                    link,
                    "closed a {} lane: nothing moved on it for `stall`",
                    A::Lane::WHOSE
                );
                end.kill_for(A::STALLED);
            }
            // Bytes that are too few to wake anybody are no standstill.
            lane.readable |= lane.answers.is_deaf();
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
            if let Ok(i) = lanes.binary_search_by_key(&ready.id, ReapLane::id) {
                lanes[i].readable |= ready.readable;
                lanes[i].ending |= ready.ending;
            }
        });
    }

    /// Completes what a dead lane still holds, once its poster is quiet; then reports it closed.
    fn bury(&mut self, i: usize, out: &mut Completions) {
        let lane = &mut self.lanes[i];
        if !lane.drained || !lane.connection().life.is_quiet() || !lane.flush(out) || out.closed_room() == 0 {
            return;
        }
        out.push_closed_by(lane.id(), lane.end.0.blame());
        self.epoll.remove(lane.connection().stream.as_fd());
        self.lanes.remove(i);
    }
}

impl<A: Inbound> Reap for StreamReap<A> {
    fn adopt(&mut self, end: LinkEnd) {
        let whose = A::Lane::WHOSE;
        let Ok(end) = end.body.downcast::<ReapEnd<A::Lane>>() else {
            tracing::error!(link = end.id.0, "an end that is not the reap end of a {whose} lane: dropped");
            return;
        };
        let connection = end.0.connection();
        if let Err(error) = self.epoll.add(connection.stream.as_fd(), connection.id, Interest::Read) {
            // It stays, dead, so that whatever is posted on it completes and its end is reported.
            tracing::warn!(peer = connection.peer, %error, "a lane cannot be watched: closed");
            connection.kill();
        }
        if let Err(at) = self.lanes.binary_search_by_key(&connection.id, ReapLane::id) {
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
            if !lane.connection().life.is_dead() {
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
            if self.lanes[i].connection().life.is_dead() {
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
        match lane.answers.cancel(&lane.end.0, id) {
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
            self.lanes[i].connection().kill();
        }
    }

    fn outstanding(&self) -> usize {
        self.lanes.iter().map(|l| A::posted(&l.end.0).saturating_sub(l.completed) as usize).sum()
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
