//! From the merged tree to [`Config`]: every table is read, whatever is wrong in the others.
//! Deliberately in the order in which tables refer to each other: transports, pools, stages, edges.

use std::sync::Arc;

use pipeline_graph::near::Near;
use pipeline_graph::{Blueprint, StageDecl};

use crate::codes;
use crate::config::{Config, StageConfig, TransportConfig};
use crate::finding::{Finding, Report, Severity};
use crate::pools::Machine;
use crate::preset::Merged;
use crate::schema::{Catalog, Facts};
use crate::source::{Sources, Span};
use crate::stages::{self, ReadStage};
use crate::suggest;
use crate::transports::TransportPlace;
use crate::tree::Table;
use crate::value::Scope;
use crate::wiring::{self, EdgePlace};
use crate::{
    directory, limits, nics, node, peers, pools, routes, segments, settings, tables, topology, transports,
};

/// Entries that a table may have: what a machine can run, and what rules that compare them all can judge at once.
const MOST: &[(&str, usize)] = &[
    ("pools", 256),
    ("transports", 64),
    ("stages", 1024),
    ("edges", 4096),
    ("peers", 16_384),
    ("segments", 4096),
    ("nics", 1024),
];

/// Refuses tables of absurd size; whether all are of sane size.
pub fn sane(root: &Table, report: &mut Report) -> bool {
    let before = report.findings.len();
    for (name, most) in MOST {
        let Some(entry) = root.get(name) else { continue };
        let count = entry.node.as_table().map_or(0, |table| table.entries.len());
        if count > *most {
            let message = format!("[{name}] has {count} entries");
            let finding = Finding::error(codes::RANGE, entry.key_span, message);
            report.push(finding.help(format!("permitted: at most {most}")));
        }
    }
    report.findings.len() == before
}

/// Where the things of a [`Blueprint`] stand, index by index.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Names of stages.
    pub stages: Vec<Span>,
    /// Where stages name their pools.
    pub stage_pools: Vec<Span>,
    /// Names of pools.
    pub pools: Vec<Span>,
    /// Transports.
    pub transports: Vec<TransportPlace>,
    /// Lists of CPUs of pools.
    pub pool_cores: Vec<Option<Span>>,
    /// Edges.
    pub edges: Vec<EdgePlace>,
    /// Where the graph as a whole stands: its edges.
    pub graph: Span,
    /// `[limits] slices`, if the file says it.
    pub slices: Option<Span>,
}

/// A lowered file; only of use when the report has no error.
pub struct Lowered {
    /// What the file says.
    pub config: Config,
    /// Where the things of the blueprint stand.
    pub places: Places,
    /// Whether every transport, pool, stage and edge could be read.
    pub whole: bool,
}

/// Lowers a tree.
pub fn lower(
    merged: &Merged,
    catalog: &Catalog,
    machine: Machine<'_>,
    sources: &Sources,
    report: &mut Report,
) -> Lowered {
    let root = &merged.root;
    top(root, report);
    let names = declared(root, "transports").map(str::to_owned).collect::<Vec<_>>();
    let file = Span { source: merged.file, start: 0, end: 0 };
    let nodes = machine.near.map(Near::numa_nodes).unwrap_or_default();
    let mut scope = Scope { sources, file, transports: &names, nodes: &nodes, report };
    let node = node::read(root.get("node"), &mut scope);
    let (limits, said) = limits::read(root.get("limits"), &mut scope);
    let before = errors(scope.report);
    let mut graph = graph(merged, catalog, machine, &mut scope);
    let whole = errors(scope.report) == before;
    graph.places.slices = said.slices;
    limits::register(&limits, said.register, &mut graph.blueprint.pools, scope.report);
    graph.blueprint.tokens =
        usize::try_from(limits.slices.saturating_add(limits.requests)).unwrap_or(usize::MAX);
    let peers = peers::read(root.get("peers"), &graph.transports, &mut scope);
    let segments = segments::read(root.get("segments"), &mut scope);
    let settings = settings::read(root, &mut scope);
    graph.blueprint.untimed = !settings.stats;
    let directory = directory::read(root.get("directory"), &mut scope);
    let nics = nics::read(root, &graph.transports, &mut scope);
    transports::describe(&mut graph.transports, &nics);
    let topology = topology::read(root.get("topology"), &graph.transports, &mut scope);
    let known: Vec<&str> = declared(root, "peers").collect();
    let known = directory.is_none().then_some(known.as_slice());
    let routes = routes::read(root.get("routes"), known, &mut scope);
    let config = Config {
        node,
        limits,
        transports: graph.transports,
        stages: graph.stages,
        segments,
        peers,
        auth_key_file: settings.auth_key_file,
        drain_timeout: settings.drain_timeout,
        log_level: settings.log_level,
        log_json: settings.log_json,
        admin_socket: settings.admin_socket,
        metrics_listen: settings.metrics_listen,
        directory,
        nics,
        topology,
        routes,
        later: Vec::new(),
        shown: Arc::from([]),
        bystander: false,
        blueprint: graph.blueprint,
    };
    Lowered { config, places: graph.places, whole }
}

