//! Knobs of stages, transports, limits and the machine: single values.

use pipeline_configs::Loaded;
use pipeline_configs::units::show_bytes;

use super::super::bound::{About, Bound};
use super::{Change, Kind, Knob, Level};

/// Sizes of slices that are tried.
const SLICES: &[u64] = &[16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Lanes that are tried.
const LANES: &[u64] = &[1, 2, 4, 8];
/// Depths that are tried.
const DEPTHS: &[u64] = &[64, 128, 256, 512];
/// How often a limit is doubled.
const DOUBLINGS: u32 = 6;

/// All of them.
pub fn knobs(loaded: &Loaded, bounds: &[Bound]) -> Vec<Knob> {
    let config = &loaded.config;
    let mut knobs: Vec<Knob> = slices(loaded);
    for transport in &config.transports {
        for (key, kind, tried) in [("lanes", Kind::Lanes, LANES), ("depth", Kind::Depth, DEPTHS)] {
            if let Some(now) = transport.values.number(key) {
                let path = ["transports", &transport.name, key];
                knobs.push(numbers(&path, kind, now, tried.iter().copied(), |n| n.to_string()));
            }
        }
    }
    for bound in bounds {
        let About::Limit(name) = &bound.about else { continue };
        let limits = &config.limits;
        let (now, words): (u64, fn(u64) -> String) = match name.as_str() {
            "bytes_in_flight" => (limits.bytes_in_flight, |n| format!("\"{}\"", show_bytes(n))),
            "slices" => (limits.slices, |n| n.to_string()),
            _ => (limits.requests, |n| n.to_string()),
        };
        let more = (1..=DOUBLINGS).filter_map(|times| now.checked_mul(1 << times));
        let most = (bound.value as u64).max(now);
        let tried = more.filter(|n| *n < most).chain([most]);
        knobs.push(numbers(&["limits", name], Kind::Limit, now, tried, words));
    }
    knobs
}

/// Whether CPUs of the machine may halt or sleep while the node runs.
pub fn awake(loaded: &Loaded) -> Knob {
    let time = |latency: std::time::Duration| format!("\"{}us\"", latency.as_micros());
    let was = loaded.config.node.cpu_dma_latency.map_or_else(|| "none".into(), time);
    let mut levels = vec![Level { words: was.clone(), size: 0, changes: Vec::new() }];
    let value = time(std::time::Duration::ZERO);
    if value != was {
        let change = Change::new(&["node", "cpu_dma_latency"], value.clone(), was);
        levels.push(Level { words: value, size: 0, changes: vec![change] });
    }
    Knob { name: "node.cpu_dma_latency".into(), kind: Kind::Awake, pool: None, levels }
}

fn numbers(
    path: &[&str],
    kind: Kind,
    now: u64,
    tried: impl Iterator<Item = u64>,
    words: impl Fn(u64) -> String,
) -> Knob {
    let mut levels = vec![Level { words: words(now), size: now, changes: Vec::new() }];
    for n in tried.filter(|n| *n != now) {
        let change = Change::new(path, words(n), words(now));
        levels.push(Level { words: words(n), size: n, changes: vec![change] });
    }
    Knob { name: path.join("."), kind, pool: None, levels }
}

/// The size of slices: a word, or a size. One for each transport is left as it is.
fn slices(loaded: &Loaded) -> Vec<Knob> {
    let stages = loaded.config.stages.iter().filter(|stage| stage.kind == "request_split");
    let knob = |stage: &pipeline_configs::StageConfig| {
        let said =
            loaded.tree.get("stages").and_then(|s| s.node.as_table()?.get(&stage.name)?.node.as_table());
        let is_table = said.and_then(|s| s.get("slice")).is_some_and(|s| s.node.as_table().is_some());
        let (now, size) = match (stage.values.number("slice"), stage.values.text("slice")) {
            (Some(bytes), _) => (format!("\"{}\"", show_bytes(bytes)), bytes),
            (None, Some(word)) => (format!("\"{word}\""), 0),
            (None, None) => ("\"auto\"".to_owned(), 0),
        };
        if is_table {
            return None;
        }
        let mut levels = vec![Level { words: now.clone(), size, changes: Vec::new() }];
        let sizes = SLICES.iter().map(|bytes| (format!("\"{}\"", show_bytes(*bytes)), *bytes));
        for (value, size) in [("\"auto\"".to_owned(), 0)].into_iter().chain(sizes) {
            if value != now {
                let change = Change::new(&["stages", &stage.name, "slice"], value.clone(), now.clone());
                levels.push(Level { words: value, size, changes: vec![change] });
            }
        }
        Some(Knob { name: format!("stages.{}.slice", stage.name), kind: Kind::Slice, pool: None, levels })
    };
    stages.filter_map(knob).collect()
}
