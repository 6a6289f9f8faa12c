//! The reap half of loopback: copies what was posted, link by link, a bounded number of bytes a call.
//! Deliberately fair: a link with large requests gets turns as long as any other's.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clock::Nanos;
use crate::inproc::{ReapEnd, Share, Watch};
use crate::link::{Arming, Cancelled, LinkEnd, LinkId, Reap, Waker};
use crate::loopback::MAX_BYTES;
use crate::memory::copy::copy;
use crate::memory::{Guard, LocalSpan, Regions};
use crate::wr::{Completion, Completions, Op, Outcome, Refusal, WorkRequest, WrId};

/// Bytes copied a call, about a millisecond: longer, and the other stages of this worker would wait.
const CALL_BYTES: u64 = 8 << 20;
/// Work requests of one link before the next link's turn.
const TURN: usize = 32;

/// See the file's head.
pub(super) struct ReapHalf {
    regions: Arc<Regions>,
    /// Owner of the post half: rung when a full link has room again, and when a link dies.
    poster: Waker,
    links: Vec<Open>,
    /// Whose turn it is.
    next: usize,
}

/// An open link.
struct Open {
    id: LinkId,
    lane: Share,
    watch: Watch,
    pending: VecDeque<WorkRequest>,
    moving: Option<Moving>,
    /// Taken back before they began; their completions are due.
    dropped: VecDeque<WrId>,
    /// The poster must hear of room.
    freed: bool,
}

/// A request some bytes of which have moved.
struct Moving {
    work: WorkRequest,
    local: LocalSpan,
    remote: Guard,
    moved: u64,
}

impl ReapHalf {
    pub(super) fn new(regions: Arc<Regions>, poster: Waker) -> Self {
        Self { regions, poster, links: Vec::new(), next: 0 }
    }

    fn open(&mut self, link: LinkId) -> Option<&mut Open> {
        self.links.iter_mut().find(|open| open.id == link)
    }
}

impl Reap for ReapHalf {
    fn adopt(&mut self, end: LinkEnd) {
        let Ok(body) = end.body.downcast::<ReapEnd>() else {
            debug_assert!(false, "the end of another transport was mailed here");
            return;
        };
        let ReapEnd { lane, watch, .. } = *body;
        let capacity = lane.capacity();
        self.links.push(Open {
            id: end.id,
            lane,
            watch,
            pending: VecDeque::with_capacity(capacity),
            moving: None,
            dropped: VecDeque::with_capacity(capacity),
            freed: false,
        });
    }

    fn reap(&mut self, _now: Nanos, out: &mut Completions) -> usize {
        let before = out.done().len();
        let mut budget = CALL_BYTES;
        let mut quiet = 0;
        while quiet < self.links.len() && budget > 0 {
            if self.next >= self.links.len() {
                self.next = 0;
            }
            let more = self.links[self.next].turn(&self.regions, &mut budget, out);
            quiet = if more { 0 } else { quiet + 1 };
            self.next += 1;
        }
        let mut ring = false;
        self.links.retain_mut(|open| {
            ring |= std::mem::take(&mut open.freed);
            let over = open.lane.is_dead() && open.lane.outstanding() == 0 && out.closed_room() > 0;
            if over {
                out.push_closed(open.id);
            }
            !over
        });
        if ring {
            self.poster.wake();
        }
        out.done().len() - before
    }

    fn cancel(&mut self, link: LinkId, id: WrId) -> Cancelled {
        let Some(open) = self.open(link) else { return Cancelled::NotHere };
        let answer = open.cancel(id);
        if std::mem::take(&mut open.freed) {
            self.poster.wake();
        }
        answer
    }

    fn abort(&mut self, link: LinkId) {
        let Some(open) = self.open(link) else { return };
        open.lane.kill();
        self.poster.wake();
    }

    fn outstanding(&self) -> usize {
        self.links.iter().map(|open| open.lane.outstanding()).sum()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        // What is posted can be copied at once; what is posted later rings the bell.
        if self.links.iter().any(Open::wants_a_turn) {
            on.busy();
        }
    }
}

impl Drop for ReapHalf {
    fn drop(&mut self) {
        self.links.clear();
        self.poster.wake();
    }
}

impl Open {
    fn wants_a_turn(&self) -> bool {
        self.lane.outstanding() > 0 || self.lane.is_dead() || self.watch.node().is_gone()
    }

