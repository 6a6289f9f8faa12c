//! The target's half: data connections of Mooncake peers, each in turn, all under one epoll set.
//!
//! Connections come from the listener by the half's [`Hall`] and are nobody else's business: control knows no links of them.
//! What one of them does is in [`super::serve_lane`]. Deliberately without deadlines but two: what stands still for too long
//! with a request under way is closed, so that no peer holds a region for ever, and so is what lingers after a refusal.

use std::sync::Arc;
use std::time::Duration;

use super::buffers::{Buffers, Table};
use super::hall::Hall;
use super::serve_lane::{ServeLane, Turn};
use super::throttle::Throttle;
use super::wire::Header;
use crate::clock::Nanos;
use crate::error::Error;
use crate::link::{Arming, LinkEnd, LinkId, Serve, Served};
use crate::memory::Regions;
use crate::stall::Looks;
use crate::tcp::epoll::{Epoll, Interest};
use crate::wr::Refusal;

/// Turns without news after which only every fourth asks the kernel.
const COLD_TURNS: u8 = 16;
const SCRATCH_BYTES: usize = 64 << 10;

/// What the serve halves of a transport share.
pub(crate) struct Serving {
    pub(crate) regions: Arc<Regions>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) refusals: Throttle,
    pub(crate) stalls: Throttle,
}

/// See the file's head.
pub(crate) struct MooncakeServe {
    hall: Arc<Hall>,
    shared: Arc<Serving>,
    table: Arc<Table>,
    lanes: Vec<ServeLane>,
    next: u64,
    /// Ends that were not for this half.
    strangers: Vec<LinkId>,
    epoll: Epoll,
    turn: usize,
    armed: bool,
    idle_turns: u8,
    scratch: Box<[u8]>,
    looks: Looks,
    /// When the first of those that linger has done so for long enough.
    linger: Option<Nanos>,
}

impl MooncakeServe {
    pub(crate) fn new(hall: Arc<Hall>, shared: Arc<Serving>, stall: Option<Duration>) -> Result<Self, Error> {
        Ok(Self {
            hall,
            shared,
            table: Arc::default(),
            lanes: Vec::new(),
            next: 0,
            strangers: Vec::new(),
            epoll: Epoll::new()?,
            turn: 0,
            armed: true,
            idle_turns: 0,
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            looks: Looks::every(stall),
            linger: None,
        })
    }

    /// Takes in who waits in the hall.
    fn take_in(&mut self) {
        while let Some(guest) = self.hall.take() {
            self.next += 1;
            let lane = ServeLane::new(LinkId(self.next), guest);
            if let Err(error) = self.epoll.add(lane.socket(), lane.id, Interest::Both) {
                tracing::warn!(peer = %lane.guest.peer, %error, "a data connection cannot be watched: dropped");
                self.hall.left();
                continue;
            }
            // In the order of their numbers: each is the highest yet.
            self.lanes.push(lane);
            self.armed = true;
        }
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
            lanes.iter_mut().for_each(|lane| lane.note(true, false, false));
            return;
        }
        self.armed = self.epoll.poll(|ready| {
            if let Ok(i) = lanes.binary_search_by_key(&ready.id, |lane| lane.id) {
                lanes[i].note(ready.readable, ready.writable, ready.ending);
            }
        });
    }

    /// Looks for what has lingered or stood still for too long.
    fn look(&mut self, now: Nanos) {
        let is_due = self.looks.is_due(now);
        if !is_due && self.linger.is_none_or(|at| now < at) {
            return;
        }
        for lane in &mut self.lanes {
            if lane.look(now, &self.looks)
                && let Some(unsaid) = self.shared.stalls.speak(now)
            {
                tracing::warn!(
                    peer = %lane.guest.peer, unsaid,
                    "closed a data connection: a request on it stood still for too long"
                );
            }
        }
        if is_due {
            self.looks.looked(now);
        }
        self.linger = self.lanes.iter().filter(|lane| !lane.closed).filter_map(ServeLane::deadline).min();
    }

    /// Lets go of closed connections: with each go its guards, and its socket with whatever the kernel still held for us.
    fn bury(&mut self) {
        let hall = &self.hall;
        self.lanes.retain(|lane| {
            if lane.closed {
                hall.left();
            }
            !lane.closed
        });
    }
}

impl Serving {
    fn complain(&self, now: Nanos, peer: std::net::SocketAddr, header: &Header, why: Refusal) {
        if let Some(unsaid) = self.refusals.speak(now) {
            let (op, addr, bytes) = (header.op, header.addr, header.size);
            tracing::warn!(
                %peer, ?op, addr = format_args!("{addr:#x}"), bytes, reason = ?why, unsaid,
                "refused a request of a Mooncake peer, and hung up as its protocol wants it"
            );
        }
    }
}

impl Serve for MooncakeServe {
    fn adopt(&mut self, end: LinkEnd) {
        tracing::error!(link = end.id.0, "a lane of a native peer given to Mooncake's half: dropped");
        self.strangers.push(end.id);
    }

    fn step(&mut self, now: Nanos, budget: usize) -> Served {
        let mut served = Served::default();
        self.take_in();
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
            let Serving { regions, buffers, .. } = &*self.shared;
            let (table, scratch) = (&mut self.table, &mut self.scratch[..]);
            let mut turn = Turn {
                now,
                regions,
                buffers,
                table,
                scratch,
                left,
                bytes: 0,
                bytes_in: 0,
                bytes_out: 0,
                refused: None,
            };
            lane.turn(&mut turn);
            served.answered += left - turn.left;
            served.bytes += turn.bytes;
            served.bytes_in += turn.bytes_in;
            served.bytes_out += turn.bytes_out;
            if let Some((header, why)) = turn.refused {
                self.shared.complain(now, lane.guest.peer, &header, why);
                let first = |at: Nanos| self.linger.map_or(at, |other| other.min(at));
                self.linger = lane.deadline().map(first).or(self.linger);
            }
        }
        self.turn = self.turn.wrapping_add(1) % lanes;
        self.look(now);
        self.bury();
        served.more = self.lanes.iter().any(ServeLane::has_news);
        served
    }

    fn fence(&mut self, link: LinkId) {
        if let Ok(i) = self.lanes.binary_search_by_key(&link, |lane| lane.id) {
            self.lanes[i].closed = true;
            self.bury();
        }
    }

    fn closed(&mut self) -> Option<LinkId> {
        self.strangers.pop()
    }

    fn under_way(&self) -> usize {
        self.lanes.iter().map(ServeLane::under_way).sum()
    }

    fn has_guests(&self) -> bool {
        !self.lanes.is_empty()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        if self.hall.has_waiting() || self.lanes.iter().any(ServeLane::has_news) {
            on.busy();
        }
        if self.lanes.is_empty() {
            return;
        }
        if self.under_way() > 0
            && let Some(at) = self.looks.next()
        {
            on.deadline(at);
        }
        if let Some(at) = self.linger {
            on.deadline(at);
        }
        self.armed = true;
        on.fd(self.epoll.fd());
    }
}
