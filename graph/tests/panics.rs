//! A stage that panics in the middle of a batch, in every posture a stage can have: each item ends once.

mod rig;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeline_graph::{
    Batch, BuildError, Context, Contract, Dispatch, Engine, Fault, Flow, Mode, Outlet, Port, Seat, Spec,
    Stage,
};
use rig::{OUT, Rig, Seen, Shared, in_seconds, queue, queue_by, submit};

/// How a stage holds an item when it panics.
#[derive(Clone, Copy, Debug)]
enum Posture {
    /// Popped, and not passed on yet.
    Popped,
    /// Passed on, and not popped yet.
    Passed,
    /// The whole batch popped at once; half of it passed on.
    Halfway,
    /// The batch forgotten at once; none of it passed on.
    Cleared,
}

/// A stage `frail` that passes items on, and panics at every `every`-th.
struct Frail {
    shape: Shared,
    posture: Posture,
    every: u64,
    met: Arc<AtomicU64>,
}

struct Instance {
    posture: Posture,
    every: u64,
    met: Arc<AtomicU64>,
}

impl Spec<u64> for Frail {
    fn ports(&self) -> &[Port] {
        self.shape.ports()
    }
    fn contract(&self) -> Contract {
        self.shape.contract()
    }
    fn build(&self, _: &Seat) -> Result<Box<dyn Stage<u64>>, BuildError> {
        Ok(Box::new(Instance { posture: self.posture, every: self.every, met: self.met.clone() }))
    }
}

impl Instance {
    fn trips(&self) -> bool {
        (self.met.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.every)
    }
}

impl Stage<u64> for Instance {
    fn run(&mut self, input: &mut Batch<u64>, out: &mut Outlet<u64>, _: &mut Context) -> Flow {
        while let Some(item) = input.peek() {
            if out.room(OUT, item) == 0 {
                return Flow::More;
            }
            let trips = self.trips();
            match self.posture {
                Posture::Popped if trips => {
                    input.pop();
                    panic!("a panic that the test wants");
                }
                Posture::Passed if trips => {
                    out.push(OUT, item).expect("there was room");
                    panic!("a panic that the test wants");
                }
                Posture::Halfway if trips => {
                    let all: Vec<_> = std::iter::from_fn(|| input.pop()).collect();
                    for item in &all[..all.len() / 2] {
                        out.push(OUT, *item).expect("nobody else fills the port");
                    }
                    panic!("a panic that the test wants");
                }
                Posture::Cleared if trips => {
                    input.clear();
                    panic!("a panic that the test wants");
                }
                _ => {
                    out.push(OUT, item).expect("there was room");
                    input.pop();
                }
            }
        }
        Flow::Done
    }
}

/// Whatever a stage was doing with an item when it panicked, whether its neighbour is inline, behind a queue or behind
/// several, and whether it ran on its worker or in a job: no item is lost, and none ends twice.
#[test]
fn each_item_ends_once() {
    let hops = [Mode::Inline, queue(64), queue_by(64, Dispatch::Owner)];
    let postures = [Posture::Popped, Posture::Passed, Posture::Halfway, Posture::Cleared];
    let ways = postures.into_iter().flat_map(|p| hops.into_iter().map(move |h| (p, h)));
    for ((posture, hop), steals) in ways.flat_map(|way| [(way, false), (way, true)]) {
        let (good, bad) = (Arc::new(Seen::default()), Arc::new(Seen::default()));
        let inline = hop == Mode::Inline;
        let rig = if steals { Rig::new().crew("p", 2) } else { Rig::new().pool("p", 1) };
        let rig = if inline { rig } else { rig.pool("q", 3) }
            .stage("frail", Some("p"), &["out", "failed"], |_, i| Some((OUT, i)))
            .sink("end", if inline { None } else { Some("q") }, &good)
            .sink("lost", None, &bad)
            .edge("submit -> frail", queue(64))
            .edge("frail -> end", hop)
            .edge("frail.failed -> lost", Mode::Inline);
        let frail =
            Frail { shape: Shared(rig.spec("frail")), posture, every: 700, met: Arc::new(AtomicU64::new(0)) };
        let specs: Vec<Arc<dyn Spec<u64>>> =
            vec![Arc::new(frail), Arc::new(Shared(rig.spec("end"))), Arc::new(Shared(rig.spec("lost")))];
        let engine = Engine::start(&rig.blueprint, specs, rig.marks.clone()).expect("the graph starts");
        submit(&engine, 1..=3_000);
        let report = engine.drain(in_seconds(30));
        assert!(report.empty, "{posture:?} {hop:?} {steals}: {report}");
        let mut ends = HashMap::new();
        for seen in [&good, &bad] {
            for items in seen.by_worker.lock().expect("no test panics with it").values() {
                items.iter().for_each(|item| *ends.entry(*item).or_insert(0) += 1);
            }
        }
        assert!(
            (1..=3_000).all(|item| ends.get(&item) == Some(&1)),
            "{posture:?} {hop:?} {steals}: lost or doubled"
        );
        assert!(bad.count() > 0, "{posture:?} {hop:?} {steals}: nothing failed");
        let marks = rig.marks.0.lock().expect("no test panics with it");
        assert!(marks.iter().all(|m| m.1 == Fault::Panic { stage: "frail".into() }));
        assert_eq!(marks.len() as u64, bad.count());
    }
}