    /// Completes what can be; whether it got somewhere and has more.
    fn turn(&mut self, regions: &Regions, budget: &mut u64, out: &mut Completions) -> bool {
        if !self.wants_a_turn() {
            return false;
        }
        let before = (out.done().len(), *budget);
        self.pull();
        while out.room() > 0
            && let Some(id) = self.dropped.pop_front()
        {
            self.end(id, Outcome::NotBegun, out);
        }
        match self.watch.node().regions() {
            Some(target) if !self.lane.is_dead() => {
                for _ in 0..TURN {
                    if out.room() == 0 || *budget == 0 || !self.advance(regions, &target, budget, out) {
                        break;
                    }
                }
            }
            Some(_) => self.fail(out),
            None => {
                self.freed |= !self.lane.is_dead();
                self.lane.kill();
                self.fail(out);
            }
        }
        let left = self.moving.is_some() || !self.pending.is_empty() || !self.dropped.is_empty();
        left && before != (out.done().len(), *budget)
    }

    /// Takes over what was posted: room for all of it is reserved in `pending`.
    fn pull(&mut self) {
        while let Some(ticket) = self.lane.pop() {
            self.pending.push_back(ticket.work);
        }
    }

    /// Copies some of the oldest request; `false` when there is none.
    fn advance(
        &mut self,
        regions: &Regions,
        target: &Arc<Regions>,
        budget: &mut u64,
        out: &mut Completions,
    ) -> bool {
        let mut moving = match self.moving.take() {
            Some(moving) => moving,
            None => {
                let Some(work) = self.pending.pop_front() else { return false };
                match Moving::begin(work, regions, target) {
                    Ok(moving) => moving,
                    Err(outcome) => {
                        self.end(work.id, outcome, out);
                        return true;
                    }
                }
            }
        };
        if moving.copy_some(budget) {
            let id = moving.work.id;
            // The access ends before anybody hears that it is done.
            drop(moving);
            self.end(id, Outcome::Done, out);
        } else {
            self.moving = Some(moving);
        }
        true
    }

    /// The link is dead: ends all it holds, while there is room.
    fn fail(&mut self, out: &mut Completions) {
        while out.room() > 0 {
            if let Some(moving) = self.moving.take() {
                self.end(moving.work.id, Outcome::Begun, out);
            } else if let Some(work) = self.pending.pop_front() {
                self.end(work.id, Outcome::NotBegun, out);
            } else {
                break;
            }
        }
    }

    fn end(&mut self, id: WrId, outcome: Outcome, out: &mut Completions) {
        out.push(Completion { id, link: self.id, outcome });
        self.freed |= self.lane.give_back();
    }

    fn cancel(&mut self, id: WrId) -> Cancelled {
        self.pull();
        if let Some(moving) = &self.moving
            && moving.work.id == id
        {
            if moving.work.op == Op::Write {
                return Cancelled::MustAbort;
            }
            self.moving = None;
            self.freed |= self.lane.give_back();
            return Cancelled::Discarding;
        }
        let Some(at) = self.pending.iter().position(|work| work.id == id) else { return Cancelled::NotHere };
        self.pending.remove(at);
        self.dropped.push_back(id);
        Cancelled::Dropped
    }
}

impl Moving {
    /// Checks everything; nothing has moved yet.
    fn begin(work: WorkRequest, regions: &Regions, target: &Arc<Regions>) -> Result<Self, Outcome> {
        if work.len == 0 || work.len > MAX_BYTES {
            return Err(Outcome::Refused(Refusal::Malformed));
        }
        let near = &work.local;
        let local = regions.local(near.region, near.offset, work.len).map_err(|_| Outcome::Failed)?;
        let remote = target.open(work.remote.region, work.remote.offset, work.len, work.op);
        Ok(Self { work, local, remote: remote.map_err(Outcome::Refused)?, moved: 0 })
    }

    /// Copies on, within the budget; whether that was the rest.
    fn copy_some(&mut self, budget: &mut u64) -> bool {
        let len = (self.work.len - self.moved).min(*budget);
        let (near, far) = (self.local.ptr.wrapping_add(self.moved as usize), self.remote.ptr());
        let far = far.wrapping_add(self.moved as usize);
        let (from, to) = match self.work.op {
            Op::Write => (near, far),
            Op::Read => (far, near),
        };
        // SAFETY: `local` covers the whole near range and the poster's pin holds it until the completion;
        // the guard covers and holds the whole far one; `moved + len` is within both.
        unsafe { copy(from, to, len as usize) };
        self.moved += len;
        *budget -= len;
        self.moved == self.work.len
    }
}
