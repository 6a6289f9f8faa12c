//! A transport that does nothing, at once: what stages cost without any I/O; and that panics when told to.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use pipeline_transports::control::Control;
use pipeline_transports::transport::{BoxFuture, Registered, Registration};
use pipeline_transports::{
    Access, Arming, Cancelled, Caps, Completion, Completions, Error, Flushed, Halves, Incoming, Link,
    LinkEnd, LinkId, Memory, Mover, Nanos, NicId, Offer, Outcome, PairId, Path, Post, Posted, Reap,
    Transport, Waker, Wakes, WorkRequest, WrId,
};

const DEPTH: usize = 256;

/// What was posted and not reaped.
type Ring = Arc<Mutex<Vec<(LinkId, WrId)>>>;

/// A transport that does nothing, at once.
pub struct Null {
    caps: Caps,
    nics: [String; 1],
    /// The half that shall panic, once, and after how many work requests.
    pub trip: Trip,
}

/// See [`Null::trip`].
#[derive(Clone, Default)]
pub struct Trip {
    pub post: Arc<AtomicU64>,
    pub reap: Arc<AtomicU64>,
}

fn step(left: &AtomicU64, n: usize) {
    let before = left.load(Relaxed);
    if before > 0 {
        left.store(before.saturating_sub(n as u64), Relaxed);
        assert!(before > n as u64, "the trip wire of a test");
    }
}

impl Default for Null {
    fn default() -> Self {
        let caps = Caps {
            two_sided: false,
            fenced: true,
            read: true,
            write: true,
            direct: true,
            mover: Mover::Cpu,
            max_bytes: 1 << 40,
            preferred_bytes: 1 << 20,
        };
        Self { caps, nics: ["mem".into()], trip: Trip::default() }
    }
}

impl Null {
    /// One whose dead links must be fenced.
    pub fn unfenced() -> Self {
        let null = Self::default();
        Self { caps: Caps { fenced: false, ..null.caps }, ..null }
    }
}

struct NullPost(Ring, Waker, Trip);

struct NullReap(Ring, Waker, Trip, Vec<LinkId>);

struct Nothing;

impl Registered for Nothing {}

impl Transport for Null {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn nics(&self) -> &[String] {
        &self.nics
    }

    fn register(&self, _: &Memory, _: Access) -> Result<Registration, Error> {
        Ok(Box::new(Nothing))
    }

    fn offer(&self) -> Offer {
        Offer { kind: "loopback".into(), ..Offer::default() }
    }

    fn lanes(&self) -> u16 {
        1
    }

    fn dial<'a>(
        &'a self,
        path: &'a Path,
        _: &'a Offer,
        _: &'a mut dyn Control,
        _: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        let end = || Some(LinkEnd { id: path.link, body: Box::new(()) });
        Box::pin(std::future::ready(Ok(Link {
            id: path.link,
            post: end(),
            reap: end(),
            serve: None,
            remote_nic: 0,
        })))
    }

    fn accept<'a>(
        &'a self,
        _: Incoming,
        _: &'a mut dyn Control,
        _: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        Box::pin(std::future::ready(Err(Error::Unsupported { transport: "null", what: "accept" })))
    }

    fn attach(&self, _: NicId, _: PairId, wake: Wakes) -> Result<Halves, Error> {
        let ring: Ring = Arc::new(Mutex::new(Vec::with_capacity(DEPTH)));
        Ok(Halves {
            post: Box::new(NullPost(ring.clone(), wake.reap, self.trip.clone())),
            reap: Box::new(NullReap(ring, wake.post, self.trip.clone(), Vec::new())),
            serve: None,
        })
    }
}

impl Post for NullPost {
    fn adopt(&mut self, _: LinkEnd) {}

    fn room(&self, _: LinkId) -> usize {
        DEPTH - self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn post(&mut self, _: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        step(&self.2.post, work.len());
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = work.len().min(DEPTH - ring.len());
        ring.extend(work[..taken].iter().map(|w| (link, w.id)));
        Posted { taken }
    }

    fn flush(&mut self, _: Nanos) -> Flushed {
        self.1.wake();
        Flushed::All
    }

    fn arm(&mut self, _: &mut dyn Arming) {}
}

impl Reap for NullReap {
    fn adopt(&mut self, _: LinkEnd) {}

    fn reap(&mut self, _: Nanos, out: &mut Completions) -> usize {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n = ring.len().min(out.room());
        let full = ring.len() == DEPTH;
        step(&self.2.reap, n);
        for (link, id) in ring.drain(..n) {
            out.push(Completion { id, link, outcome: Outcome::Done });
        }
        if full {
            self.1.wake();
        }
        if ring.is_empty() {
            self.3.drain(..).for_each(|link| out.push_closed(link));
        }
        n
    }

    fn cancel(&mut self, _: LinkId, _: WrId) -> Cancelled {
        Cancelled::NotHere
    }

    fn abort(&mut self, link: LinkId) {
        self.3.push(link);
    }

    fn outstanding(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        if !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            on.busy();
        }
    }
}
