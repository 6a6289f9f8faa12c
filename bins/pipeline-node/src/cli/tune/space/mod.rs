//! What may be changed in a file, as knobs with levels: threads and waits of pools, where their stages run, queues, slice size, lanes,
//! depths; limits only where a bound allows it.
//!
//! Deliberately only what changes no meaning: no segment, peer, deadline, address or way of notifying. What an application would
//! have to know of (a pool of kind `caller`), and what takes a CPU from everybody else (a wait that never sleeps, a machine whose CPUs
//! do not), takes the user's word. Whether a candidate is sound is for the file's own rules to say, not for this.

mod edges;
mod knobs;
mod pools;
#[cfg(test)]
mod tests;

use pipeline_configs::source::Layer;
use pipeline_configs::tree::{Entry, Node};
use pipeline_configs::{Loaded, suggest};
use pipeline_graph::Mode;

use super::args::Allow;
use super::bound::{About, Bound};
use super::search::Point;
pub use pools::written;

/// Stages that a transfer passes, at either side.
pub const ON_THE_WAY: &[&str] = &[
    "admit",
    "request_split",
    "protocol_route",
    "nic_select",
    "wr_post",
    "cq_reap",
    "retry",
    "completion_notify",
    "read_back",
    "serve",
];

/// What `slice = "auto"` may come to, bytes: what TCP likes best.
const AUTO_SLICE_BYTES: f64 = (1 << 20) as f64;

/// One value of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its path, key by key: `["edges", "select -> post", "queue"]`.
    pub path: Vec<String>,
    /// What it shall be, as TOML; `false` takes a thing away.
    pub value: String,
    /// What it is, as TOML.
    pub was: String,
}

impl Change {
    /// Of these keys.
    pub fn new(path: &[&str], value: impl Into<String>, was: impl Into<String>) -> Self {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        Self { path, value: value.into(), was: was.into() }
    }

    /// Its path as `--set` takes it.
    pub fn key(&self) -> String {
        let is_bare = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        let part = |key: &String| if is_bare(key) { key.clone() } else { format!("\"{key}\"") };
        self.path.iter().map(part).collect::<Vec<_>>().join(".")
    }

    /// As an argument of `--set`.
    pub fn set(&self) -> String {
        format!("{}={}", self.key(), self.value)
    }
}

/// What a knob is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Threads of a pool.
    Threads,
    /// How a pool waits.
    Wait,
    /// Whether the stages of a pool run in the pool of `wr_post` instead.
    Home,
    /// Whether the application's threads carry its transfers.
    Caller,
    /// An entry of `[edges]`, by the edges of the blueprint that it says.
    Edge(Vec<usize>),
    /// The size of slices.
    Slice,
    /// Lanes of a transport.
    Lanes,
    /// Work requests of a transport that are open at a time.
    Depth,
    /// One of `[limits]`.
    Limit,
    /// Whether CPUs of the machine stay awake.
    Awake,
}

/// One thing that may be changed.
#[derive(Clone, Debug)]
pub struct Knob {
    /// Its name in words of the file: `pools.nic.threads`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The pool it is about, if it is about one.
    pub pool: Option<usize>,
    /// What it may be; the first is what the file says.
    pub levels: Vec<Level>,
}

/// One value of a knob.
#[derive(Clone, Debug)]
pub struct Level {
    /// For people.
    pub words: String,
    /// For comparing levels of one knob: threads, batches, bytes; 0 for what has no order.
    pub size: u64,
    /// What it changes.
    pub changes: Vec<Change>,
}

/// All of it.
pub struct Space {
    /// The knobs.
    pub knobs: Vec<Knob>,
    /// Names of all that have sizes, so that a bound may be about them; those included that have one level only.
    names: Vec<String>,
    /// The file as it is.
    pub loaded: Loaded,
}

