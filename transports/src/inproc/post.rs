//! The post half of in-process links: cheap, it only puts work requests where the reap half finds them.
//! Deliberately moves nothing: completions come from the reap half alone.

use crate::clock::Nanos;
use crate::inproc::lane::Share;
use crate::link::{Arming, Flushed, LinkEnd, LinkId, Post, Posted, Waker};
use crate::wr::WorkRequest;

/// See the file's head.
pub(crate) struct PostHalf {
    /// By ascending id.
    lanes: Vec<(LinkId, Share)>,
    /// Owner of the reap half.
    reaper: Waker,
    /// Something was posted since the reaper was last woken.
    posted: bool,
}

impl PostHalf {
    pub(crate) fn new(reaper: Waker) -> Self {
        Self { lanes: Vec::new(), reaper, posted: false }
    }

    fn lane(&self, link: LinkId) -> Option<&Share> {
        let at = self.lanes.binary_search_by_key(&link, |(id, _)| *id).ok()?;
        Some(&self.lanes[at].1)
    }
}

impl Post for PostHalf {
    fn adopt(&mut self, end: LinkEnd) {
        // Dead lanes take nothing more: adopting is the moment to let go of them.
        self.lanes.retain(|(_, lane)| !lane.is_dead());
        let Ok(lane) = end.body.downcast::<Share>() else {
            debug_assert!(false, "the end of another transport was mailed here");
            return;
        };
        let at = self.lanes.partition_point(|(id, _)| *id < end.id);
        self.lanes.insert(at, (end.id, *lane));
    }

    fn room(&self, link: LinkId) -> usize {
        self.lane(link).map_or(0, |lane| lane.room())
    }

    fn post(&mut self, now: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        let taken = self.lane(link).map_or(0, |lane| lane.post(now, work));
        self.posted |= taken > 0;
        Posted { taken }
    }

    fn flush(&mut self, _now: Nanos) -> Flushed {
        if std::mem::take(&mut self.posted) {
            self.reaper.wake();
        }
        Flushed::All
    }

    fn arm(&mut self, _on: &mut dyn Arming) {
        // Freed room and deaths ring the bell: the reap half has the waker.
    }
}

impl Drop for PostHalf {
    fn drop(&mut self) {
        self.lanes.clear();
        self.reaper.wake();
    }
}
