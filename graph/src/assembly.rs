//! From a checked blueprint to workers ready to run: who hosts what, which rings lie between, whose bell
//! each of them rings. Deliberately without threads: those start when everything is built.

use crate::agenda::Agenda;
use crate::bell::{Bell, Sleeper};
use crate::blueprint::{Blueprint, Dispatch, EdgeDecl, FAILED, Mode, PoolKind, StageDecl, WhenFull};
use crate::caller::Callers;
use crate::caller::seat::Seat as CallerSeat;
use crate::caller::walker::Walker;
use crate::caller::watch::Watch;
use crate::clock::Clock;
use crate::drain::Report;
use crate::edge::inline::Hop;
use crate::edge::track::{Track, Way};
use crate::engine::{PoolHealth, Shared, StartError};
use crate::fault::Faults;
use crate::inlet::Entry;
use crate::instance::{Beat, Instance};
use crate::item::{Batch, Item};
use crate::node::{Input, Node, Source};
use crate::outlet::{Outlet, PortOut, Wire};
use crate::placement::{Place, Placement};
use crate::stage::{Held, Seat, Spec, Stage, Waker};
use crate::stats::board::Board;
use crate::stealing::farm::{Farm, Ground};
use crate::stealing::job::Bench;
use crate::stealing::{Crew, Crews};
use crate::sync::{Arc, AtomicBool, AtomicU64};
use crate::wait::Waiting;
use crate::worker::{STAGES_MAX, Worker};

/// Everything that [`crate::Engine::start`] needs.
pub(crate) struct Assembly<T: Item> {
    pub shared: Arc<Shared<T>>,
    pub board: Board,
    pub tracks: Vec<Track<T>>,
    pub reports: Vec<Arc<Report>>,
    /// Those that have a thread.
    pub workers: Vec<Worker<T>>,
    /// Those that have none.
    pub callers: Option<Callers<T>>,
}

/// Builds everything. The graph has passed [`crate::check()`].
pub(crate) fn assemble<T: Item>(
    blueprint: &Blueprint,
    specs: &[Arc<dyn Spec<T>>],
    faults: Arc<dyn Faults<T>>,
    crews: &Crews,
) -> Result<Assembly<T>, StartError> {
    match_specs(blueprint, specs)?;
    let placement = Placement::new(blueprint);
    if let Some(place) = placement.places.iter().find(|p| p.stages.len() > STAGES_MAX) {
        let (worker, stages) = (place.name.clone(), place.stages.len());
        return Err(StartError::TooManyStages { worker, stages, max: STAGES_MAX });
    }
    let bells: Box<[Arc<Bell>]> = placement.places.iter().map(|_| Arc::new(Bell::new())).collect();
    let tracks: Vec<_> =
        (0..blueprint.edges.len()).filter_map(|e| Track::new(blueprint, &placement, &bells, e)).collect();
    let shared = Arc::new(Shared {
        draining: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        pools: blueprint.pools.iter().map(|p| PoolHealth::new(&p.name)).collect(),
        faults,
        bells,
        entry: entry(blueprint, specs, &tracks),
    });
    let mut builder = Builder {
        blueprint,
        specs,
        placement: &placement,
        tracks: &tracks,
        shared,
        board: Board::new(blueprint),
        benches: Vec::new(),
    };
    builder.benches = builder.benches(crews);
    let mut workers = Vec::with_capacity(placement.places.len());
    for at in 0..placement.places.len() {
        workers.push(builder.worker(at)?);
    }
    builder.crews(crews);
    let reports = workers.iter().map(|w| w.report.clone()).collect();
    let (shared, board) = (builder.shared, builder.board);
    let callers = callers(blueprint, &shared, &mut workers)?;
    Ok(Assembly { shared, board, tracks, reports, workers, callers })
}

