//! A transport that moves nothing and keeps so many work requests in flight: those that were posted longest ago
//! complete once more than that are under way, and all of them once nothing has been posted for a while.
//! Deliberately without any look at payload: what is measured is what stages, tables and edges cost.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline_transports::control::Control;
use pipeline_transports::transport::{BoxFuture, Registered, Registration};
use pipeline_transports::{
    Access, Arming, Cancelled, Caps, Completion, Completions, Error, Flushed, Halves, Incoming, Link,
    LinkEnd, LinkId, Memory, Mover, Nanos, NicId, Offer, Outcome, PairId, Path, Post, Posted, Reap,
    Transport, Waker, Wakes, WorkRequest, WrId,
};

/// How many more than it keeps it takes: eight batches.
const AHEAD: usize = 256;

/// Looks in a row without anything posted, after which it lets go of all.
const IDLE: u32 = 64;

/// See the file's head.
pub struct Line {
    caps: Caps,
    nics: Vec<String>,
    keeps: usize,
}

impl Line {
    /// One that keeps `keeps` in flight on each of so many NICs.
    pub fn keeping(keeps: usize, nics: usize) -> Arc<Self> {
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
        Arc::new(Self { caps, nics: (0..nics).map(|nic| format!("n{nic}")).collect(), keeps })
    }
}

/// What was posted and not reaped.
struct Way {
    queue: VecDeque<(LinkId, WrId)>,
    keeps: usize,
    idle: u32,
}

impl Way {
    fn is_full(&self) -> bool {
        self.queue.len() >= self.keeps + AHEAD
    }
}

type Shared = Arc<Mutex<Way>>;

fn lock(way: &Shared) -> MutexGuard<'_, Way> {
    way.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Poster(Shared, Waker);

struct Reaper(Shared, Waker);

struct Nothing;

impl Registered for Nothing {}

impl Transport for Line {
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
        Box::pin(std::future::ready(Err(Error::Unsupported { transport: "line", what: "accept" })))
    }

    fn attach(&self, _: NicId, _: PairId, wake: Wakes) -> Result<Halves, Error> {
        let queue = VecDeque::with_capacity(self.keeps + AHEAD);
        let way: Shared = Arc::new(Mutex::new(Way { queue, keeps: self.keeps, idle: 0 }));
        Ok(Halves {
            post: Box::new(Poster(way.clone(), wake.reap)),
            reap: Box::new(Reaper(way, wake.post)),
            serve: None,
        })
    }
}

impl Post for Poster {
    fn adopt(&mut self, _: LinkEnd) {}

    fn room(&self, _: LinkId) -> usize {
        let way = lock(&self.0);
        way.keeps + AHEAD - way.queue.len()
    }

    fn post(&mut self, _: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        let mut way = lock(&self.0);
        let taken = work.len().min(way.keeps + AHEAD - way.queue.len());
        way.queue.extend(work[..taken].iter().map(|w| (link, w.id)));
        way.idle = 0;
        Posted { taken }
    }

    fn flush(&mut self, _: Nanos) -> Flushed {
        self.1.wake();
        Flushed::All
    }

    fn arm(&mut self, _: &mut dyn Arming) {}
}

impl Reap for Reaper {
    fn adopt(&mut self, _: LinkEnd) {}

    fn reap(&mut self, _: Nanos, out: &mut Completions) -> usize {
        let mut way = lock(&self.0);
        let keeps = if way.idle < IDLE { way.keeps } else { 0 };
        let (n, full) = (way.queue.len().saturating_sub(keeps).min(out.room()), way.is_full());
        way.idle = way.idle.saturating_add(1);
        for (link, id) in way.queue.drain(..n) {
            out.push(Completion { id, link, outcome: Outcome::Done });
        }
        drop(way);
        if full {
            self.1.wake();
        }
        n
    }

    fn cancel(&mut self, _: LinkId, _: WrId) -> Cancelled {
        Cancelled::NotHere
    }

    fn abort(&mut self, _: LinkId) {}

    fn outstanding(&self) -> usize {
        lock(&self.0).queue.len()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        if !lock(&self.0).queue.is_empty() {
            on.busy();
        }
    }
}
