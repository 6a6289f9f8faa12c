//! What jobs give: every item once, in order, counted where it was worked on, and no more of them than there are places.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeline_graph::{Dispatch, Mode, PoolKind};

use crate::gate::Door;
use crate::rig::{OUT, Rig, Seen, in_seconds, queue, queue_by, submit, until};

/// Takes as long as the item says, so that later jobs overtake earlier ones.
fn toil(item: u64) -> u64 {
    (0..item.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53).fold(item, |x, _| std::hint::black_box(x))
}

/// `submit -> a -> job -> end`, the job on three threads.
fn line(into: Mode, on: Mode, end_in: Option<&str>, seen: &Arc<Seen>) -> Rig {
    Rig::new()
        .pool("p", 1)
        .crew("crew", 3)
        .stage("a", Some("p"), &["out"], |_, i| Some((OUT, i)))
        .stage("job", Some("crew"), &["out"], |_, i| Some((OUT, toil(i))))
        .sink("end", end_in, seen)
        .edge("submit -> a", queue(64))
        .edge("a -> job", into)
        .edge("job -> end", on)
}

/// Whatever leads to it and away from it, inline or a queue of any dispatch: each item comes out once, and in the order in
/// which one worker brought it, although jobs end in any order.
#[test]
fn each_item_once_and_in_order() {
    let rings = [queue(1), queue_by(4, Dispatch::Owner), queue_by(2, Dispatch::Hash)];
    let mut ways = vec![(Mode::Inline, Mode::Inline, None), (Mode::Inline, Mode::Inline, Some("p"))];
    ways.extend(rings.map(|ring| (ring, Mode::Inline, None)));
    ways.extend(rings.map(|ring| (Mode::Inline, ring, Some("p"))));
    ways.extend(rings.map(|ring| (ring, ring, Some("p"))));
    for (into, on, end) in ways {
        let seen = Arc::new(Seen::default());
        let engine = line(into, on, end, &seen).start();
        submit(&engine, 1..=4_000);
        assert!(engine.drain(in_seconds(30)).empty);
        let by_worker = seen.by_worker.lock().unwrap();
        let came: Vec<_> = by_worker.values().flatten().copied().collect();
        assert!(by_worker.len() == 1 && came.iter().copied().eq(1..=4_000), "{into:?} {on:?} {end:?}");
    }
}

/// A ring may lead from `submit` straight to a stage of jobs, and a return edge back to it.
#[test]
fn submitted_and_returned() {
    let seen = Arc::new(Seen::default());
    let rig = Rig::new()
        .pool("p", 1)
        .crew("crew", 2)
        .stage("job", Some("crew"), &["out"], |_, i| Some((OUT, i)))
        .stage("try", Some("p"), &["out", "again"], |_, i| {
            if i % 4 == 3 { Some((pipeline_graph::PortId(1), i + 1)) } else { Some((OUT, i)) }
        })
        .sink("end", None, &seen)
        .edge("submit -> job", queue(4))
        .edge("job -> try", queue(2))
        .edge("try -> end", Mode::Inline)
        .edge("try.again -> job", Mode::Return { dispatch: Dispatch::Any });
    let engine = rig.start();
    submit(&engine, 1..=1_000);
    assert!(engine.drain(in_seconds(30)).empty);
    assert_eq!(seen.count(), 1_000);
    assert_eq!(seen.sum.load(Ordering::Relaxed), 1_000 * 1_001 / 2 + 250);
}

/// A worker of a `caller` pool gives jobs as one with a thread does: whoever steps it takes them back.
#[test]
fn callers_give_jobs() {
    let seen = Arc::new(Seen::default());
    let mut rig = line(Mode::Inline, Mode::Inline, Some("p"), &seen);
    rig.blueprint.pools[0].kind = PoolKind::Caller;
    let engine = rig.start();
    submit(&engine, 1..=2_000);
    until("the jobs", || {
        engine.step();
        seen.count() == 2_000
    });
    assert!(engine.drain(in_seconds(30)).empty);
}

