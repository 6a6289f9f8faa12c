//! From genes to a graph, and what a sequential walk says that it must do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pipeline_graph::blueprint::SUBMIT;
use pipeline_graph::clock::now;
use pipeline_graph::{
    Blueprint, Dispatch, EdgeDecl, Mode, PoolDecl, PoolKind, Shape, Snapshot, StageDecl, Wait, WhenFull,
};

use crate::actors::act::{Act, Fate, Role};
use crate::actors::{Actor, Ends, Rig};
use crate::genes::{Genes, Kind, ModeGene};

/// Laps that an item makes at most: they are counted in its top byte.
const LAPS_MAX: u64 = 3;
const LAP: u64 = 1 << 56;

/// What one stage makes of an item.
#[derive(Clone, Debug)]
pub struct Step {
    salt: u64,
    /// Ports that lead on.
    ports: u16,
    expands: bool,
    /// The port of the way back.
    again: Option<u16>,
}

impl Act for Step {
    fn fate(&self, item: u64) -> Fate {
        let (laps, hash) = (item / LAP, mix(item ^ self.salt));
        if let Some(port) = self.again.filter(|_| laps < LAPS_MAX && hash % 3 == 0) {
            return Fate::one(port, hash % LAP + (laps + 1) * LAP);
        }
        let made = |hash: u64| (((hash >> 8) % u64::from(self.ports)) as u16, hash % LAP + laps * LAP);
        let (port, next) = made(hash);
        let fate = Fate::one(port, next);
        if !self.expands || hash % 2 == 0 {
            return fate;
        }
        let (port, next) = made(mix(hash));
        fate.and(port, next)
    }
}

/// A graph without modes and pools: who leads where.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// `None`: a sink.
    pub steps: Vec<Option<(Step, Kind)>>,
    /// Target of each port.
    pub wires: Vec<Vec<(usize, ModeGene)>>,
    pub items: u64,
    pub source: bool,
}

impl Wiring {
    /// Every stage but the first is led to, every port leads on, sinks come last.
    pub fn new(genes: &Genes) -> Self {
        let count = genes.stages.len();
        let inner = count - genes.sinks.min(count - 1);
        let mut wires: Vec<Vec<(usize, ModeGene)>> = vec![vec![]; count];
        for (s, stage) in genes.stages[..inner].iter().enumerate() {
            wires[s].extend(stage.wires.iter().map(|(ahead, mode)| (s + 1 + ahead % (count - s - 1), *mode)));
        }
        for s in 1..count {
            if !wires.iter().flatten().any(|(to, _)| *to == s) {
                wires[(s - 1).min(inner - 1)].push((s, genes.stages[s].wires[0].1));
            }
        }
        let mut steps: Vec<Option<(Step, Kind)>> = (0..count)
            .map(|s| {
                let kind = genes.stages[s].kind;
                let (salt, ports) = (mix(s as u64), wires[s].len() as u16);
                let step = Step { salt, ports, expands: kind == Kind::Expand, again: None };
                (s < inner).then_some((step, kind))
            })
            .collect();
        if let Some((from, to, mode)) = genes.back {
            let from = from % inner;
            if let Some((step, _)) = &mut steps[from] {
                step.again = Some(wires[from].len() as u16);
            }
            wires[from].push((to % (from + 1), mode));
        }
        Self { steps, wires, items: genes.items, source: genes.source }
    }

    /// Whether a stage can run as jobs.
    pub fn is_parallel(&self, stage: usize) -> bool {
        let makes = stage == 0 && self.source;
        !makes && !matches!(self.steps[stage], Some((_, Kind::Hold)))
    }

    /// What every run must give, by walking items one after the other.
    pub fn oracle(&self) -> Outcome {
        let mut pushed: Vec<Vec<u64>> = self.wires.iter().map(|w| vec![0; w.len()]).collect();
        let mut ended = Vec::new();
        let mut made = self.items;
        let mut ahead: VecDeque<(usize, u64)> = (0..self.items).map(|i| (0, i)).collect();
        while let Some((stage, item)) = ahead.pop_front() {
            let Some((step, _)) = &self.steps[stage] else {
                ended.push((stage, item));
                continue;
            };
            let fate = step.fate(item);
            made += fate.as_slice().len() as u64 - 1;
            for &(port, next) in fate.as_slice() {
                pushed[stage][usize::from(port)] += 1;
                ahead.push_back((self.wires[stage][usize::from(port)].0, next));
            }
        }
        ended.sort_unstable();
        Outcome { ended, pushed, made }
    }
}

/// What a run gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Which item ended at which sink, sorted.
    pub ended: Vec<(usize, u64)>,
    /// Items pushed to each port of each stage.
    pub pushed: Vec<Vec<u64>>,
    /// Items that came to be: submitted or made by a source, and added by stages that expand.
    pub made: u64,
}

