//! Whole files: what loads, and what it becomes.

#![allow(clippy::unwrap_used, reason = "only tests")]

mod kinds;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use pipeline_configs::{Loaded, Options, PRESETS, SegmentKind, codes, load, load_str, nic_groups};
use pipeline_graph::{Dispatch, Mode};

fn sound(text: &str) -> Loaded {
    let loaded = load_str("test.toml", text, &kinds::catalog(), &Options::default());
    loaded.unwrap_or_else(|findings| panic!("{findings}"))
}

/// Loads without even a warning.
fn good(text: &str) -> Loaded {
    let loaded = sound(text);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    loaded
}

/// The edges of a loaded file as `from.port -> to`.
fn edges(loaded: &Loaded) -> Vec<(String, Mode)> {
    let print = &loaded.config.blueprint;
    let name = |edge: &pipeline_graph::EdgeDecl| {
        let from = edge.from.map_or("submit".into(), |s| {
            format!("{}.{}", print.stages[s].name, print.stages[s].shape.ports[edge.port].name)
        });
        format!("{from} -> {}", print.stages[edge.to].name)
    };
    print.edges.iter().map(|e| (name(e), e.mode)).collect()
}

/// Three lines are a whole node: the preset says the rest.
#[test]
fn a_short_file() {
    let loaded = good(
        "version = 1\nuse = \"tcp\"\nnode = { name = \"decode-0\", listen = \"127.0.0.1:7001\" }\nsegments.kv = { kind = \"dram\", size = \"1GiB\", access = \"read_write\" }\n",
    );
    let config = &loaded.config;
    assert_eq!((config.node.name.as_str(), config.node.listen.as_str()), ("decode-0", "127.0.0.1:7001"));
    assert_eq!((config.limits.slices, config.limits.bytes_in_flight), (65_536, 256 << 20));
    assert_eq!(config.limits.peer_share_percent, 25);
    assert_eq!(config.blueprint.tokens, 65_536 + 262_144);
    assert_eq!(config.stages.len(), config.blueprint.stages.len());
    assert!(
        config.stages.iter().zip(&config.blueprint.stages).all(|(a, b)| a.name == b.name && a.kind == b.kind)
    );
    assert_eq!(nic_groups(&config.transports), ["tcp/tcp"]);
    assert_eq!(config.blueprint.pools[0].groups, ["tcp/tcp"]);
    let edges = edges(&loaded);
    assert!(edges.contains(&("admit.out -> split".into(), Mode::Inline)));
    let failed = edges.iter().filter(|(name, _)| name.ends_with(".failed -> notify")).count();
    assert_eq!(failed, 7, "{edges:?}");
}

/// What the file says of a port replaces what the preset says; what it leaves open stays.
#[test]
fn overrides_of_edges() {
    let loaded = good(
        "version = 1\nuse = \"tcp\"\n[edges]\n\"select->post\" = { queue = 8 }\n\"split -> route\" = { queue = 2 }\n\"post.failed -> retry\" = \"inline\"\n",
    );
    let edges = edges(&loaded);
    let mode = |name: &str| edges.iter().find(|(n, _)| n == name).map(|(_, m)| *m);
    assert!(matches!(
        mode("select.out -> post"),
        Some(Mode::Queue { capacity: 8, dispatch: Dispatch::Owner, .. })
    ));
    assert!(matches!(
        mode("split.out -> route"),
        Some(Mode::Queue { capacity: 2, dispatch: Dispatch::Any, .. })
    ));
    assert_eq!(mode("post.failed -> retry"), Some(Mode::Inline));
    assert_eq!(mode("post.failed -> notify"), None);
}

