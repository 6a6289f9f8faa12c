//! The engine as a whole, with `u64` items: what goes in comes out, whatever lies between.

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeline_graph::{Dispatch, Fault, Full, Mode, PortId, State, Waker};
use rig::{OUT, Rig, Seen, in_seconds, queue, queue_by, reject, submit, until};

const INLINE: Mode = Mode::Inline;

/// Four stages inline on one worker: every item passes all of them once, in order.
#[test]
fn inline_chain() {
    let seen = Arc::new(Seen::default());
    let rig = Rig::new()
        .pool("one", 1)
        .stage("a", Some("one"), &["out"], |_, i| Some((OUT, i * 10)))
        .stage("b", Some("one"), &["out"], |_, i| Some((OUT, i + 1)))
        .stage("c", Some("one"), &["out"], |_, i| Some((OUT, i * 10)))
        .sink("end", None, &seen)
        .edge("submit -> a", queue(4))
        .edge("a -> b", INLINE)
        .edge("b -> c", INLINE)
        .edge("c -> end", INLINE);
    let mut engine = rig.start();
    submit(&engine, 0..1000);
    assert!(engine.drain(in_seconds(30)).empty);
    let want: Vec<_> = (0..1000).map(|i| (i * 10 + 1) * 10).collect();
    assert_eq!(seen.by_worker.lock().unwrap()[&0], want);
    let stats = engine.snapshot();
    for stage in ["a", "b", "c", "end"] {
        assert_eq!(stats.stage(stage).unwrap().items, 1000, "{stage}");
    }
    assert_eq!(stats.edge("b -> c").unwrap().popped, 1000);
    engine.stop();
    assert_eq!(engine.state(), State::Stopped);
    assert_eq!(engine.inlet().push_all(&[1]), Err(Full::Closed));
}

/// A million items through two queues of one batch between three threads: none is lost, none is doubled.
#[test]
fn a_million_items_through_queues_of_one() {
    const ITEMS: u64 = 1_000_000;
    let (count, sum) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, summed) = (count.clone(), sum.clone());
    let rig = Rig::new()
        .pool("p0", 1)
        .pool("p1", 1)
        .pool("p2", 1)
        .stage("a", Some("p0"), &["out"], |_, i| Some((OUT, i)))
        .stage("b", Some("p1"), &["out"], |_, i| Some((OUT, i)))
        .stage("end", Some("p2"), &[], move |_, i| {
            counted.fetch_add(1, Ordering::Relaxed);
            summed.fetch_add(i, Ordering::Relaxed);
            None
        })
        .edge("submit -> a", queue(1))
        .edge("a -> b", queue(1))
        .edge("b -> end", queue(1));
    let engine = rig.start();
    submit(&engine, 0..ITEMS);
    let report = engine.drain(in_seconds(30));
    assert!(report.empty, "{report}");
    assert_eq!(count.load(Ordering::Relaxed), ITEMS);
    assert_eq!(sum.load(Ordering::Relaxed), ITEMS * (ITEMS - 1) / 2);
    let stats = engine.snapshot();
    let edge = stats.edge("a -> b").unwrap();
    assert_eq!((edge.pushed, edge.popped, edge.depth_items), (ITEMS, ITEMS, 0));
    assert!(stats.stage("b").unwrap().wait.count() == ITEMS && stats.stage("b").unwrap().depth_max == 1);
}

/// Owner and hash dispatch bring every item to the worker it belongs to; hash uses all workers.
#[test]
fn owner_and_hash_find_their_worker() {
    for dispatch in [Dispatch::Owner, Dispatch::Hash] {
        let seen = Arc::new(Seen::default());
        let rig = Rig::new()
            .pool("front", 1)
            .pool("back", 3)
            .stage("a", Some("front"), &["out"], |_, i| Some((OUT, i)))
            .sink("end", Some("back"), &seen)
            .edge("submit -> a", queue(8))
            .edge("a -> end", queue_by(2, dispatch));
        let engine = rig.start();
        submit(&engine, 0..10_000);
        assert!(engine.drain(in_seconds(30)).empty);
        let by_worker = seen.by_worker.lock().unwrap();
        assert_eq!(by_worker.values().map(Vec::len).sum::<usize>(), 10_000);
        assert_eq!(by_worker.len(), 3, "{dispatch:?} uses every worker");
        let mut home = std::collections::HashMap::new();
        for (worker, items) in &*by_worker {
            for item in items {
                let key = if dispatch == Dispatch::Owner { item % 3 } else { item % 1000 };
                assert_eq!(*home.entry(key).or_insert(*worker), *worker, "key {key} has one home");
                assert!(dispatch == Dispatch::Hash || *worker as u64 == key);
            }
        }
    }
}

