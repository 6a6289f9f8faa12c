//! The halves of a one-sided wire: what a device would check is checked at posting, what the test wants dead dies at reaping.
//! Deliberately around the halves that move the bytes, so that bytes really move.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::wires::{End, MOVING, Wires};
use crate::clock::Nanos;
use crate::link::{Arming, Cancelled, Flushed, LinkEnd, LinkId, Post, Posted, Reap, Waker};
use crate::wr::{Blame, Completion, Completions, Op, Outcome, Refusal, WorkRequest, WrId};

/// What both halves of a pair share.
#[derive(Default)]
pub(super) struct Pair {
    /// Begun, and stuck on the wire.
    held: Vec<(LinkId, WrId, Op)>,
    /// To be told.
    due: Vec<Completion>,
    /// Dead, and not reported yet.
    closed: Vec<(LinkId, Blame)>,
    /// Adopted by the reaper and not aborted.
    open: Vec<(LinkId, Arc<End>)>,
}

type Shared = Arc<Mutex<Pair>>;

fn lock(pair: &Shared) -> MutexGuard<'_, Pair> {
    pair.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pair {
    fn is_busy(&self) -> bool {
        !self.due.is_empty() || !self.closed.is_empty() || self.open.iter().any(|(_, e)| e.doomed().is_some())
    }
}

pub(super) struct Poster {
    pub(super) inner: Box<dyn Post>,
    pub(super) wires: Wires,
    pub(super) pair: Shared,
    pub(super) reap: Waker,
}

impl Post for Poster {
    fn adopt(&mut self, end: LinkEnd) {
        self.inner.adopt(end);
    }

    fn room(&self, link: LinkId) -> usize {
        let pair = lock(&self.pair);
        self.inner.room(link).saturating_sub(pair.held.len() + pair.due.len())
    }

    fn post(&mut self, now: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        let end = self.wires.state().links.get(&link).cloned();
        let mut taken = 0;
        for request in &work[..work.len().min(self.room(link))] {
            let mut state = self.wires.state();
            let fits =
                |len: &u64| request.remote.offset.checked_add(request.len).is_some_and(|past| past <= *len);
            let name = end.as_ref().map(|end| (end.incarnation(), request.remote.region));
            let learnt = name.and_then(|name| state.learnt.get(&name)).is_some_and(fits);
            let (id, stalled) = (request.id, state.stalled);
            state.counts.unlearnt += u64::from(!learnt);
            state.counts.stalled += u64::from(learnt && stalled);
            drop(state);
            if !learnt {
                let outcome = Outcome::Refused(Refusal::UnknownRegion);
                lock(&self.pair).due.push(Completion { id, link, outcome });
            } else if stalled {
                lock(&self.pair).held.push((link, id, request.op));
            } else if self.inner.post(now, link, std::slice::from_ref(request)).taken == 0 {
                break;
            }
            taken += 1;
        }
        self.reap.wake();
        Posted { taken }
    }

    fn flush(&mut self, now: Nanos) -> Flushed {
        self.inner.flush(now)
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.inner.arm(on);
    }
}

pub(super) struct Reaper {
    pub(super) inner: Box<dyn Reap>,
    pub(super) wires: Wires,
    pub(super) pair: Shared,
}

impl Reaper {
    /// Has dead links closed: nothing of them is begun from here on.
    fn bury(&mut self) {
        let pair = &mut *lock(&self.pair);
        pair.open.retain(|(link, end)| {
            let dead = end.doomed().is_some();
            if dead {
                self.inner.abort(*link);
                let due = &mut pair.due;
                pair.held.retain(|(of, id, _)| {
                    if of == link {
                        due.push(Completion { id: *id, link: *link, outcome: Outcome::Begun });
                    }
                    of != link
                });
            }
            !dead
        });
    }
}

impl Reap for Reaper {
    fn adopt(&mut self, end: LinkEnd) {
        if let Some(of) = self.wires.state().links.get(&end.id) {
            lock(&self.pair).open.push((end.id, of.clone()));
        }
        self.inner.adopt(end);
    }

    fn reap(&mut self, now: Nanos, out: &mut Completions) -> usize {
        let before = out.done().len();
        let moving = MOVING.read().unwrap_or_else(PoisonError::into_inner);
        self.bury();
        let room = out.room().min(out.closed_room());
        if room > 0 {
            let mut fresh = Completions::with_capacity(room);
            self.inner.reap(now, &mut fresh);
            fresh.done().iter().for_each(|completion| out.push(*completion));
            for link in fresh.closed() {
                // Of a link whose target is gone for good only the inner transport knows.
                let end = self.wires.state().links.remove(link);
                let blame = end.and_then(|end| end.doomed()).unwrap_or(Blame::Peer);
                lock(&self.pair).closed.push((*link, blame));
            }
        }
        drop(moving);
        let Pair { due, closed, held, .. } = &mut *lock(&self.pair);
        while out.room() > 0
            && let Some(completion) = due.pop()
        {
            out.push(completion);
        }
        closed.retain(|(link, blame)| {
            let more = due.iter().any(|c| c.link == *link) || held.iter().any(|(of, ..)| of == link);
            let over = !more && out.closed_room() > 0;
            if over {
                out.push_closed_by(*link, *blame);
            }
            !over
        });
        out.done().len() - before
    }

    fn cancel(&mut self, link: LinkId, id: WrId) -> Cancelled {
        let mut pair = lock(&self.pair);
        let Some(at) = pair.held.iter().position(|(_, held, _)| *held == id) else {
            drop(pair);
            return self.inner.cancel(link, id);
        };
        if pair.held[at].2 == Op::Write {
            return Cancelled::MustAbort;
        }
        pair.held.remove(at);
        Cancelled::Discarding
    }

    fn abort(&mut self, link: LinkId) {
        if let Some(end) = self.wires.state().links.get(&link) {
            end.die(Blame::Nobody);
        }
    }

    fn outstanding(&self) -> usize {
        let pair = lock(&self.pair);
        self.inner.outstanding() + pair.held.len() + pair.due.len()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.inner.arm(on);
        if lock(&self.pair).is_busy() {
            on.busy();
        }
    }
}
