//! From the merged tree to [`Config`]: every table is read, whatever is wrong in the others.
//! Deliberately in the order in which tables refer to each other: transports, pools, stages, edges.

use pipeline_graph::{Blueprint, StageDecl};

use crate::codes;
use crate::config::{Config, TransportConfig};
use crate::finding::{Finding, Report, Severity};
use crate::schema::{Catalog, Facts};
use crate::source::{Sources, Span};
use crate::stages::{self, ReadStage};
use crate::suggest;
use crate::tree::Table;
use crate::value::Scope;
use crate::wiring::{self, EdgePlace};
use crate::{limits, node, peers, pools, segments, settings, transports};

/// Tables and keys at the top of a file, besides those that come later.
const TOP: &[&str] = &[
    "version",
    "use",
    "node",
    "limits",
    "pools",
    "transports",
    "stages",
    "edges",
    "peers",
    "segments",
    "auth",
    "drain",
    "log",
];

/// Where the things of a [`Blueprint`] stand, index by index.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Names of stages.
    pub stages: Vec<Span>,
    /// Where stages name their pools.
    pub stage_pools: Vec<Span>,
    /// Names of pools.
    pub pools: Vec<Span>,
    /// Lists of CPUs of pools.
    pub pool_cores: Vec<Option<Span>>,
    /// Edges.
    pub edges: Vec<EdgePlace>,
    /// Where the graph as a whole stands: its edges.
    pub graph: Span,
    /// `[limits] slices`, if the file says it.
    pub slices: Option<Span>,
}

/// Lowers a tree; the result is only of use when the report has no error. The last value tells whether every
/// transport, pool, stage and edge could be read.
pub fn lower(
    root: &Table,
    catalog: &Catalog,
    allowed: &[usize],
    sources: &Sources,
    report: &mut Report,
) -> (Config, Places, bool) {
    top(root, report);
    let wrong = |report: &Report| report.findings.iter().filter(|f| f.severity == Severity::Error).count();
    let names: Vec<String> = root
        .get("transports")
        .and_then(|e| e.node.as_table())
        .map(|table| table.entries.iter().map(|e| e.key.clone()).collect())
        .unwrap_or_default();
    let mut scope = Scope { sources, transports: &names, report };
    let node = node::read(root.get("node"), &mut scope);
    let (limits, slices) = limits::read(root.get("limits"), &mut scope);
    let before = wrong(scope.report);
    let read_transports = transports::read(root, catalog, &mut scope);
    let transports: Vec<TransportConfig> = read_transports.iter().map(|(t, _)| t.clone()).collect();
    let groups = transports::nic_groups(&transports);
    let read_pools = pools::read(root, &groups, allowed, &mut scope);
    let pools: Vec<_> = read_pools.iter().map(|p| p.decl.clone()).collect();
    let facts = Facts { transports: names.clone() };
    let read_stages = stages::read(root, catalog, &pools, &facts, &mut scope);
    shared_names(&read_stages, &read_transports, &mut scope);
    let decls: Vec<StageDecl> = read_stages.iter().map(|s| s.decl.clone()).collect();
    let (edges, edge_places): (Vec<_>, Vec<_>) =
        wiring::read(root.get("edges"), &decls, &mut scope).into_iter().unzip();
    let whole = wrong(scope.report) == before;
    let peers = peers::read(root.get("peers"), &mut scope);
    let segments = segments::read(root.get("segments"), &mut scope);
    let settings = settings::read(root, &mut scope);
    let places = Places {
        stages: read_stages.iter().map(|s| s.name_span).collect(),
        stage_pools: read_stages.iter().map(|s| s.pool_span).collect(),
        pools: read_pools.iter().map(|p| p.name_span).collect(),
        pool_cores: read_pools.iter().map(|p| p.cores_span).collect(),
        edges: edge_places,
        graph: root.get("edges").map_or_else(Span::default, |e| e.key_span),
        slices,
    };
    let tokens = usize::try_from(limits.slices.saturating_add(limits.requests)).unwrap_or(usize::MAX);
    let config = Config {
        node,
        limits,
        transports,
        stages: read_stages.into_iter().map(|s| s.config).collect(),
        segments,
        peers,
        auth_key_file: settings.auth_key_file,
        drain_timeout: settings.drain_timeout,
        log_level: settings.log_level,
        blueprint: Blueprint { pools, stages: decls, edges, tokens },
    };
    (config, places, whole)
}

fn top(root: &Table, report: &mut Report) {
    for entry in &root.entries {
        let name = entry.key.as_str();
        if settings::LATER.contains(&name) {
            report.push(crate::body::later(&format!("[{name}]"), entry.key_span));
        } else if !TOP.contains(&name) {
            let what = if entry.node.as_table().is_some() { "table" } else { "key" };
            let message = format!("unknown {what} `{name}`");
            let known = TOP.iter().chain(settings::LATER).copied();
            let finding = Finding::error(codes::TABLE_UNKNOWN, entry.key_span, message);
            report.push(finding.help(suggest::help(name, "tables", known)));
        }
    }
}

/// Stages and NICs share the labels of metrics and the words of messages: one name is one thing.
fn shared_names(stages: &[ReadStage], transports: &[(TransportConfig, Span)], scope: &mut Scope<'_>) {
    for stage in stages {
        let name = stage.config.name.as_str();
        let found = transports.iter().find_map(|(transport, at)| {
            let what = if transport.name == name { "transport" } else { "NIC" };
            (what == "transport" || transport.nics.iter().any(|nic| nic == name)).then_some((what, *at))
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
