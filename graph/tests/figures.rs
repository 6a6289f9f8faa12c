//! What a graph says of itself: waits, depths and blocked time, where they are and where there is nothing to measure.

#[path = "rig/mod.rs"]
mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use pipeline_graph::{Dispatch, Mode, PortId, Snapshot};
use rig::{OUT, Rig, Seen, queue, submit, until};

/// A gate that is shut until a test opens it.
fn gated(open: &Arc<AtomicBool>) -> impl Fn() + Send + Sync + 'static {
    let open = open.clone();
    move || until("the gate opens", || open.load(Acquire))
}

/// A line: `a` in its own pool, `b` behind a queue of two batches in another, `c` inline behind that.
fn line(open: &Arc<AtomicBool>, seen: &Arc<Seen>) -> Rig {
    let wait = gated(open);
    Rig::new()
        .pool("front", 1)
        .pool("back", 1)
        .stage("a", Some("front"), &["out"], |_, item| Some((OUT, item)))
        .stage("b", Some("back"), &["out"], move |_, item| {
            wait();
            Some((OUT, item))
        })
        .sink("c", Some("back"), seen)
        .edge("submit -> a", queue(64))
        .edge("a -> b", queue(2))
        .edge("b -> c", Mode::Inline)
}

/// Before a consumer that stands still its queue is as deep as it can be, the producer's batches are blocked for as long, and
/// what waited says so; inline there is no depth, and no wait. An interval begins at 0, except what lies in edges.
#[test]
fn a_slow_consumer_shows_at_its_edge() {
    let (open, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
    let engine = line(&open, &seen).start();
    submit(&engine, 0..10 * 32);
    // One batch in the stage's hands, two in the ring, one that finds no room.
    until("the queue is full", || engine.snapshot().edge("a -> b").unwrap().depth_now == 2);
    let (full, now) = (engine.snapshot(), engine.snapshot());
    for (of_all, of_interval) in now.edges.iter().zip(now.since(&full).edges) {
        assert_eq!(of_interval.depth_items, of_all.pushed - of_all.popped, "{} as it is now", of_all.name);
    }
    assert!(now.edge("a -> b").unwrap().depth_items > 0);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(30) {
        std::thread::yield_now();
    }
    open.store(true, Release);
    let pushed = || engine.snapshot().edge("submit -> a").unwrap().pushed;
    until("all", || seen.count() == pushed());
    let all = engine.snapshot();
    let edge = all.edge("a -> b").unwrap();
    assert_eq!((edge.depth_max, edge.depth_now, edge.capacity), (2, 0, 2));
    assert!(edge.depth_avg() > 0.5 && edge.depth_avg() <= 2.0, "{}", edge.depth_avg());
    assert!(edge.blocked_ns >= 25_000_000, "{} ns blocked", edge.blocked_ns);
    let (b, c) = (all.stage("b").unwrap(), all.stage("c").unwrap());
    assert_eq!((b.wait.count(), b.depth_max), (edge.popped, 2));
    assert!(b.wait.quantile(1.0) >= 25_000_000 && b.wait.sum() > b.wait.quantile(1.0));
    let inline = all.edge("b -> c").unwrap();
    assert_eq!((inline.depth_max, inline.depth_now, inline.blocked_ns, inline.depth_avg()), (0, 0, 0, 0.0));
    assert!(c.wait.count() > 0 && c.wait.quantile(0.5) < 1_000, "{} ns", c.wait.quantile(0.5));
    engine.reset_peaks();
    let after = engine.snapshot().since(&all);
    let edge = after.edge("a -> b").unwrap();
    assert_eq!((edge.depth_max, edge.blocked_ns, edge.depth_samples, edge.pushed), (0, 0, 0, 0));
    assert_eq!((after.stage("b").unwrap().wait.count(), after.stage("b").unwrap().wait.sum()), (0, 0));
}

/// What waits on an inline edge because its stage cannot go on has waited since it was put there.
#[test]
fn what_is_left_inline_has_waited() {
    let (open, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
    let wait = gated(&open);
    let rig = Rig::new()
        .pool("front", 1)
        .pool("back", 1)
        .stage("a", Some("front"), &["out"], |_, item| Some((OUT, item)))
        .stage("b", Some("front"), &["out"], |_, item| Some((OUT, item)))
        .stage("end", Some("back"), &["out"], move |_, item| {
            wait();
            Some((OUT, item))
        })
        .sink("c", Some("back"), &seen)
        .edge("submit -> a", queue(64))
        .edge("a -> b", Mode::Inline)
        .edge("b -> end", queue(1))
        .edge("end -> c", Mode::Inline);
    let engine = rig.start();
    submit(&engine, 0..8 * 32);
    until("b is stuck", || engine.snapshot().edge("b -> end").unwrap().depth_now == 1);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(30) {
        std::thread::yield_now();
    }
    open.store(true, Release);
    until("all", || seen.count() == 8 * 32);
    let b = engine.snapshot().stage("b").unwrap().clone();
    assert!(b.wait.quantile(1.0) >= 20_000_000, "{} ns at most", b.wait.quantile(1.0));
    assert!(b.wait.quantile(0.05) < 5_000_000, "{} ns at least", b.wait.quantile(0.05));
}

/// Items that come back over a return edge are measured too: as many as were popped are stood for, and one that waited long
/// is seen.
#[test]
fn return_edges_have_waits() {
    let (laps, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(Seen::default()));
    let (open, counted) = (Arc::new(AtomicBool::new(true)), laps.clone());
    let wait = gated(&open);
    let rig = Rig::new()
        .pool("front", 1)
        .pool("back", 1)
        .stage("a", Some("front"), &["out"], move |_, item| {
            wait();
            Some((OUT, item))
        })
        .stage("turn", Some("back"), &["out", "again"], move |_, item| {
            let again = counted.fetch_add(1, Relaxed) % 2 == 0;
            Some((PortId(u16::from(again)), item))
        })
        .sink("end", Some("back"), &seen)
        .edge("submit -> a", queue(64))
        .edge("a -> turn", queue(8))
        .edge("turn -> end", Mode::Inline)
        .edge("turn.again -> a", Mode::Return { dispatch: Dispatch::Any });
    let engine = rig.start();
    submit(&engine, 0..5_000);
    until("all", || seen.count() == 5_000);
    let all = engine.snapshot();
    let (edge, a) = (all.edge("turn.again -> a").unwrap(), all.stage("a").unwrap());
    assert!(edge.popped > 1_000 && edge.depth_max >= 1 && edge.depth_samples > 0, "{edge:?}");
    let entered = all.edge("submit -> a").unwrap().popped;
    let returned = a.wait.count() - entered;
    assert!(returned <= edge.popped && edge.popped - returned <= 32, "{returned} of {}", edge.popped);
}

/// Who sleeps is asleep for whoever looks, however short the look and however long the sleep; and no look tells of less than an
/// earlier one.
#[test]
fn sleep_is_seen_while_it_goes_on() {
    let (open, seen) = (Arc::new(AtomicBool::new(true)), Arc::new(Seen::default()));
    let engine = line(&open, &seen).start();
    std::thread::sleep(Duration::from_millis(20));
    let mut before = engine.snapshot();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(20));
        let now = engine.snapshot();
        for (worker, old) in now.since(&before).workers.iter().zip(&before.workers) {
            let share = worker.parked_ns as f64 / (now.at - before.at) as f64;
            assert!((0.8..1.2).contains(&share), "{}: {share}, {} before", worker.name, old.parked_ns);
        }
        before = now;
    }
    for i in 0..2_000 {
        submit(&engine, i..i + 1);
        let now = engine.snapshot();
        let slept = |snapshot: &Snapshot| snapshot.workers.iter().map(|w| w.parked_ns).collect::<Vec<_>>();
        assert!(slept(&now).iter().zip(slept(&before)).all(|(now, before)| *now >= before), "{i}");
        before = now;
    }
}

/// With times left unmeasured all histograms are empty and nobody was busy, and everything is counted all the same.
#[test]
fn untimed_graphs_still_count() {
    let run = |untimed: bool| -> Snapshot {
        let (open, seen) = (Arc::new(AtomicBool::new(true)), Arc::new(Seen::default()));
        let mut rig = line(&open, &seen);
        rig.blueprint.untimed = untimed;
        let engine = rig.start();
        submit(&engine, 0..3_200);
        until("all", || seen.count() == 3_200);
        engine.snapshot()
    };
    let (timed, untimed) = (run(false), run(true));
    for (with, without) in timed.stages.iter().zip(&untimed.stages) {
        assert_eq!((with.items, without.items), (3_200, 3_200), "{}", with.name);
        assert!(with.service.count() > 0 && with.wait.count() > 0 && with.busy_ns > 0, "{}", with.name);
        let times = [&without.service, &without.wait, &without.held].map(|h| (h.count(), h.sum()));
        assert_eq!((times, without.busy_ns), ([(0, 0); 3], 0), "{}", with.name);
    }
    for (with, without) in timed.edges.iter().zip(&untimed.edges) {
        assert_eq!((with.pushed, with.popped), (without.pushed, without.popped), "{}", with.name);
    }
}
