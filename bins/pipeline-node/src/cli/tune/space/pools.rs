//! Knobs of pools: threads, waits, and where their stages run.

use pipeline_configs::Loaded;
use pipeline_graph::blueprint::Wait;
use pipeline_graph::{Blueprint, PoolDecl, PoolKind};

use super::super::args::Allow;
use super::{Change, Kind, Knob, Level, ON_THE_WAY};

/// Numbers of threads that are tried, as far as there are CPUs.
const THREADS: &[usize] = &[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
/// The pool that is added for the application's threads.
const CALLER: &str = "caller";

/// Ways to wait that are tried, those that sleep sooner or later first.
fn waits(allow: &[Allow]) -> Vec<Wait> {
    let looks = |spin_us: u64, yield_us: u64| Wait {
        spin_ns: spin_us * 1_000,
        yield_ns: yield_us * 1_000,
        park_ns: 1_000_000_000,
        adaptive: false,
        price_percent: pipeline_configs::wait::ADAPTIVE.price_percent,
    };
    let mut waits =
        vec![pipeline_configs::wait::ADAPTIVE, looks(0, 0), looks(20, 50), looks(200, 0), looks(0, 200)];
    if allow.contains(&Allow::Spin) {
        waits.push(Wait { spin_ns: u64::MAX, park_ns: 0, ..looks(0, 0) });
    }
    waits
}

/// All of them.
pub fn knobs(loaded: &Loaded, allow: &[Allow], cpus: usize) -> Vec<Knob> {
    let blueprint = &loaded.config.blueprint;
    let posts = blueprint.stages.iter().find(|s| s.kind == "wr_post").and_then(|s| s.pool);
    let mut knobs = Vec::new();
    for (i, pool) in blueprint.pools.iter().enumerate().filter(|(i, _)| !on_the_way(blueprint, *i).is_empty())
    {
        if let Some(posts) = posts.filter(|posts| *posts != i && pool.kind == PoolKind::Resident) {
            knobs.push(home(blueprint, i, posts));
        }
        if pool.kind == PoolKind::Resident {
            knobs.push(threads(i, pool, cpus));
        }
        knobs.push(wait(i, pool, allow, loaded));
    }
    if allow.contains(&Allow::Caller) {
        knobs.extend(caller(blueprint));
    }
    knobs
}

/// The stages of a pool that transfers pass.
fn on_the_way(blueprint: &Blueprint, pool: usize) -> Vec<usize> {
    let stages = blueprint.stages.iter().enumerate();
    let here = stages.filter(|(_, s)| s.pool == Some(pool) && ON_THE_WAY.contains(&s.kind.as_str()));
    here.map(|(i, _)| i).collect()
}

/// A wait as TOML, without the times that are nothing.
pub fn written(wait: &Wait) -> String {
    pipeline_configs::wait::written(wait).replace("spin = \"0s\", ", "").replace("yield = \"0s\", ", "")
}

fn level(words: impl Into<String>, size: u64, changes: Vec<Change>) -> Level {
    Level { words: words.into(), size, changes }
}

fn threads(index: usize, pool: &PoolDecl, cpus: usize) -> Knob {
    let was = pool.threads.to_string();
    let mut levels = vec![level(was.clone(), pool.threads as u64, Vec::new())];
    for n in THREADS.iter().copied().filter(|n| *n <= cpus.max(1) && *n != pool.threads) {
        let change = Change::new(&["pools", &pool.name, "threads"], n.to_string(), was.clone());
        levels.push(level(n.to_string(), n as u64, vec![change]));
    }
    Knob { name: format!("pools.{}.threads", pool.name), kind: Kind::Threads, pool: Some(index), levels }
}

fn wait(index: usize, pool: &PoolDecl, allow: &[Allow], loaded: &Loaded) -> Knob {
    let was = written(&pool.wait);
    let mut levels = vec![level(was.clone(), 0, Vec::new())];
    for wait in waits(allow).into_iter().filter(|wait| *wait != pool.wait) {
        let change = Change::new(&["pools", &pool.name, "wait"], whole(&wait, pool, loaded), was.clone());
        levels.push(level(written(&wait), 0, vec![change]));
    }
    Knob { name: format!("pools.{}.wait", pool.name), kind: Kind::Wait, pool: Some(index), levels }
}

/// As TOML that says all of it: a table is laid over the one that stands there, or in the preset, and what it leaves open stays.
fn whole(wait: &Wait, pool: &PoolDecl, loaded: &Loaded) -> String {
    let whole = pipeline_configs::wait::written(wait);
    let pools = loaded.tree.get("pools").and_then(|pools| pools.node.as_table());
    let said = pools.and_then(|pools| pools.get(&pool.name)?.node.as_table()?.get("wait")?.node.as_table());
    match whole.strip_suffix(" }") {
        Some(keys) if said.is_some_and(|said| said.get("adaptive").is_some()) => {
            format!("{keys}, adaptive = {} }}", wait.adaptive)
        }
        _ => whole,
    }
}

/// The stages of a pool in that of `wr_post`, and the pool gone where nothing else runs in it.
fn home(blueprint: &Blueprint, index: usize, posts: usize) -> Knob {
    let (name, other) = (&blueprint.pools[index].name, &blueprint.pools[posts].name);
    let mut changes = moved(blueprint, &on_the_way(blueprint, index), other);
    if blueprint.stages.iter().filter(|s| s.pool == Some(index)).count() == changes.len() {
        changes.push(Change::new(&["pools", name], "false", "a pool of its own"));
    }
    let levels = vec![level("its own", 0, Vec::new()), level(format!("in {other}"), 0, changes)];
    Knob { name: format!("stages of {name}"), kind: Kind::Home, pool: Some(index), levels }
}

fn moved(blueprint: &Blueprint, stages: &[usize], to: &str) -> Vec<Change> {
    let change = |stage: &usize| {
        let stage = &blueprint.stages[*stage];
        let was = stage.pool.map_or("none", |pool| &blueprint.pools[pool].name);
        Change::new(&["stages", &stage.name, "pool"], format!("\"{to}\""), format!("\"{was}\""))
    };
    stages.iter().map(change).collect()
}

/// A pool of the application's threads for all that the initiator does; `serve` stays where it is.
fn caller(blueprint: &Blueprint) -> Option<Knob> {
    let has = |kind: PoolKind| blueprint.pools.iter().any(|pool| pool.kind == kind);
    let serves = blueprint.stages.iter().find(|s| s.kind == "serve").and_then(|s| s.pool)?;
    if has(PoolKind::Caller) || has(PoolKind::Stealing) || blueprint.pools.iter().any(|p| p.name == CALLER) {
        return None;
    }
    let carries = |s: &pipeline_graph::StageDecl| ON_THE_WAY.contains(&s.kind.as_str()) && s.kind != "serve";
    let stages = blueprint.stages.iter().enumerate().filter(|(_, s)| s.pool.is_some() && carries(s));
    let stages: Vec<usize> = stages.map(|(i, _)| i).collect();
    let mut changes = moved(blueprint, &stages, CALLER);
    let pool = "{ kind = \"caller\", wait = { spin = \"200us\", park = \"1s\" } }";
    changes.push(Change::new(&["pools", CALLER], pool, "no such pool"));
    for (i, pool) in blueprint.pools.iter().enumerate().filter(|(i, _)| *i != serves) {
        let left =
            blueprint.stages.iter().enumerate().filter(|(s, d)| d.pool == Some(i) && !stages.contains(s));
        if left.count() == 0 && !pool.beside {
            changes.push(Change::new(&["pools", &pool.name], "false", "a pool of its own"));
        }
    }
    let levels =
        vec![level("threads of its own", 0, Vec::new()), level("the application's threads", 0, changes)];
    Some(Knob { name: "who carries transfers:".into(), kind: Kind::Caller, pool: None, levels })
}
