//! What the engine does when stages panic, hold on to things, or are stopped in the middle.

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pipeline_graph::{Fault, Full, Mode, StartError, State, check::Rule, clock};
use rig::{OUT, Rig, Seen, in_seconds, queue, submit, until};

/// Kills the instance that meets an item that is a multiple of `every`.
fn poison(every: u64) -> impl Fn(&pipeline_graph::Seat, u64) -> Option<(pipeline_graph::PortId, u64)> {
    move |_, i| {
        assert!(!i.is_multiple_of(every), "a panic that the test wants");
        Some((OUT, i))
    }
}

/// A panic fails what was left of its batch by the `failed` port, rebuilds the instance, and the stage goes
/// on: every item ends once.
#[test]
fn a_panic_costs_its_batch_and_no_more() {
    let (good, bad) = (Arc::new(Seen::default()), Arc::new(Seen::default()));
    let rig = Rig::new()
        .pool("p", 1)
        .stage("frail", Some("p"), &["out", "failed"], poison(1000))
        .sink("end", None, &good)
        .sink("lost", None, &bad)
        .edge("submit -> frail", queue(4))
        .edge("frail -> end", Mode::Inline)
        .edge("frail.failed -> lost", Mode::Inline);
    let engine = rig.start();
    submit(&engine, 1..=3000);
    let report = engine.drain(in_seconds(30));
    assert!(report.empty, "{report}");
    assert_eq!(good.count() + bad.count(), 3000);
    assert!((3..=3 * 32).contains(&bad.count()), "at most the rest of three batches: {}", bad.count());
    assert_eq!(engine.snapshot().stage("frail").unwrap().panics, 3);
    assert_eq!(rig.spec("frail").builds.load(Ordering::SeqCst), 4);
    let marks = rig.marks.0.lock().unwrap();
    assert!(marks.iter().all(|m| m.1 == Fault::Panic { stage: "frail".into() } && m.2));
    assert_eq!(marks.len() as u64, bad.count());
}

/// The sixth panic within ten seconds fails the pool: the state says so, the inlet closes, and everything
/// that is inside ends with a mark.
#[test]
fn too_many_panics_fail_the_pool() {
    let seen = Arc::new(Seen::default());
    let rig = Rig::new()
        .pool("p", 1)
        .stage("frail", Some("p"), &["out"], poison(2))
        .sink("end", None, &seen)
        .edge("submit -> frail", queue(64))
        .edge("frail -> end", Mode::Inline);
    let engine = rig.start();
    let inlet = engine.inlet();
    let (mut taken, mut next) = (0, 0);
    until("the failure", || {
        // Each item is another: the engine takes equal ones for the same.
        next += 4;
        taken += u64::from(inlet.push_all(&[next + 1]).is_ok());
        taken += 2 * u64::from(inlet.push_all(&[next + 2, next + 3]).is_ok());
        engine.state() == State::Failed { pool: "p".into() }
    });
    assert_eq!(inlet.push_all(&[1]), Err(Full::Closed));
    let report = engine.drain(in_seconds(30));
    assert!(report.empty, "{report}");
    assert_eq!(seen.count() + rig.marks.ended(), taken);
    assert_eq!(engine.snapshot().stage("frail").unwrap().panics, 6);
}

/// A drain that runs out of time names the stages that still hold items and how many, in a queue or inside.
#[test]
fn a_drain_names_the_laggard() {
    let go = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(Seen::default());
    let (held, taken) = (go.clone(), seen.clone());
    let rig = Rig::new()
        .pool("front", 1)
        .pool("back", 1)
        .stage("a", Some("front"), &["out"], |_, i| Some((OUT, i)))
        .stage("slow", Some("back"), &[], move |seat, item| {
            until("the go", || held.load(Ordering::Acquire));
            taken.take(seat, item);
            None
        })
        .edge("submit -> a", queue(8))
        .edge("a -> slow", queue(8));
    rig.spec("a").holds.store(7, Ordering::SeqCst);
    let engine = rig.start();
    submit(&engine, 0..128);
    until("the items", || engine.snapshot().stage("a").unwrap().items == 128);
    let report = engine.drain(clock::now() + 20_000_000);
    assert!(!report.empty && report.took_ns >= 20_000_000);
    let left: Vec<_> = report.left.iter().map(|l| (l.stage.as_str(), l.items)).collect();
    // One batch is in the hands of the slow stage itself.
    assert_eq!(left, [("slow", 96), ("a", 7)], "{report}");
    go.store(true, Ordering::Release);
    rig.spec("a").holds.store(0, Ordering::SeqCst);
    assert!(engine.drain(in_seconds(30)).empty);
    assert_eq!(seen.count(), 128);
}

