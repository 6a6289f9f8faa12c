//! A calibration: what was measured on a machine, and the costs that follow from it; kept as JSON, so that a model can be run
//! elsewhere. Measured with the preset `tcp` alone, whose one worker runs every stage: what a file changes is then predicted,
//! not fitted.

use std::path::Path;
use std::time::Duration;

use pipeline_configs::Config;
use serde::{Deserialize, Serialize};

use super::fit::{Row, fit};
use super::lower::{Given, lower};
use super::measure::{Cell, Opposite, Subject, announce};
use super::micro;
use super::model::costs::{Caller, Connection, Costs, Service, Variation};
use super::model::simulate;
use super::site::Site;
use super::speed::steady;
use super::work::Shape;
use crate::cli::exit::Failure;
use crate::cli::file;
use crate::cli::load::Waiting;
use crate::cli::load::machine::machine;
use crate::cli::load::tally::median;

/// Of the format.
const SCHEMA_VERSION: u32 = 1;
/// Its worker sleeps at once: what its thread has used is then work and sleeps, and no looking around.
const PARKED: &str = "pools.nic.wait='park'";
/// Sizes that a calibration runs: the costs of a call, an item and a byte show apart.
pub const SHAPES: [&str; 5] = ["1x4KiBx1", "64x4KiBx4", "16x64KiBx4", "8x256KiBx4", "8x1MiBx4"];
/// How long each, in each round.
const CELL: Duration = Duration::from_millis(300);
/// What an engine takes to start, to be warmed and to stop.
pub const START_S: f64 = 0.9;
/// Rounds; the middle one of each size counts.
const ROUNDS: usize = 5;
/// What a socket holds that nobody has read, both kernels together, and what reaches the reader at once.
const CONNECTION: Connection = Connection { bytes: 3 << 20, segment: 64 << 10 };
/// Times that costs which take part in each other are found anew.
const PASSES: usize = 8;
/// A call on a socket, where it cannot be measured.
const CALL_NS: f64 = 1_500.0;
/// What a sleep costs at most beside its wake-up: one at a time it is followed by cold caches, which under load it is not. Under
/// load a gigabyte costs the same however often its ends sleep.
const SLEEPER_MOST_NS: f64 = 4_000.0;
/// Times that costs are brought to what the model makes of them, and the least that is left of one.
const MATCHES: usize = 4;
const LEAST: f64 = 0.2;
/// A turn that costs more is none of ours: somebody else had the CPU.
const TURN_MAX_NS: f64 = 2_000.0;
/// The kernel's part, of what threads took: more is somebody else's.
const KERNEL_MOST: f64 = 0.3;
/// What the model runs for a cell.
const WARM_NS: f64 = 10e6;
const RUN_NS: f64 = 60e6;

/// See the file's head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Of this format.
    pub schema_version: u32,
    /// The machine, in words.
    pub machine: String,
    /// Its CPUs.
    pub cores: f64,
    /// What was run.
    pub cells: Vec<Ran>,
    /// What follows.
    pub costs: Costs,
    /// How much longer than in the model the p99 of a batch is, for a median as long: what the scheduler, interrupts and
    /// other guests of the host do to it.
    pub stretch: f64,
}

/// A cell, for who reads the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Its shape.
    pub shape: String,
    /// What it came to.
    pub gb_per_s: f64,
    /// What the model says of it.
    pub model_gb_per_s: f64,
    /// Seconds of CPU time for 10⁹ bytes.
    pub cpu_s_per_gb_initiator: f64,
    /// Of the target.
    pub cpu_s_per_gb_target: f64,
    /// Of both, in the model.
    pub model_cpu_s_per_gb: f64,
}

/// The file that it is measured with.
///
/// # Errors
/// None: the preset is part of the program.
pub fn subject() -> Result<Config, Failure> {
    Ok(file::load(&file::source(None, &[PARKED.to_owned()]))?.config)
}