/// An edge of the preset can be taken away and its port wired anew, in any order; a wildcard of the same file
/// does not bring back what the file takes away.
#[test]
fn removed_edges() {
    let lines = [
        "\"split -> route\" = \"inline\"\n",
        "\"split->route->select\" = false\n",
        "\"route -> select\" = \"inline\"\n",
    ];
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
        let text: String = order.iter().map(|i| lines[*i]).collect();
        let loaded = good(&format!("version = 1\nuse = \"tcp\"\n[edges]\n{text}"));
        let found = edges(&loaded);
        assert!(found.iter().any(|(name, _)| name == "split.out -> route"), "{found:?}");
    }
    let loaded = good(
        "version = 1\nuse = \"tcp\"\n[edges]\n\"reap.retry -> retry\" = false\n\"*.retry -> retry\" = \"inline\"\n",
    );
    let found = edges(&loaded);
    assert!(found.iter().all(|(name, _)| name != "reap.retry -> retry"), "{found:?}");
    assert!(found.iter().any(|(name, _)| name == "post.retry -> retry"), "{found:?}");
}

/// The files whose types this catalogue has load without a finding; all of them are tried with the real one, where
/// both can be seen.
#[test]
fn shipped_files() {
    for name in ["tcp", "files", "weights"] {
        let path = Path::new("pipelines").join(name).with_extension("toml");
        let loaded = load(&path, &kinds::catalog(), &Options::default());
        let loaded = loaded.unwrap_or_else(|findings| panic!("{findings}"));
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    }
    let shipped = |folder: &str, name: &str| Path::new(folder).join(name).with_extension("toml").exists();
    assert!(PRESETS.iter().all(|p| shipped("pipelines", p.name) || shipped("models", p.name)));
}

/// A file that is not there, a directory and a file that is not text are refused with the system's reason.
#[test]
fn unreadable_files() {
    let dir = tempfile::tempdir().unwrap();
    let binary = dir.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe, 0]).unwrap();
    for (path, why) in
        [(dir.path(), "directory"), (&dir.path().join("none"), "No such file"), (&binary, "UTF-8")]
    {
        let findings = load(path, &kinds::catalog(), &Options::default()).unwrap_err();
        assert_eq!(findings.list[0].code, codes::UNREADABLE);
        assert!(findings.to_string().contains(why), "{findings}");
        assert_eq!(findings.errors(), 1);
    }
}

/// A file that is not there has a help line with the one of its folder that was meant, if its name is near enough.
#[test]
fn misspelt_files() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("node.toml");
    std::fs::write(&there, "version = 1\n").unwrap();
    let help = |name: &str| {
        let findings = load(&dir.path().join(name), &kinds::catalog(), &Options::default()).unwrap_err();
        findings.list[0].help.join("\n")
    };
    let meant = format!("did you mean {}?", there.display());
    assert!(help("ndoe.toml") == meant && help("node.tml") == meant && help("node") == meant);
    assert!(help("another.toml").starts_with("name a file") && help("missing/node.toml").starts_with("name"));
}

/// Field case B44: file, environment and command line agree on every line of its table.
#[test]
fn sizes_agree_between_sources() {
    let table: &[(&str, Option<u64>)] = &[
        ("64KiB", Some(65_536)),
        ("64 KiB", Some(65_536)),
        ("64kib", Some(65_536)),
        ("64KB", Some(64_000)),
        ("1.5GiB", Some(1_610_612_736)),
        ("65536", Some(65_536)),
        ("1e9", Some(1_000_000_000)),
        ("0x10", Some(16)),
        ("1PiB", Some(1 << 50)),
        ("15EiB", None),
        ("16EiB", None),
        ("", None),
        ("KiB", None),
        ("1KiBB", None),
        ("-1", None),
    ];
    let size = |text: &str, options: Options| {
        let text = format!("version = 1\nuse = \"tcp\"\n{text}");
        let loaded = load_str("t", &text, &kinds::catalog(), &options).ok()?;
        match loaded.config.segments.first()?.kind {
            SegmentKind::Dram { size } => Some(size),
            _ => None,
        }
    };
    let segment = "segments.kv = { kind = \"dram\", size = \"1B\" }\n";
    for (text, want) in table {
        let quoted = format!("segments.kv = {{ kind = \"dram\", size = \"{text}\" }}\n");
        assert_eq!(size(&quoted, Options::default()), *want, "file, quoted: {text}");
        if !text.to_lowercase().contains('b') && !text.is_empty() {
            let bare = format!("segments.kv = {{ kind = \"dram\", size = {text} }}\n");
            assert_eq!(size(&bare, Options::default()), *want, "file, bare: {text}");
        }
        let set = Options { set: vec![format!("segments.kv.size={text}")], ..Options::default() };
        assert_eq!(size(segment, set), *want, "--set: {text}");
        let env = BTreeMap::from([("PIPELINE_NODE__SEGMENTS__KV__SIZE".to_owned(), (*text).to_owned())]);
        assert_eq!(size(segment, Options { env, ..Options::default() }), *want, "environment: {text}");
        let env = BTreeMap::from([("KV".to_owned(), (*text).to_owned())]);
        let via = "segments.kv = { kind = \"dram\", size = \"${KV}\" }\n";
        assert_eq!(size(via, Options { env, ..Options::default() }), *want, "interpolated: {text}");
    }
}

