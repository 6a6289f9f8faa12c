//! A transport that counts what is posted on each of its NICs, and does as another one does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pipeline_transports::control::Control;
use pipeline_transports::transport::{BoxFuture, Registration};
use pipeline_transports::{
    Access, Arming, Caps, Error, Flushed, Halves, Incoming, Link, LinkEnd, LinkId, Memory, Nanos, NicId,
    Offer, PairId, Path, Post, Posted, Transport, Wakes, WorkRequest,
};

/// See the file's head.
pub struct Tally {
    inner: Arc<dyn Transport>,
    slices: Arc<Vec<AtomicU64>>,
}

impl Tally {
    pub fn of(inner: Arc<dyn Transport>) -> Arc<Self> {
        let slices = inner.nics().iter().map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { inner, slices: Arc::new(slices) })
    }

    /// Slices that were posted on each NIC since the last look.
    pub fn take(&self) -> Vec<u64> {
        self.slices.iter().map(|slices| slices.swap(0, Relaxed)).collect()
    }

    /// Those on one NIC.
    pub fn on(&self, nic: usize) -> u64 {
        self.slices[nic].load(Relaxed)
    }
}

impl Transport for Tally {
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
        let halves = self.inner.attach(nic, pair, wake)?;
        let (slices, nic) = (self.slices.clone(), usize::from(nic.0));
        Ok(Halves { post: Box::new(Counting { inner: halves.post, slices, nic }), ..halves })
    }
}

struct Counting {
    inner: Box<dyn Post>,
    slices: Arc<Vec<AtomicU64>>,
    nic: usize,
}

impl Post for Counting {
    fn adopt(&mut self, end: LinkEnd) {
        self.inner.adopt(end);
    }

    fn room(&self, link: LinkId) -> usize {
        self.inner.room(link)
    }

    fn post(&mut self, now: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        let posted = self.inner.post(now, link, work);
        self.slices[self.nic].fetch_add(posted.taken as u64, Relaxed);
        posted
    }

    fn flush(&mut self, now: Nanos) -> Flushed {
        self.inner.flush(now)
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        self.inner.arm(on);
    }
}
