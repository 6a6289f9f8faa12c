//! The transports of one process, put to the conformance suite, and what only they promise.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use pipeline_transports::conformance::Fixture;
use pipeline_transports::control::Control;
use pipeline_transports::loopback::{Loopback, LoopbackSettings};
use pipeline_transports::transport::{BoxFuture, SessionId};
use pipeline_transports::{
    Access, Caps, Completions, Error, Halves, Link, LinkId, Memory, Nanos, NicId, Offer, Op, Outcome, PairId,
    Path, RegionId, Regions, Span, Transport, Waker, Wakes, WorkRequest, WrId,
};

/// Numbers that no other test of this process uses.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

struct NoControl;

impl Control for NoControl {
    fn exchange<'a>(&'a mut self, _: &'a [u8], _: Nanos) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        unreachable!("in-process transports ask nothing of the peer's control")
    }
}

fn dial(transport: &dyn Transport, offer: &Offer, pair: u16) -> Result<Link, Error> {
    let path = Path {
        link: LinkId(unique()),
        nic: NicId(0),
        pair: PairId(pair),
        lane: 0,
        peer: "target".into(),
        address: SocketAddr::from(([127, 0, 0, 1], 7001)),
        session: SessionId([0; 16]),
    };
    let mut control = NoControl;
    let future = pin!(transport.dial(&path, offer, &mut control, u64::MAX));
    match future.poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(link) => link,
        Poll::Pending => panic!("nothing to wait for in one process"),
    }
}

fn adopt(halves: &mut Halves, link: Link) -> LinkId {
    halves.post.adopt(link.post.expect("a dialler has a post end"));
    halves.reap.adopt(link.reap.expect("a dialler has a reap end"));
    assert!(link.serve.is_none());
    link.id
}

fn no_wakes() -> Wakes {
    Wakes { post: Waker::none(), reap: Waker::none(), serve: Waker::none() }
}

/// Two nodes of an in-process transport.
struct Pair<T> {
    initiator: Arc<Regions>,
    target: Arc<Regions>,
    near: T,
    far: Option<T>,
    halves: Halves,
    now: Nanos,
}

impl<T: Transport> Pair<T> {
    fn with(make: impl Fn(u64, Arc<Regions>) -> T) -> Self {
        let (initiator, target) = (Arc::new(Regions::new(64)), Arc::new(Regions::new(64)));
        let near = make(unique(), initiator.clone());
        let far = Some(make(unique(), target.clone()));
        let halves = near.attach(NicId(0), PairId(0), no_wakes()).unwrap();
        Self { initiator, target, near, far, halves, now: 1 }
    }

    fn link(&mut self) -> LinkId {
        let offer = self.far.as_ref().expect("the target lives").offer();
        let link = dial(&self.near, &offer, 0).unwrap();
        adopt(&mut self.halves, link)
    }
}

macro_rules! in_process {
    ($name:ident, $transport:ty, $make:expr) => {
        struct $name(Pair<$transport>);

        impl Fixture for $name {
            fn new() -> Self {
                Self(Pair::with($make))
            }
            fn caps(&self) -> Caps {
                self.0.near.caps().clone()
            }
            fn initiator(&self) -> &Arc<Regions> {
                &self.0.initiator
            }
            fn target(&self) -> &Arc<Regions> {
                &self.0.target
            }
            fn connect(&mut self) -> LinkId {
                self.0.link()
            }
            fn halves(&mut self) -> &mut Halves {
                &mut self.0.halves
            }
            fn now(&mut self) -> Nanos {
                self.0.now
            }
            fn step_target(&mut self) {
                self.0.now += 5_000;
            }
            fn sever(&mut self, _link: LinkId) -> bool {
                drop(self.0.far.take());
                true
            }
        }
    };
}

mod loopback {
    use super::*;

    in_process!(Plain, Loopback, |incarnation, regions| {
        let settings = LoopbackSettings { queue: 64, ..LoopbackSettings::default() };
        Loopback::new(settings, incarnation, regions).unwrap()
    });

    pipeline_transports::conformance!(Plain);
}

fn loopback(incarnation: u64, regions: &Arc<Regions>) -> Loopback {
    Loopback::new(LoopbackSettings::default(), incarnation, regions.clone()).unwrap()
}

