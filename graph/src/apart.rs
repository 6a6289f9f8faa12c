//! What workers write has cache lines of its own: where each worker carries its items from end to end, no two of them share
//! one. Only a test: addresses are taken of what was really built.

use std::collections::BTreeMap;

use crate::assembly::{Assembly, assemble};
use crate::blueprint::{Dispatch, Mode, WhenFull};
use crate::check::fixture::{INLINE, Sketch, sink, through};
use crate::fault::{Fault, Faults};
use crate::item::Batch;
use crate::node::Source;
use crate::outlet::Outlet;
use crate::stage::{BuildError, Context, Contract, Flow, Port, Seat, Shape, Spec, Stage};
use crate::stealing::Crews;
use crate::sync::Arc;
use crate::worker::Worker;

/// Processors fetch lines in pairs.
const LINE: usize = 128;

struct Nothing(Shape);

struct Instance;

impl Spec<u64> for Nothing {
    fn ports(&self) -> &[Port] {
        &self.0.ports
    }
    fn contract(&self) -> Contract {
        self.0.contract.clone()
    }
    fn build(&self, _: &Seat) -> Result<Box<dyn Stage<u64>>, BuildError> {
        Ok(Box::new(Instance))
    }
}

impl Stage<u64> for Instance {
    fn run(&mut self, _: &mut Batch<u64>, _: &mut Outlet<u64>, _: &mut Context) -> Flow {
        Flow::Done
    }
}

impl Faults<u64> for Nothing {
    fn mark(&self, _: u64, _: &Fault, _: bool) {}
}

/// Names of the things that lie on each line.
type Lines = BTreeMap<usize, (usize, &'static str)>;

fn add<V: ?Sized>(lines: &mut Lines, worker: usize, name: &'static str, thing: &V) {
    let start = std::ptr::from_ref(thing).cast::<u8>().addr();
    for line in start / LINE..=(start + size_of_val(thing).max(1) - 1) / LINE {
        if let Some((other, what)) = lines.insert(line, (worker, name)) {
            assert_eq!(
                other, worker,
                "{name} of worker {worker} shares a line with {what} of worker {other}"
            );
        }
    }
}

fn note(lines: &mut Lines, index: usize, worker: &Worker<u64>) {
    add(lines, index, "the cell of a worker", &*worker.cell);
    add(lines, index, "a report", &*worker.report);
    for node in &worker.nodes {
        add(lines, index, "a node", node);
        add(lines, index, "the cell of a stage", &*node.instance.cell);
        node.instance.outlet.each_memory(|name, bytes| add(lines, index, name, bytes));
        for input in &node.inputs {
            add(lines, index, "an input", input);
            add(lines, index, "the cell of an edge", &*input.cell);
            match &input.source {
                Source::Queue(ring) => add(lines, index, "a ring", &**ring),
                Source::Back(ring) => add(lines, index, "a return ring", &**ring),
            }
            input.gate.iter().for_each(|gate| add(lines, index, "a gate", &**gate));
        }
    }
}

/// Of everything that four workers of one pool write on the way of an item, bells, rings, inputs, nodes, staged batches and
/// counters, nothing lies on one line with another worker's.
#[test]
fn workers_share_no_line() {
    let entry = Mode::Queue { capacity: 8, when_full: WhenFull::Wait, dispatch: Dispatch::Hash };
    let graph = Sketch::new()
        .pool("core", 4)
        .stage("a", Some("core"), through(&["out"]))
        .stage("b", Some("core"), through(&["out", "again"]))
        .stage("c", Some("core"), sink())
        .edge("submit -> a", entry)
        .edge("a -> b", INLINE)
        .edge("b -> c", INLINE)
        .edge("b.again -> a", Mode::Return { dispatch: Dispatch::Owner })
        .build();
    let specs: Vec<Arc<dyn Spec<u64>>> =
        graph.stages.iter().map(|s| Arc::new(Nothing(s.shape.clone())) as Arc<dyn Spec<u64>>).collect();
    let built = assemble(&graph, &specs, Arc::new(Nothing(sink())), &Crews::default());
    let Assembly { shared, workers, .. } = built.unwrap_or_else(|error| panic!("{error}"));
    let mut lines = Lines::new();
    for (index, worker) in workers.iter().enumerate() {
        add(&mut lines, index, "a bell", &*shared.bells[index]);
        note(&mut lines, index, worker);
    }
    assert!(workers.len() == 4 && lines.len() > 4 * 20, "{} lines were looked at", lines.len());
}