impl Space {
    /// Of a file, on a machine where `cpus` threads run at once.
    pub fn new(loaded: Loaded, bounds: &[Bound], allow: &[Allow], cpus: usize) -> Self {
        let mut knobs = pools::knobs(&loaded, allow, cpus);
        knobs.extend(edges::knobs(&loaded));
        knobs.extend(knobs::knobs(&loaded, bounds));
        if allow.contains(&Allow::Awake) {
            knobs.push(knobs::awake(&loaded));
        }
        let has_order = |knob: &&Knob| knob.levels.iter().any(|level| compared(knob, level).is_some());
        let names = knobs.iter().filter(has_order).map(|knob| knob.name.clone()).collect();
        for knob in &mut knobs {
            keep(knob, bounds);
            knob.levels.retain(|level| !level.changes.iter().any(|change| is_fixed(&loaded, &change.path)));
        }
        knobs.retain(|knob| knob.levels.len() > 1);
        Self { knobs, names, loaded }
    }

    /// The first bound that is about a key which is none of this file's, or none that is tuned, and what may be said instead.
    pub fn stray<'a>(&self, bounds: &'a [Bound]) -> Option<(&'a Bound, String)> {
        bounds.iter().find_map(|bound| match &bound.about {
            About::Path(path) if !self.names.iter().any(|name| close(name) == close(path)) => {
                let known = self.names.iter().map(String::as_str);
                Some((bound, suggest::help(path, "keys that are tuned", known)))
            }
            _ => None,
        })
    }

    /// The file as it is.
    pub fn base(&self) -> Point {
        vec![0; self.knobs.len()]
    }

    /// The level that a candidate has of a knob.
    pub fn level<'a>(&'a self, knob: usize, of: &Point) -> &'a Level {
        &self.knobs[knob].levels[usize::from(of[knob])]
    }

    /// Indexes of the knobs of a kind.
    pub fn of_kind<'a>(&'a self, is: impl Fn(&Kind) -> bool + 'a) -> impl Iterator<Item = usize> + 'a {
        self.knobs.iter().enumerate().filter(move |(_, knob)| is(&knob.kind)).map(|(i, _)| i)
    }

    /// Whether the pool of a knob is gone in this candidate, so that the knob means nothing.
    pub fn is_moot(&self, knob: usize, of: &Point) -> bool {
        let Knob { kind: Kind::Threads | Kind::Wait, pool: Some(pool), .. } = &self.knobs[knob] else {
            return false;
        };
        let pool = &self.loaded.config.blueprint.pools[*pool].name;
        let removes =
            |change: &Change| change.value == "false" && change.path[0] == "pools" && change.path[1] == *pool;
        (0..of.len()).any(|other| of[other] != 0 && self.level(other, of).changes.iter().any(removes))
    }

    /// What a candidate changes, in the order of the knobs; where two say the same key, the later.
    pub fn changes(&self, of: &Point) -> Vec<Change> {
        let mut all: Vec<Change> = Vec::new();
        for knob in (0..self.knobs.len()).filter(|knob| of[*knob] != 0 && !self.is_moot(*knob, of)) {
            for change in &self.level(knob, of).changes {
                all.retain(|other| other.path != change.path);
                all.push(change.clone());
            }
        }
        all
    }

    /// A candidate in a few words.
    pub fn words(&self, of: &Point) -> String {
        let changed = (0..self.knobs.len()).filter(|knob| of[*knob] != 0 && !self.is_moot(*knob, of));
        let words: Vec<String> =
            changed.map(|knob| format!("{} {}", self.knobs[knob].name, self.level(knob, of).words)).collect();
        if words.is_empty() { "the file as it is".into() } else { words.join(", ") }
    }
}

/// Whether a value comes from outside of the file: what `--set` or a variable says would still hold after the file was changed.
fn is_fixed(loaded: &Loaded, path: &[String]) -> bool {
    let mut tables = vec![&loaded.tree];
    let mut entries: Vec<&Entry> = Vec::new();
    for key in path {
        // Of an edge there may be one from each layer.
        entries = tables.iter().flat_map(|table| &table.entries).filter(|entry| entry.key == *key).collect();
        tables = entries.iter().filter_map(|entry| entry.node.as_table()).collect();
    }
    entries.iter().any(|entry| is_outside(loaded, &entry.node))
}

