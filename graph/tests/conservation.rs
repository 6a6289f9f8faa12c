//! An edge that rejects changes where items end, never whether: produced = consumed, item by item.
#![allow(clippy::unwrap_used)] // Whatever is missing here is a failed test.

#[path = "actors/mod.rs"]
mod actors;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actors::act::Role;
use actors::{Actor, Ends, Fate, Rig, queue};
use pipeline_graph::clock::now;
use pipeline_graph::{Dispatch, Engine, Fault, Faults, Mode, Port, WhenFull};
use proptest::prelude::*;

/// Keeps what the engine marked.
#[derive(Default)]
struct Marks(Mutex<Vec<(u64, Fault, bool)>>);

impl Faults<u64> for Marks {
    fn mark(&self, item: u64, fault: &Fault, travels: bool) {
        self.0.lock().unwrap().push((item, fault.clone(), travels));
    }
}

const DONE: usize = 0;
const FAILED: usize = 1;

/// A fast feed before a slow end, and a ring too small between them that rejects.
fn overload(
    items: u64,
    capacity: usize,
    dispatch: Dispatch,
    workers: usize,
    failed: Mode,
    ends: &Arc<Ends>,
) -> Rig {
    let mut feed = Actor::new(Role::Source(Arc::new(|item| Fate::one(0, item)), items), 2, 1);
    feed.ports = vec![Port::required("out"), Port::required("failed")];
    let mut slow = Actor::new(Role::Hold(Arc::new(|item| Fate::one(0, item))), 1, workers);
    slow.workers = workers;
    let end = |sink| Actor::new(Role::Sink(sink, ends.clone()), 0, 1);
    Rig::default()
        .pool("p", 1)
        .pool("q", workers)
        .stage("feed", Some("p"), feed)
        .stage("slow", Some("q"), slow)
        .stage("done", Some("q"), end(DONE))
        .stage("failed", Some("p"), end(FAILED))
        .edge("feed -> slow", Mode::Queue { capacity, when_full: WhenFull::Reject, dispatch })
        .edge("slow -> done", Mode::Inline)
        .edge("feed.1 -> failed", failed)
}

fn dispatches() -> impl Strategy<Value = Dispatch> {
    prop_oneof![Just(Dispatch::Any), Just(Dispatch::Owner), Just(Dispatch::Hash)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every item ends once, done or failed; the failed ones are exactly those that were marked as rejected
    /// and told to travel; and the edge's own counters agree.
    #[test]
    fn rejected_items_end_at_failed(
        items in 1u64..3_000,
        capacity in 1usize..4,
        dispatch in dispatches(),
        workers in 1usize..=2,
        inline in any::<bool>(),
    ) {
        let (ends, marks) = (Arc::new(Ends::default()), Arc::new(Marks::default()));
        let failed = if inline { Mode::Inline } else { queue(2) };
        let rig = overload(items, capacity, dispatch, workers, failed, &ends);
        let mut engine = Engine::start(&rig.blueprint, rig.specs.clone(), marks.clone()).unwrap();
        prop_assert!(ends.wait(items as usize, Duration::from_secs(20)), "{} of {items}", ends.len());
        let report = engine.drain(now() + 20_000_000_000);
        prop_assert!(report.empty, "{report}");
        engine.stop();

        let ended = ends.sorted();
        let mut all: Vec<u64> = ended.iter().map(|(_, item)| *item).collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..items).collect::<Vec<_>>());

        let failed: Vec<u64> = ended.iter().filter(|(sink, _)| *sink == FAILED).map(|(_, item)| *item).collect();
        let mut marked: Vec<u64> = Vec::new();
        for (item, fault, travels) in marks.0.lock().unwrap().iter() {
            prop_assert_eq!(fault, &Fault::Rejected { edge: "feed -> slow".into() });
            prop_assert!(travels);
            marked.push(*item);
        }
        marked.sort_unstable();
        prop_assert_eq!(&failed, &marked);

        let edges = engine.snapshot().edges;
        prop_assert_eq!(edges[0].rejected, failed.len() as u64);
        prop_assert_eq!(edges[0].pushed + edges[0].rejected, items);
        prop_assert_eq!(edges[2].popped, edges[0].rejected);
    }
}

/// The overload above does reject: a feed that outruns a ring of one batch finds it full.
#[test]
fn overload_rejects() {
    let ends = Arc::new(Ends::default());
    let engine = overload(20_000, 1, Dispatch::Any, 1, Mode::Inline, &ends).start().unwrap();
    assert!(ends.wait(20_000, Duration::from_secs(20)), "{} of 20000", ends.len());
    let snapshot = actors::stop(engine);
    assert!(snapshot.edges[0].rejected > 0 && snapshot.edges[0].pushed > 0, "{:?}", snapshot.edges[0]);
}
