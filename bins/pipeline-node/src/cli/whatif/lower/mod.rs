//! A file and a machine become what the model runs. Deliberately only what takes time: what fails, retries, serves others,
//! and files of a node are not in it.

use pipeline_configs::schema::Value;
use pipeline_configs::{Config, StageConfig};
use pipeline_graph::blueprint::EdgeDecl;
use pipeline_graph::{Blueprint, Dispatch, Mode, PoolKind};

use super::model::costs::Costs;
use super::model::setup::{
    Application, Arrival, BATCH, Edge, Nic, Peers, Role, Setup, Stage, Waits, Way, Window, Worker,
};
use super::site::Site;
use crate::cli::load::{Direction, Waiting};
use crate::cli::work::{self, Shape};

/// The size that a transport likes best, where a file says `auto`.
const AUTO_BYTES: u64 = 1 << 20;
/// Frames as the wire format has them at most.
const FRAME_ITEMS: usize = 64;
const FRAME_BYTES: u64 = 4 << 20;
/// Jobs of a `stealing` pool for each of its threads.
const JOBS: usize = 2;

/// Everything but the file and what is asked of it.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// Where it runs.
    pub site: &'a Site,
    /// What things cost.
    pub costs: &'a Costs,
    /// How the application waits.
    pub waits: Waiting,
    /// Threads that submit.
    pub callers: usize,
}

/// The setup of a file.
///
/// # Errors
/// What of the file cannot be modelled.
pub fn lower(config: &Config, given: &Given<'_>, shape: &Shape) -> Result<Setup, String> {
    let blueprint = &config.blueprint;
    let order = line(config)?;
    let nics = given.site.nics.len().max(1);
    let (workers, first_of) = workers(blueprint, &order, nics);
    let transport = preferred(config);
    let number = |key: &str, or: u64| transport.and_then(|t| t.values.number(key)).unwrap_or(or);
    let stages = stages(config, &order, &first_of, nics, given.costs);
    let post = order.iter().find(|s| blueprint.stages[**s].kind == "wr_post").copied();
    let is_per_nic =
        post.and_then(|s| blueprint.stages[s].pool).is_some_and(|p| blueprint.pools[p].is_per_nic());
    let limits = &config.limits;
    let loopback = vec![Nic { bytes_per_s: None, latency_ns: 0.0 }];
    let park =
        pipeline_graph::Wait { spin_ns: 0, yield_ns: 0, park_ns: 1, adaptive: false, price_percent: 50 };
    Ok(Setup {
        cores: given.site.cores,
        stages,
        workers,
        nics: if given.site.is_here() { loopback } else { given.site.nics.clone() },
        memory_bytes_per_s: given.site.memory_bytes_per_s,
        is_per_nic,
        lanes: number("lanes", 2) as usize,
        peers: Peers { count: given.site.peers, are_here: given.site.is_here(), wait: park },
        slice_bytes: slice_bytes(config).min(limits.bytes_in_flight),
        frame_items: FRAME_ITEMS,
        frame_bytes: FRAME_BYTES,
        window: Window {
            bytes: limits.bytes_in_flight,
            slices: limits.slices,
            share_percent: limits.peer_share_percent,
        },
        application: Application {
            threads: given.callers,
            batch: shape.batch as usize,
            bytes: shape.bytes,
            way: if shape.op == Direction::Read { Way::Read } else { Way::Write },
            arrival: Arrival::Closed(shape.depth as usize),
            waits: match given.waits {
                Waiting::Wait | Waiting::Epoll => Waits::Asleep,
                Waiting::Poll | Waiting::Step => Waits::Looking,
            },
        },
        costs: given.costs.clone(),
        batch: BATCH,
        seed: 1,
    })
}

fn preferred(config: &Config) -> Option<&pipeline_configs::TransportConfig> {
    config.transports.get(work::preferred::preferred(config)?)
}

fn slice_bytes(config: &Config) -> u64 {
    let split: Option<&StageConfig> = config.stages.iter().find(|stage| stage.kind == "request_split");
    match split.and_then(|stage| stage.values.0.get("slice")) {
        Some(Value::Number(bytes)) => *bytes,
        Some(Value::Text(word)) if word == "whole" => u64::MAX,
        Some(Value::PerName(table)) => {
            preferred(config).and_then(|t| table.get(&t.name).copied()).unwrap_or(AUTO_BYTES)
        }
        _ => AUTO_BYTES,
    }
}

/// Stages in the order of a slice's life: from `submit` to the poster, and from the reaper to its end.
fn line(config: &Config) -> Result<Vec<usize>, String> {
    let blueprint = &config.blueprint;
    let entrance = blueprint.edges.iter().find(|edge| edge.from.is_none()).map(|edge| edge.to);
    let reap = blueprint.stages.iter().position(|stage| stage.kind == "cq_reap");
    let (Some(entrance), Some(reap)) = (entrance, reap) else {
        return Err(
            "a model needs a way from `submit` and a stage of type cq_reap; this file has none".into()
        );
    };
    let mut order = Vec::new();
    for from in [entrance, reap] {
        let mut at = Some(from);
        while let Some(stage) = at.filter(|stage| !order.contains(stage)) {
            order.push(stage);
            at = behind(config, stage).map(|edge| edge.to);
        }
    }
    for kind in ["request_split", "wr_post", "completion_notify"] {
        if !order.iter().any(|stage| blueprint.stages[*stage].kind == kind) {
            return Err(format!(
                "a model needs a stage of type {kind} on the way of a slice; this file has none"
            ));
        }
    }
    Ok(order)
}

