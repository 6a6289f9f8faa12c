//! Drawing a graph with its specs.

use std::sync::Arc;

use pipeline_graph::blueprint::SUBMIT;
use pipeline_graph::clock::now;
use pipeline_graph::{
    Blueprint, Dispatch, EdgeDecl, Engine, Mode, PoolDecl, PoolKind, Shape, Snapshot, Spec, StageDecl,
    StartError, Wait, WhenFull,
};

/// A bounded queue that any worker of the target's pool serves.
pub fn queue(capacity: usize) -> Mode {
    queue_to(capacity, Dispatch::Any)
}

/// A bounded queue.
pub fn queue_to(capacity: usize, dispatch: Dispatch) -> Mode {
    Mode::Queue { capacity, when_full: WhenFull::Wait, dispatch }
}

/// A return edge.
pub fn back() -> Mode {
    Mode::Return { dispatch: Dispatch::Any }
}

/// Sleeps almost at once, since tests share two cores with each other, and as good as for ever, so that a lost
/// wake-up is seen.
pub const PARK: Wait =
    Wait { spin_ns: 1_000, yield_ns: 5_000, park_ns: 3_600_000_000_000, adaptive: false, price_percent: 50 };

/// A blueprint and what its stages do.
#[derive(Default, Clone)]
pub struct Rig {
    pub blueprint: Blueprint,
    /// Index-aligned with the stages.
    pub specs: Vec<Arc<dyn Spec<u64>>>,
}

impl Rig {
    pub fn pool(self, name: &str, threads: usize) -> Self {
        self.pool_waiting(name, threads, PARK)
    }

    pub fn pool_waiting(mut self, name: &str, threads: usize, wait: Wait) -> Self {
        let (kind, name) = (PoolKind::Resident, name.to_owned());
        self.blueprint.pools.push(PoolDecl {
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

    pub fn stage(mut self, name: &str, pool: Option<&str>, spec: impl Spec<u64> + 'static) -> Self {
        let pool = pool.map(|p| self.blueprint.pool(p).unwrap());
        let shape = Shape { ports: spec.ports().to_vec(), contract: spec.contract() };
        self.blueprint.stages.push(StageDecl { name: name.into(), kind: "act".into(), pool, shape });
        self.specs.push(Arc::new(spec));
        self
    }

    /// `"a -> b"` is port 0 of `a`; `"a.2 -> b"` its port 2.
    pub fn edge(mut self, wire: &str, mode: Mode) -> Self {
        let (from, to) = wire.split_once(" -> ").unwrap();
        let (from, port) = from.split_once('.').unwrap_or((from, "0"));
        let from = (from != SUBMIT).then(|| self.blueprint.stage(from).unwrap());
        let to = self.blueprint.stage(to).unwrap();
        self.blueprint.edges.push(EdgeDecl { from, port: port.parse().unwrap(), to, mode });
        self
    }

    pub fn tokens(mut self, tokens: usize) -> Self {
        self.blueprint.tokens = tokens;
        self
    }

    pub fn start(&self) -> Result<Engine<u64>, StartError> {
        Engine::start(&self.blueprint, self.specs.clone(), Arc::new(()))
    }
}

/// Drains, which must leave nothing, and stops.
pub fn stop(mut engine: Engine<u64>) -> Snapshot {
    let report = engine.drain(now() + 20_000_000_000);
    assert!(report.empty, "{report}");
    engine.stop();
    engine.snapshot()
}
