//! Costs from the cells of a calibration: of stages from what the engine counts, at sockets from what threads used, and what only the
//! model can count (how often an end sleeps, how much it finds each time, who shares a CPU) by bringing the model to what was
//! measured. Deliberately each cost from the cell in which it is most of all: with all from all cells, noise of one is in each.

use std::collections::BTreeMap;

use super::cell::Cell;
use super::fit::{Row, fit};
use super::lower::{Given, lower};
use super::micro::Micro;
use super::model::costs::{Caller, Connection, Costs, Service, Variation};
use super::model::{Outcome, simulate};
use super::site::Site;
use super::trials::{About, Trial};
use crate::cli::load::Waiting;

/// What a socket holds that nobody has read, both kernels together, and what reaches the reader at once.
const CONNECTION: Connection = Connection { bytes: 3 << 20, segment: 64 << 10 };
/// Times that costs which take part in each other are found anew.
const PASSES: usize = 8;
/// What a sleep costs at most beside its wake-up: one at a time it is followed by cold caches, which under load it is not. Under
/// load a gigabyte costs the same however often its ends sleep.
const SLEEPER_MOST_NS: f64 = 4_000.0;
/// Times that costs are brought to what the model makes of them, and the least that is left of one.
const MATCHES: usize = 4;
const LEAST: f64 = 0.2;
/// Halvings of the ranges in which the price of sharing a CPU is looked for, those ranges, and times that both are.
const HALVINGS: usize = 6;
const MORE: (f64, f64) = (-0.3, 1.0);
const LOST: (f64, f64) = (0.0, 0.3);
const SHARINGS: usize = 2;
/// A turn that costs more is none of ours: somebody else had the CPU.
const TURN_MAX_NS: f64 = 2_000.0;
/// The kernel's part, of what threads took: more is somebody else's.
const KERNEL_MOST: f64 = 0.3;
/// What the model runs for a cell.
const WARM_NS: f64 = 10e6;
const RUN_NS: f64 = 60e6;

/// What the model makes of a trial.
pub fn run(trial: &Trial, costs: &Costs) -> Option<Outcome> {
    let site = Site::here();
    let given = Given { site: &site, costs, waits: Waiting::Wait, callers: 1 };
    let setup = lower(&trial.config, &given, &trial.shape).ok()?;
    Some(simulate(&setup, WARM_NS, RUN_NS)).filter(|outcome| outcome.gb_per_s > 0.0)
}

/// Cells by what they are for.
struct Seen<'a> {
    trials: &'a [Trial],
    cells: &'a [Cell],
}

impl<'a> Seen<'a> {
    fn of(&self, about: About) -> Option<(&'a Trial, &'a Cell)> {
        self.trials.iter().zip(self.cells).find(|(trial, cell)| trial.about == about && cell.bytes > 0.0)
    }

    fn cell(&self, about: About) -> Option<&'a Cell> {
        self.of(about).map(|(_, cell)| cell)
    }

    /// Those of one worker that write: their stages do nothing but what they say.
    fn plain(&self) -> impl Iterator<Item = &'a Cell> {
        let plain = |about| !matches!(about, About::Read | About::Crowd);
        let all = self.trials.iter().zip(self.cells);
        all.filter(move |(trial, cell)| plain(trial.about) && cell.bytes > 0.0).map(|(_, cell)| cell)
    }
}

/// Costs from cells, and from what was measured by itself.
pub fn costs(trials: &[Trial], cells: &[Cell], micro: &Micro) -> Costs {
    let seen = Seen { trials, cells };
    let mut costs = Costs { hop: micro.hop, sleep: micro.sleep, connection: CONNECTION, ..Costs::default() };
    let Some((largest, small)) = seen.of(About::Largest).zip(seen.cell(About::Small)) else { return costs };
    for stage in &largest.0.config.blueprint.stages {
        let rows: Vec<Row> = seen.plain().map(|cell| counted(cell, &stage.name)).collect();
        if rows.iter().all(|row| row.ns > 0.0) {
            costs.stages.insert(stage.kind.clone(), fit(&rows, stage.kind == "wr_post"));
        }
    }
    costs.turn_ns = turn_ns(small, &costs);
    costs.kernel_byte_ns = kernel_byte_ns(largest.1);
    costs.caller = caller(&seen, &costs);
    costs.variation = variations(largest.1);
    costs.target_variation = costs.variation("wr_post");
    sockets(&seen, micro, &mut costs);
    (0..MATCHES).for_each(|_| matched(&seen, &mut costs));
    reads(&seen, &mut costs);
    sharing(&seen, &mut costs);
    costs
}

