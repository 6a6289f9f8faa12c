//! The post half with faults: a work request may leave later, never, or fail without having left.
//! Deliberately one at a time: a neighbour of a struck one is posted as if nothing had been.

use std::sync::Arc;

use crate::clock::Nanos;
use crate::faults::desk::Desk;
use crate::faults::plan::Site;
use crate::link::{Arming, Flushed, LinkEnd, LinkId, Post, Posted, Waker};
use crate::wr::{Outcome, WorkRequest};

/// See the file's head.
pub(super) struct PostHalf {
    pub(super) inner: Box<dyn Post>,
    pub(super) desk: Arc<Desk>,
    /// Rings the reap half, which tells of those that failed here.
    pub(super) reaper: Waker,
}

impl PostHalf {
    /// Posts those whose time has come; what has no room yet stays.
    fn release(&mut self, now: Nanos) {
        loop {
            let inner = &*self.inner;
            let due = self.desk.state().due(now, |link| inner.room(link) > 0);
            let Some((link, work)) = due else { return };
            if self.inner.post(now, link, &[work]).taken == 0 {
                self.desk.state().held.push((now, link, work));
                return;
            }
        }
    }
}

impl Post for PostHalf {
    fn adopt(&mut self, end: LinkEnd) {
        self.inner.adopt(end);
    }

    fn room(&self, link: LinkId) -> usize {
        self.inner.room(link)
    }

    fn post(&mut self, now: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        for (taken, request) in work.iter().enumerate() {
            if self.inner.room(link) == 0 {
                return Posted { taken };
            }
            let fate = self.desk.judge(Site::Slice, link).or_panic();
            if fate.lost {
                continue;
            }
            if fate.fails {
                self.desk.state().tell(request.id, link, Outcome::Failed);
                self.reaper.wake();
            } else if let Some(delay) = fate.delay {
                let due = now.saturating_add(delay.as_nanos() as Nanos);
                self.desk.state().held.push((due, link, *request));
            } else if self.inner.post(now, link, &[*request]).taken == 0 {
                return Posted { taken };
            }
        }
        Posted { taken: work.len() }
    }

    fn flush(&mut self, now: Nanos) -> Flushed {
        self.release(now);
        let flushed = self.inner.flush(now);
        // The stage flushes again until all is out, and that is when held ones are looked at.
        if flushed == Flushed::All && !self.desk.state().held.is_empty() { Flushed::Stuck } else { flushed }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.inner.arm(on);
        if let Some(due) = self.desk.state().held.iter().map(|(due, ..)| *due).min() {
            on.deadline(due);
        }
    }
}