/// The inlet sorts by destination, and takes all or nothing when one destination is full.
#[test]
fn the_inlet_is_all_or_nothing() {
    let gate = Arc::new(AtomicU64::new(0));
    let seen = Arc::new(Seen::default());
    let (held, taken) = (gate.clone(), seen.clone());
    let rig = Rig::new()
        .pool("p", 3)
        .stage("end", Some("p"), &[], move |seat, item| {
            until("the gate", || seat.worker != 0 || held.load(Ordering::Acquire) == 1);
            taken.take(seat, item);
            None
        })
        .edge("submit -> end", queue_by(1, Dispatch::Owner));
    let engine = rig.start();
    let inlet = engine.inlet();
    assert_eq!((inlet.workers(), inlet.worker_of(7)), (3, 1));
    let rings = Arc::new(AtomicU64::new(0));
    let rung = rings.clone();
    inlet.ring_for_room(&Waker::new(move || {
        rung.fetch_add(1, Ordering::AcqRel);
    }));
    // One entry in worker 0's hands, one in its ring: then there is no room for it.
    let mut for_zero = 0;
    until("worker 0 is full", || {
        let taken = inlet.push_all(&[0]).is_ok();
        for_zero += u64::from(taken);
        for_zero == 2
    });
    assert_eq!(inlet.push_all(&[1, 2, 3]), Err(Full::NoRoom { asked: 1, free: 0 }));
    let many: Vec<u64> = (0..99).collect();
    let two = Err(Full::NoRoom { asked: 2, free: 0 });
    assert_eq!(inlet.push_all(&many), two, "33 items of a worker need two entries");
    assert_eq!(seen.count(), 0, "nothing of a refused submission arrives");
    let before = rings.load(Ordering::Acquire);
    gate.store(1, Ordering::Release);
    until("a ring for room", || rings.load(Ordering::Acquire) == before + 1);
    until("room", || inlet.push_all(&[1, 2, 3]).is_ok());
    assert!(engine.drain(in_seconds(30)).empty);
    assert_eq!(seen.count(), 5);
    assert_eq!(engine.snapshot().edge("submit -> end").unwrap().pushed, 5);
}

/// Items that come back over a return edge are tried again until they pass; all end once.
#[test]
fn return_edge_with_retries() {
    let seen = Arc::new(Seen::default());
    // The high half counts tries: an item passes at its fourth.
    let rig = Rig::new()
        .pool("front", 1)
        .pool("back", 2)
        .stage("select", Some("front"), &["out"], |_, i| Some((OUT, i)))
        .stage("try", Some("back"), &["out", "retry"], |_, i| {
            if i >> 32 == 3 { Some((OUT, i & 0xffff_ffff)) } else { Some((PortId(1), i + (1 << 32))) }
        })
        .sink("end", None, &seen)
        .edge("submit -> select", queue(4))
        .edge("select -> try", queue(1))
        .edge("try -> end", INLINE)
        .edge("try.retry -> select", Mode::Return { dispatch: Dispatch::Any });
    let mut rig = rig;
    rig.blueprint.tokens = 2_000;
    let engine = rig.start();
    submit(&engine, 0..2_000);
    let report = engine.drain(in_seconds(30));
    assert!(report.empty, "{report}");
    let by_worker = seen.by_worker.lock().unwrap();
    let mut all: Vec<_> = by_worker.values().flatten().copied().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..2_000));
    let edge = engine.snapshot().edge("try.retry -> select").cloned().unwrap();
    assert_eq!((edge.pushed, edge.popped, edge.overflows), (6_000, 6_000, 0));
}

/// A full edge with `reject` fails the items that do not fit; every item ends one way or the other.
#[test]
fn reject_sends_to_failed() {
    let (good, bad) = (Arc::new(Seen::default()), Arc::new(Seen::default()));
    let gate = Arc::new(AtomicU64::new(0));
    let (held, taken) = (gate.clone(), good.clone());
    let rig = Rig::new()
        .pool("front", 1)
        .pool("back", 1)
        .stage("a", Some("front"), &["out", "failed"], |_, i| Some((OUT, i)))
        .stage("slow", Some("back"), &[], move |seat, item| {
            until("the gate", || held.load(Ordering::Acquire) == 1);
            taken.take(seat, item);
            None
        })
        .sink("lost", None, &bad)
        .edge("submit -> a", queue(64))
        .edge("a -> slow", reject(1))
        .edge("a.failed -> lost", INLINE);
    let engine = rig.start();
    submit(&engine, 0..640);
    // One batch in the stage, one in the ring, one staged: the rest must be rejected.
    until("rejects", || bad.count() >= 640 - 96);
    gate.store(1, Ordering::Release);
    assert!(engine.drain(in_seconds(30)).empty);
    assert_eq!(good.count() + bad.count(), 640);
    assert_eq!(engine.snapshot().edge("a -> slow").unwrap().rejected, bad.count());
    let marks = rig.marks.0.lock().unwrap();
    let edge = Fault::Rejected { edge: "a -> slow".into() };
    assert!(marks.len() as u64 == bad.count() && marks.iter().all(|m| m.1 == edge && m.2));
}

/// A `per = "nic"` pool has a group of workers per NIC, and each instance knows its own.
#[test]
fn groups_have_their_own_workers() {
    let names = Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::new()));
    let told = names.clone();
    let mut rig = Rig::new()
        .pool("nic", 2)
        .stage("end", Some("nic"), &[], move |seat, item| {
            let me = (seat.group, seat.group_name.to_string(), seat.pair, seat.workers, item % 4);
            told.lock().unwrap().insert(seat.worker, me);
            None
        })
        .edge("submit -> end", queue_by(4, Dispatch::Hash));
    rig.blueprint.pools[0].groups = vec!["eth0".into(), "eth1".into()];
    let engine = rig.start();
    assert_eq!(engine.inlet().workers(), 4);
    submit(&engine, 0..1000);
    assert!(engine.drain(in_seconds(30)).empty);
    let names = names.lock().unwrap();
    let seats: Vec<_> = names.iter().map(|(w, n)| (*w, n.0, n.1.as_str(), n.2, n.3)).collect();
    assert_eq!(
        seats,
        [(0, 0, "eth0", 0, 4), (1, 0, "eth0", 1, 4), (2, 1, "eth1", 0, 4), (3, 1, "eth1", 1, 4)]
    );
}