/// What of the time within stages the worker had a CPU.
fn scale(cell: &Cell) -> f64 {
    let busy: f64 = cell.stages.iter().map(|stage| stage.busy_ns).sum();
    let had: f64 = cell.workers.iter().filter_map(|worker| cell.threads.get(&worker.name)).sum();
    if busy > 0.0 { (had / busy).min(1.0) } else { 1.0 }
}

fn counted(cell: &Cell, stage: &str) -> Row {
    let Some(stage) = cell.stage(stage) else { return Row { calls: 0.0, items: 0.0, bytes: 0.0, ns: 0.0 } };
    // What comes before the cut is requests, whatever becomes of them.
    let items = if stage.kind == "admit" { cell.requests } else { cell.slices() };
    Row { calls: stage.calls, items, bytes: cell.bytes, ns: stage.busy_ns * scale(cell) }
}

/// What the poster took: of the worker's CPU time all that is nobody else's.
fn posting_ns(cell: &Cell, costs: &Costs) -> f64 {
    let stages = cell.stages.iter().filter(|stage| stage.kind != "wr_post");
    let others: f64 = stages.map(|stage| stage.busy_ns * scale(cell)).sum();
    cell.worked_ns() - others - around_ns(cell, costs.socket_sleeper_ns, costs)
}

/// What workers take beside their stages.
fn around_ns(cell: &Cell, sleeper_ns: f64, costs: &Costs) -> f64 {
    let workers = cell.workers.iter().filter(|worker| worker.turns > 0.0);
    workers.map(|worker| worker.parks * sleeper_ns + worker.turns * costs.turn_ns).sum()
}

/// What the kernel took for a byte beside all threads: what the machine has used and nobody has.
fn kernel_byte_ns(cell: &Cell) -> f64 {
    let ours = cell.threads.values().sum::<f64>() + cell.target_ns;
    let left = cell.machine_ns - cell.others_ns - ours;
    left.clamp(0.0, KERNEL_MOST * ours) / cell.bytes.max(1.0)
}

/// What is left of the worker's time, by turn.
fn turn_ns(cell: &Cell, costs: &Costs) -> f64 {
    let busy: f64 = cell.stages.iter().map(|stage| stage.busy_ns * scale(cell)).sum();
    let workers = || cell.workers.iter().filter(|worker| worker.turns > 0.0);
    let slept: f64 = workers().map(|worker| worker.parks * costs.sleep.sleeper_ns).sum();
    let turns: f64 = workers().map(|worker| worker.turns).sum();
    ((cell.worked_ns() - busy - slept) / turns.max(1.0)).clamp(0.0, TURN_MAX_NS)
}