/// An engine may link to itself: bytes move between two of its own regions.
#[test]
fn loopback_to_itself() {
    let regions = Arc::new(Regions::new(2));
    let node = loopback(unique(), &regions);
    let mut halves = node.attach(NicId(0), PairId(0), no_wakes()).unwrap();
    let id = adopt(&mut halves, dial(&node, &node.offer(), 0).unwrap());
    let from = regions.add(Memory::allocate(64).unwrap(), Access::Local).unwrap();
    let to = regions.add(Memory::allocate(64).unwrap(), Access::Write).unwrap();
    regions.write_from(from, 0, b"to myself").unwrap();
    regions.pin(from).unwrap();
    let span = |region: RegionId| Span { region, offset: 0, key: 0 };
    let work = WorkRequest { id: WrId(5), op: Op::Write, local: span(from), remote: span(to), len: 9 };
    assert_eq!(halves.post.post(0, id, &[work]).taken, 1);
    let mut out = Completions::with_capacity(4);
    assert_eq!(halves.reap.reap(0, &mut out), 1);
    assert_eq!(out.done()[0].outcome, Outcome::Done);
    regions.unpin(from);
    let mut got = [0; 9];
    regions.read_into(to, 0, &mut got).unwrap();
    assert_eq!(&got, b"to myself");
}

/// Offers of other transports, of garbage and of nodes that have stopped are refused politely, naming the peer;
/// so is a pair that was never attached.
#[test]
fn dial_refuses_politely() {
    let regions = Arc::new(Regions::new(1));
    let (node, other) = (loopback(unique(), &regions), Arc::new(Regions::new(1)));
    let stopped = loopback(unique(), &other).offer();
    let error = dial(&node, &node.offer(), 0).err().unwrap();
    assert!(error.to_string().contains("not attached"), "{error}");
    let _halves = node.attach(NicId(0), PairId(0), no_wakes()).unwrap();
    let foreign = Offer { kind: "tcp".into(), ..node.offer() };
    let garbage = Offer { body: vec![1, 2, 3], ..node.offer() };
    for (offer, word) in [(stopped, "stopped"), (foreign, "tcp"), (garbage, "3 bytes")] {
        let error = dial(&node, &offer, 0).err().unwrap().to_string();
        assert!(error.contains(word) && error.contains("target"), "{error}");
    }
}

/// The reaper is woken by a flush after posts, not by an idle one; the poster when a full link has room
/// again; the reaper when the peer goes.
#[test]
fn wakes_are_rung() {
    let (regions, far) = (Arc::new(Regions::new(2)), Arc::new(Regions::new(2)));
    let settings = LoopbackSettings { queue: 2, ..LoopbackSettings::default() };
    let node = Loopback::new(settings, unique(), regions.clone()).unwrap();
    let peer = loopback(unique(), &far);
    let counted = || {
        let count = Arc::new(AtomicUsize::new(0));
        let inner = count.clone();
        let ring = move || {
            inner.fetch_add(1, Ordering::Relaxed);
        };
        (count, Waker::new(ring))
    };
    let ((posts, post), (reaps, reap)) = (counted(), counted());
    let mut halves = node.attach(NicId(0), PairId(0), Wakes { post, reap, serve: Waker::none() }).unwrap();
    let id = adopt(&mut halves, dial(&node, &peer.offer(), 0).unwrap());
    let from = regions.add(Memory::allocate(64).unwrap(), Access::Local).unwrap();
    regions.pin(from).unwrap();
    let to = far.add(Memory::allocate(64).unwrap(), Access::Write).unwrap();
    let span = |region| Span { region, offset: 0, key: 0 };
    let work = WorkRequest { id: WrId(1), op: Op::Write, local: span(from), remote: span(to), len: 9 };
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    halves.post.flush(0);
    assert_eq!(count(&reaps), 0);
    assert_eq!(halves.post.post(0, id, &[work; 3]).taken, 2);
    halves.post.flush(0);
    halves.post.flush(0);
    assert_eq!((count(&reaps), count(&posts)), (1, 0));
    let mut out = Completions::with_capacity(1);
    assert_eq!(halves.reap.reap(0, &mut out), 1);
    assert_eq!((count(&posts), halves.post.room(id)), (1, 1));
    drop(peer);
    assert_eq!(count(&reaps), 2);
    out.clear();
    halves.reap.reap(0, &mut out);
    assert_eq!((out.done()[0].outcome, out.closed()), (Outcome::NotBegun, &[id][..]));
    assert_eq!((count(&posts), halves.post.room(id)), (2, 0));
}
