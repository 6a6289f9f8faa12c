//! Graphs of `u64` for tests: stages written as functions, blueprints written as they are drawn.
//! Deliberately no assertions here.
#![allow(dead_code, unreachable_pub)] // Each test file uses its part.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pipeline_graph::{
    Batch, Blueprint, BuildError, Context, Contract, Dispatch, Drained, EdgeDecl, Engine, Fault, Faults,
    Flow, Mode, Outlet, PoolDecl, PoolKind, Port, PortId, Seat, Shape, Spec, Stage, StageDecl, StartError,
    Wait, WhenFull,
};

pub const OUT: PortId = PortId(0);

/// A stage that sends every item to the port its function names, changed by it; `None` ends the item.
pub type Rule = Arc<dyn Fn(&Seat, u64) -> Option<(PortId, u64)> + Send + Sync>;

pub struct Through {
    pub ports: Vec<Port>,
    pub contract: Contract,
    pub rule: Rule,
    pub builds: AtomicUsize,
    /// What every instance says it holds while it drains.
    pub holds: AtomicUsize,
}

struct Run {
    seat: Seat,
    spec: Arc<Through>,
}

/// Lets specs be shared with their instances.
pub struct Shared(pub Arc<Through>);

impl Spec<u64> for Shared {
    fn ports(&self) -> &[Port] {
        &self.0.ports
    }
    fn contract(&self) -> Contract {
        self.0.contract.clone()
    }
    fn key(&self, item: u64) -> u64 {
        item % 1000
    }
    fn owner(&self, item: u64) -> usize {
        (item % 3) as usize
    }
    fn build(&self, seat: &Seat) -> Result<Box<dyn Stage<u64>>, BuildError> {
        self.0.builds.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Run { seat: seat.clone(), spec: self.0.clone() }))
    }
}

impl Stage<u64> for Run {
    fn run(&mut self, input: &mut Batch<u64>, out: &mut Outlet<u64>, _cx: &mut Context) -> Flow {
        while let Some(item) = input.peek() {
            match (self.spec.rule)(&self.seat, item) {
                None => {}
                Some((port, made)) => {
                    if out.room(port, made) == 0 {
                        return Flow::More;
                    }
                    out.push(port, made).expect("there was room");
                }
            }
            input.pop();
        }
        Flow::Done
    }
    fn drain(&mut self, _out: &mut Outlet<u64>, _cx: &mut Context) -> Drained {
        match self.spec.holds.load(Ordering::SeqCst) {
            0 => Drained::Empty,
            n => Drained::Holds(n),
        }
    }
}

/// What arrived at the ends of a graph.
#[derive(Default)]
pub struct Seen {
    pub count: AtomicU64,
    pub sum: AtomicU64,
    pub by_worker: Mutex<HashMap<usize, Vec<u64>>>,
}

impl Seen {
    pub fn take(&self, seat: &Seat, item: u64) {
        self.sum.fetch_add(item, Ordering::Relaxed);
        self.by_worker.lock().expect("no test panics with it").entry(seat.worker).or_default().push(item);
        self.count.fetch_add(1, Ordering::Release);
    }
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
}

/// What the engine has failed.
#[derive(Default)]
pub struct Marks(pub Mutex<Vec<(u64, Fault, bool)>>);

impl Faults<u64> for Marks {
    fn mark(&self, item: u64, fault: &Fault, travels: bool) {
        self.0.lock().expect("no test panics with it").push((item, fault.clone(), travels));
    }
}

impl Marks {
    pub fn ended(&self) -> u64 {
        self.0.lock().expect("no test panics with it").iter().filter(|m| !m.2).count() as u64
    }
}

pub const WAIT: Wait =
    Wait { spin_ns: 5_000, yield_ns: 20_000, park_ns: 1_000_000_000, adaptive: false, price_percent: 50 };

/// A graph under construction.
#[derive(Default)]
pub struct Rig {
    pub blueprint: Blueprint,
    pub specs: Vec<Arc<Through>>,
    pub marks: Arc<Marks>,
}

impl Rig {
    pub fn new() -> Self {
        let mut rig = Self::default();
        rig.blueprint.tokens = 1024;
        rig
    }

    pub fn pool(mut self, name: &str, threads: usize) -> Self {
        self.blueprint.pools.push(PoolDecl {
            name: name.into(),
            kind: PoolKind::Resident,
            threads,
            groups: vec![],
            wait: WAIT,
            cpus: vec![],
            group_cpus: vec![],
            beside: false,
        });
        self
    }

