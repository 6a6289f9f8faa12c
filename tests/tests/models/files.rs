//! The shipped files, and engines of them. Deliberately without a word about threads or edges: those are the files' own.

use std::path::PathBuf;

use pipeline_node::watch::{self, Watch};
use pipeline_node::{Engine, Source};

/// The seven, as their files are called.
pub const MODELS: [&str; 7] = [
    "run_to_completion",
    "pipeline",
    "thread_per_core",
    "submit_then_poll",
    "event_driven",
    "zero_copy_dma",
    "adaptive_polling",
];

/// The file of a model, with overrides.
pub fn source(model: &str, set: &[String]) -> Source {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../configs/models/{model}.toml"));
    Source::file(path).set(set.iter().cloned())
}

/// An engine of it.
#[track_caller]
pub fn engine(model: &str, set: &[&str]) -> Engine {
    let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
    Engine::from_source(&source(model, &set)).unwrap_or_else(|e| panic!("{model}: {e}"))
}

/// An engine of it that is watched.
#[track_caller]
pub fn watched(model: &str, set: &[&str]) -> (Engine, Watch) {
    let (set, watch): (Vec<String>, _) =
        (set.iter().map(|set| (*set).to_owned()).collect(), Watch::default());
    let engine = watch::start(&source(model, &set), &watch).unwrap_or_else(|e| panic!("{model}: {e}"));
    (engine, watch)
}

/// What makes a file speak the simulated wire instead of its own: `keys` of it, such as `delay_min = '1s'`.
pub fn over_sim(model: &str, keys: &str) -> Vec<String> {
    let own = if model == "zero_copy_dma" { "rdma" } else { "tcp" };
    let comma = if keys.is_empty() { "" } else { ", " };
    vec![
        format!("transports.{own}=false"),
        format!("transports.sim={{ type = 'sim'{comma}{keys} }}"),
        "stages.route.prefer=['sim']".into(),
    ]
}

/// Borrowed, as engines of this file want them.
pub fn these(set: &[String]) -> Vec<&str> {
    set.iter().map(String::as_str).collect()
}

/// A target with a segment `kv` of `size`, over TCP and over a simulated wire.
#[track_caller]
pub fn target(size: &str) -> Engine {
    let kv = format!("segments.kv={{ kind='dram', size='{size}', access='read_write' }}");
    crate::rig::engine(&[&kv, "transports.sim={ type = 'sim' }", "pools.nic.wait='park'"])
}
