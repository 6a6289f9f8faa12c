//! What only loopback promises: links to oneself, polite refusals, wakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pipeline_transports::loopback::{Loopback, LoopbackSettings};
use pipeline_transports::{
    Access, Completions, Memory, NicId, Offer, Op, Outcome, PairId, RegionId, Regions, Span, Transport,
    Waker, Wakes, WorkRequest, WrId,
};

use crate::pair::{adopt, dial, no_wakes, unique};

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
    let span = |region: RegionId| Span { region, offset: 0 };
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
    let span = |region| Span { region, offset: 0 };
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