/// Takes the workers of `caller` pools out, and seats them.
fn callers<T: Item>(
    blueprint: &Blueprint,
    shared: &Shared<T>,
    workers: &mut Vec<Worker<T>>,
) -> Result<Option<Callers<T>>, StartError> {
    let seated = |pool: usize| blueprint.pools[pool].kind == PoolKind::Caller;
    let Some(first) = workers.iter().find(|w| seated(w.pool)) else { return Ok(None) };
    let pool = &blueprint.pools[first.pool];
    let source = |e: rustix::io::Errno| StartError::Watch { pool: pool.name.clone(), source: e.into() };
    let watch = Arc::new(Watch::new().map_err(source)?);
    let cell = first.cell.clone();
    let waiting = Waiting::new(pool.wait, false, cell.clone());
    let (mut seats, mut threads, mut entrance) = (Vec::new(), Vec::new(), None);
    // Workers come in the order of the bells.
    for (worker, bell) in workers.drain(..).zip(&shared.bells) {
        if !seated(worker.pool) {
            threads.push(worker);
            continue;
        }
        let inputs: Vec<_> = worker.nodes.iter().flat_map(|n| &n.inputs).map(|i| i.source.clone()).collect();
        entrance = entrance.or_else(|| worker.entrance.map(|_| seats.len()));
        let mailbox = move || inputs.iter().any(|source| !source.is_empty());
        seats.push(CallerSeat::new(Walker::new(worker, bell.clone(), watch.clone()), mailbox));
    }
    *workers = threads;
    Ok(Some(Callers::new(seats, entrance, watch, waiting, cell)))
}

fn match_specs<T: Item>(blueprint: &Blueprint, specs: &[Arc<dyn Spec<T>>]) -> Result<(), StartError> {
    for (i, decl) in blueprint.stages.iter().enumerate() {
        let mismatch = |what: &str| StartError::Mismatch { stage: decl.name.clone(), what: what.into() };
        let spec = specs.get(i).ok_or_else(|| mismatch("has no spec"))?;
        if spec.ports() != decl.shape.ports {
            return Err(mismatch("its ports are not those of its spec"));
        }
        if spec.contract() != decl.shape.contract {
            return Err(mismatch("its contract is not that of its spec"));
        }
    }
    Ok(())
}

fn entry<T: Item>(
    blueprint: &Blueprint,
    specs: &[Arc<dyn Spec<T>>],
    tracks: &[Track<T>],
) -> Option<Arc<Entry<T>>> {
    let track = tracks.iter().find(|t| !t.gates.is_empty())?;
    let (Way::Queue(rings), Mode::Queue { dispatch, .. }) = (&track.way, blueprint.edges[track.edge].mode)
    else {
        return None;
    };
    Some(Arc::new(Entry {
        rings: rings.clone(),
        gates: track.gates.clone(),
        dispatch,
        target: specs[track.to].clone(),
        pushed: AtomicU64::new(0),
        batches: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        timed: !blueprint.untimed,
        stepped: blueprint.stages[track.to].pool.is_some_and(|p| blueprint.pools[p].kind == PoolKind::Caller),
    }))
}

/// The node and input at which submissions come in.
fn entrance<T: Item>(nodes: &[Node<T>]) -> Option<(usize, usize)> {
    let gate = |node: &Node<T>| node.inputs.iter().position(|input| input.gate.is_some());
    nodes.iter().enumerate().find_map(|(n, node)| Some((n, gate(node)?)))
}

struct Builder<'a, T: Item> {
    blueprint: &'a Blueprint,
    specs: &'a [Arc<dyn Spec<T>>],
    placement: &'a Placement,
    tracks: &'a [Track<T>],
    shared: Arc<Shared<T>>,
    board: Board,
    /// Crew and cells of each stage that runs on a `stealing` pool.
    benches: Vec<Option<(Arc<Crew>, Bench)>>,
}

