//! That the export leaves nothing out: what an observation can hold, told by its own `Debug`, against the table of names; and
//! the table against what is really written.

use pipeline_graph::{EdgeStats, Snapshot, StageStats, WorkerStats};
use pipeline_stages::ledger::Usage;
use pipeline_stages::peer::PeerState;
use pipeline_stages::traffic::{Counts, NicStats, PeerStats};
use pipeline_transports::NicFacts;

use super::names::{Kind, METRICS};
use super::{Text, describe, export, text};
use crate::observation::Observation;

/// Fields that are no metric, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("Observation::graph", "its fields are"),
    ("Observation::usage", "its fields are"),
    ("Observation::counts", "its fields are"),
    ("Observation::nics", "its fields are"),
    ("Observation::peers", "its fields are"),
    ("Snapshot::stages", "its fields are"),
    ("Snapshot::edges", "its fields are"),
    ("Snapshot::workers", "its fields are"),
    ("NicStats::facts", "its fields are"),
    ("Snapshot::at", "a clock without a meaning outside"),
    ("PeerStats::reason", "a sentence; `show peers` has it"),
    ("StageStats::elapsed_ns", "that of the snapshot"),
];

/// Names of the fields of a struct, as its `Debug` writes them.
fn fields(of: &str) -> Vec<String> {
    let name = of.split([' ', '{']).next().expect("a split has a first part");
    let top = of
        .lines()
        .filter_map(|line| line.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_alphabetic)));
    top.filter_map(|line| Some(format!("{name}::{}", line.split_once(": ")?.0))).collect()
}

fn all_fields() -> Vec<String> {
    let debugs = [
        format!("{:#?}", Observation::default()),
        format!("{:#?}", Snapshot::default()),
        format!("{:#?}", StageStats::default()),
        format!("{:#?}", EdgeStats::default()),
        format!("{:#?}", WorkerStats::default()),
        format!("{:#?}", Usage::default()),
        format!("{:#?}", Counts::default()),
        format!("{:#?}", NicStats::default()),
        format!("{:#?}", NicFacts::default()),
        format!("{:#?}", PeerStats::default()),
    ];
    let all: Vec<String> = debugs.iter().flat_map(|debug| fields(debug)).collect();
    assert!(all.len() > 60 && all.contains(&"StageStats::wait".to_owned()), "{all:?}");
    all
}

/// Every field of an observation is where some metric comes from, or left out for a reason that is written down; and no metric
/// names a field that is not there.
#[test]
fn every_field_is_exported() {
    let all = all_fields();
    let named: Vec<&str> = METRICS.iter().flat_map(|metric| metric.from).copied().collect();
    for field in &all {
        let left_out = LEFT_OUT.iter().any(|(name, _)| name == field);
        assert!(
            named.contains(&field.as_str()) != left_out,
            "{field}: a metric's `from`, or left out with a reason"
        );
    }
    let gone = |name: &&&str| !all.iter().any(|field| field == **name);
    let named = named.iter().chain(LEFT_OUT.iter().map(|(name, _)| name)).collect::<Vec<_>>();
    assert_eq!(named.iter().find(|name| gone(name)), None, "no such field");
}

/// An observation in which every part has a line. Numbers are what `since` would give.
fn filled() -> Observation {
    let name = || "n".to_owned();
    let mut stage = StageStats::default();
    (stage.name, stage.worker_items) = (name(), vec![1, 2]);
    let served = Some(0);
    let nic = NicStats {
        name: name(),
        transport: name(),
        served_bytes_in: served,
        served_bytes_out: served,
        ..NicStats::default()
    };
    let peer = PeerStats { label: "p".into(), state: PeerState::Up, ..PeerStats::default() };
    Observation {
        graph: Snapshot {
            stages: vec![stage],
            edges: vec![EdgeStats { name: name(), mode: "queue", ..EdgeStats::default() }],
            workers: vec![WorkerStats {
                name: name(),
                pool: name(),
                cpu_told: true,
                ..WorkerStats::default()
            }],
            ..Snapshot::default()
        },
        nics: vec![nic],
        peers: vec![peer],
        ..Observation::default()
    }
}

