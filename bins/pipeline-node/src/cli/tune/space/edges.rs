//! Knobs of edges: one for each entry of `[edges]`, as the user wrote it, chains and wildcards too. Deliberately not one for each
//! hop: a file stays as short as it was.

use pipeline_configs::Loaded;
use pipeline_graph::{Dispatch, EdgeDecl, Mode};

use super::{Change, Kind, Knob, Level};

/// Batches that are tried.
const BATCHES: &[usize] = &[4, 16, 64, 256, 1024];

/// All of them.
pub fn knobs(loaded: &Loaded) -> Vec<Knob> {
    let entries = loaded.tree.get("edges").and_then(|edges| edges.node.as_table());
    let (edges, places) = (&loaded.config.blueprint.edges, &loaded.places.edges);
    let mut knobs = Vec::new();
    for entry in entries.map_or(&[][..], |table| &table.entries) {
        let is_here = |edge: &usize| places[*edge].value == entry.node.span;
        let of_entry: Vec<usize> = (0..edges.len()).filter(is_here).collect();
        // What it says may hold for some of its hops only: then it is not the line to change.
        let hops = entry.key.matches("->").count();
        let is_whole = entry.key.contains('*') || of_entry.len() == hops;
        let Some(first) = of_entry.first().map(|first| &edges[*first]).filter(|_| is_whole) else { continue };
        if of_entry.iter().any(|edge| edges[*edge].mode != first.mode) {
            continue;
        }
        if let Mode::Inline | Mode::Queue { .. } = first.mode {
            let posts = loaded.config.blueprint.stages[first.to].kind == "wr_post";
            knobs.push(knob(&entry.key, first.mode, &of_entry, edges, if posts { "owner" } else { "any" }));
        }
    }
    knobs
}

fn knob(key: &str, mode: Mode, of_entry: &[usize], edges: &[EdgeDecl], dispatch: &str) -> Knob {
    let path = ["edges", key];
    let mut levels = Vec::new();
    match mode {
        Mode::Queue { capacity, .. } => {
            levels.push(Level { words: capacity.to_string(), size: capacity as u64, changes: Vec::new() });
            if of_entry.iter().all(|edge| edges[*edge].from.is_some()) {
                let change = Change::new(&path, "\"inline\"", written(mode));
                levels.push(Level { words: "inline".into(), size: 0, changes: vec![change] });
            }
            for batches in BATCHES.iter().copied().filter(|batches| *batches != capacity) {
                let path = ["edges", key, "queue"];
                let change = Change::new(&path, batches.to_string(), capacity.to_string());
                levels.push(Level {
                    words: batches.to_string(),
                    size: batches as u64,
                    changes: vec![change],
                });
            }
        }
        _ => {
            levels.push(Level { words: "inline".into(), size: 0, changes: Vec::new() });
            for batches in [16, 64, 256] {
                // All of it: what is left open a preset below may say otherwise.
                let value =
                    format!("{{ queue = {batches}, when_full = \"wait\", dispatch = \"{dispatch}\" }}");
                let change = Change::new(&path, value, "\"inline\"");
                levels.push(Level { words: batches.to_string(), size: batches, changes: vec![change] });
            }
        }
    }
    Knob { name: format!("\"{key}\""), kind: Kind::Edge(of_entry.to_vec()), pool: None, levels }
}

/// As TOML.
fn written(mode: Mode) -> String {
    match mode {
        Mode::Queue { capacity, dispatch: Dispatch::Any, .. } => format!("{{ queue = {capacity} }}"),
        Mode::Queue { capacity, dispatch, .. } => {
            let dispatch = if dispatch == Dispatch::Owner { "owner" } else { "hash" };
            format!("{{ queue = {capacity}, dispatch = \"{dispatch}\" }}")
        }
        _ => "\"inline\"".into(),
    }
}