impl<T: Item> Builder<'_, T> {
    /// Cells for the threads that will carry out each stage.
    fn benches(&mut self, crews: &Crews) -> Vec<Option<(Arc<Crew>, Bench)>> {
        let stages = self.blueprint.stages.iter().enumerate();
        let bench = |(s, decl): (usize, &StageDecl)| {
            let crew = crews.of(decl.pool?)?.clone();
            let stages = (0..crew.threads()).map(|_| self.board.stage(s)).collect();
            let workers = crew.cells().into();
            Some((crew, Bench { stages, workers, timed: !self.blueprint.untimed }))
        };
        stages.map(bench).collect()
    }

    /// Lines for the threads of crews.
    fn crews(&mut self, crews: &Crews) {
        for (decl, crew) in
            self.blueprint.pools.iter().enumerate().filter_map(|(p, d)| Some((d, crews.of(p)?)))
        {
            for (worker, cell) in crew.cells().iter().enumerate() {
                self.board.thread(&decl.thread_name(worker), &decl.name, decl.cpu(worker), cell.clone());
            }
        }
    }

    fn worker(&mut self, at: usize) -> Result<Worker<T>, StartError> {
        let place = &self.placement.places[at];
        let pool = &self.blueprint.pools[place.pool];
        let bell = self.shared.bells[at].clone();
        let mut nodes = Vec::with_capacity(place.stages.len());
        for &stage in &place.stages {
            nodes.push(self.node(place, stage, &bell)?);
        }
        let cell = self.board.worker(&place.name, &pool.name, place.cpu, bell.clone());
        Ok(Worker {
            name: place.name.clone(),
            cpu: place.cpu,
            pool: place.pool,
            agenda: Agenda::new(&nodes),
            entrance: entrance(&nodes),
            nodes,
            beat: Beat::new(Clock::monotonic(), !self.blueprint.untimed),
            looked_at: 0,
            waiting: Waiting::new(pool.wait, place.cpu.is_some(), cell.clone()),
            sleeper: Sleeper::new(bell),
            cell,
            report: Arc::new(Report::new()),
            shared: self.shared.clone(),
            condemned: false,
        })
    }

    fn node(&mut self, place: &Place, stage: usize, bell: &Arc<Bell>) -> Result<Node<T>, StartError> {
        let blueprint = self.blueprint;
        let (decl, spec) = (&blueprint.stages[stage], self.specs[stage].clone());
        let ringer = bell.clone();
        let bench = self.benches[stage].clone();
        // Panics in jobs are those of the pool that steals.
        let pool = decl.pool.filter(|_| bench.is_some()).unwrap_or(place.pool);
        let cell = if bench.is_some() { self.board.host(stage) } else { self.board.stage(stage) };
        let seat = Seat {
            stage: decl.name.as_str().into(),
            pool: blueprint.pools[pool].name.as_str().into(),
            worker: place.worker,
            workers: place.workers,
            group: place.group,
            group_name: place.group_name.as_str().into(),
            pair: place.pair,
            waker: Waker::new(move || ringer.ring()),
            held: if blueprint.untimed { Held::default() } else { Held::in_cell(cell.clone()) },
        };
        let local = |s: usize| place.stages.iter().position(|here| *here == s);
        let hop = |decl: &EdgeDecl| {
            let inline = decl.mode == Mode::Inline;
            let (from, to) = (local(decl.from.filter(|_| inline)?)?, local(decl.to)?);
            Some(Hop { from, port: decl.port, to, slot: 0 })
        };
        let mut hops: Vec<_> = blueprint.edges.iter().filter_map(hop).collect();
        for at in 0..hops.len() {
            hops[at].slot = hops[..at].iter().filter(|before| before.to == hops[at].to).count();
        }
        let here = local(stage);
        let outlet = self.outlet(stage);
        let (is_stolen, faults) = (bench.is_some(), self.shared.faults.clone());
        let instance: Box<dyn Stage<T>> = match bench {
            None => spec.build(&seat)?,
            Some((crew, bench)) => {
                let (spec, seat, cell, failed) = (spec.clone(), seat.clone(), cell.clone(), outlet.failed());
                let (faults, alarm) = (faults.clone(), self.shared.clone());
                Box::new(Farm::new(Ground { crew, bench, spec, seat, faults, alarm, cell, failed })?)
            }
        };
        Ok(Node {
            inputs: self.inputs(place, stage),
            hops_in: hops.iter().filter(|h| Some(h.to) == here).copied().collect(),
            hops_out: hops.iter().filter(|h| Some(h.from) == here).copied().collect(),
            fed: 0,
            fed_at: hops.iter().filter(|h| Some(h.to) == here).map(|_| 0).collect(),
            polls: decl.shape.contract.polls || is_stolen,
            brings: decl.shape.contract.source,
            instance: Instance {
                stage: Some(instance),
                outlet,
                spec,
                seat,
                cell,
                faults,
                alarm: self.shared.clone(),
                orphans: Batch::new(),
                small: 0,
                large: false,
                blocked_at: None,
                timed: !blueprint.untimed,
                guest: blueprint.is_guest(stage),
            },
        })
    }

    /// The rings a stage reads on this worker, return edges first.
    fn inputs(&mut self, place: &Place, stage: usize) -> Vec<Input<T>> {
        let mut inputs = Vec::new();
        // A guest is reached inline: rings are read by workers of a stage's own pool.
        let is_ours = self.blueprint.stages[stage].pool == Some(place.pool);
        for track in self.tracks.iter().filter(|t| is_ours && t.to == stage) {
            let mine = |rings: usize| if rings == 1 { 0 } else { place.worker };
            let (source, gate) = match &track.way {
                Way::Back(rings) => (Source::Back(rings[mine(rings.len())].clone()), None),
                Way::Queue(rings) => {
                    let mine = mine(rings.len());
                    (Source::Queue(rings[mine].clone()), track.gates.get(mine).cloned())
                }
            };
            let cell = self.board.edge(track.edge);
            inputs.push(Input {
                source,
                pending: Batch::new(),
                spare: Batch::new(),
                cell,
                unmeasured: 0,
                gate,
            });
        }
        inputs.sort_by_key(|i| !matches!(i.source, Source::Back(_)));
        inputs
    }

    fn outlet(&mut self, stage: usize) -> Outlet<T> {
        let decl = &self.blueprint.stages[stage];
        let ports = (0..decl.shape.ports.len()).map(|port| self.port(stage, port)).collect();
        let wired =
            |port: usize| self.blueprint.edges.iter().any(|e| e.from == Some(stage) && e.port == port);
        let failed = decl.shape.ports.iter().position(|p| p.name == FAILED).filter(|p| wired(*p));
        Outlet::new(ports, failed, self.shared.faults.clone())
    }

    fn port(&mut self, stage: usize, port: usize) -> PortOut<T> {
        let blueprint = self.blueprint;
        let decl = &blueprint.stages[stage];
        let port_name = format!("{}.{}", decl.name, decl.shape.ports[port].name);
        let wire = |e: &&EdgeDecl| e.from == Some(stage) && e.port == port;
        let Some(edge) = blueprint.edges.iter().find(wire) else {
            return PortOut::new(Wire::Open, 0, &port_name, "");
        };
        let index = blueprint.edges.iter().position(|e| std::ptr::eq(e, edge)).unwrap_or_default();
        let name = blueprint.edge_name(edge);
        let track = self.tracks.iter().find(|t| t.edge == index);
        let wire = match track.map(|t| &t.way) {
            None => Wire::Inline,
            Some(Way::Queue(rings)) => Wire::Queue(rings.clone()),
            Some(Way::Back(rings)) => Wire::Back(rings.clone()),
        };
        let (dispatch, when_full) = match edge.mode {
            Mode::Inline => (Dispatch::Any, WhenFull::Wait),
            Mode::Queue { dispatch, when_full, .. } => (dispatch, when_full),
            Mode::Return { dispatch } => (dispatch, WhenFull::Wait),
        };
        let count = match &wire {
            Wire::Open | Wire::Inline => 1,
            Wire::Queue(rings) => rings.len(),
            Wire::Back(rings) => rings.len(),
        };
        PortOut::new(wire, count, &port_name, &name)
            .dispatched(dispatch, self.specs[edge.to].clone())
            .when_full(when_full)
            .counted(self.board.edge(index))
    }
}
