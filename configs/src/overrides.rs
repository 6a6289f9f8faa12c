//! Values from outside the file: `--set 'pools.nic.threads=2'` and `PIPELINE_NODE__POOLS__NIC__THREADS=2`.
//! Each is a text of its own, so a finding points into the argument or the variable. Deliberately the same
//! readers as for the file: a value that is TOML is taken as such, everything else as a string.

use std::collections::BTreeMap;

use crate::codes;
use crate::document;
use crate::finding::{Finding, Report};
use crate::source::{Layer, Source, SourceId, Sources, Span};
use crate::suggest;
use crate::tree::{Entry, Node, Table, Tree};

/// Overrides that one load takes at most.
const MAX_OVERRIDES: usize = 4096;

const PREFIX: &str = "PIPELINE_NODE__";

/// One `--set` argument as a tree; `None` after a finding.
pub fn set(argument: &str, sources: &mut Sources, report: &mut Report) -> Option<Table> {
    let source = Source { name: "--set".into(), text: argument.into(), layer: Layer::Set, dir: None };
    let id = sources.add(source);
    let whole = Span { source: id, start: 0, end: argument.len() };
    let help = "write a path and a value: --set 'pools.nic.threads=2'";
    let Some(equals) = equals_sign(argument) else {
        report.push(Finding::error(codes::OVERRIDE, whole, "this sets nothing: it has no `=`").help(help));
        return None;
    };
    let (path, text) = (&argument[..equals], &argument[equals + 1..]);
    let Ok(mut table) = document::parse_path(path, id) else {
        let at = Span { end: equals, ..whole };
        let finding = Finding::error(codes::OVERRIDE, at, format!("`{path}` is not a path of keys"));
        report.push(finding.help(help).help("quote the key of an edge: --set 'edges.\"a -> b\".queue=8'"));
        return None;
    };
    put(&mut table, value(text, id, equals + 1));
    Some(table)
}

/// The first `=` outside of quotes.
fn equals_sign(argument: &str) -> Option<usize> {
    let mut quote = None;
    argument.char_indices().find_map(|(at, c)| match (quote, c) {
        (None, '=') => Some(at),
        (None, '"' | '\'') => {
            quote = Some(c);
            None
        }
        (Some(open), c) if open == c => {
            quote = None;
            None
        }
        _ => None,
    })
}

/// Puts a value where the path of keys ends.
fn put(table: &mut Table, node: Node) {
    let mut table = table;
    let mut node = Some(node);
    while let Some(entry) = table.entries.first_mut() {
        if !matches!(entry.node.value, Tree::Table(_)) {
            if let Some(node) = node.take() {
                entry.node = node;
            }
            return;
        }
        let Tree::Table(inner) = &mut entry.node.value else { return };
        table = inner;
    }
}

fn value(text: &str, source: SourceId, offset: usize) -> Node {
    let lead = text.len() - text.trim_start().len();
    let trimmed = text.trim();
    let start = offset + lead;
    let span = Span { source, start, end: start + trimmed.len() };
    document::parse_value(trimmed, source, start)
        .unwrap_or_else(|| Node { value: Tree::Text(trimmed.to_owned()), span })
}

/// All variables of the engine as one tree. `below` is what they are laid on: a variable for a stage, pool or
/// transport that this file does not have is not for this file, and passes in silence unless it looks misspelt.
pub fn environment(
    env: &BTreeMap<String, String>,
    below: &Table,
    sources: &mut Sources,
    report: &mut Report,
) -> Vec<Table> {
    let mut tables = Vec::new();
    for (name, text) in env.iter().filter(|(name, _)| name.starts_with("PIPELINE_NODE")).take(MAX_OVERRIDES) {
        let source = Source {
            name: "environment".into(),
            text: format!("{name}={text}"),
            layer: Layer::Environment,
            dir: None,
        };
        let id = sources.add(source);
        let whole = Span { source: id, start: 0, end: name.len() };
        let Some(path) = name.strip_prefix(PREFIX) else {
            let finding =
                Finding::warning(codes::UNKNOWN_VARIABLE, whole, format!("`{name}` changes nothing"));
            report.push(finding.help("variables of the engine are PIPELINE_NODE__TABLE__KEY, such as PIPELINE_NODE__LIMITS__SLICES"));
            continue;
        };
        let mut keys = Vec::new();
        let mut at = PREFIX.len();
        for part in path.split("__") {
            let span = Span { source: id, start: at, end: at + part.len() };
            keys.push((part.to_lowercase(), span));
            at += part.len() + 2;
        }
        if keys.iter().any(|(key, _)| key.is_empty()) {
            let finding = Finding::error(codes::OVERRIDE, whole, format!("`{name}` has an empty part"));
            report.push(finding.help("write PIPELINE_NODE__TABLE__KEY"));
            continue;
        }
        if !belongs(&keys, below, report) {
            continue;
        }
        tables.push(nested(&keys, value(text, id, name.len() + 1)));
    }
    tables
}

/// Whether the thing that a variable reaches into is there.
fn belongs(keys: &[(String, Span)], below: &Table, report: &mut Report) -> bool {
    let [(table, _), (thing, at), _, ..] = keys else { return true };
    if !["stages", "pools", "transports", "segments"].contains(&table.as_str()) {
        return true;
    }
    let things = below.get(table).and_then(|e| e.node.as_table());
    let names: Vec<&str> =
        things.map_or_else(Vec::new, |t| t.entries.iter().map(|e| e.key.as_str()).collect());
    if names.contains(&thing.as_str()) {
        return true;
    }
    if suggest::nearest(thing, names.iter().copied()).is_some() {
        let message = format!("this changes nothing: there is no `{thing}` in [{table}]");
        let help = suggest::help(thing, table, names);
        report.push(Finding::warning(codes::UNKNOWN_VARIABLE, *at, message).help(help));
    }
    false
}

fn nested(keys: &[(String, Span)], node: Node) -> Table {
    let mut table = Table::default();
    let mut node = node;
    for (key, span) in keys.iter().rev() {
        let entry = Entry { key: key.clone(), key_span: *span, node };
        table = Table { entries: vec![entry] };
        node = Node { value: Tree::Table(table.clone()), span: *span };
    }
    table
}