/// `--set` beats the environment, which beats the file, which beats the preset.
#[test]
fn precedence() {
    let load = |text: &str, env: &[(&str, &str)], set: &[&str]| {
        let options = Options {
            set: set.iter().map(|s| (*s).to_owned()).collect(),
            env: env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..Options::default()
        };
        let text = format!("version = 1\nuse = \"tcp\"\n{text}");
        load_str("t", &text, &kinds::catalog(), &options).unwrap_or_else(|f| panic!("{f}")).config
    };
    let env = [("PIPELINE_NODE__LIMITS__SLICES", "3000")];
    let file = "limits.slices = 2000\n";
    assert_eq!(load("", &[], &[]).limits.slices, 65_536);
    assert_eq!(load(file, &[], &[]).limits.slices, 2000);
    assert_eq!(load(file, &env, &[]).limits.slices, 3000);
    assert_eq!(load(file, &env, &["limits.slices=4000", "limits.slices=5000"]).limits.slices, 5000);
    let queue = load("", &[], &["edges.\"select->post\".queue=7"]).blueprint;
    assert!(
        queue
            .edges
            .iter()
            .any(|e| matches!(e.mode, Mode::Queue { capacity: 7, dispatch: Dispatch::Owner, .. }))
    );
    let peers = load("", &[], &["peers.Big-1=[::1]", "node.name=a.b"]);
    assert_eq!(peers.peers, [("Big-1".to_owned(), vec!["[::1]:7001".to_owned()])]);
    assert_eq!(peers.node.name, "a.b");
}

/// A changed `type` replaces the preset's table, so that keys of the old type are not left over.
#[test]
fn a_changed_type_replaces() {
    let loaded =
        good("version = 1\nuse = \"tcp\"\n[transports]\ntcp = { type = \"sim\", delay = \"5us\" }\n");
    let values = &loaded.config.transports[0].values;
    assert_eq!((loaded.config.transports[0].kind.as_str(), values.number("lanes")), ("sim", None));
    assert_eq!(values.time("delay"), Some(Duration::from_micros(5)));
    assert!(values.flag("move"));
}

/// A flag set to false is a value, not a removal.
#[test]
fn false_is_a_value_for_a_flag() {
    let base = tempfile::tempdir().unwrap();
    let preset = "version = 1\n[transports.sim]\ntype = \"sim\"\nmove = true\n";
    std::fs::write(base.path().join("base.toml"), format!("{preset}{}", rest_of_tcp())).unwrap();
    let file = base.path().join("node.toml");
    std::fs::write(&file, "version = 1\nuse = \"base.toml\"\n[transports.sim]\nmove = false\n").unwrap();
    let loaded = load(&file, &kinds::catalog(), &Options::default()).unwrap_or_else(|f| panic!("{f}"));
    assert!(!loaded.config.transports[0].values.flag("move"));
}

