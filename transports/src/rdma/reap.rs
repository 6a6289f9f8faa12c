//! The half that reaps: one completion queue for all links of its workers, polled in batches, or armed.
//!
//! Before a sleep the queue is drained, asked to tell, and drained again: what came in between is never slept over. Only
//! this half completes work requests. Deliberately no deadlines of work requests, but it watches that links with work
//! outstanding move at all, and that their NIC is well ([`super::health`]).

use std::sync::Arc;

use ibverbs_sys::ibv_wc;

use super::completion::Cause;
use super::health::Health;
use super::link::{Pair, ReapEnd, Tag};
use super::reaped::{Ending, Reaped};
use crate::clock::Nanos;
use crate::link::{Arming, Cancelled, LinkEnd, LinkId, Reap};
use crate::stall::Looks;
use crate::wr::{Completions, WrId};

/// Completions taken out of the queue by one call.
const POLL: usize = 64;
/// Events that are acknowledged together: each acknowledgement takes a lock.
const ACKNOWLEDGE: u32 = 64;

/// See the file's head.
pub(super) struct RdmaReap {
    /// By the index of their tags.
    links: Vec<Option<Reaped>>,
    /// Where each link is, by ascending id.
    places: Vec<(LinkId, usize)>,
    /// What was polled and not worked off.
    polled: Box<[ibv_wc]>,
    next: usize,
    len: usize,
    /// Links that completed something in this turn.
    touched: Vec<usize>,
    /// Links that are dead and not reported.
    dying: usize,
    news_seen: u64,
    /// The queue was asked to tell, and has not.
    told_to_tell: bool,
    /// Events taken and not acknowledged.
    events: u32,
    health: Health,
    looks: Looks,
    pair: Arc<Pair>,
}

impl RdmaReap {
    /// `looks`: at links that stand still.
    pub(super) fn new(pair: Arc<Pair>, looks: Looks) -> Self {
        // SAFETY: integers only.
        let none: ibv_wc = unsafe { std::mem::zeroed() };
        Self {
            links: Vec::new(),
            places: Vec::new(),
            polled: vec![none; POLL].into_boxed_slice(),
            next: 0,
            len: 0,
            touched: Vec::with_capacity(POLL),
            dying: 0,
            news_seen: 0,
            told_to_tell: false,
            events: 0,
            health: Health::of(pair.queue.device()),
            looks,
            pair,
        }
    }

    fn find(&mut self, link: LinkId) -> Option<&mut Reaped> {
        let at = self.places.binary_search_by_key(&link, |(id, _)| *id).ok()?;
        self.links[self.places[at].1].as_mut()
    }

    /// Takes completions out of the queue into the empty buffer. Whether any came.
    fn poll(&mut self) -> bool {
        self.next = 0;
        // A device whose queue cannot be read says so by an event; until then nothing is known of its links.
        self.len = self.pair.queue.poll(&mut self.polled).unwrap_or(0);
        if self.len > 0 && self.told_to_tell {
            self.take_events();
        }
        self.len > 0
    }

    /// Takes the event of a queue that was asked to tell.
    fn take_events(&mut self) {
        while self.pair.queue.take_event() {
            self.told_to_tell = false;
            self.events += 1;
        }
        if self.events >= ACKNOWLEDGE {
            self.pair.queue.acknowledge(std::mem::take(&mut self.events));
        }
    }

    /// Works off what was polled, as far as `out` has room. Whether all was.
    fn work_off(&mut self, out: &mut Completions) -> bool {
        while self.next < self.len {
            let completion = &self.polled[self.next];
            let (tag, number) = Tag::of(completion.wr_id());
            let status = completion.error().map_or(0, |(status, _)| status);
            let link = self.links.get_mut(tag.index()).and_then(Option::as_mut);
            // What is of a queue pair that is gone is nobody's.
            if let Some(link) = link.filter(|link| link.tag() == tag) {
                // At most one a completion, and there is room for as many.
                if self.touched.last() != Some(&tag.index()) {
                    self.touched.push(tag.index());
                }
                if !link.complete(number, status, out) {
                    return false;
                }
            }
            self.next += 1;
        }
        true
    }

    /// Tells posters of room.
    fn tell_posters(&mut self) {
        let mut wanted = false;
        for at in self.touched.drain(..) {
            wanted |= self.links[at].as_ref().is_some_and(Reaped::room_wanted);
        }
        if wanted {
            self.pair.wakes.post.wake();
        }
    }