struct Graph {
    transports: Vec<TransportConfig>,
    stages: Vec<StageConfig>,
    blueprint: Blueprint,
    places: Places,
}

fn graph(merged: &Merged, catalog: &Catalog, machine: Machine<'_>, scope: &mut Scope<'_>) -> Graph {
    let root = &merged.root;
    let read_transports = transports::read(root, catalog, scope);
    let transports: Vec<TransportConfig> = read_transports.iter().map(|(t, _)| t.clone()).collect();
    let read_pools = pools::read(root, &transports::nic_groups(&transports), machine, scope);
    let pools: Option<Vec<_>> = read_pools.as_ref().map(|p| p.iter().map(|p| p.decl.clone()).collect());
    let facts = Facts { transports: scope.transports.to_vec() };
    let read_stages = stages::read(root, catalog, pools.as_deref(), &facts, scope);
    let decls: Vec<StageDecl> = read_stages.iter().flatten().map(|s| s.decl.clone()).collect();
    let mut edges = Vec::new();
    if merged.alone {
        // Which stages and ports there are, the preset would have said.
        wiring::written(root.get("edges"), scope);
    } else if let Some(stages) = &read_stages {
        // Without stages every edge would only say so again.
        shared_names(stages, &read_transports, scope);
        let unread = declared(root, "stages").filter(|name| !decls.iter().any(|s| s.name == *name)).collect();
        let known = wiring::Known { stages: &decls, unread: &unread, removed: &merged.removed };
        edges = wiring::read(root.get("edges"), known, scope);
    }
    let (edges, edge_places) = edges.into_iter().unzip();
    let (read_pools, read_stages) = (read_pools.unwrap_or_default(), read_stages.unwrap_or_default());
    let places = Places {
        stages: read_stages.iter().map(|s| s.name_span).collect(),
        stage_pools: read_stages.iter().map(|s| s.pool_span).collect(),
        pools: read_pools.iter().map(|p| p.name_span).collect(),
        transports: read_transports.into_iter().map(|(_, place)| place).collect(),
        pool_cores: read_pools.iter().map(|p| p.cores_span).collect(),
        edges: edge_places,
        graph: root.get("edges").map_or(scope.file, |e| e.key_span),
        slices: None,
    };
    let blueprint =
        Blueprint { pools: pools.unwrap_or_default(), stages: decls, edges, tokens: 0, untimed: false };
    Graph { transports, stages: read_stages.into_iter().map(|s| s.config).collect(), blueprint, places }
}

fn errors(report: &Report) -> usize {
    report.findings.iter().filter(|f| f.severity == Severity::Error).count()
}

/// Names of what a table of named things declares, whether or not it can be read.
fn declared<'a>(root: &'a Table, table: &str) -> impl Iterator<Item = &'a str> {
    let table = root.get(table).and_then(|e| e.node.as_table());
    table.into_iter().flat_map(|t| t.entries.iter().map(|e| e.key.as_str()))
}

fn top(root: &Table, report: &mut Report) {
    for entry in &root.entries {
        let name = entry.key.as_str();
        if !tables::TOP.contains(&name) {
            let what = if entry.node.as_table().is_some() { "table" } else { "key" };
            let message = format!("unknown {what} `{name}`");
            let finding = Finding::error(codes::TABLE_UNKNOWN, entry.key_span, message);
            let help = suggest::help(name, "known", tables::TOP.iter().copied());
            report.push(finding.help(help).help_if(tables::home_of(name)));
        }
    }
}

/// Stages and NICs share the labels of metrics and the words of messages: one name is one thing.
fn shared_names(
    stages: &[ReadStage],
    transports: &[(TransportConfig, TransportPlace)],
    scope: &mut Scope<'_>,
) {
    for stage in stages {
        let name = stage.config.name.as_str();
        let found = transports.iter().find_map(|(transport, at)| {
            let what = if transport.name == name { "transport" } else { "NIC" };
            (what == "transport" || transport.nics.iter().any(|nic| nic == name)).then_some((what, at.name))
        });
        if let Some((what, at)) = found {
            scope.report.push(
                Finding::error(
                    codes::NAME_SHARED,
                    stage.name_span,
                    format!("`{name}` is a stage and a {what}"),
                )
                .related(at, format!("the {what} `{name}`"))
                .help(format!("rename one of the two, such as the stage to `{name}_stage`")),
            );
        }
    }
}