/// A forced stop joins every thread, and whatever lay between stages is marked: nothing just disappears.
#[test]
fn a_stop_marks_what_is_left() {
    let go = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(Seen::default());
    let (held, taken) = (go.clone(), seen.clone());
    let rig = Rig::new()
        .pool("front", 2)
        .pool("back", 1)
        .stage("a", Some("front"), &["out"], |_, i| Some((OUT, i)))
        .stage("slow", Some("back"), &[], move |seat, item| {
            until("the go", || held.load(Ordering::Acquire));
            taken.take(seat, item);
            None
        })
        .edge("submit -> a", queue(8))
        .edge("a -> slow", queue(1));
    let mut engine = rig.start();
    let inlet = engine.inlet();
    let mut taken = 0;
    // Until everything is full: rings, outlets and hands.
    let mut refused = 0;
    until("back-pressure", || {
        match inlet.push_all(&[1, 2, 3]) {
            Ok(()) => (taken, refused) = (taken + 3, 0),
            Err(full) => {
                assert!(matches!(full, Full::NoRoom { asked: 1.., .. }), "{full}");
                refused += 1;
            }
        }
        refused > 1000
    });
    let opener = std::thread::spawn({
        let (go, inlet) = (go.clone(), inlet.clone());
        move || {
            // The stop closes the inlet first; only then may the slow stage end its batch.
            until("the stop", || inlet.push_all(&[]).is_ok() && inlet.push_all(&[9]) == Err(Full::Closed));
            go.store(true, Ordering::Release);
        }
    });
    engine.stop();
    opener.join().unwrap();
    assert_eq!(engine.state(), State::Stopped);
    assert_eq!(seen.count() + rig.marks.ended(), taken);
    assert!(rig.marks.0.lock().unwrap().iter().all(|m| m.1 == Fault::Stopped));
}

/// Inlets that push while the engine stops lose nothing: each accepted item arrives or is marked.
#[test]
fn submissions_race_with_the_stop() {
    for round in 0..20 {
        let seen = Arc::new(Seen::default());
        let rig = Rig::new().pool("p", 1).sink("end", Some("p"), &seen).edge("submit -> end", queue(4));
        let mut engine = rig.start();
        let accepted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (inlet, accepted) = (engine.inlet(), &accepted);
                scope.spawn(move || {
                    loop {
                        match inlet.push_all(&[1, 2, 3]) {
                            Ok(()) => drop(accepted.fetch_add(3, Ordering::Relaxed)),
                            Err(Full::NoRoom { .. }) => std::thread::yield_now(),
                            Err(Full::Closed) => break,
                        }
                    }
                });
            }
            until("some", || seen.count() > 100 * round);
            engine.stop();
        });
        assert_eq!(seen.count() + rig.marks.ended(), accepted.load(Ordering::Relaxed));
    }
}

/// An item pushed to a port without wire ends with a mark that names the port, and is counted.
#[test]
fn strays_are_marked() {
    let rig = Rig::new()
        .pool("p", 1)
        .stage("a", Some("p"), &["out", "odd"], |_, i| Some((pipeline_graph::PortId(1), i)));
    let seen = Arc::new(Seen::default());
    let rig = rig.sink("end", None, &seen).edge("submit -> a", queue(4)).edge("a -> end", Mode::Inline);
    let engine = rig.start();
    submit(&engine, 0..100);
    assert!(engine.drain(in_seconds(30)).empty);
    assert_eq!((engine.snapshot().stage("a").unwrap().strays, rig.marks.ended()), (100, 100));
    assert_eq!(rig.marks.0.lock().unwrap()[0].1, Fault::Unwired { port: "a.odd".into() });
}

/// A graph that the check refuses, a CPU that is not there, and specs of another graph do not start, and say
/// why.
#[test]
fn refuses_to_start() {
    let seen = Arc::new(Seen::default());
    let good = || Rig::new().pool("p", 1).sink("end", Some("p"), &seen);
    let no_way_in = good();
    let Err(StartError::Refused { complaints }) = no_way_in.try_start() else { panic!("it started") };
    assert_eq!(complaints[0].rule, Rule::NoInput);
    let mut far_cpu = good().edge("submit -> end", queue(1));
    far_cpu.blueprint.pools[0].cpus = vec![1023];
    let Err(error @ StartError::Pin { cpu: 1023, .. }) = far_cpu.try_start() else { panic!("it started") };
    assert!(error.to_string().contains("worker `p` cannot be pinned to CPU 1023"));
    let mut other = good().edge("submit -> end", queue(1));
    other.blueprint.stages[0].shape.contract.holds = true;
    assert!(matches!(other.try_start(), Err(StartError::Mismatch { .. })));
}