/// Whether any value in a node does. A table has no layer of its own: others are laid over it.
fn is_outside(loaded: &Loaded, node: &Node) -> bool {
    match node.as_table() {
        Some(table) => table.entries.iter().any(|entry| is_outside(loaded, &entry.node)),
        None => loaded.warnings.sources.layer(node.span) >= Layer::Environment,
    }
}

/// A key without blanks: `"a -> b"` is `"a->b"`.
fn close(key: &str) -> String {
    key.split_whitespace().collect()
}

/// Whether a bound is about the sizes of a knob.
fn is_about(bound: &Bound, knob: &Knob) -> bool {
    match (&bound.about, &knob.kind) {
        (About::Threads, Kind::Threads) | (About::Lanes, Kind::Lanes) | (About::Slice, Kind::Slice) => true,
        // What applications hand over is no queue between stages.
        (About::Queue, Kind::Edge(_)) => !close(&knob.name).starts_with("\"submit->"),
        (About::Limit(name), Kind::Limit) => knob.name == format!("limits.{name}"),
        (About::Path(path), _) => close(path) == close(&knob.name),
        _ => false,
    }
}

/// What a bound compares of a level; `None` for what has no order, as inline.
fn compared(knob: &Knob, level: &Level) -> Option<f64> {
    match (&knob.kind, level.size) {
        // `auto` is what the transport likes best, and that may be as much.
        (Kind::Slice, 0) => Some(AUTO_SLICE_BYTES),
        (_, 0) => None,
        (_, size) => Some(size as f64),
    }
}

/// Takes out what no bound allows; what the file says stays, whatever it is.
fn keep(knob: &mut Knob, bounds: &[Bound]) {
    let bounds: Vec<&Bound> = bounds.iter().filter(|bound| is_about(bound, knob)).collect();
    let holds = |level: &Level| {
        let size = compared(knob, level);
        size.is_none_or(|size| bounds.iter().all(|bound| bound.holds(size)))
    };
    let kept: Vec<bool> = knob.levels.iter().enumerate().map(|(i, level)| i == 0 || holds(level)).collect();
    let mut kept = kept.into_iter();
    knob.levels.retain(|_| kept.next().unwrap_or(true));
}

/// How far a candidate's sizes miss a bound, as a logarithm; at most 0 where all hold. Threads and queues are judged all together, as they
/// come out of the file; all else knob by knob.
pub fn excess(space: &Space, of: &Point, blueprint: &pipeline_graph::Blueprint, bounds: &[Bound]) -> f64 {
    let on_the_way = |pool: usize| {
        blueprint.stages.iter().any(|s| s.pool == Some(pool) && ON_THE_WAY.contains(&s.kind.as_str()))
    };
    let threads = || -> usize {
        let pools = blueprint.pools.iter().enumerate().filter(|(i, _)| on_the_way(*i));
        pools.filter(|(_, p)| p.kind == pipeline_graph::PoolKind::Resident).map(|(_, p)| p.workers()).sum()
    };
    let queues = || {
        let capacities = blueprint.edges.iter().filter_map(|edge| match edge.mode {
            Mode::Queue { capacity, .. } if edge.from.is_some() => Some(capacity),
            _ => None,
        });
        capacities.max().unwrap_or(0)
    };
    let sizes = |bound: &Bound| -> Vec<f64> {
        let knobs = space.knobs.iter().enumerate();
        let about = knobs.filter(|(i, knob)| is_about(bound, knob) && !space.is_moot(*i, of));
        about.filter_map(|(i, knob)| compared(knob, space.level(i, of))).collect()
    };
    let missed = bounds.iter().flat_map(|bound| {
        let has = match bound.about {
            About::Threads => vec![threads() as f64],
            About::Queue => vec![queues() as f64],
            About::Figure(_) => Vec::new(),
            About::Lanes | About::Slice | About::Limit(_) | About::Path(_) => sizes(bound),
        };
        let misses = has.into_iter().filter(|has| !bound.holds(*has));
        misses.map(|has| (has.max(1.0) / bound.value.max(1e-9)).ln().abs())
    });
    missed.fold(0.0, f64::max)
}
