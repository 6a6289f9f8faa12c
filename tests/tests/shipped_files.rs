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
const LATER: &[&str] = &["shm", "gpu_rdma", "nvme_tier", "kv_transfer", "kv_tier"];

/// The threading models. `models/` also has `mooncake_like`, which is a mixture of them.
const MODELS: [&str; 7] = [
    "run_to_completion",
    "pipeline",
    "thread_per_core",
    "submit_then_poll",
    "event_driven",
    "zero_copy_dma",
    "adaptive_polling",
];

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
        // Of a pool that steals: and perhaps who reads the rings that lead to it.
        let threads = plan.threads.iter().filter(|t| !t.name.ends_with("/desk")).count();
        assert_eq!(threads + plan.callers.len(), workers, "{}", path.display());
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

fn model(name: &str) -> toml::Table {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../configs/models");
    let text =
        std::fs::read_to_string(root.join(format!("{name}.toml"))).unwrap_or_else(|e| panic!("{name}: {e}"));
    text.parse().unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Takes a key out, which must be there.
fn cut(table: &mut toml::Table, path: &[&str]) {
    let (last, folders) = path.split_last().expect("a path names something");
    let inner = folders.iter().fold(table, |table, key| table[*key].as_table_mut().expect("a table"));
    inner.remove(*last).unwrap_or_else(|| panic!("no {}", path.join(".")));
}

/// The files of the seven models are whole, and are one pipeline. These lines may differ, and nothing else: [pools],
/// [edges], [transports], the pool of a stage, `via` of notify, and `prefer` of route, which names the transport.
#[test]
fn models_differ_only_in_how_they_run() {
    let mut first = None;
    for name in MODELS {
        let mut table = model(name);
        assert!(!table.contains_key("use"), "{name} is not whole");
        for stage in ["admit", "split", "route", "select", "post", "reap", "serve", "retry", "files"] {
            cut(&mut table, &["stages", stage, "pool"]);
        }
        // It may run wherever it is reached.
        table["stages"]["notify"].as_table_mut().expect("a table").remove("pool");
        for path in [&["stages", "notify", "via"][..], &["stages", "route", "prefer"], &["pools"], &["edges"]]
        {
            cut(&mut table, path);
        }
        cut(&mut table, &["transports"]);
        assert_eq!(first.get_or_insert_with(|| table.clone()), &table, "{name}");
    }
}

/// The edges of the seven models lead from the same ports to the same stages, whatever lies on them; six of them speak the
/// same TCP, and the seventh a transport that moves bytes by DMA; no two are the same file under two names.
#[test]
fn models_are_one_graph() {
    let (mut hops, mut wires, mut whole) = (None, None, Vec::new());
    for name in MODELS {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../configs/models");
        let loaded = load(&root.join(format!("{name}.toml")), &catalog(), &Options::default());
        let blueprint = loaded.unwrap_or_else(|findings| panic!("{findings}")).config.blueprint;
        let mut found: Vec<String> = blueprint.edges.iter().map(|edge| blueprint.edge_name(edge)).collect();
        found.sort();
        assert_eq!(hops.get_or_insert_with(|| found.clone()), &found, "{name}");
        let table = model(name);
        let transports = &table["transports"];
        if name == "zero_copy_dma" {
            assert!(transports.get("rdma").is_some() && transports.as_table().is_some_and(|t| t.len() == 1));
        } else {
            assert_eq!(wires.get_or_insert_with(|| transports.clone()), transports, "{name}");
        }
        assert!(!whole.contains(&table), "{name} is another one by another name");
        whole.push(table);
    }
}

/// `mooncake_like` is what it says: slices of 64 KiB by hash to eight shards, two workers a NIC that spin for 100 ms and then
/// sleep for a second, two connections, nine tries, and ends that nobody is woken for.
#[test]
fn mooncake_like_is_like_it() {
    let table = model("mooncake_like");
    let is = |path: &str, value: &str| {
        let (folder, key) = path.rsplit_once('/').expect("in a table");
        let folder = folder.split('/').fold(&table, |at, key| at[key].as_table().expect("a table"));
        assert_eq!(folder[key], format!("x = {value}").parse::<toml::Table>().expect("TOML")["x"], "{path}");
    };
    is("pools/shards/threads", "8");
    is("edges/submit -> admit", "{ queue = 1024, dispatch = 'hash' }");
    is("edges/select -> post", "{ queue = 64, dispatch = 'owner' }");
    is("pools/workers/per", "'nic'");
    is("pools/workers/threads", "2");
    is("pools/workers/wait", "{ spin = '100ms', yield = '0s', park = '1s' }");
    is("stages/post/pool", "'workers'");
    is("stages/reap/pool", "'workers'");
    is("stages/split/slice", "'64KiB'");
    is("stages/retry/attempts", "9");
    is("stages/notify/via", "['status']");
    is("transports/tcp/lanes", "2");
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
