//! Pools without threads: whoever submits and waits does the work.

mod rig;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use pipeline_graph::{Dispatch, Mode, PoolKind, PortId, State, clock};
use rig::{OUT, Rig, Seen, in_seconds, queue, until};

/// A graph of two stages of a caller pool, and a retry loop of its own.
fn lone(seen: &Arc<Seen>, threads: &Arc<Mutex<HashSet<ThreadId>>>) -> Rig {
    let threads = threads.clone();
    let note = move |item| {
        threads.lock().expect("no test panics with it").insert(std::thread::current().id());
        item
    };
    let mut rig = Rig::new()
        .pool("app", 1)
        .stage("first", Some("app"), &["out"], |_, i| Some((OUT, i)))
        .stage("try", Some("app"), &["out", "retry"], move |_, i| {
            note(if i % 8 == 7 { Some((PortId(1), i + 1)) } else { Some((OUT, i)) })
        })
        .sink("end", Some("app"), seen)
        .edge("submit -> first", queue(1))
        .edge("first -> try", Mode::Inline)
        .edge("try -> end", Mode::Inline)
        .edge("try.retry -> first", Mode::Return { dispatch: Dispatch::Any });
    rig.blueprint.pools[0].kind = PoolKind::Caller;
    rig
}

/// A submission runs the whole way on the thread that submits, and nothing runs without one; a step does what is left;
/// after the stop nothing moves, and what is in hand has failed.
#[test]
fn a_submission_runs_to_completion() {
    let (seen, threads) = (Arc::new(Seen::default()), Arc::default());
    let rig = lone(&seen, &threads);
    let mut engine = rig.start();
    let inlet = engine.inlet();
    for i in 0..1000 {
        inlet.push_all(&[i * 8]).unwrap();
        assert_eq!(seen.count(), i + 1, "done when the submission returns");
    }
    assert!(!engine.step(), "nothing is left");
    inlet.push_all(&[7]).unwrap();
    while engine.step() {}
    assert_eq!(seen.count(), 1001);
    assert_eq!(*threads.lock().unwrap(), HashSet::from([std::thread::current().id()]));
    assert_eq!(engine.state(), State::Running);
    assert!(engine.drain(in_seconds(30)).empty);
    engine.stop();
    assert_eq!((engine.state(), engine.step()), (State::Stopped, false));
    assert!(inlet.push_all(&[1]).is_err());
}

/// Eight threads submit at once over a queue of one entry, and none waits: everything that was taken is done when all
/// of them have returned and one has stepped to the end.
#[test]
fn many_submit_at_once() {
    let (seen, threads) = (Arc::new(Seen::default()), Arc::default());
    let rig = lone(&seen, &threads);
    let engine = rig.start();
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let inlet = engine.inlet();
                for i in 0..2_000 {
                    while inlet.push_all(&[i]).is_err() {
                        std::thread::yield_now();
                    }
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    while engine.step() {}
    assert_eq!((taken.into_inner(), seen.count()), (16_000, 16_000));
}

/// The descriptor is readable when a worker with a thread has sent something, stays so until it is done, and is not
/// readable afterwards; a thread that leads sleeps for it as well.
#[test]
fn the_descriptor_tells() {
    let seen = Arc::new(Seen::default());
    let mut rig = Rig::new()
        .pool("own", 1)
        .pool("app", 1)
        .stage("far", Some("own"), &["out"], |_, i| Some((OUT, i)))
        .sink("near", Some("app"), &seen)
        .edge("submit -> far", queue(8))
        .edge("far -> near", queue(8));
    rig.blueprint.pools[1].kind = PoolKind::Caller;
    let engine = rig.start();
    let callers = engine.callers().unwrap().clone();
    let fd = callers.fd().unwrap();
    let readable = |limit_ms: i64| {
        let limit = rustix::event::Timespec { tv_sec: 0, tv_nsec: limit_ms * 1_000_000 };
        let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&limit)).unwrap() > 0
    };
    assert!(readable(0), "what was before the first call is told");
    for i in 0..100 {
        // Who rings is a moment late with its note that it rang: the descriptor may tell that twice.
        until("a descriptor that is not readable", || !callers.step() && !readable(0));
        engine.inlet().push_all(&[i]).unwrap();
        until("a readable descriptor", || readable(500));
        assert!(readable(0), "until it is done");
        until("the item", || {
            callers.step();
            seen.count() == i + 1
        });
    }
    let mut lead = callers.lead().unwrap();
    assert!(callers.is_led() && callers.lead().is_none());
    engine.inlet().push_all(&[1]).unwrap();
    while seen.count() < 101 {
        lead.step(in_seconds(30), || seen.count() == 101);
    }
    let rouser = callers.clone();
    let thread = std::thread::spawn(move || rouser.rouse());
    let start = clock::now();
    let mut steps = 0;
    while !thread.is_finished() {
        lead.step(in_seconds(30), || thread.is_finished());
        steps += 1;
    }
    assert!(clock::now() - start < 20_000_000_000, "roused before its time, after {steps} steps");
    drop(lead);
    assert!(!callers.is_led());
}

/// Stages of a caller pool run on a marked thread, so that nobody waits there; outside of a step it is not marked.
#[test]
fn a_step_is_marked() {
    let marked = Arc::new(AtomicU64::new(0));
    let mark = marked.clone();
    let mut rig = Rig::new()
        .pool("app", 1)
        .stage("end", Some("app"), &[], move |_, _| {
            mark.fetch_add(u64::from(pipeline_graph::on_engine_thread()), Ordering::Relaxed);
            None
        })
        .edge("submit -> end", queue(1));
    rig.blueprint.pools[0].kind = PoolKind::Caller;
    let engine = rig.start();
    engine.inlet().push_all(&[1]).unwrap();
    assert_eq!(marked.load(Ordering::Relaxed), 1);
    assert!(!pipeline_graph::on_engine_thread());
}