    /// Looks at what the queue does not tell: links that died, and work requests that ended without the device.
    fn look_for_news(&mut self, now: Nanos, out: &mut Completions) {
        let news = self.pair.bells.news();
        if news == self.news_seen && self.dying == 0 {
            return;
        }
        self.news_seen = news;
        self.dying = 0;
        let mut wanted = false;
        for at in 0..self.links.len() {
            let Some(link) = &mut self.links[at] else { continue };
            let all = link.end_here(out);
            wanted |= link.room_wanted();
            if !all {
                // `out` is full: to be looked at again.
                self.news_seen = news.wrapping_sub(1);
            }
            if !link.is_dead() {
                continue;
            }
            self.dying += 1;
            if link.bury(now, out) == Ending::Over && out.closed_room() > 0 {
                let (id, blame) = (link.id(), link.blame(self.health.is_down()));
                out.push_closed_by(id, blame);
                self.dying -= 1;
                if let Some(link) = self.links[at].take() {
                    link.leave();
                }
                self.places.retain(|(link, _)| *link != id);
            }
        }
        if wanted {
            self.pair.wakes.post.wake();
        }
    }

    /// Kills links whose NIC is not well, and those that stand still.
    fn look_after(&mut self, now: Nanos) {
        if self.health.may_ail() {
            let links = self.links.iter().flatten();
            self.health.look(now, links.map(Reaped::address));
            for link in self.links.iter_mut().flatten().filter(|link| !link.is_dead()) {
                let at = self.health.gives_up_at(link.address(), link.is_busy());
                if at.is_some_and(|at| now >= at) {
                    link.die(Cause::Down);
                }
            }
        }
        if self.looks.is_due(now) {
            for link in self.links.iter_mut().flatten() {
                if link.is_stalled(now, &self.looks) {
                    link.die(Cause::Stalled);
                }
            }
            self.looks.looked(now);
        }
    }

    /// Names the times at which links must be looked at. Whether there is one.
    fn arm_times(&mut self, on: &mut dyn Arming) -> bool {
        let (mut busy, mut first) = (false, Nanos::MAX);
        for link in self.links.iter().flatten() {
            busy |= link.is_busy();
            let given_up = match link.is_dead() {
                true => link.drained_at(),
                false => self.health.gives_up_at(link.address(), link.is_busy()),
            };
            first = given_up.map_or(first, |at| first.min(at));
        }
        if busy {
            first = self.looks.next().map_or(first, |at| first.min(at));
        }
        if first != Nanos::MAX {
            on.deadline(first);
        }
        busy
    }
}

impl Reap for RdmaReap {
    fn adopt(&mut self, end: LinkEnd) {
        let Ok(end) = end.body.downcast::<ReapEnd>() else {
            tracing::error!(link = end.id.0, "an end that is not the reap end of an RDMA link: dropped");
            return;
        };
        let (id, at) = (end.link.id, end.link.tag.get().index());
        if self.links.len() <= at {
            self.links.resize_with(at + 1, || None);
        }
        if let Err(place) = self.places.binary_search_by_key(&id, |(id, _)| *id) {
            self.places.insert(place, (id, at));
            self.links[at] = Some(Reaped::new(*end));
            // It may have died on its way here.
            self.pair.bells.note_news();
        }
    }

    fn reap(&mut self, now: Nanos, out: &mut Completions) -> usize {
        let before = out.room();
        while self.work_off(out) && out.room() > 0 && self.poll() {
            self.tell_posters();
        }
        self.tell_posters();
        self.look_after(now);
        self.look_for_news(now, out);
        before - out.room()
    }

    fn cancel(&mut self, link: LinkId, id: WrId) -> Cancelled {
        match self.find(link) {
            // What the device has it does not give back.
            Some(link) if link.holds(id) => Cancelled::MustAbort,
            _ => Cancelled::NotHere,
        }
    }

    fn abort(&mut self, link: LinkId) {
        if let Some(link) = self.find(link) {
            link.die(Cause::Asked);
            link.stop();
        }
    }

    fn outstanding(&self) -> usize {
        self.links.iter().flatten().map(Reaped::outstanding).sum()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        if self.places.is_empty() {
            return;
        }
        if self.told_to_tell {
            // It may have told of what was polled meanwhile: the descriptor would stay readable.
            self.take_events();
        }
        if !self.told_to_tell {
            self.told_to_tell = self.pair.queue.request_notice().is_ok();
        }
        if !self.arm_times(on) {
            self.pair.bells.leave_unwatched();
            if self.links.iter().flatten().any(Reaped::is_busy) {
                on.busy();
            }
        }
        // What came before the queue was asked to tell is not told of.
        let is_left = self.next < self.len || self.poll();
        if is_left || self.pair.bells.news() != self.news_seen || !self.told_to_tell {
            on.busy();
        }
        if let Some(fd) = self.pair.queue.fd() {
            on.fd(fd);
        }
    }
}

impl Drop for RdmaReap {
    fn drop(&mut self) {
        // Destroys their queue pairs.
        self.links.clear();
        self.pair.queue.acknowledge(self.events);
    }
}