/// The shapes it runs.
pub fn shapes() -> Vec<Shape> {
    SHAPES.iter().filter_map(|text| Shape::parse(text).ok()).collect()
}

impl Calibration {
    /// Measures this machine: about ten seconds.
    ///
    /// # Errors
    /// When the preset does not start here, or the target does not.
    pub fn take() -> Result<Self, Failure> {
        let (config, shapes) = (subject()?, shapes());
        let each_s = START_S + shapes.len() as f64 * CELL.as_secs_f64();
        announce("measuring what things cost here", ROUNDS as f64 * each_s);
        let opposite = Opposite::start(&shapes)?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(round(&config, &opposite, &shapes, CELL)?);
        }
        Ok(Self::of(&config, &shapes, &rounds))
    }

    /// From rounds of all shapes.
    pub fn of(config: &Config, shapes: &[Shape], rounds: &[Vec<Cell>]) -> Self {
        let cells: Vec<Cell> =
            (0..shapes.len()).map(|i| middle(rounds.iter().map(|round| &round[i]))).collect();
        let costs = costs(config, shapes, &cells);
        let mut stretches: Vec<f64> = shapes
            .iter()
            .zip(&cells)
            .filter_map(|(shape, cell)| stretch(config, shape, cell, &costs))
            .collect();
        let ran = shapes.iter().zip(&cells).zip(SHAPES).map(|((shape, cell), text)| Ran {
            shape: text.to_owned(),
            gb_per_s: cell.gb_per_s,
            model_gb_per_s: run(config, shape, &costs).map_or(0.0, |outcome| outcome.gb_per_s),
            model_cpu_s_per_gb: run(config, shape, &costs).map_or(0.0, |o| o.cpus / o.gb_per_s.max(1e-9)),
            cpu_s_per_gb_initiator: (cell.threads.values().sum::<f64>()) / cell.bytes,
            cpu_s_per_gb_target: cell.target_ns / cell.bytes,
        });
        Self {
            schema_version: SCHEMA_VERSION,
            machine: machine().join("; "),
            cores: Site::here().cores,
            cells: ran.collect(),
            stretch: median(&mut stretches).max(1.0),
            costs,
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// 71 when it cannot be read, 65 when it is none, or of another version.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| Failure::system(format!("{name}: {e}")))?;
        let read: Self = serde_json::from_str(&text)
            .map_err(|e| Failure::data(format!("{name} is no calibration: {e}; take one with --save")))?;
        if read.schema_version != SCHEMA_VERSION {
            let version = read.schema_version;
            return Err(Failure::data(format!(
                "{name} is of version {version}, and this program reads {SCHEMA_VERSION}; take one anew with --save"
            )));
        }
        Ok(read)
    }

    /// Writes it.
    ///
    /// # Errors
    /// 71 when it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).map_err(Failure::system)?;
        std::fs::write(path, text + "\n").map_err(|e| Failure::system(format!("{}: {e}", path.display())))
    }
}

/// All shapes once, with a fresh engine.
///
/// # Errors
/// As of [`Subject::start`].
pub fn round(
    config: &Config,
    opposite: &Opposite,
    shapes: &[Shape],
    cell: Duration,
) -> Result<Vec<Cell>, Failure> {
    let subject = Subject::start(config, Waiting::Wait, opposite, shapes)?;
    subject.touch(shapes)?;
    shapes.iter().map(|shape| subject.cell(shape, cell)).collect()
}

/// The cell in the middle by throughput, of those from moments when the CPUs were as fast as usual.
pub fn middle<'a>(cells: impl Iterator<Item = &'a Cell>) -> Cell {
    let all: Vec<&Cell> = cells.collect();
    let counts = steady(&all.iter().map(|cell| cell.speed).collect::<Vec<_>>());
    let mut cells: Vec<&Cell> =
        all.iter().zip(counts).filter(|(_, counts)| *counts).map(|(cell, _)| *cell).collect();
    cells.sort_by(|a, b| a.gb_per_s.total_cmp(&b.gb_per_s));
    cells.get(cells.len() / 2).map_or_else(Cell::default, |cell| (*cell).clone())
}

