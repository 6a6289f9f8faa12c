//! `[stages.NAME]`: the stages of the graph, their types, pools and keys.

use pipeline_graph::{PoolDecl, StageDecl};

use crate::body::{self, Form};
use crate::codes;
use crate::config::StageConfig;
use crate::finding::Finding;
use crate::names;
use crate::schema::{Catalog, Change, Facts, Key, Kind, Later};
use crate::source::Span;
use crate::suggest;
use crate::tree::{Entry, Table, Tree};
use crate::typed;
use crate::value::Scope;

/// The key that every stage has besides `type` and those of its type.
pub const POOL: Key = Key {
    name: "pool",
    kind: Kind::Text,
    doc: "Name of the pool that runs it; a stage that runs wherever it is reached has none.",
    change: Change::Restart,
    ..Key::PLAIN
};

/// A stage as read: what the engine gets, and where the file says it.
pub struct ReadStage {
    /// Its typed keys.
    pub config: StageConfig,
    /// Its place in the graph.
    pub decl: StageDecl,
    /// Where its name stands.
    pub name_span: Span,
    /// Where its pool is named; its name when it is not.
    pub pool_span: Span,
}

/// Reads all of them, in the order of the file. `pools` is `None` when none could be read, and then none is missed.
/// The answer is `None` when there is no table of stages that could be read.
pub fn read(
    root: &Table,
    catalog: &Catalog,
    pools: Option<&[PoolDecl]>,
    facts: &Facts,
    scope: &mut Scope<'_>,
) -> Option<Vec<ReadStage>> {
    let Some(entry) = root.get("stages") else {
        let finding = Finding::error(codes::KEY_MISSING, scope.file, "the file declares no stages");
        scope.report.push(finding.help("add [stages], or use = \"tcp\" at the top"));
        return None;
    };
    let Tree::Table(table) = &entry.node.value else {
        let message = format!("[stages] must be a table, not {}", entry.node.value.type_name());
        let finding = Finding::error(codes::TYPE, entry.node.span, message);
        scope.report.push(finding.help("write stages.NAME = { type = …, pool = … }"));
        return None;
    };
    Some(table.entries.iter().filter_map(|stage| one(stage, catalog, pools, facts, scope)).collect())
}

fn one(
    entry: &Entry,
    catalog: &Catalog,
    pools: Option<&[PoolDecl]>,
    facts: &Facts,
    scope: &mut Scope<'_>,
) -> Option<ReadStage> {
    if entry.key == pipeline_graph::blueprint::SUBMIT {
        let finding =
            Finding::error(codes::NAME, entry.key_span, "`submit` is reserved: it is the way into the graph");
        scope.report.push(finding.help("give the stage another name, such as `admit`"));
        return None;
    }
    names::check("stage", &entry.key, entry.key_span, scope.report);
    let types: Vec<&str> = catalog.stages.iter().map(|s| s.name).collect();
    let said = typed::type_of("stage", entry, &types, scope)?;
    let kind = catalog.stages.iter().find(|s| s.name == said.0)?;
    let elsewhere = |key: &str| {
        let others = catalog.stages.iter().filter(|s| s.keys.iter().any(|k| k.name == key));
        typed::valid_for(key, "stages", others.map(|s| s.name))
    };
    let form = Form {
        also: &["type", "pool"],
        elsewhere: &elsewhere,
        ..Form::new(format!("stage `{}` (type {})", entry.key, kind.name), kind.keys)
    };
    let body = body::read_node(&entry.node, entry.key_span, &form, scope)?;
    if let Some(brings) = kind.later {
        scope.report.push(body::comes_later(
            &format!("stage type `{}`", kind.name),
            Later::refused(brings),
            said.1,
        ));
    }
    let shape = (kind.shape)(&body.values, facts);
    let (pool, pool_span) = pool_of(entry, pools, scope);
    let decl = StageDecl { name: entry.key.clone(), kind: kind.name.to_owned(), pool, shape };
    let config = StageConfig { name: entry.key.clone(), kind: kind.name.to_owned(), values: body.values };
    Some(ReadStage { config, decl, name_span: entry.key_span, pool_span })
}

fn pool_of(entry: &Entry, pools: Option<&[PoolDecl]>, scope: &mut Scope<'_>) -> (Option<usize>, Span) {
    let said = entry.node.as_table().and_then(|table| table.get("pool"));
    let Some(said) = said else { return (None, entry.key_span) };
    let at = said.node.span;
    let Some(name) = said.node.as_text() else {
        let message = format!("`pool` must be a string, not {}", said.node.value.type_name());
        scope.report.push(Finding::error(codes::TYPE, at, message).help("write the name of a pool"));
        return (None, at);
    };
    let Some(pools) = pools else { return (None, at) };
    let found = pools.iter().position(|p| p.name == name);
    if found.is_none() {
        let help = suggest::help(name, "pools", pools.iter().map(|p| p.name.as_str()));
        scope
            .report
            .push(Finding::error(codes::POOL_UNKNOWN, at, format!("unknown pool `{name}`")).help(help));
    }
    (found, at)
}