    /// As [`Self::pool`], of kind `stealing`.
    pub fn crew(self, name: &str, threads: usize) -> Self {
        let mut rig = self.pool(name, threads);
        rig.blueprint.pools.last_mut().expect("just declared").kind = PoolKind::Stealing;
        rig
    }

    pub fn stage(
        mut self,
        name: &str,
        pool: Option<&str>,
        ports: &[&'static str],
        rule: impl Fn(&Seat, u64) -> Option<(PortId, u64)> + Send + Sync + 'static,
    ) -> Self {
        let parallel = pool.and_then(|p| self.blueprint.pool(p)).map(|p| self.blueprint.pools[p].kind);
        let parallel = parallel == Some(PoolKind::Stealing);
        let (sink, anywhere) = (ports.is_empty(), pool.is_none());
        let contract = Contract { sink, anywhere, parallel, ..Contract::default() };
        let ports: Vec<_> = ports.iter().map(|p| Port::optional(*p)).collect();
        let shape = Shape { ports: ports.clone(), contract: contract.clone() };
        let pool = pool.map(|p| self.blueprint.pool(p).expect("the pool is declared"));
        self.blueprint.stages.push(StageDecl { name: name.into(), kind: name.into(), pool, shape });
        let (builds, holds) = (AtomicUsize::new(0), AtomicUsize::new(0));
        self.specs.push(Arc::new(Through { ports, contract, rule: Arc::new(rule), builds, holds }));
        self
    }

    /// A stage that ends items and remembers them.
    pub fn sink(self, name: &str, pool: Option<&str>, seen: &Arc<Seen>) -> Self {
        let seen = seen.clone();
        self.stage(name, pool, &[], move |seat, item| {
            seen.take(seat, item);
            None
        })
    }

    /// `"a -> b"`, `"a.port -> b"`, `"submit -> a"`.
    pub fn edge(mut self, wire: &str, mode: Mode) -> Self {
        let (from, to) = wire.split_once(" -> ").expect("a wire is written `a -> b`");
        let (from, port) = from.split_once('.').unwrap_or((from, "out"));
        let to = self.blueprint.stage(to).expect("declared");
        let from = (from != "submit").then(|| self.blueprint.stage(from).expect("declared"));
        let ports = |f: usize| &self.blueprint.stages[f].shape.ports;
        let port = from.map_or(0, |f| ports(f).iter().position(|p| p.name == port).expect("a port"));
        self.blueprint.edges.push(EdgeDecl { from, port, to, mode });
        self
    }

    pub fn spec(&self, name: &str) -> Arc<Through> {
        self.specs[self.blueprint.stage(name).expect("declared")].clone()
    }

    pub fn try_start(&self) -> Result<Engine<u64>, StartError> {
        let specs = self.specs.iter().map(|s| Arc::new(Shared(s.clone())) as Arc<dyn Spec<u64>>).collect();
        Engine::start(&self.blueprint, specs, self.marks.clone())
    }

    pub fn start(&self) -> Engine<u64> {
        self.try_start().expect("the graph starts")
    }
}

pub fn queue(capacity: usize) -> Mode {
    Mode::Queue { capacity, when_full: WhenFull::Wait, dispatch: Dispatch::Any }
}

pub fn queue_by(capacity: usize, dispatch: Dispatch) -> Mode {
    Mode::Queue { capacity, when_full: WhenFull::Wait, dispatch }
}

pub fn reject(capacity: usize) -> Mode {
    Mode::Queue { capacity, when_full: WhenFull::Reject, dispatch: Dispatch::Any }
}

/// Submits all of them, waiting for room.
pub fn submit(engine: &Engine<u64>, items: impl IntoIterator<Item = u64>) {
    let inlet = engine.inlet();
    let mut items = items.into_iter().peekable();
    while items.peek().is_some() {
        let chunk: Vec<_> = items.by_ref().take(32).collect();
        while inlet.push_all(&chunk).is_err() {
            std::thread::yield_now();
        }
    }
}

/// Waits for something that must come; fails the test when it has not after half a minute.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} has not come");
        std::thread::yield_now();
    }
}

/// The monotonic time in so many seconds.
pub fn in_seconds(s: u64) -> u64 {
    pipeline_graph::clock::now() + s * 1_000_000_000
}
