//! The write half of lanes: work requests become frames, gathered straight from registered memory.
//!
//! What was posted before a `flush` is coalesced into frames; a frame is one `sendmsg` as long as the socket
//! takes it. Deliberately completes nothing: only the reap half does.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::epoll::{Epoll, Interest};
use super::frame::{self, COUNT_MAX, Descriptor, Kind, REQUEST_BYTES_MAX, Tag};
use super::lane::{Pair, PostEnd};
use super::vector::Vector;
use crate::clock::Nanos;
use crate::error::Error;
use crate::fault::broken_by;
use crate::link::{Arming, Flushed, LinkEnd, LinkId, Post, Posted};
use crate::memory::Regions;
use crate::wr::{Op, WorkRequest};

/// Payload bytes of all lanes that one flush sends: then it is the turn of what else the worker does.
const FLUSH_BYTES: usize = 2 * super::TURN_BYTES;
/// Frames and partial frames a lane may send in one flush, however small.
const SENDS_A_FLUSH: usize = 8;

/// See the file's head.
pub(super) struct TcpPost {
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

/// One lane. `frame` before `end`: dropping lets go of memory first and falls quiet last.
struct PostLane {
    frame: Outgoing,
    free: Vec<u32>,
    queue: VecDeque<u32>,
    /// Where each slot's bytes are on the other side.
    remote: Box<[Descriptor]>,
    blocked: bool,
    end: PostEnd,
}

/// The frame being sent.
struct Outgoing {
    head: Box<[u8; REQUEST_BYTES_MAX]>,
    head_bytes: usize,
    tags: [Tag; COUNT_MAX],
    count: usize,
    sent: usize,
    /// Payload bytes of all frames before this one.
    payload_before: u64,
    payload: u64,
    vector: Vector,
}

impl TcpPost {
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

impl Post for TcpPost {
    fn adopt(&mut self, end: LinkEnd) {
        let Ok(end) = end.body.downcast::<PostEnd>() else {
            tracing::error!(link = end.id.0, "an end that is not the post end of a TCP lane: dropped");
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
        let taken = self.lanes[i].take(&self.regions, work);
        Posted { taken }
    }

    fn flush(&mut self, _now: Nanos) -> Flushed {
        self.bury();
        self.poll_writable();
        self.unfinished = false;
        let (lanes, mut budget, mut moved) = (self.lanes.len(), FLUSH_BYTES, false);
        for _ in 0..SENDS_A_FLUSH {
            let mut progress = false;
            for k in 0..lanes {
                let lane = &mut self.lanes[(self.turn + k) % lanes];
                if lane.blocked || !lane.has_work() || budget == 0 {
                    continue;
                }
                match lane.send(budget.min(super::TURN_BYTES)) {
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

enum Sent {
    Some(usize),
    Blocked,
    Dead,
}

impl PostLane {
    fn new(end: PostEnd) -> Self {
        let depth = end.0.slots.depth();
        Self {
            frame: Outgoing {
                head: Box::new([0; REQUEST_BYTES_MAX]),
                head_bytes: 0,
                tags: [Tag::default(); COUNT_MAX],
                count: 0,
                sent: 0,
                payload_before: 0,
                payload: 0,
                vector: Vector::with_capacity(1 + COUNT_MAX),
            },
            free: (0..depth as u32).rev().collect(),
            queue: VecDeque::with_capacity(depth),
            remote: vec![Descriptor::default(); depth].into_boxed_slice(),
            blocked: false,
            end,
        }
    }

    fn room(&self) -> usize {
        let lane = &self.end.0;
        if lane.life.is_dead() {
            return 0;
        }
        match self.free.len() {
            0 => lane.slots.freed_or_starve(),
            own => own + lane.slots.freed(),
        }
    }

    fn has_work(&self) -> bool {
        !self.frame.vector.is_empty() || !self.queue.is_empty()
    }

    fn take(&mut self, regions: &Regions, work: &[WorkRequest]) -> usize {
        let lane = &self.end.0;
        for (i, w) in work.iter().enumerate() {
            let Some(slot) = self.free.pop().or_else(|| lane.slots.take_freed_or_starve()) else { return i };
            // A pinned region within bounds, by the poster's contract; what is not fails this one alone.
            let span = regions.local(w.local.region, w.local.offset, w.len).ok();
            let at = span.filter(|_| w.len > 0 && w.len <= lane.agreed.max_bytes).map(|s| s.ptr);
            let tag = lane.slots.queue(slot, w.id, w.op, at, w.len);
            let (region, offset) = (w.remote.region, w.remote.offset);
            self.remote[slot as usize] = Descriptor { tag, op: w.op, region, offset, length: w.len };
            match at {
                Some(_) => self.queue.push_back(slot),
                None => lane.pair.wakes.reap.wake(),
            }
        }
        work.len()
    }

    /// Sends one frame, or what is left of one, up to `limit` bytes.
    fn send(&mut self, limit: usize) -> Sent {
        if self.frame.vector.is_empty() {
            self.build();
            if self.frame.vector.is_empty() {
                return Sent::Some(0);
            }
        }
        if !self.end.0.life.begin_send() {
            return Sent::Dead;
        }
        let socket = self.end.0.stream.as_fd();
        // SAFETY: the head is ours. Payload lies in regions that the requests have pinned until their
        // completions, which the reaper withholds until the answer has come or this half has fallen quiet. A
        // reaper that is dropped instead waits for `let_go`, and the lane was alive after `begin_send`.
        let sent = unsafe { self.frame.vector.send(socket, limit) };
        self.end.0.life.let_go();
        match sent {
            Ok(n) => {
                self.frame.sent += n;
                let lane = &self.end.0;
                if lane.slots.hand_over(self.frame.handed()) {
                    lane.pair.wakes.reap.wake();
                }
                Sent::Some(n)
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Sent::Blocked,
            Err(e) if e.kind() == ErrorKind::Interrupted => Sent::Some(0),
            Err(e) => {
                self.end.0.kill_for(broken_by(&e));
                Sent::Dead
            }
        }
    }

    /// Makes the next frame of what is queued. Leaves the vector empty when all of that was taken back.
    fn build(&mut self) {
        let (lane, frame) = (&self.end.0, &mut self.frame);
        frame.vector.clear();
        frame.payload_before += frame.payload;
        (frame.count, frame.sent, frame.payload) = (0, 0, 0);
        let max = usize::from(lane.agreed.descriptors);
        while frame.count < max && frame.payload < lane.agreed.frame_bytes {
            let Some(slot) = self.queue.pop_front() else { break };
            let descriptor = &self.remote[slot as usize];
            let payload = if descriptor.op == Op::Write { descriptor.length } else { 0 };
            if !lane.slots.begin(descriptor.tag, frame.payload_before + frame.payload + payload) {
                self.free.push(slot);
                continue;
            }
            frame::put_descriptor(&mut frame.head[..], frame.count, descriptor);
            frame.tags[frame.count] = descriptor.tag;
            frame.count += 1;
            frame.payload += payload;
        }
        if frame.count == 0 {
            return;
        }
        frame::put_head(&mut frame.head[..], Kind::Request, frame.count);
        frame.head_bytes = frame::HEAD_BYTES + frame.count * frame::DESCRIPTOR_BYTES;
        frame.vector.push(frame.head.as_mut_ptr(), frame.head_bytes);
        for tag in &frame.tags[..frame.count] {
            if let (Op::Write, at, length) = lane.slots.local(tag.slot) {
                frame.vector.push(at, length as usize);
            }
        }
    }

    /// The lane is dead: what of its last frame cannot have had an effect goes back to "not begun", so that
    /// it may be retried elsewhere. A WRITE has none before a byte of its payload has left.
    fn disown(&mut self, epoll: &Epoll) {
        let (lane, frame) = (&self.end.0, &mut self.frame);
        epoll.remove(lane.stream.as_fd());
        if !frame.vector.is_empty() {
            let mut payload_at = frame.head_bytes;
            for tag in &frame.tags[..frame.count] {
                let (op, _, length) = lane.slots.local(tag.slot);
                let payload_bytes = if op == Op::Write { length as usize } else { 0 };
                if frame.sent == 0 || (op == Op::Write && frame.sent <= payload_at) {
                    lane.slots.revert(*tag);
                }
                payload_at += payload_bytes;
            }
        }
        frame.vector.clear();
        self.queue.clear();
    }
}

impl Outgoing {
    /// Payload bytes the kernel has taken since the lane began.
    fn handed(&self) -> u64 {
        self.payload_before + self.sent.saturating_sub(self.head_bytes) as u64
    }
}

impl Drop for TcpPost {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            lane.end.0.kill();
            lane.disown(&self.epoll);
        }
    }
}