/// Every metric of the table is written, with its type and help, and nothing that is not in the table.
#[test]
fn the_table_is_what_is_written() {
    let text = text(&filled());
    for metric in METRICS {
        let head =
            format!("# HELP {0} {1}\n# TYPE {0} {2}\n{0}", metric.name, metric.help, metric.kind.name());
        assert!(text.contains(&head), "{} is not written:\n{text}", metric.name);
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE")).count(), METRICS.len());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let labels =
            line.split_once('{').map_or("", |(_, rest)| rest.split_once("} ").expect("a value follows").0);
        let name = line.split(['{', ' ']).next().expect("a split has a first part");
        let of = |metric: &&super::Metric| match metric.kind {
            Kind::Histogram => {
                name.strip_prefix(metric.name).is_some_and(|s| ["_bucket", "_sum", "_count"].contains(&s))
            }
            _ => name == metric.name,
        };
        let metric = METRICS.iter().find(of).expect("it is in the table");
        let keys: Vec<&str> =
            labels.split(',').filter_map(|l| Some(l.split_once('=')?.0)).filter(|k| *k != "le").collect();
        assert_eq!(keys, metric.labels, "{line}");
    }
}

/// What peers moved by themselves (RDMA), and times of threads that the kernel does not tell, are no series, rather than ones of
/// zeros.
#[test]
fn what_nobody_counts_is_absent() {
    let mut observation = filled();
    assert!(text(&observation).contains("nic_served_in_bytes_total{"));
    (observation.nics[0].served_bytes_in, observation.nics[0].served_bytes_out) = (None, None);
    assert!(!text(&observation).contains("nic_served_"));
    assert!(text(&observation).contains("worker_cpu_seconds_total{"));
    observation.graph.workers[0].cpu_told = false;
    assert!(!text(&observation).contains("worker_cpu_"));
}

/// Sets all that says how things stand and not what has happened: `now` in the first field, and one more in each that follows.
fn stands(observation: &mut Observation, now: u32) {
    let mut next = u64::from(now)..;
    let mut more = || next.next().expect("there are enough numbers");
    let Observation { graph, usage, under_way, nics, peers, .. } = observation;
    let (stage, edge, worker) = (&mut graph.stages[0], &mut graph.edges[0], &mut graph.workers[0]);
    (usage.slices, usage.requests, usage.batches) = (now + 40, now + 41, now + 42);
    for field in [
        &mut usage.bytes,
        under_way,
        &mut stage.depth_max,
        &mut edge.depth_items,
        &mut edge.depth_now,
        &mut edge.depth_max,
        &mut worker.gap_ns,
        &mut worker.spin_budget_ns,
        &mut worker.yield_budget_ns,
        &mut worker.wake_ns,
        &mut worker.wake_cpu_ns,
        &mut nics[0].outstanding,
        &mut peers[0].outstanding,
    ] {
        *field = more();
    }
    (nics[0].links, peers[0].links) = (now as usize, now as usize);
}

/// A recorder that lives on, and gets the intervals, shows the same as one that gets all at once; gauges are as of the end.
#[test]
fn intervals_add_up() {
    let at = |items, wait: &[(u64, u64)], busy_ns, now: u32| {
        let mut observation = filled();
        let stage = &mut observation.graph.stages[0];
        (stage.items, stage.busy_ns) = (items, busy_ns);
        stage.wait = wait.iter().copied().collect();
        stage.service = wait.iter().copied().collect();
        stands(&mut observation, now);
        observation
    };
    let first = at(10, &[(1000, 7)], 7000, 3);
    let second = at(25, &[(1000, 9), (80_000, 4)], 329_000, 2);
    let lives = Text::default();
    describe(&lives);
    export(&first, &lives);
    export(&second.since(&first), &lives);
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (step, whole) = (lines(lives.render()), lines(text(&second)));
    assert_eq!(step.len(), whole.len());
    for (a, b) in step.iter().zip(&whole).filter(|(a, b)| a != b) {
        // Sums of times are sums of fractions.
        let number =
            |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).expect("a number");
        assert!((number(a) - number(b)).abs() < 1e-9, "{a} and {b}");
    }
    assert_eq!(lives.value("pipeline_node_stage_items_total", &[("stage", "n")]), Some(25.0));
    assert_eq!(lives.value("pipeline_node_peer_links", &[("peer", "p")]), Some(2.0));
    assert_eq!(lives.value("pipeline_node_edge_depth_items", &[("edge", "n")]), Some(5.0));
    let busy = lives.value("pipeline_node_stage_service_seconds", &[("stage", "n")]).expect("written");
    assert!((busy - 329e-6).abs() < 1e-12, "{busy}");
}
