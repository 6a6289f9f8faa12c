//! Graphs for tests, written as they are drawn. Only in test builds.

use super::{Complaint, Rule, check};
use crate::blueprint::{
    Blueprint, Dispatch, EdgeDecl, Mode, OUT, PoolDecl, PoolKind, SUBMIT, StageDecl, Wait, WhenFull,
};
use crate::stage::{Contract, Port, Resource, Shape};

const DECLARED: &str = "a sketch names only what it has declared before";

pub(crate) const INLINE: Mode = Mode::Inline;

pub(crate) fn queue(capacity: usize) -> Mode {
    Mode::Queue { capacity, when_full: WhenFull::Wait, dispatch: Dispatch::Any }
}

pub(crate) fn reject(capacity: usize) -> Mode {
    Mode::Queue { capacity, when_full: WhenFull::Reject, dispatch: Dispatch::Any }
}

pub(crate) fn to_owner(capacity: usize) -> Mode {
    Mode::Queue { capacity, when_full: WhenFull::Wait, dispatch: Dispatch::Owner }
}

pub(crate) fn back() -> Mode {
    Mode::Return { dispatch: Dispatch::Any }
}

/// A stage with these ports; `?name` is an optional one.
pub(crate) fn through(ports: &[&'static str]) -> Shape {
    let port = |name: &&'static str| match name.strip_prefix('?') {
        Some(name) => Port::optional(name),
        None => Port::required(*name),
    };
    Shape { ports: ports.iter().map(port).collect(), contract: Contract::default() }
}

pub(crate) fn sink() -> Shape {
    Shape { ports: vec![], contract: Contract { sink: true, ..Contract::default() } }
}

pub(crate) fn source(ports: &[&'static str]) -> Shape {
    Shape { contract: Contract { source: true, polls: true, ..Contract::default() }, ..through(ports) }
}

pub(crate) fn anywhere(ports: &[&'static str]) -> Shape {
    Shape { contract: Contract { sink: true, anywhere: true, ..Contract::default() }, ..through(ports) }
}

pub(crate) fn waits(mut shape: Shape, waits_for: &[Resource], gives: &[Resource]) -> Shape {
    shape.contract.waits_for = waits_for.to_vec();
    shape.contract.gives = gives.to_vec();
    shape
}

/// The one complaint about a graph, which must be of this rule.
pub(crate) fn only(graph: &Blueprint, rule: Rule) -> Complaint {
    let mut found = check(graph);
    assert_eq!(found.iter().map(|c| c.rule).collect::<Vec<_>>(), [rule], "{found:#?}");
    found.remove(0)
}

/// A blueprint under construction.
pub(crate) struct Sketch(Blueprint);

impl Sketch {
    pub(crate) fn new() -> Self {
        Self(Blueprint::default())
    }

    pub(crate) fn pool(mut self, name: &str, threads: usize) -> Self {
        let (spin_ns, yield_ns, park_ns) = (20_000, 50_000, 1_000_000_000);
        let wait = Wait { spin_ns, yield_ns, park_ns, adaptive: false, price_percent: 50 };
        let (kind, name) = (PoolKind::Resident, name.to_owned());
        self.0.pools.push(PoolDecl {
            name,
            kind,
            threads,
            groups: vec![],
            wait,
            cpus: vec![],
            group_cpus: vec![],
            beside: false,
        });
        self
    }

    pub(crate) fn stage(mut self, name: &str, pool: Option<&str>, shape: Shape) -> Self {
        let pool = pool.map(|p| self.0.pool(p).expect(DECLARED));
        self.0.stages.push(StageDecl { name: name.into(), kind: name.into(), pool, shape });
        self
    }

    /// `"a -> b"`, `"a.port -> b"` or `"submit -> a"`.
    pub(crate) fn edge(mut self, wire: &str, mode: Mode) -> Self {
        let (from, to) = wire.split_once(" -> ").expect("a wire is written `a -> b`");
        let (from, port) = from.split_once('.').unwrap_or((from, OUT));
        let to = self.0.stage(to).expect(DECLARED);
        let from = (from != SUBMIT).then(|| self.0.stage(from).expect(DECLARED));
        // A stage without a port `out` means its first one, to keep drawings short.
        let at = |f: usize| self.0.stages[f].shape.ports.iter().position(|p| p.name == port).unwrap_or(0);
        self.0.edges.push(EdgeDecl { from, port: from.map_or(0, at), to, mode });
        self
    }

    pub(crate) fn tokens(mut self, tokens: usize) -> Self {
        self.0.tokens = tokens;
        self
    }

    pub(crate) fn build(self) -> Blueprint {
        self.0
    }
}

/// The shipped `tcp` preset's graph, wildcards expanded, with two NICs.
pub(crate) fn preset() -> Blueprint {
    let mut split = waits(through(&["out", "failed"]), &["slices"], &[]);
    split.contract.expands = true;
    let admit = Mode::Queue { capacity: 1024, when_full: WhenFull::Wait, dispatch: Dispatch::Hash };
    let mut sketch = Sketch::new()
        .pool("front", 1)
        .pool("nic", 1)
        .pool("files", 1)
        .stage("admit", Some("front"), through(&["out", "failed"]))
        .stage("split", Some("front"), split)
        .stage("route", Some("front"), through(&["out", "failed"]))
        .stage("select", Some("front"), through(&["out", "failed"]))
        .stage("post", Some("nic"), waits(through(&["retry", "failed"]), &["credits"], &[]))
        .stage("reap", Some("nic"), waits(source(&["out", "retry", "failed"]), &[], &["credits"]))
        .stage("serve", Some("nic"), source(&[]))
        .stage("retry", Some("nic"), through(&["out", "failed"]))
        .stage("notify", None, waits(anywhere(&[]), &[], &["slices"]))
        .stage("files", Some("files"), source(&[]))
        .edge("submit -> admit", admit)
        .edge("admit -> split", INLINE)
        .edge("split -> route", INLINE)
        .edge("route -> select", INLINE)
        .edge("select -> post", to_owner(64))
        .edge("reap -> notify", INLINE)
        .edge("post.retry -> retry", INLINE)
        .edge("reap.retry -> retry", INLINE)
        .edge("retry -> select", back())
        .tokens(65_536 + 262_144);
    for stage in ["admit", "split", "route", "select", "post", "reap", "retry"] {
        sketch = sketch.edge(&format!("{stage}.failed -> notify"), INLINE);
    }
    let mut preset = sketch.build();
    preset.pools[1].groups = vec!["eth0".into(), "eth1".into()];
    preset
}
