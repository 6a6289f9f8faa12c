//! A transport that is watched: notes who posts on each link, and who reaps.

use std::sync::Arc;

use pipeline_transports::control::Control;
use pipeline_transports::foreign::Foreign;
use pipeline_transports::transport::{BoxFuture, Registration, SessionId};
use pipeline_transports::{
    Access, Arming, Asking, Cancelled, Caps, Completions, Error, Flushed, Halves, Incoming, Link, LinkEnd,
    LinkId, Memory, Nanos, NicFacts, NicId, Offer, PairId, Path, Post, Posted, Reap, RegionId, Staged,
    Transport, Waker, Wakes, WorkRequest, WrId,
};

use super::Watch;

/// See the file's head.
pub(super) struct Watched {
    pub(super) inner: Arc<dyn Transport>,
    pub(super) watch: Watch,
}

impl Transport for Watched {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn nics(&self) -> &[String] {
        self.inner.nics()
    }

    fn register(&self, memory: &Memory, access: Access) -> Result<Registration, Error> {
        self.inner.register(memory, access)
    }

    fn offer(&self) -> Offer {
        self.inner.offer()
    }

    fn lanes(&self) -> u16 {
        self.inner.lanes()
    }

    fn staged(&self) -> Staged {
        self.inner.staged()
    }

    fn learn(&self, incarnation: u64, region: RegionId, len: u64, keys: &[u8]) -> Result<(), Error> {
        self.inner.learn(incarnation, region, len, keys)
    }

    fn forget(&self, incarnation: u64) {
        self.inner.forget(incarnation);
    }

    fn answer<'a>(
        &'a self,
        from: Asking,
        body: &'a [u8],
        by: Nanos,
    ) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        self.inner.answer(from, body, by)
    }

    fn let_go<'a>(&'a self, session: SessionId, only: Option<LinkId>) -> BoxFuture<'a, ()> {
        self.inner.let_go(session, only)
    }

    fn tend<'a>(&'a self) -> BoxFuture<'a, std::convert::Infallible> {
        self.inner.tend()
    }

    fn nic_facts(&self, nic: NicId) -> NicFacts {
        self.inner.nic_facts(nic)
    }

    fn on_nic_change(&self, changed: Waker) {
        self.inner.on_nic_change(changed);
    }

    fn evicts(&self) -> bool {
        self.inner.evicts()
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        self.inner.foreign()
    }

    fn dial<'a>(
        &'a self,
        path: &'a Path,
        peer: &'a Offer,
        via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        self.inner.dial(path, peer, via, by)
    }

    fn accept<'a>(
        &'a self,
        from: Incoming,
        via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        self.inner.accept(from, via, by)
    }

    fn attach(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Halves, Error> {
        let Halves { post, reap, serve } = self.inner.attach(nic, pair, wake)?;
        let post = Box::new(Poster { inner: post, watch: self.watch.clone() });
        let reap = Box::new(Reaper { inner: reap, watch: self.watch.clone() });
        Ok(Halves { post, reap, serve })
    }
}

struct Poster {
    inner: Box<dyn Post>,
    watch: Watch,
}

impl Post for Poster {
    fn adopt(&mut self, end: LinkEnd) {
        self.inner.adopt(end);
    }

    fn room(&self, link: LinkId) -> usize {
        self.inner.room(link)
    }

    fn post(&mut self, now: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        let posted = self.inner.post(now, link, work);
        if posted.taken > 0 {
            self.watch.seen().posts.insert((link, std::thread::current().id()));
        }
        posted
    }

    fn flush(&mut self, now: Nanos) -> Flushed {
        self.inner.flush(now)
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.inner.arm(on);
    }
}

struct Reaper {
    inner: Box<dyn Reap>,
    watch: Watch,
}

impl Reap for Reaper {
    fn adopt(&mut self, end: LinkEnd) {
        self.inner.adopt(end);
    }

    fn reap(&mut self, now: Nanos, out: &mut Completions) -> usize {
        let before = out.done().len();
        let reaped = self.inner.reap(now, out);
        let thread = std::thread::current().id();
        for completion in &out.done()[before..] {
            self.watch.seen().reaps.insert((completion.link, thread));
        }
        reaped
    }

    fn cancel(&mut self, link: LinkId, id: WrId) -> Cancelled {
        self.inner.cancel(link, id)
    }

    fn abort(&mut self, link: LinkId) {
        self.inner.abort(link);
    }

    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.inner.arm(on);
    }
}
