//! The shipped files against the real catalogue: what a user starts from is right, and stays right.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pipeline_configs::{Options, PRESETS, codes, load, load_str, value};
use pipeline_graph::Plan;
use pipeline_stages::catalog::catalog;

fn shipped() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let listed = ["pipelines", "models"].map(|folder| std::fs::read_dir(root.join(folder)));
    let mut files: Vec<PathBuf> = listed
        .into_iter()
        .flat_map(|entries| entries.expect("the folders are part of the repository").flatten())
        .map(|e| e.path())
        .collect();
    files.sort();
    files
}

/// What is only carried out by a later release, which `run` refuses and `validate` says.
const LATER: &[&str] = &["shm", "rdma", "gpu_rdma", "nvme_tier", "mooncake_like", "kv_transfer", "kv_tier"];

/// Every shipped file validates with the real stage and transport types, on a machine without any of its devices, and
/// can be planned. What a later release brings is said once for each setting; the other files have no warning at all.
#[test]
fn shipped_files_are_right() {
    let files = shipped();
    assert!(files.len() >= 12, "{files:?}");
    for path in files {
        let loaded =
            load(&path, &catalog(), &Options::default()).unwrap_or_else(|findings| panic!("{findings}"));
        let later = LATER.iter().any(|name| path.file_stem().is_some_and(|stem| stem == *name));
        let warns = |code| loaded.warnings.list.iter().filter(|f| f.code == code).count();
        let expected = warns(codes::LATER) + warns(codes::NO_EFFECT);
        assert_eq!(loaded.warnings.warnings(), expected, "{}", loaded.warnings);
        assert_eq!((later, !later), (expected > 0, loaded.runnable().is_ok()), "{}", loaded.warnings);
        let plan = Plan::new(&loaded.config.blueprint);
        let workers: usize = loaded.config.blueprint.pools.iter().map(|p| p.workers()).sum();
        assert_eq!(plan.threads.len() + plan.callers.len(), workers, "{}", path.display());
    }
}

/// The three job files are short, say what they are for, and lean on a preset; every shipped file tells editors its schema.
#[test]
fn job_files_are_short() {
    for path in shipped() {
        let text = std::fs::read_to_string(&path).expect("it was listed");
        assert!(text.starts_with("#:schema ../schema/pipeline-node.schema.json\n# "), "{}", path.display());
    }
    for job in ["kv_transfer", "weights", "kv_tier"] {
        let path =
            shipped().into_iter().find(|p| p.file_stem().is_some_and(|s| s == job)).expect("it is shipped");
        let text = std::fs::read_to_string(&path).expect("it was listed");
        assert!(text.lines().count() < 25, "{job} has {} lines", text.lines().count());
        assert!(text.contains("\nuse = \""), "{job}");
    }
}

/// The files of the models are whole, and are one pipeline: the same stages with the same options. Only who runs them, how
/// the end is told, the edges and the pools differ.
#[test]
fn models_differ_only_in_how_they_run() {
    let files: Vec<_> =
        shipped().into_iter().filter(|p| p.parent().is_some_and(|d| d.ends_with("models"))).collect();
    assert!(files.len() >= 2, "{files:?}");
    let mut first = None;
    for path in files {
        let text = std::fs::read_to_string(&path).expect("it was listed");
        let mut table: toml::Table = text.parse().expect("it loads");
        assert!(!table.contains_key("use"), "{} is not whole", path.display());
        let stages = table["stages"].as_table_mut().expect("a table");
        for (_, stage) in stages.iter_mut() {
            let stage = stage.as_table_mut().expect("a table");
            for key in ["pool", "via"] {
                stage.remove(key);
            }
        }
        for key in ["pools", "edges"] {
            table.remove(key);
        }
        assert_eq!(first.get_or_insert_with(|| table.clone()), &table, "{}", path.display());
    }
}

/// A preset can be used by name in two lines.
#[test]
fn presets_are_whole() {
    for preset in PRESETS {
        let text = format!("version = 1\nuse = \"{}\"\n", preset.name);
        let loaded = load_str("two-lines.toml", &text, &catalog(), &Options::default());
        let loaded = loaded.unwrap_or_else(|findings| panic!("{findings}"));
        assert_eq!(loaded.config.stages.len(), loaded.config.blueprint.stages.len());
    }
}

/// Every key of the catalogue has a sentence, a default that fits it, and a name that a variable can spell.
#[test]
fn keys_are_declared_well() {
    let catalog = catalog();
    let stages = catalog.stages.iter().map(|s| (s.name, s.keys));
    let transports = catalog.transports.iter().map(|t| (t.name, t.keys));
    for (kind, keys) in stages.chain(transports) {
        let mut seen = BTreeMap::new();
        for key in keys {
            let name = format!("{kind}.{}", key.name);
            assert!(seen.insert(key.name, ()).is_none(), "{name} twice");
            assert!(key.doc.ends_with('.') && key.doc.len() > 10, "{name}: {}", key.doc);
            assert!(!key.name.contains("__") && !["type", "pool", "nics"].contains(&key.name), "{name}");
            if let Some(text) = key.default {
                value::default_of(key, text).unwrap_or_else(|why| panic!("{name}: {why}"));
            }
        }
    }
}
