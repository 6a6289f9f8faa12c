//! The serve half with faults: it may panic. Deliberately nothing else: what a target does wrong with a work request
//! is what its dialler's completion shows.

use std::sync::Arc;

use crate::clock::Nanos;
use crate::faults::desk::Desk;
use crate::faults::plan::Site;
use crate::link::{Arming, LinkEnd, LinkId, Serve, Served};

/// See the file's head.
pub(super) struct ServeHalf {
    pub(super) inner: Box<dyn Serve>,
    pub(super) desk: Arc<Desk>,
}

impl Serve for ServeHalf {
    fn adopt(&mut self, end: LinkEnd) {
        self.inner.adopt(end);
    }

    fn step(&mut self, now: Nanos, budget: usize) -> Served {
        let served = self.inner.step(now, budget);
        if served.answered > 0 {
            self.desk.judge(Site::Serve, LinkId(0)).or_panic();
        }
        served
    }

    fn fence(&mut self, link: LinkId) {
        self.inner.fence(link);
    }

    fn has_guests(&self) -> bool {
        self.inner.has_guests()
    }

    fn under_way(&self) -> usize {
        self.inner.under_way()
    }

    fn closed(&mut self) -> Option<LinkId> {
        self.inner.closed()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.inner.arm(on);
    }
}