/// The edge that a slice takes if all goes well.
fn behind(config: &Config, stage: usize) -> Option<&EdgeDecl> {
    let blueprint = &config.blueprint;
    let ports = &blueprint.stages[stage].shape.ports;
    let well = |edge: &&EdgeDecl| {
        let port = ports.get(edge.port).map_or("", |port| port.name.as_ref());
        !matches!(edge.mode, Mode::Return { .. }) && !matches!(port, "failed" | "retry" | "later")
    };
    let ours = blueprint.edges.iter().filter(|edge| edge.from == Some(stage)).filter(well);
    let name = preferred(config).map(|t| t.name.as_str());
    let is_preferred = |edge: &&EdgeDecl| ports.get(edge.port).map(|port| port.name.as_ref()) == name;
    let ours: Vec<&EdgeDecl> = ours.collect();
    ours.iter().copied().find(|edge| is_preferred(edge)).or(ours.first().copied())
}

/// Workers of the pools that have a part in it, and the first of each pool.
fn workers(blueprint: &Blueprint, order: &[usize], nics: usize) -> (Vec<Worker>, Vec<Option<usize>>) {
    let mut workers = Vec::new();
    let mut first_of = vec![None; blueprint.pools.len()];
    for (p, pool) in blueprint.pools.iter().enumerate() {
        if !order.iter().any(|stage| blueprint.stages[*stage].pool == Some(p)) {
            continue;
        }
        first_of[p] = Some(workers.len());
        let n = count(blueprint, p, nics);
        workers.extend((0..n).map(|i| Worker {
            name: if n == 1 { pool.name.clone() } else { format!("{}/{i}", pool.name) },
            pool: pool.name.clone(),
            wait: pool.wait,
            is_pinned: !pool.cpus.is_empty() || !pool.group_cpus.is_empty(),
            is_caller: pool.kind == PoolKind::Caller,
        }));
    }
    (workers, first_of)
}

/// Workers of a pool on that machine: a group for each of its NICs where the file says so.
fn count(blueprint: &Blueprint, pool: usize, nics: usize) -> usize {
    let pool = &blueprint.pools[pool];
    if pool.is_per_nic() { pool.threads * nics } else { pool.workers() }
}

fn stages(
    config: &Config,
    order: &[usize],
    first_of: &[Option<usize>],
    nics: usize,
    costs: &Costs,
) -> Vec<Stage> {
    let blueprint = &config.blueprint;
    let mut stages: Vec<Stage> = Vec::new();
    for (at, s) in order.iter().enumerate() {
        let decl = &blueprint.stages[*s];
        let own = decl.pool.and_then(|p| first_of[p].map(|first| (first, count(blueprint, p, nics))));
        let above = stages.iter().position(|stage| stage.next == Some(at));
        // Without a pool it runs where it is reached.
        let reached = || above.map(|above| stages[above].workers.clone()).unwrap_or_default();
        let workers = own.map_or_else(reached, |(first, n)| (first..first + n).collect());
        let role = match decl.kind.as_str() {
            "request_split" => Role::Split,
            "nic_select" => Role::Select,
            "wr_post" => Role::Post,
            "cq_reap" => Role::Reap,
            "completion_notify" => Role::Notify,
            _ => Role::Pass,
        };
        let next = behind(config, *s).and_then(|edge| order.iter().position(|stage| *stage == edge.to));
        stages.push(Stage {
            name: decl.name.clone(),
            role,
            input: input(config, order, *s, &workers),
            workers,
            next: next.filter(|_| role != Role::Post && role != Role::Notify),
            service: costs.stage(&decl.kind),
            variation: costs.variation(&decl.kind),
        });
    }
    stages
}

/// How a stage is reached by a slice that goes well: over the edge from the stage before it, or from `submit`.
fn input(config: &Config, order: &[usize], stage: usize, workers: &[usize]) -> Edge {
    let blueprint = &config.blueprint;
    let before = order.iter().find_map(|s| behind(config, *s).filter(|edge| edge.to == stage));
    let submit = || blueprint.edges.iter().find(|edge| edge.from.is_none() && edge.to == stage);
    let steals = blueprint.stages[stage].pool.is_some_and(|p| blueprint.pools[p].kind == PoolKind::Stealing);
    match before.or_else(submit).map(|edge| edge.mode) {
        Some(Mode::Queue { capacity, dispatch: Dispatch::Any, .. }) => Edge::Shared(capacity),
        Some(Mode::Queue { capacity, dispatch: Dispatch::Owner, .. }) => Edge::Owner(capacity),
        Some(Mode::Queue { capacity, dispatch: Dispatch::Hash, .. }) => Edge::Hash(capacity),
        _ if steals => Edge::Shared(JOBS * workers.len()),
        _ => Edge::Inline,
    }
}

#[cfg(test)]
mod tests;