/// The preset `tcp` from its pools on, with the transport called `sim`.
fn rest_of_tcp() -> String {
    let text = PRESETS.iter().find(|p| p.name == "tcp").unwrap().text;
    let (_, pools) = text.split_once("[pools]").unwrap();
    let (pools, transports) = pools.split_once("[transports.tcp]").unwrap();
    let (_, stages) = transports.split_once("[stages]").unwrap();
    format!("[pools]{pools}[stages]{}", stages.replace("prefer = [\"tcp\"]", "prefer = [\"sim\"]"))
}

/// A file of 200 stages and as many edges loads, without a finding, in less than 50 ms (release; debug builds get ten
/// times that).
#[test]
fn two_hundred_stages() {
    let mut text = String::from("version = 1\nuse = \"tcp\"\n[pools]\n");
    (0..8).for_each(|p| text.push_str(&format!("p{p} = {{ threads = 1, wait = \"park\" }}\n")));
    text.push_str("[stages]\n");
    for i in 0..190 {
        text.push_str(&format!("s{i} = {{ type = \"nic_select\", pool = \"p{}\" }}\n", i % 8));
    }
    text.push_str("[edges]\n\"select -> post\" = false\n\"select -> s0\" = { queue = 8 }\n");
    text.push_str(
        "\"s189 -> post\" = { queue = 8, dispatch = \"owner\" }\n\"*.failed -> notify\" = \"inline\"\n",
    );
    (0..189).for_each(|i| text.push_str(&format!("\"s{i} -> s{}\" = {{ queue = 8 }}\n", i + 1)));
    let catalog = kinds::catalog();
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let loaded = load_str("t", &text, &catalog, &Options::default());
        best = best.min(start.elapsed());
        let loaded = loaded.unwrap_or_else(|findings| panic!("{findings}"));
        assert_eq!(loaded.config.stages.len(), 200);
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    }
    let bound = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 50 });
    println!("200 stages: {best:?}");
    assert!(best < bound, "{best:?}");
}

/// What a later release brings validates, and then stands in the way of running, with its place; what has no effect
/// does not.
#[test]
fn later_validates_and_is_refused() {
    let text = "version = 1\nuse = \"tcp\"\nsegments.a = { kind = \"cuda:1\", size = \"1GiB\" }\n";
    let loaded = sound(text);
    let refused = loaded.runnable().unwrap_err();
    assert_eq!(refused.errors(), 1, "{refused}");
    assert!(
        refused.text().starts_with("error[P0408]") && refused.text().contains("test.toml:3:23"),
        "{refused}"
    );
    let huge = "segments.c = { kind = \"dram\", size = \"1GiB\", hugepages = \"2MiB\" }\n";
    let harmless = sound(&format!("version = 1\nuse = \"tcp\"\n{huge}"));
    assert_eq!(harmless.warnings.warnings(), 1);
    harmless.runnable().unwrap();
}

/// `[nics]` says which interface and which source address a transport's NICs have; a name alone is an interface.
#[test]
fn nics_are_described() {
    let nics = "nics.a = { device = \"eth7\", address = \"10.0.0.7\" }\nnics.tcp = { address = \"::1\" }\n";
    let named = sound(&format!("version = 1\nuse = \"tcp\"\ntransports.tcp.nics = [\"a\", \"b\"]\n{nics}"));
    let at = &named.config.transports[0].interfaces;
    assert_eq!((at[0].device.as_deref(), at[1].device.as_deref()), (Some("eth7"), Some("b")));
    assert_eq!((at[0].address, at[1].address), (Some("10.0.0.7".parse().unwrap()), None));
    let unnamed = sound(&format!("version = 1\nuse = \"tcp\"\n{nics}"));
    let at = &unnamed.config.transports[0].interfaces;
    assert_eq!((at[0].device.as_deref(), at[0].address), (None, Some("::1".parse().unwrap())));
}

