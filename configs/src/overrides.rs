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
pub fn set(argument: &str, below: &Table, sources: &mut Sources, report: &mut Report) -> Option<Table> {
    let source = Source { name: "--set".into(), text: argument.into(), layer: Layer::Set, dir: None };
    let id = sources.add(source);
    let whole = Span { source: id, start: 0, end: argument.len() };
    let help = "write a path and a value: --set 'pools.nic.threads=2'";
    let Some(equals) = equals_sign(argument) else {
        report.push(Finding::error(codes::OVERRIDE, whole, "this sets nothing: it has no `=`").help(help));
        return None;
    };
    let (path, text) = (&argument[..equals], &argument[equals + 1..]);
    let Some(mut table) = document::parse_path(path, id) else {
        let at = Span { end: equals, ..whole };
        let finding = Finding::error(codes::OVERRIDE, at, format!("`{path}` is not a path of keys"));
        report.push(finding.help(help).help("quote the key of an edge: --set 'edges.\"a -> b\".queue=8'"));
        return None;
    };
    if let Some((name, at, help)) = stranger(&path_of(&table), below) {
        report.push(Finding::error(codes::OVERRIDE, at, format!("there is no {name}")).help(help));
        return None;
    }
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

/// The keys of a path that was read as nested tables.
fn path_of(table: &Table) -> Vec<(String, Span)> {
    let mut keys = Vec::new();
    let mut table = Some(table);
    while let Some(entry) = table.and_then(|t| t.entries.first()) {
        keys.push((entry.key.clone(), entry.key_span));
        table = entry.node.as_table();
    }
    keys
}

/// The names of the things of the table that a path reaches into, if it sets a key of one of them.
fn things<'a>(keys: &[(String, Span)], below: &'a Table) -> Option<Vec<&'a str>> {
    let [(table, _), _, _, ..] = keys else { return None };
    if !["stages", "pools", "transports", "segments"].contains(&table.as_str()) {
        return None;
    }
    let things = below.get(table).and_then(|e| e.node.as_table());
    Some(things.map_or_else(Vec::new, |t| t.entries.iter().map(|e| e.key.as_str()).collect()))
}

/// What a path reaches into, if that is not there but something of nearly that name is.
fn stranger(keys: &[(String, Span)], below: &Table) -> Option<(String, Span, String)> {
    let names = things(keys, below)?;
    let ((table, _), (thing, at)) = (&keys[0], &keys[1]);
    if names.contains(&thing.as_str()) {
        return None;
    }
    suggest::nearest(thing, names.iter().copied())?;
    Some((format!("`{thing}` in [{table}]"), *at, suggest::help(thing, table, names)))
}

/// Whether the thing that a variable reaches into is there.
fn belongs(keys: &[(String, Span)], below: &Table, report: &mut Report) -> bool {
    if let Some((name, at, help)) = stranger(keys, below) {
        let message = format!("this changes nothing: there is no {name}");
        report.push(Finding::warning(codes::UNKNOWN_VARIABLE, at, message).help(help));
        return false;
    }
    things(keys, below).is_none_or(|names| names.contains(&keys[1].0.as_str()))
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