fn caller(seen: &Seen<'_>, costs: &Costs) -> Caller {
    let rows = seen.plain().map(|cell| Row {
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
fn variations(cell: &Cell) -> BTreeMap<String, Variation> {
    const MOST: f64 = 4.0;
    let of = |services_ns: &[f64]| {
        let middle = services_ns.get(services_ns.len() / 2)?.max(1.0);
        let factors: Vec<f64> = services_ns.iter().map(|ns| (ns / middle).min(MOST)).collect();
        let mean = factors.iter().sum::<f64>() / factors.len() as f64;
        Some(Variation::Factors(factors.iter().map(|factor| factor / mean).collect()))
    };
    cell.stages.iter().filter_map(|stage| Some((stage.kind.clone(), of(&stage.services_ns)?))).collect()
}

/// Costs at sockets, one after the other, each from the cells in which it is most of all: a byte from large requests, an item
/// from small slices of them, a sleep from one request at a time. What a call costs is measured by itself.
fn sockets(seen: &Seen<'_>, micro: &Micro, costs: &mut Costs) {
    let (send_ns, receive_ns) = micro.calls_ns;
    let found = [About::Single, About::Cut, About::Large, About::Largest].map(|about| seen.cell(about));
    let [Some(single), Some(cut), Some(large), Some(largest)] = found else { return };
    let served = |cell: &Cell, costs: &Costs| cell.target_ns - cell.target_sleeps * costs.socket_sleeper_ns;
    let (mut post, mut target) = (Service::default(), Service::default());
    (post.call_ns, target.call_ns) = (send_ns, (send_ns + receive_ns) / 2.0);
    costs.socket_sleeper_ns = costs.sleep.sleeper_ns.min(SLEEPER_MOST_NS);
    for _ in 0..PASSES {
        let byte_ns = |took: &dyn Fn(&Cell, &Costs) -> f64, service: Service| {
            let of = |cell: &Cell| (took(cell, costs) - cell.slices() * service.item_ns) / cell.bytes;
            ((of(large) + of(largest)) / 2.0).max(0.0)
        };
        post.byte_ns = byte_ns(&posting_ns, post);
        target.byte_ns = byte_ns(&served, target);
        let item_ns = |took: &dyn Fn(&Cell, &Costs) -> f64, service: Service, calls: f64| {
            let rest = took(cut, costs) - cut.bytes * service.byte_ns - calls * service.call_ns;
            (rest / cut.slices().max(1.0)).max(0.0)
        };
        // Batches of the graph are what a frame is made of and what is answered together.
        let batches = cut.slices() / pipeline_graph::BATCH as f64;
        post.item_ns = item_ns(&posting_ns, post, 2.0 * batches);
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

/// CPU time of workers and of the target for a byte, measured less modelled.
fn off_by(trial: &Trial, cell: &Cell, costs: &Costs) -> Option<(f64, f64)> {
    let outcome = run(trial, costs)?;
    // Per cent of a CPU at so many bytes a nanosecond.
    let modelled = |is_it: &dyn Fn(&str) -> bool| {
        let threads = outcome.threads.iter().filter(|thread| is_it(&thread.name));
        threads.map(|thread| thread.cpu_pct).sum::<f64>() / 100.0 / outcome.gb_per_s
    };
    let names: Vec<&str> = cell.workers.iter().map(|worker| worker.name.as_str()).collect();
    let worked: f64 = names.iter().filter_map(|name| cell.threads.get(*name)).sum();
    let ours = worked / cell.bytes - modelled(&|name| names.contains(&name));
    let theirs = cell.target_ns / cell.bytes - modelled(&|name| name.starts_with("peer"));
    Some((ours, theirs))
}

/// Brings the CPU time of both ends in the model to what was measured: that of slices in small ones, that of bytes in the largest,
/// and that of requests in small ones, as far as there is something left of it beside their slices. How often an end sleeps, and
/// how much it finds each time, is then the model's.
fn matched(seen: &Seen<'_>, costs: &mut Costs) {
    let adds = |part: &mut f64, more: f64| *part = (*part + more).max(LEAST * *part);
    for about in [About::Cut, About::Largest, About::Small] {
        let Some((trial, cell)) = seen.of(about) else { return };
        let Some((ours, theirs)) = off_by(trial, cell, costs) else { return };
        let slice = cell.bytes / cell.slices().max(1.0);
        let request = cell.bytes / cell.requests.max(1.0);
        let kind = if about == About::Small { "admit" } else { "wr_post" };
        let Some(stage) = costs.stages.get_mut(kind) else { return };
        match about {
            About::Cut => {
                adds(&mut stage.item_ns, ours * slice);
                adds(&mut costs.target.item_ns, theirs * slice);
            }
            About::Small => adds(&mut stage.item_ns, ours * request),
            _ => {
                adds(&mut stage.byte_ns, ours);
                adds(&mut costs.target.byte_ns, theirs);
            }
        }
    }
}

/// What a byte costs that is read: who sends it, and who takes it in.
fn reads(seen: &Seen<'_>, costs: &mut Costs) {
    let post_ns = costs.stage("wr_post").byte_ns;
    (costs.read.target_ns, costs.read.initiator_ns) = (post_ns, costs.target.byte_ns);
    let Some((trial, cell)) = seen.of(About::Read) else { return };
    for _ in 0..MATCHES {
        let Some((ours, theirs)) = off_by(trial, cell, costs) else { return };
        let read = &mut costs.read;
        read.initiator_ns = (read.initiator_ns + ours).max(LEAST * read.initiator_ns);
        read.target_ns = (read.target_ns + theirs).max(LEAST * read.target_ns);
    }
}

/// What it costs threads to share a CPU: as much as brings the CPU time of several workers to what was measured, and their speed.
fn sharing(seen: &Seen<'_>, costs: &mut Costs) {
    let Some((trial, cell)) = seen.of(About::Crowd) else { return };
    for _ in 0..SHARINGS {
        costs.sharing.more = halved(MORE, |more| {
            costs.sharing.more = more;
            off_by(trial, cell, costs).is_some_and(|(ours, theirs)| ours + theirs > 0.0)
        });
        costs.sharing.lost = halved(LOST, |lost| {
            costs.sharing.lost = lost;
            run(trial, costs).is_some_and(|outcome| outcome.gb_per_s > cell.gb_per_s)
        });
    }
}

/// The value from which on nothing more is asked for.
fn halved((mut least, mut most): (f64, f64), mut asks_for_more: impl FnMut(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = (least + most) / 2.0;
        match asks_for_more(middle) {
            true => least = middle,
            false => most = middle,
        }
    }
    (least + most) / 2.0
}
