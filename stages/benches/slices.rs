//! What all stages together cost a slice, without any I/O: medians of interleaved rounds over a transport that
//! completes at once. Deliberately no harness: `cargo bench -p pipeline-stages` prints one line a case, and fails
//! when `SLICES_NS_MAX` is set and missed.

#![allow(
    clippy::unwrap_used,
    clippy::unimplemented,
    reason = "a measurement that cannot go on has nothing to clean up"
)]

#[path = "../tests/rig/mod.rs"]
mod rig;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pipeline_stages::{Options, Request};
use pipeline_transports::control::Control;
use pipeline_transports::transport::{BoxFuture, Registered, Registration};
use pipeline_transports::{
    Access, Arming, Cancelled, Caps, Completion, Completions, Error, Flushed, Halves, Incoming, Link,
    LinkEnd, LinkId, Memory, Nanos, NicId, Offer, Outcome, PairId, Path, Post, Posted, Reap, Transport,
    Waker, Wakes, WorkRequest, WrId,
};
use rig::{INLINE, QUEUES, Rig, file, target};

const DEPTH: usize = 256;

/// What was posted and not reaped.
type Ring = Arc<Mutex<Vec<(LinkId, WrId)>>>;

/// A transport that does nothing, at once.
struct Null {
    caps: Caps,
    nics: [String; 1],
}

struct NullPost(Ring, Waker);

struct NullReap(Ring, Waker);

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
        Box::pin(std::future::ready(Ok(Link { id: path.link, post: end(), reap: end(), serve: None })))
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
            post: Box::new(NullPost(ring.clone(), wake.reap)),
            reap: Box::new(NullReap(ring, wake.post)),
            serve: None,
        })
    }
}

impl Post for NullPost {
    fn adopt(&mut self, _: LinkEnd) {}

    fn room(&self, _: LinkId) -> usize {
        DEPTH - self.0.lock().unwrap().len()
    }

    fn post(&mut self, _: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted {
        let mut ring = self.0.lock().unwrap();
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
        let mut ring = self.0.lock().unwrap();
        let n = ring.len().min(out.room());
        let full = ring.len() == DEPTH;
        for (link, id) in ring.drain(..n) {
            out.push(Completion { id, link, outcome: Outcome::Done });
        }
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
        self.0.lock().unwrap().len()
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        if !self.0.lock().unwrap().is_empty() {
            on.busy();
        }
    }
}

/// CPU time of this process: unlike the wall's, it says the same on a busy machine.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// One case: how many slices a round has, and the round.
type Case<'a> = (&'static str, u64, Box<dyn Fn() + 'a>);

fn main() {
    const MIB: u64 = 1 << 20;
    let limits = "requests = 65536\nslices = 8192\nbatches = 16\npeers = 4\nbytes_in_flight = \"64MiB\"";
    let rigs = [INLINE, QUEUES].map(|model| {
        let config = file("type = \"loopback\"", model, limits, "4KiB");
        let mut there = target(&config, &[256 * MIB], Access::ReadWrite);
        let caps = config.transports[0].clone();
        let null = Arc::new(Null { caps: there.transports[0].caps().clone(), nics: [caps.name] });
        there.view.offers = vec![null.offer()];
        let rig = Rig::start_over(&config, |_, _, _| null.clone());
        let peer = rig.meet("b", &there);
        rig.link(peer, &there);
        let source = rig.world.regions.add(Memory::allocate(256 * MIB).unwrap(), Access::Local).unwrap();
        (rig, there, peer, source)
    });
    let run = |rig: &Rig, requests: &[Request]| {
        let batch = rig.client.submit_wait(requests, Options::default(), Duration::from_secs(5)).unwrap();
        assert!(batch.wait(Duration::from_secs(30)).unwrap().is_done());
    };
    let mut cases: Vec<Case> = Vec::new();
    for ((rig, there, peer, source), names) in rigs.iter().zip([
        ["inline: 256 MiB in slices of 4 KiB", "inline: 60 000 requests of 64 B"],
        ["queues: 256 MiB in slices of 4 KiB", "queues: 60 000 requests of 64 B"],
    ]) {
        let write = |at, len| Request::write(*source, at, rig.remote(*peer, there, at), len);
        let (one, many) =
            (vec![write(0, 256 * MIB)], (0..60_000).map(|i| write(i * 64, 64)).collect::<Vec<_>>());
        cases.push((names[0], 65_536, Box::new(move || run(rig, &one))));
        cases.push((names[1], 60_000, Box::new(move || run(rig, &many))));
    }
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(15);
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for ((_, slices, round), times) in cases.iter().zip(&mut times) {
            let (start, cpu) = (Instant::now(), cpu_time());
            round();
            let ns = |t: Duration| t.as_secs_f64() * 1e9 / *slices as f64;
            times.push((ns(cpu_time() - cpu), ns(start.elapsed())));
        }
    }
    let limit = std::env::var("SLICES_NS_MAX").ok().and_then(|ns| ns.parse::<f64>().ok());
    for ((name, _, _), times) in cases.iter().zip(&mut times) {
        let middle = times.len() / 2;
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        let wall = times[middle].1;
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, median) = (times[0].0, times[middle].0);
        println!("{name:36} CPU ns/slice: median {median:6.1}, least {least:6.1}   wall: median {wall:6.1}");
        if limit.is_some_and(|limit| name.starts_with("inline") && median > limit) {
            eprintln!("missed: at most {} ns/slice", limit.unwrap_or_default());
            std::process::exit(1);
        }
    }
}