/// How the wires of a graph are made and who runs its stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As the genes say.
    Mixed,
    /// One pool with one worker, every forward edge inline.
    Inline,
    /// A pool for each stage, every forward edge a queue.
    Queues,
}

/// A graph that can run, and where its items end.
pub struct Run {
    pub rig: Rig,
    pub ends: Arc<Ends>,
    actors: Vec<Actor>,
}

impl Run {
    pub fn new(genes: &Genes, wiring: &Wiring, layout: Layout, tokens: u64) -> Self {
        let mut rig = Rig { blueprint: blueprint(genes, wiring, layout), ..Rig::default() };
        let (ends, mut actors) = (Arc::new(Ends::default()), Vec::new());
        for (s, step) in wiring.steps.iter().enumerate() {
            let role = match step {
                None => Role::Sink(s, ends.clone()),
                Some((step, _)) if s == 0 && wiring.source => {
                    Role::Source(Arc::new(step.clone()), wiring.items)
                }
                Some((step, Kind::Hold)) => Role::Hold(Arc::new(step.clone())),
                Some((step, _)) => Role::Pass(Arc::new(step.clone())),
            };
            let pool = rig.blueprint.stages[s].pool;
            let workers = pool.map_or(1, |p| rig.blueprint.pools[p].consumers());
            let mut actor = Actor::new(role, wiring.wires[s].len(), workers);
            actor.contract.parallel = wiring.is_parallel(s);
            actor.contract.expands = step.as_ref().is_some_and(|(step, _)| step.expands);
            actor.contract.anywhere = pool.is_none();
            rig.blueprint.stages[s].shape =
                Shape { ports: actor.ports.clone(), contract: actor.contract.clone() };
            rig.specs.push(Arc::new(actor.clone()));
            actors.push(actor);
        }
        rig.blueprint.tokens = tokens as usize;
        Self { rig, ends, actors }
    }

    /// Runs until as many items have ended as should, drains, stops, and tells what came out; an error names
    /// who still held what when the watchdog barked.
    pub fn finish(self, want: &Outcome, items: u64, watchdog: Duration) -> Result<Outcome, String> {
        let mut engine = self.rig.start().map_err(|e| e.to_string())?;
        let until = Instant::now() + watchdog;
        if self.rig.blueprint.edges[0].from.is_none() {
            let all: Vec<u64> = (0..items).collect();
            // Chunks of every size up to a batch, so that full and partial ones enter.
            for chunk in all.chunks(1 + (items % 32) as usize) {
                while engine.inlet().push_all(chunk).is_err() {
                    if Instant::now() > until {
                        return Err(format!("no room for {chunk:?}: {}", engine.drain(0)));
                    }
                    std::thread::yield_now();
                }
            }
        }
        if !self.ends.wait(want.ended.len(), until.saturating_duration_since(Instant::now())) {
            let (ended, all) = (self.ends.len(), want.ended.len());
            return Err(format!("{ended} of {all} items ended: {}", engine.drain(0)));
        }
        let report = engine.drain(now() + watchdog.as_nanos() as u64);
        engine.stop();
        if !report.empty {
            return Err(report.to_string());
        }
        conserved(&engine.snapshot())?;
        self.agrees(&engine.snapshot(), want)?;
        let counts = |actor: &Actor| actor.pushed.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        Ok(Outcome {
            ended: self.ends.sorted(),
            pushed: self.actors.iter().map(counts).collect(),
            made: want.made,
        })
    }
}

impl Run {
    /// The engine's own counters tell the same as the stages'.
    fn agrees(&self, snapshot: &Snapshot, want: &Outcome) -> Result<(), String> {
        for (edge, stats) in self.rig.blueprint.edges.iter().zip(&snapshot.edges) {
            let want = edge.from.map(|from| want.pushed[from][edge.port]);
            if want.is_some_and(|want| want != stats.popped) {
                return Err(format!("{} counts {} items, not {want:?}", stats.name, stats.popped));
            }
        }
        Ok(())
    }
}

/// After a drain every edge gave as many items as it took, and no item went astray.
fn conserved(snapshot: &Snapshot) -> Result<(), String> {
    for edge in &snapshot.edges {
        // What `submit` refused was offered again.
        let lost = edge.rejected > 0 && !edge.name.starts_with(SUBMIT);
        if edge.pushed != edge.popped || lost || edge.overflows > 0 {
            return Err(format!("not conserved: {edge:?}"));
        }
    }
    match snapshot.stages.iter().find(|s| s.panics + s.strays > 0) {
        Some(stage) => Err(format!("astray: {stage:?}")),
        None => Ok(()),
    }
}