fn run(config: &Config, shape: &Shape, costs: &Costs) -> Option<super::model::Outcome> {
    let site = Site::here();
    let given = Given { site: &site, costs, waits: Waiting::Wait, callers: 1 };
    Some(simulate(&lower(config, &given, shape).ok()?, WARM_NS, RUN_NS))
}

fn stretch(config: &Config, shape: &Shape, cell: &Cell, costs: &Costs) -> Option<f64> {
    let outcome = run(config, shape, costs)?;
    let (seen, modelled) = (cell.p99_us / cell.p50_us.max(1e-3), outcome.p99_ns / outcome.p50_ns.max(1.0));
    Some(seen / modelled.max(1.0))
}

/// Costs from cells: of stages from what the engine counts, at sockets from what threads used.
fn costs(config: &Config, shapes: &[Shape], cells: &[Cell]) -> Costs {
    let mut costs =
        Costs { hop: micro::hop(), sleep: micro::sleep(), connection: CONNECTION, ..Costs::default() };
    let scales: Vec<f64> = cells.iter().map(scale).collect();
    for stage in &config.blueprint.stages {
        let rows: Vec<Row> =
            cells.iter().zip(&scales).map(|(cell, scale)| counted(cell, &stage.name, *scale)).collect();
        if rows.iter().all(|row| row.ns > 0.0) {
            costs.stages.insert(stage.kind.clone(), fit(&rows, stage.kind == "wr_post"));
        }
    }
    costs.turn_ns = cells.get(1).map_or(0.0, |cell| turn_ns(cell, scales[1], &costs));
    costs.kernel_byte_ns = cells.last().map_or(0.0, kernel_byte_ns);
    costs.caller = caller(shapes, cells, &costs);
    costs.variation = variations(config, cells);
    costs.target_variation = costs.variation("wr_post");
    sockets(cells, &scales, &mut costs);
    (0..MATCHES).for_each(|_| matched(config, shapes, cells, &mut costs));
    costs
}

/// What of the time within stages the worker had a CPU.
fn scale(cell: &Cell) -> f64 {
    let busy: f64 = cell.seen.graph.stages.iter().map(|stage| stage.busy_ns as f64).sum();
    let had: f64 = cell.seen.graph.workers.iter().filter_map(|w| cell.threads.get(&w.name)).sum();
    if busy > 0.0 { (had / busy).min(1.0) } else { 1.0 }
}

fn slices(cell: &Cell) -> f64 {
    let ends = cell.seen.graph.stages.iter().filter(|stage| stage.kind == "completion_notify");
    ends.map(|stage| stage.items as f64).sum()
}

fn counted(cell: &Cell, stage: &str, scale: f64) -> Row {
    let Some(stage) = cell.seen.graph.stage(stage) else {
        return Row { calls: 0.0, items: 0.0, bytes: 0.0, ns: 0.0 };
    };
    Row {
        calls: (stage.batches + stage.busy_polls) as f64,
        items: slices(cell),
        bytes: cell.bytes,
        ns: stage.busy_ns as f64 * scale,
    }
}

/// What the poster took: of the worker's CPU time all that is nobody else's.
fn posting_ns(cell: &Cell, scale: f64, costs: &Costs) -> f64 {
    let stages = cell.seen.graph.stages.iter().filter(|stage| stage.kind != "wr_post");
    let others: f64 = stages.map(|stage| stage.busy_ns as f64 * scale).sum();
    let workers = || cell.seen.graph.workers.iter().filter(|w| w.turns > 0);
    let had: f64 = workers().filter_map(|w| cell.threads.get(&w.name)).sum();
    let slept: f64 = workers().map(|w| w.parks as f64 * costs.socket_sleeper_ns).sum();
    let turns: f64 = workers().map(|w| w.turns as f64 * costs.turn_ns).sum();
    had - others - slept - turns
}

