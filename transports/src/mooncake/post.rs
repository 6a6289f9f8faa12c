//! The write half of lanes: work requests become requests of Mooncake's protocol, as many deep as the lane holds, one behind
//! the other. A real client waits for each answer before it sends the next; a real server does not mind.
//!
//! Deliberately completes nothing: only the reap half does.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::lane::{Pair, PostEnd};
use super::outgoing::Outgoing;
use super::peers::Lookup;
use crate::clock::Nanos;
use crate::error::Error;
use crate::fault::broken_by;
use crate::link::{Arming, Flushed, LinkEnd, LinkId, Post, Posted};
use crate::memory::Regions;
use crate::tcp::epoll::{Epoll, Interest};
use crate::wr::{Blame, Outcome, Refusal, WorkRequest};

/// Bytes of all lanes that one flush sends: then it is the turn of what else the worker does.
const FLUSH_BYTES: usize = 2 * super::MOVE_BYTES;
/// System calls a lane may make in one flush, however small what they send.
const SENDS_A_FLUSH: usize = 8;

/// See the file's head.
pub(super) struct MooncakePost {
    /// By ascending id.
    lanes: Vec<PostLane>,
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

/// One lane. `outgoing` before `end`: dropping lets go of memory first and falls quiet last.
struct PostLane {
    outgoing: Outgoing,
    lookup: Lookup,
    blocked: bool,
    end: PostEnd,
}

enum Sent {
    Some(usize),
    Blocked,
    Dead,
}

impl MooncakePost {
    pub(super) fn new(regions: Arc<Regions>, pair: Arc<Pair>) -> Result<Self, Error> {
        let epoll = Epoll::new()?;
        Ok(Self {
            lanes: Vec::new(),
            epoll,
            blocked: 0,
            turn: 0,
            unfinished: false,
            deaths_seen: 0,
            regions,
            pair,
        })
    }

    fn find(&self, link: LinkId) -> Option<usize> {
        self.lanes.binary_search_by_key(&link, |l| l.end.0.id).ok()
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
            let dead = lane.end.0.life.is_dead();
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
            if let Ok(i) = lanes.binary_search_by_key(&ready.id, |l| l.end.0.id)
                && ready.writable
                && lanes[i].blocked
            {
                lanes[i].blocked = false;
                *blocked -= 1;
            }
        });
    }
}

impl Post for MooncakePost {
    fn adopt(&mut self, end: LinkEnd) {
        let Ok(end) = end.body.downcast::<PostEnd>() else {
            tracing::error!(link = end.id.0, "an end that is not the post end of a Mooncake lane: dropped");
            return;
        };
        if end.0.life.is_dead() {
            // It died on its way here, before this half counted its death: dropping it makes it quiet.
            return;
        }
        let added = self.epoll.add(end.0.stream.as_fd(), end.0.id, Interest::Write);
        if let Err(error) = added {
            tracing::warn!(peer = end.0.peer, %error, "a lane cannot be watched: dropped");
            return;
        }
        if let Err(at) = self.lanes.binary_search_by_key(&end.0.id, |l| l.end.0.id) {
            self.lanes.insert(at, PostLane::new(*end));
        }
    }

    fn room(&self, link: LinkId) -> usize {
        self.find(link).map_or(0, |i| self.lanes[i].room())
    }

    fn post(&mut self, _now: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        self.bury();
        let Some(i) = self.find(link) else { return Posted::default() };
        let taken = self.lanes[i].room().min(work.len());
        self.lanes[i].take(&self.regions, &work[..taken]);
        Posted { taken }
    }

    fn flush(&mut self, _now: Nanos) -> Flushed {
        self.bury();
        self.poll_writable();
        let (lanes, mut budget, mut moved) = (self.lanes.len(), FLUSH_BYTES, false);
        for _ in 0..SENDS_A_FLUSH {
            let mut progress = false;
            for k in 0..lanes {
                let lane = &mut self.lanes[(self.turn + k) % lanes];
                if lane.blocked || !lane.has_work() || budget == 0 {
                    continue;
                }
                match lane.send(budget.min(super::MOVE_BYTES)) {
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

impl PostLane {
    fn new(end: PostEnd) -> Self {
        let lane = &end.0;
        let outgoing = Outgoing::new(lane.framing, &lane.ring);
        Self { outgoing, lookup: Lookup::new(lane.remote.clone()), blocked: false, end }
    }

    fn room(&self) -> usize {
        let lane = &self.end.0;
        if lane.life.is_dead() { 0 } else { lane.ring.room_or_starve() }
    }

    fn has_work(&self) -> bool {
        self.outgoing.has_work(&self.end.0.ring)
    }

    /// Appends work, for which there is room.
    fn take(&mut self, regions: &Regions, work: &[WorkRequest]) {
        let ring = &self.end.0.ring;
        for w in work {
            let address = match w.len {
                0 => Err(Refusal::Malformed),
                len => self.lookup.address(w.remote, len),
            };
            let at = match address {
                // A pinned region within bounds, by the poster's contract; what is not fails this one alone.
                Ok(_) => regions.local(w.local.region, w.local.offset, w.len).map(|span| span.ptr).ok(),
                Err(_) => None,
            };
            let fate = address.map_err(Outcome::Refused).and_then(|_| at.ok_or(Outcome::Failed));
            let number = ring.append(w.id, w.op, fate, w.len);
            self.outgoing.aim(ring, number, address.unwrap_or_default());
        }
    }

    /// Sends what was built, or builds and sends, up to `limit` bytes.
    fn send(&mut self, limit: usize) -> Sent {
        let lane = &*self.end.0;
        if self.outgoing.is_empty() {
            if self.outgoing.build(&lane.ring) {
                lane.pair.wakes.reap.wake();
            }
            if self.outgoing.is_empty() {
                return Sent::Some(0);
            }
        }
        if !lane.life.begin_send() {
            return Sent::Dead;
        }
        // SAFETY: payload lies in regions that the requests have pinned until their completions, which the reaper withholds
        // until the bytes have left or this half has fallen quiet. A reaper that is dropped instead waits for `let_go`, and
        // the lane was alive after `begin_send`.
        let sent = unsafe { self.outgoing.send(lane.stream.as_fd(), limit) };
        lane.life.let_go();
        match sent {
            Ok(n) => {
                if lane.ring.hand_over(self.outgoing.sent()) {
                    lane.pair.wakes.reap.wake();
                }
                Sent::Some(n)
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Sent::Blocked,
            Err(e) if e.kind() == ErrorKind::Interrupted => Sent::Some(0),
            Err(e) => {
                // Nobody sends on a lane of which nothing is wanted.
                let blame = broken_by(&e);
                lane.kill_for(if blame == Blame::Nobody { Blame::Peer } else { blame });
                Sent::Dead
            }
        }
    }

    /// The lane is dead.
    fn disown(&mut self, epoll: &Epoll) {
        let lane = &self.end.0;
        epoll.remove(lane.stream.as_fd());
        self.outgoing.disown(&lane.ring);
    }
}

impl Drop for MooncakePost {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            lane.end.0.kill();
            lane.disown(&self.epoll);
        }
    }
}
