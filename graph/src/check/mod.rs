//! Judges a graph before anything runs: every rule, every complaint, in one pass and in a fixed order.
//! Deliberately without knowledge of files or machines: a complaint names places in the blueprint, and
//! whoever lowered a file to it knows which line that was.

mod callers;
mod deadlock;
mod flow;
mod hops;
mod pools;
mod returns;
mod rule;
mod stealing;
mod wires;

#[cfg(test)]
pub(crate) mod fixture;

use crate::blueprint::Blueprint;
use hops::Hops;

pub use rule::Rule;

/// Most batches a ring may hold: 33 million items. More is a typing error, and would be allocated at start.
pub const MAX_CAPACITY: usize = 1 << 20;

/// Most workers of one pool.
pub const MAX_WORKERS: usize = 1024;

/// Most stages that one worker runs: it keeps a bit for each.
pub const MAX_STAGES: usize = 64;

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
    pools::crowds(&hops, &mut found);
    pools::edges(&hops, &mut found);
    callers::callers(&hops, &mut found);
    stealing::parallel(&hops, &mut found);
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