fn blueprint(genes: &Genes, wiring: &Wiring, layout: Layout) -> Blueprint {
    let count = wiring.steps.len();
    let pool = |i: usize, threads, wait, kind| PoolDecl {
        name: format!("p{i}"),
        kind,
        threads,
        groups: vec![],
        wait,
        cpus: vec![],
        group_cpus: vec![],
        beside: false,
    };
    let pools: Vec<PoolDecl> = match layout {
        Layout::Mixed => {
            let kind = |i: usize| {
                if i > 0 && genes.pools[i].steals { PoolKind::Stealing } else { PoolKind::Resident }
            };
            genes.pools.iter().enumerate().map(|(i, p)| pool(i, p.threads, wait(p.wait), kind(i))).collect()
        }
        Layout::Inline => vec![pool(0, 1, wait(0), PoolKind::Resident)],
        Layout::Queues => (0..count).map(|i| pool(i, 1, wait(0), PoolKind::Resident)).collect(),
    };
    let of = |s: usize| match layout {
        Layout::Mixed if s > 0 && genes.stages[s].anywhere => None,
        Layout::Mixed => {
            let drawn = genes.stages[s].pool % pools.len();
            // What cannot run as jobs is for the first pool, which has workers.
            Some(if pools[drawn].kind == PoolKind::Stealing && !wiring.is_parallel(s) { 0 } else { drawn })
        }
        Layout::Inline => Some(0),
        Layout::Queues => Some(s),
    };
    let stage =
        |s| StageDecl { name: format!("s{s}"), kind: "act".into(), pool: of(s), shape: Shape::default() };
    let mut graph = Blueprint { stages: (0..count).map(stage).collect(), ..Blueprint::default() };
    let steals = |p: Option<usize>| p.is_some_and(|p| pools[p].kind == PoolKind::Stealing);
    let real = |gene, from, to, layout| real(gene, from, to, steals(to), layout);
    if !wiring.source {
        let mode = real(genes.entry, None, Some(0), layout);
        graph.edges.push(EdgeDecl { from: None, port: 0, to: 0, mode });
    }
    for (from, wires) in wiring.wires.iter().enumerate() {
        for (port, &(to, gene)) in wires.iter().enumerate() {
            let mode = real(gene, of(from), of(to), layout);
            graph.edges.push(EdgeDecl { from: Some(from), port, to, mode });
        }
    }
    // A pool that no stage drew is not declared: that fault is not what this test is about.
    let used: Vec<usize> =
        (0..pools.len()).filter(|p| graph.stages.iter().any(|s| s.pool == Some(*p))).collect();
    for stage in &mut graph.stages {
        stage.pool = stage.pool.and_then(|p| used.iter().position(|u| *u == p));
    }
    graph.pools = used.into_iter().map(|p| pools[p].clone()).collect();
    graph
}

/// A gene's mode in this layout; `Inline` gives way where two pools meet, `Forced` does not.
fn real(gene: ModeGene, from: Option<usize>, to: Option<usize>, steals: bool, layout: Layout) -> Mode {
    let dispatch = |d: u8| [Dispatch::Any, Dispatch::Owner, Dispatch::Hash][usize::from(d) % 3];
    let ring = |capacity, d| Mode::Queue { capacity, when_full: WhenFull::Wait, dispatch: dispatch(d) };
    match (gene, layout) {
        (ModeGene::Return { dispatch: d }, _) => Mode::Return { dispatch: dispatch(d) },
        (_, Layout::Inline) if from.is_some() => Mode::Inline,
        (ModeGene::Queue { capacity, dispatch: d }, Layout::Queues | Layout::Inline) => ring(capacity, d),
        (_, Layout::Queues | Layout::Inline) => ring(2, 0),
        (_, Layout::Mixed) if to.is_none() => Mode::Inline,
        (ModeGene::Inline, _) if from == to || steals => Mode::Inline,
        (ModeGene::Inline, _) => ring(2, 0),
        (ModeGene::Forced, _) => Mode::Inline,
        (ModeGene::Queue { capacity, dispatch: d }, _) => ring(capacity, d),
    }
}

/// Sleeps are as good as endless: a lost wake-up stops the run instead of slowing it down.
fn wait(kind: u8) -> Wait {
    let wait = |spin_ns, yield_ns, adaptive| {
        let price_percent = 50;
        Wait { spin_ns, yield_ns, park_ns: HOUR_NS, adaptive, price_percent }
    };
    match kind {
        0 => wait(0, 0, false),
        1 => wait(2_000, 0, false),
        2 => wait(0, 10_000, false),
        _ => wait(5_000, 20_000, true),
    }
}

const HOUR_NS: u64 = 3_600_000_000_000;

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 32)
}