/// What the kernel took for a byte beside all threads: what the machine has used and nobody has.
fn kernel_byte_ns(cell: &Cell) -> f64 {
    let ours = cell.threads.values().sum::<f64>() + cell.target_ns;
    let left = cell.machine_ns - cell.others_ns - ours;
    left.clamp(0.0, KERNEL_MOST * ours) / cell.bytes.max(1.0)
}

/// What is left of the worker's time, by turn.
fn turn_ns(cell: &Cell, scale: f64, costs: &Costs) -> f64 {
    let busy: f64 = cell.seen.graph.stages.iter().map(|stage| stage.busy_ns as f64 * scale).sum();
    let workers = || cell.seen.graph.workers.iter().filter(|w| w.turns > 0);
    let had: f64 = workers().filter_map(|w| cell.threads.get(&w.name)).sum();
    let slept: f64 = workers().map(|w| w.parks as f64 * costs.sleep.sleeper_ns).sum();
    let turns: f64 = workers().map(|w| w.turns as f64).sum();
    ((had - busy - slept) / turns.max(1.0)).clamp(0.0, TURN_MAX_NS)
}

fn caller(shapes: &[Shape], cells: &[Cell], costs: &Costs) -> Caller {
    let rows = shapes.iter().zip(cells).map(|(_, cell)| Row {
        calls: cell.batches,
        items: cell.requests,
        bytes: 0.0,
        ns: cell.caller_ns,
    });
    let all = fit(&rows.collect::<Vec<_>>(), false);
    // Most batches are slept for; that is counted by itself.
    let call_ns = (all.call_ns - costs.sleep.sleeper_ns).max(0.0);
    Caller { submit: Service { call_ns: call_ns / 2.0, ..all }, collect_ns: call_ns / 2.0 }
}

/// How services vary, from the cell whose calls are all alike; what others do with the CPU meanwhile is cut off.
fn variations(config: &Config, cells: &[Cell]) -> std::collections::BTreeMap<String, Variation> {
    const PARTS: usize = 20;
    const MOST: f64 = 4.0;
    let Some(cell) = cells.last() else { return Default::default() };
    let of = |name: &str| {
        let stage = cell.seen.graph.stage(name).filter(|stage| stage.service.count() >= 100)?;
        let at = |i: usize| stage.service.quantile((i as f64 + 0.5) / PARTS as f64) as f64;
        let middle = stage.service.quantile(0.5).max(1) as f64;
        let factors: Vec<f64> = (0..PARTS).map(|i| (at(i) / middle).min(MOST)).collect();
        let mean = factors.iter().sum::<f64>() / PARTS as f64;
        Some(Variation::Factors(factors.iter().map(|factor| factor / mean).collect()))
    };
    let stages = config.blueprint.stages.iter();
    stages.filter_map(|stage| Some((stage.kind.clone(), of(&stage.name)?))).collect()
}

