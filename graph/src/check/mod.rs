//! Judges a graph before anything runs: every rule, every complaint, in one pass and in a fixed order.
//! Deliberately without knowledge of files or machines: a complaint names places in the blueprint, and
//! whoever lowered a file to it knows which line that was.

mod deadlock;
mod flow;
mod hops;
mod pools;
mod returns;
mod wires;

#[cfg(test)]
pub(crate) mod fixture;

use crate::blueprint::Blueprint;
use hops::Hops;

/// Most batches a ring may hold: 33 million items. More is a typing error, and would be allocated at start.
pub const MAX_CAPACITY: usize = 1 << 20;

/// Most workers of one pool.
pub const MAX_WORKERS: usize = 1024;

/// What a complaint is about. Indexes are those of the blueprint's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// The graph as a whole.
    Graph,
    /// A pool.
    Pool(usize),
    /// A stage.
    Stage(usize),
    /// An edge.
    Edge(usize),
}

/// A rule of [`check()`]. Names are stable: other crates map them to codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// An edge or a stage names a stage, port or pool that is not there.
    Dangling,
    /// Two pools or two stages share a name, or a stage is called `submit`.
    NameTaken,
    /// A port that must be wired is not.
    PortUnwired,
    /// A port is wired twice: there is no fan-out.
    PortWiredTwice,
    /// A ring holds no batch, or absurdly many.
    Capacity,
    /// `reject` without a wired `failed` port, or on the wire of `failed` itself.
    RejectNowhere,
    /// A pool without threads, or with absurdly many.
    Threads,
    /// A pool where no stage runs.
    PoolUnused,
    /// A kind of pool that a later release brings.
    PoolKind,
    /// A CPU named twice or out of range.
    Cpus,
    /// A stage without a pool that cannot run just anywhere.
    PoolMissing,
    /// A queue or return edge to a stage without a pool.
    QueueToNowhere,
    /// An inline edge between stages that different workers run.
    InlineAcrossPools,
    /// `submit` over anything but a queue.
    SubmitMode,
    /// A source that the engine would never call.
    SourceUnpolled,
    /// A stage that nothing enters.
    NoInput,
    /// A stage that no item can reach.
    Unreachable,
    /// A stage from which no item can end.
    DeadEnd,
    /// A resource that is waited for and that no stage gives.
    NoGiver,
    /// Edges and resource waits that can stop each other for ever.
    Deadlock,
    /// A return edge that closes no cycle.
    ReturnForward,
    /// A return edge in a graph without a token limit.
    ReturnUnbounded,
    /// A stage inside a loop that makes more items than it takes.
    LoopExpands,
}

/// One thing that is wrong with a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The rule that is broken.
    pub rule: Rule,
    /// What it is about first of all.
    pub subject: Subject,
    /// What else is part of it, in a telling order (the other edges of a cycle, in the order of the cycle).
    pub places: Vec<Subject>,
    /// What is wrong: one line, no full stop.
    pub text: String,
    /// What to do about it: one line, no full stop.
    pub help: String,
}

impl Complaint {
    fn new(rule: Rule, subject: Subject, text: impl Into<String>, help: impl Into<String>) -> Self {
        Self { rule, subject, places: Vec::new(), text: text.into(), help: help.into() }
    }

    fn with(mut self, places: impl IntoIterator<Item = Subject>) -> Self {
        self.places.extend(places);
        self
    }
}

/// Everything that is wrong with a graph; empty when it may run.
///
/// An accepted graph cannot stop for ever: forward edges and resource waits have no cycle, so of all waiting
/// stages one is last, and what it waits for is not full; return edges hold every token and are never full.
pub fn check(blueprint: &Blueprint) -> Vec<Complaint> {
    let mut found = Vec::new();
    if blueprint.stages.is_empty() {
        let help = "declare at least one source or `submit -> STAGE`, and one stage that ends items";
        found.push(Complaint::new(Rule::NoInput, Subject::Graph, "the graph has no stages", help));
        return found;
    }
    wires::dangling(blueprint, &mut found);
    wires::names(blueprint, &mut found);
    let hops = Hops::new(blueprint);
    wires::ports(&hops, &mut found);
    wires::queues(&hops, &mut found);
    pools::pools(blueprint, &mut found);
    pools::stages(blueprint, &mut found);
    pools::edges(&hops, &mut found);
    flow::entries(&hops, &mut found);
    flow::ends(&hops, &mut found);
    deadlock::resources(&hops, &mut found);
    deadlock::cycles(&hops, &mut found);
    returns::returns(&hops, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixture::{Sketch, preset, queue, sink, through};

    /// The shipped preset's graph breaks no rule.
    #[test]
    fn the_preset_is_accepted() {
        assert_eq!(check(&preset()), vec![]);
    }

    /// A graph with many faults gets all its complaints in one run, and the same ones in the same order
    /// each time.
    #[test]
    fn all_complaints_in_one_run() {
        let graph = Sketch::new()
            .pool("a", 0)
            .pool("idle", 1)
            .stage("x", Some("a"), through(&["out", "other"]))
            .stage("y", None, sink())
            .edge("submit -> x", queue(0))
            .edge("x -> y", queue(4))
            .build();
        let found = check(&graph);
        let rules: Vec<_> = found.iter().map(|c| c.rule).collect();
        use Rule::*;
        let want = [PortUnwired, Capacity, Threads, PoolUnused, PoolMissing, QueueToNowhere];
        assert_eq!(rules, want);
        assert_eq!(found, check(&graph));
        assert!(found.iter().all(|c| !c.text.is_empty() && !c.help.is_empty()));
    }

    /// An empty graph is refused rather than started as nothing.
    #[test]
    fn empty_graph() {
        assert_eq!(check(&Blueprint::default())[0].subject, Subject::Graph);
    }
}