/// Places stand for the CPUs near them that this process may use, and the pool has a thread for each; where nothing is known
/// of the machine they stand for none and nothing is said; where the machine has no such place, only `run` refuses the file.
#[test]
fn cores_near_to_places() {
    let file = |cores: &str| {
        format!(
            "version = 1\nuse = \"tcp\"\n[pools]\nfiles = {{ cores = \"{cores}\", threads = false }}\n[nics.fast]\ndevice = \"eth0\"\n"
        )
    };
    let near = pipeline_graph::near::Near::below("tests/ui/sys");
    let here = Options { cpus: vec![0, 1, 2, 3], budget: 4, near: Some(near), ..Options::default() };
    let of = |cores: &str, options: &Options| {
        let loaded = load_str("test.toml", &file(cores), &kinds::catalog(), options).unwrap();
        let pools = &loaded.config.blueprint.pools;
        let pool = pools.iter().find(|pool| pool.name == "files").unwrap();
        (pool.cpus.clone(), pool.threads, loaded.runnable().is_ok())
    };
    for (cores, cpus) in
        [("numa:0", vec![0, 1]), ("numa:1", vec![2, 3]), ("nic:eth0", vec![2, 3]), ("nic:fast", vec![2, 3])]
    {
        let threads = cpus.len();
        assert_eq!(of(cores, &here), (cpus, threads, true), "{cores}");
    }
    assert_eq!(of("all", &here), (vec![0, 1, 2, 3], 4, true));
    assert_eq!(of("numa:1", &Options::default()), (vec![], 1, true));
    for nowhere in ["numa:7", "nic:lo", "nic:eth7"] {
        assert_eq!(of(nowhere, &here), (vec![], 4, false), "{nowhere}");
    }
}

/// A pool per NUMA node has a group for each node with CPUs that this process may use and `cores` names, and its threads are
/// pinned to CPUs of their node in turn; where nothing is known of the machine it is one group of the CPUs there are.
#[test]
fn pools_by_numa_node() {
    let near = pipeline_graph::near::Near::below("tests/ui/sys");
    let here = Options { cpus: vec![0, 1, 2, 3], budget: 4, near: Some(near), ..Options::default() };
    let of = |said: &str, options: &Options| {
        let text =
            format!("version = 1\nuse = \"tcp\"\npools.files = {{ per = \"numa\", threads = 3, {said} }}\n");
        let loaded = load_str("test.toml", &text, &kinds::catalog(), options).unwrap();
        assert!(loaded.runnable().is_ok(), "{said}");
        let pool = loaded.config.blueprint.pools.iter().find(|pool| pool.name == "files").unwrap().clone();
        let threads = (0..pool.workers()).map(|w| (pool.group_name(w).to_owned(), pool.cpu(w)));
        (threads.collect::<Vec<_>>(), pool.is_per_nic())
    };
    let at = |threads: &[(&str, Option<usize>)]| {
        (threads.iter().map(|(node, cpu)| ((*node).to_owned(), *cpu)).collect::<Vec<_>>(), false)
    };
    let (zero, one) = ("numa0", "numa1");
    let all =
        [(zero, Some(0)), (zero, Some(1)), (zero, Some(0)), (one, Some(2)), (one, Some(3)), (one, Some(2))];
    assert_eq!(of("kind = \"resident\"", &here), at(&all));
    assert_eq!(
        of("cores = \"3,1\"", &here),
        at(&[(zero, Some(1)); 3].into_iter().chain([(one, Some(3)); 3]).collect::<Vec<_>>())
    );
    assert_eq!(of("cores = \"numa:1\"", &here), at(&all[3..]));
    assert_eq!(of("kind = \"resident\"", &Options::default()), at(&[(zero, None); 3]));
    let flat = Options { cpus: vec![4, 5], budget: 2, ..Options::default() };
    assert_eq!(of("kind = \"resident\"", &flat), at(&[(zero, Some(4)), (zero, Some(5)), (zero, Some(4))]));
}
