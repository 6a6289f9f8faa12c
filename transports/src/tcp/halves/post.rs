//! The write half: lanes take turns, each sends what its protocol has built, and one that would block waits for its socket.
//!
//! Deliberately completes nothing: only the reap half does.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::connection::{Connected, Connection, Pair, PostEnd};
use super::outbound::Outbound;
use crate::clock::Nanos;
use crate::error::Error;
use crate::link::{Arming, Flushed, LinkEnd, LinkId, Post, Posted};
use crate::memory::Regions;
use crate::tcp::epoll::{Epoll, Interest};
use crate::wr::WorkRequest;

/// System calls a lane may make in one flush, however small what they send.
const SENDS_A_FLUSH: usize = 8;

/// See the file's head.
pub(crate) struct StreamPost<R: Outbound> {
    /// By ascending id.
    lanes: Vec<PostLane<R>>,
    epoll: Epoll,
    blocked: usize,
    /// Where the next flush begins.
    turn: usize,
    /// A flush stopped at its budget.
    unfinished: bool,
    deaths_seen: u64,
    regions: Arc<Regions>,
    pair: Arc<Pair>,
}

/// One lane. `requests` before `end`: dropping lets go of memory first and falls quiet last.
struct PostLane<R: Outbound> {
    requests: R,
    blocked: bool,
    end: PostEnd<R::Lane>,
}

enum Sent {
    Some(usize),
    Blocked,
    Dead,
}

impl<R: Outbound> StreamPost<R> {
    pub(crate) fn new(regions: Arc<Regions>, pair: Arc<Pair>) -> Result<Self, Error> {
        let epoll = Epoll::new()?;
        let (lanes, deaths_seen) = (Vec::new(), 0);
        Ok(Self { lanes, epoll, blocked: 0, turn: 0, unfinished: false, deaths_seen, regions, pair })
    }

    fn find(&self, link: LinkId) -> Option<usize> {
        self.lanes.binary_search_by_key(&link, PostLane::id).ok()
    }

    /// Lets go of lanes that died since the last look.
    fn bury(&mut self) {
        let deaths = self.pair.deaths();
        if deaths == self.deaths_seen {
            return;
        }
        self.deaths_seen = deaths;
        let (epoll, blocked) = (&self.epoll, &mut self.blocked);
        self.lanes.retain_mut(|lane| {
            let dead = lane.connection().life.is_dead();
            if dead {
                *blocked -= usize::from(lane.blocked);
                lane.disown(epoll);
            }
            !dead
        });
    }

    fn poll_writable(&mut self) {
        if self.blocked == 0 {
            return;
        }
        let (lanes, blocked) = (&mut self.lanes, &mut self.blocked);
        self.epoll.poll(|ready| {
            if let Ok(i) = lanes.binary_search_by_key(&ready.id, PostLane::id)
                && ready.writable
                && lanes[i].blocked
            {
                lanes[i].blocked = false;
                *blocked -= 1;
            }
        });
    }
}

impl<R: Outbound> Post for StreamPost<R> {
    fn adopt(&mut self, end: LinkEnd) {
        let whose = R::Lane::WHOSE;
        let Ok(end) = end.body.downcast::<PostEnd<R::Lane>>() else {
            tracing::error!(link = end.id.0, "an end that is not the post end of a {whose} lane: dropped");
            return;
        };
        let connection = end.0.connection();
        if connection.life.is_dead() {
            // It died on its way here, before this half counted its death: dropping it makes it quiet.
            return;
        }
        let added = self.epoll.add(connection.stream.as_fd(), connection.id, Interest::Write);
        if let Err(error) = added {
            tracing::warn!(peer = connection.peer, %error, "a lane cannot be watched: dropped");
            return;
        }
        if let Err(at) = self.lanes.binary_search_by_key(&connection.id, PostLane::id) {
            self.lanes.insert(at, PostLane::new(*end));
        }
    }

    fn room(&self, link: LinkId) -> usize {
        self.find(link).map_or(0, |i| self.lanes[i].room())
    }

    fn post(&mut self, _now: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        self.bury();
        let Some(i) = self.find(link) else { return Posted::default() };
        let lane = &mut self.lanes[i];
        Posted { taken: lane.requests.take(&lane.end.0, &self.regions, work) }
    }

    fn flush(&mut self, _now: Nanos) -> Flushed {
        self.bury();
        self.poll_writable();
        let (lanes, mut budget, mut moved) = (self.lanes.len(), 2 * R::MOVE_BYTES, false);
        for _ in 0..SENDS_A_FLUSH {
            let mut progress = false;
            for k in 0..lanes {
                let lane = &mut self.lanes[(self.turn + k) % lanes];
                if lane.blocked || !lane.has_work() || budget == 0 {
                    continue;
                }
                match lane.send(budget.min(R::MOVE_BYTES)) {
                    Sent::Some(bytes) => {
                        budget = budget.saturating_sub(bytes);
                        moved |= bytes > 0;
                        progress = true;
                    }
                    Sent::Blocked => {
                        lane.blocked = true;
                        self.blocked += 1;
                    }
                    Sent::Dead => {}
                }
            }
            if !progress {
                break;
            }
        }
        self.turn = self.turn.wrapping_add(1) % lanes.max(1);
        self.bury();
        self.unfinished = self.lanes.iter().any(|l| !l.blocked && l.has_work());
        match (self.blocked > 0 || self.unfinished, moved) {
            (false, _) => Flushed::All,
            (true, true) => Flushed::Partly,
            (true, false) => Flushed::Stuck,
        }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.bury();
        if self.unfinished {
            on.busy();
        }
        if self.blocked > 0 {
            on.fd(self.epoll.fd());
        }
    }
}

impl<R: Outbound> PostLane<R> {
    fn new(end: PostEnd<R::Lane>) -> Self {
        Self { requests: R::new(&end.0), blocked: false, end }
    }

    fn connection(&self) -> &Connection {
        self.end.0.connection()
    }

    fn id(&self) -> LinkId {
        self.connection().id
    }

    fn room(&self) -> usize {
        if self.connection().life.is_dead() { 0 } else { self.requests.room(&self.end.0) }
    }

    fn has_work(&self) -> bool {
        self.requests.has_work(&self.end.0)
    }

    /// Sends what was built, or builds and sends, up to `limit` bytes.
    fn send(&mut self, limit: usize) -> Sent {
        let lane = &*self.end.0;
        if !self.requests.build(lane) {
            return Sent::Some(0);
        }
        let connection = lane.connection();
        if !connection.life.begin_send() {
            return Sent::Dead;
        }
        // SAFETY: payload lies in regions that the requests have pinned until their completions, which the reaper withholds
        // until the bytes have left and were answered, or this half has fallen quiet. A reaper that is dropped instead waits for
        // `let_go`, and the lane was alive after `begin_send`.
        let sent = unsafe { self.requests.send(lane, limit) };
        connection.life.let_go();
        match sent {
            Ok(n) => {
                if self.requests.sent(lane, n) {
                    connection.pair.wakes.reap.wake();
                }
                Sent::Some(n)
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Sent::Blocked,
            Err(e) if e.kind() == ErrorKind::Interrupted => Sent::Some(0),
            Err(e) => {
                connection.kill_for(R::blame(&e));
                Sent::Dead
            }
        }
    }

    /// The lane is dead.
    fn disown(&mut self, epoll: &Epoll) {
        epoll.remove(self.connection().stream.as_fd());
        self.requests.disown(&self.end.0);
    }
}

impl<R: Outbound> Drop for StreamPost<R> {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            lane.connection().kill();
            lane.disown(&self.epoll);
        }
    }
}
