//! Whole files: what loads, and what it becomes.

mod kinds;

use pipeline_configs::{Loaded, Options, load_str, nic_groups};
use pipeline_graph::{Dispatch, Mode};

fn good(text: &str) -> Loaded {
    let loaded = load_str("test.toml", text, &kinds::catalog(), &Options::default());
    let loaded = loaded.unwrap_or_else(|findings| panic!("{findings}"));
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
    assert_eq!(config.blueprint.pools[1].groups, ["tcp/tcp"]);
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