/// Two jobs a thread and no more are given away; then the stage's input waits, and in the end `submit` is refused.
#[test]
fn places_are_bounded() {
    let (seen, door) = (Arc::new(Seen::default()), Door::default());
    let before = door.clone();
    let rig = Rig::new()
        .crew("crew", 2)
        .stage("job", Some("crew"), &["out"], move |_, i| {
            before.pass();
            Some((OUT, i))
        })
        .sink("end", None, &seen)
        .edge("submit -> job", queue(1))
        .edge("job -> end", Mode::Inline);
    let engine = rig.start();
    let (inlet, mut taken) = (engine.inlet(), 0);
    let batch: Vec<u64> = (0..32).collect();
    until("the jobs of both threads", || {
        taken += u64::from(inlet.push_all(&batch).is_ok());
        // Four jobs, a batch that was popped and waits, and one in the ring.
        door.came() == 2 && taken == 6
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(inlet.push_all(&batch).is_err() && door.came() == 2, "there is no room");
    let report = engine.drain(0);
    assert!(!report.empty && report.left[0].stage == "job", "{report}");
    door.open();
    assert!(engine.drain(in_seconds(30)).empty, "a drain waits for jobs");
    assert_eq!(seen.count(), 6 * 32);
}

/// A stage that makes more than its ports take at a time is given its rest again, before the batches behind it.
#[test]
fn more_than_fits() {
    let seen = Arc::new(Seen::default());
    let made = Arc::new(AtomicU64::new(0));
    let counted = made.clone();
    let mut rig = Rig::new()
        .pool("p", 1)
        .crew("crew", 2)
        .stage("job", Some("crew"), &["out"], |_, i| Some((OUT, i)))
        .stage("end", None, &[], move |_, i| {
            // In pairs, and in order.
            assert_eq!(i, counted.fetch_add(1, Ordering::Relaxed) / 2);
            None
        })
        .stage("a", Some("p"), &["out"], |_, i| Some((OUT, i)))
        .edge("submit -> a", queue(4))
        .edge("a -> job", Mode::Inline)
        .edge("job -> end", Mode::Inline);
    rig.blueprint.stages[0].shape.contract.expands = true;
    let specs: Vec<Arc<dyn pipeline_graph::Spec<u64>>> = vec![
        Arc::new(crate::trouble::Doubles(rig.blueprint.stages[0].shape.clone())),
        Arc::new(crate::rig::Shared(rig.spec("end"))),
        Arc::new(crate::rig::Shared(rig.spec("a"))),
    ];
    let engine = pipeline_graph::Engine::start(&rig.blueprint, specs, rig.marks.clone()).unwrap();
    submit(&engine, 0..3_000);
    let report = engine.drain(in_seconds(30));
    assert!(report.empty, "{report}");
    assert_eq!(made.load(Ordering::Relaxed), 6_000);
    assert_eq!(seen.count(), 0);
}

/// Items, batches and time of a stage of jobs are counted with the threads that carried them out; what waited, and in which
/// ring, with the stage; and the edges agree.
#[test]
fn counted_where_it_was_done() {
    let seen = Arc::new(Seen::default());
    let engine = line(queue(8), Mode::Inline, None, &seen).start();
    submit(&engine, 1..=5_000);
    assert!(engine.drain(in_seconds(30)).empty);
    let snapshot = engine.snapshot();
    let job = snapshot.stage("job").unwrap();
    assert_eq!((job.items, job.threads, job.pool.as_deref()), (5_000, 3, Some("crew")));
    assert_eq!((job.worker_items.len(), job.worker_items.iter().sum::<u64>()), (3, 5_000));
    assert_eq!(job.service.count(), job.batches);
    assert_eq!((job.wait.count(), job.cap, job.panics), (5_000, 8, 0));
    let crew: Vec<_> = snapshot.workers.iter().filter(|w| w.pool == "crew").collect();
    let names: Vec<_> = crew.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["crew/desk", "crew/0", "crew/1", "crew/2"]);
    assert_eq!(crew[1..].iter().map(|w| w.turns).sum::<u64>(), job.batches);
    let busy: u64 = crew[1..].iter().map(|w| w.busy_ns).sum();
    assert!(busy >= job.busy_ns && job.busy_ns > 0, "{busy} {}", job.busy_ns);
    let edge = snapshot.edge("a -> job").unwrap();
    assert_eq!((edge.pushed, edge.popped), (5_000, 5_000));
}