/// Costs at sockets, one after the other, each from the cells in which it is most of all: a byte from large requests, an item
/// from small ones in batches, a sleep from one request at a time. What a call costs is measured by itself.
fn sockets(cells: &[Cell], scales: &[f64], costs: &mut Costs) {
    let (send_ns, receive_ns) = micro::socket_calls().unwrap_or((CALL_NS, CALL_NS));
    let [single, small, .., large, largest] = cells else { return };
    let scaled: Vec<(&Cell, f64)> = cells.iter().zip(scales.iter().copied()).collect();
    let sleep_ns = |cell: &Cell, costs: &Costs| cell.target_sleeps * costs.socket_sleeper_ns;
    let posted = |cell: &Cell, costs: &Costs| {
        let scale =
            scaled.iter().find(|(other, _)| std::ptr::eq(*other, cell)).map_or(1.0, |(_, scale)| *scale);
        posting_ns(cell, scale, costs)
    };
    let served = |cell: &Cell, costs: &Costs| cell.target_ns - sleep_ns(cell, costs);
    let (mut post, mut target) = (Service::default(), Service::default());
    (post.call_ns, target.call_ns) = (send_ns, (send_ns + receive_ns) / 2.0);
    costs.socket_sleeper_ns = costs.sleep.sleeper_ns.min(SLEEPER_MOST_NS);
    for _ in 0..PASSES {
        let byte_ns = |took: &dyn Fn(&Cell, &Costs) -> f64, service: Service| {
            let of = |cell: &Cell| (took(cell, costs) - slices(cell) * service.item_ns) / cell.bytes.max(1.0);
            ((of(large) + of(largest)) / 2.0).max(0.0)
        };
        post.byte_ns = byte_ns(&posted, post);
        target.byte_ns = byte_ns(&served, target);
        let item_ns = |took: &dyn Fn(&Cell, &Costs) -> f64, service: Service, calls: f64| {
            let rest = took(small, costs) - small.bytes * service.byte_ns - calls * service.call_ns;
            (rest / slices(small).max(1.0)).max(0.0)
        };
        // Batches of the graph are what a frame is made of and what is answered together.
        let batches = slices(small) / pipeline_graph::BATCH as f64;
        post.item_ns = item_ns(&posted, post, 2.0 * batches);
        target.item_ns = item_ns(&served, target, 2.0 * batches);
        // One at a time it reads a request, answers it, and sleeps.
        let awake =
            2.0 * target.call_ns + target.item_ns + target.byte_ns * single.bytes / single.requests.max(1.0);
        let each = (single.target_ns - single.requests * awake) / single.target_sleeps.max(1.0);
        costs.socket_sleeper_ns = each.clamp(costs.sleep.sleeper_ns.min(SLEEPER_MOST_NS), SLEEPER_MOST_NS);
    }
    costs.stages.insert("wr_post".into(), post);
    costs.target = target;
}

/// Brings the CPU time of both ends in the model to what was measured: that of items in batches of small requests, that of bytes
/// in the largest. How often an end sleeps, and how much it finds each time, is then the model's.
fn matched(config: &Config, shapes: &[Shape], cells: &[Cell], costs: &mut Costs) {
    for (i, is_small) in [(1, true), (cells.len().saturating_sub(1), false)] {
        let (Some(cell), Some(shape)) = (cells.get(i), shapes.get(i)) else { return };
        let Some(outcome) = run(config, shape, costs).filter(|outcome| outcome.gb_per_s > 0.0) else {
            return;
        };
        // Per cent of a CPU at so many bytes a nanosecond.
        let modelled = |is_it: &dyn Fn(&str) -> bool| {
            let threads = outcome.threads.iter().filter(|thread| is_it(&thread.name));
            threads.map(|thread| thread.cpu_pct).sum::<f64>() / 100.0 / outcome.gb_per_s
        };
        let names: Vec<&str> = cell.seen.graph.workers.iter().map(|worker| worker.name.as_str()).collect();
        let worked: f64 = names.iter().filter_map(|name| cell.threads.get(*name)).sum();
        let ours = worked / cell.bytes.max(1.0) - modelled(&|name| names.contains(&name));
        let theirs = cell.target_ns / cell.bytes.max(1.0) - modelled(&|name| name.starts_with("peer"));
        let bytes_an_item = cell.bytes / slices(cell).max(1.0);
        let add = |service: &mut Service, byte_ns: f64| match is_small {
            true => {
                service.item_ns = (service.item_ns + byte_ns * bytes_an_item).max(LEAST * service.item_ns);
            }
            false => service.byte_ns = (service.byte_ns + byte_ns).max(LEAST * service.byte_ns),
        };
        if let Some(post) = costs.stages.get_mut("wr_post") {
            add(post, ours);
        }
        add(&mut costs.target, theirs);
    }
}
