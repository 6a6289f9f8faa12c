//! `[segments.NAME]`: memory and directories that peers may read and write.

use std::path::PathBuf;

use crate::body::{self, Form};
use crate::codes;
use crate::config::{SegmentConfig, SegmentKind};
use crate::finding::Finding;
use crate::names;
use crate::schema::{Change, Key, Kind};
use crate::suggest;
use crate::tree::{Entry, Tree};
use crate::value::Scope;

const ACCESS: Key = Key {
    name: "access",
    kind: Kind::Word(&["read", "write", "read_write"]),
    default: Some("read_write"),
    required: false,
    doc: "What peers may do.",
    change: Change::Restart,
};

/// Keys of a segment of kind `dram`.
pub const DRAM: &[Key] = &[
    Key {
        name: "size",
        kind: Kind::Bytes { min: 1, max: 1 << 50 },
        default: None,
        required: true,
        doc: "Bytes of memory, such as \"1GiB\".",
        change: Change::Restart,
    },
    ACCESS,
];

/// Keys of a segment of kind `dir`.
pub const DIR: &[Key] = &[
    Key {
        name: "path",
        kind: Kind::Path,
        default: None,
        required: true,
        doc: "The directory; nothing outside it is ever touched.",
        change: Change::Restart,
    },
    Key {
        name: "buffer",
        kind: Kind::Bytes { min: 64 << 10, max: 1 << 40 },
        default: Some("16MiB"),
        required: false,
        doc: "Bytes of registered memory that files pass through.",
        change: Change::Restart,
    },
    ACCESS,
];

const KINDS: &[&str] = &["dram", "dir"];
const LATER_KEYS: &[&str] = &["numa", "hugepages"];

/// Reads all of them, in the order of the file.
pub fn read(entry: Option<&Entry>, scope: &mut Scope<'_>) -> Vec<SegmentConfig> {
    let Some(entry) = entry else { return Vec::new() };
    let Tree::Table(table) = &entry.node.value else {
        let message = format!("[segments] must be a table, not {}", entry.node.value.type_name());
        let finding = Finding::error(codes::TYPE, entry.node.span, message);
        scope.report.push(finding.help("write segments.NAME = { kind = \"dram\", size = \"1GiB\" }"));
        return Vec::new();
    };
    table.entries.iter().filter_map(|segment| one(segment, scope)).collect()
}

fn one(entry: &Entry, scope: &mut Scope<'_>) -> Option<SegmentConfig> {
    names::check("segment", &entry.key, entry.key_span, scope.report);
    let kind = kind(entry, scope)?;
    let keys = if kind == "dir" { DIR } else { DRAM };
    let other = if kind == "dir" { ("dram", DRAM) } else { ("dir", DIR) };
    let elsewhere = |key: &str| {
        other
            .1
            .iter()
            .any(|k| k.name == key)
            .then(|| format!("`{key}` is valid for segments of kind {}", other.0))
    };
    let form = Form {
        also: &["kind"],
        later: LATER_KEYS,
        elsewhere: &elsewhere,
        ..Form::new(format!("segment `{}` (kind {kind})", entry.key), keys)
    };
    let body = body::read_node(&entry.node, entry.key_span, &form, scope)?;
    let number = |key| body.values.number(key).unwrap_or(1);
    let kind = match kind {
        "dir" => SegmentKind::Dir {
            path: PathBuf::from(body.values.text("path").unwrap_or("")),
            buffer: number("buffer"),
        },
        _ => SegmentKind::Dram { size: number("size") },
    };
    let access = body.values.text("access").unwrap_or("read_write").to_owned();
    Some(SegmentConfig { name: entry.key.clone(), kind, access })
}

fn kind<'a>(entry: &'a Entry, scope: &mut Scope<'_>) -> Option<&'a str> {
    let Tree::Table(table) = &entry.node.value else {
        let message =
            format!("segment `{}` must be a table, not {}", entry.key, entry.node.value.type_name());
        let finding = Finding::error(codes::TYPE, entry.node.span, message);
        scope.report.push(finding.help("write { kind = \"dram\", size = \"1GiB\" }"));
        return None;
    };
    let Some(said) = table.get("kind") else {
        let message = format!("segment `{}` lacks `kind`", entry.key);
        let finding = Finding::error(codes::KEY_MISSING, entry.key_span, message);
        scope.report.push(finding.help(format!("add kind = …; kinds: {}", suggest::list(KINDS))));
        return None;
    };
    let Some(word) = said.node.as_text() else {
        let message = format!("`kind` must be a string, not {}", said.node.value.type_name());
        let finding = Finding::error(codes::TYPE, said.node.span, message);
        scope.report.push(finding.help("write kind = \"dram\""));
        return None;
    };
    if KINDS.contains(&word) {
        return Some(word);
    }
    if word == "file" || word == "cuda" || word.starts_with("cuda:") {
        scope.report.push(body::later(&format!("kind = \"{word}\""), said.node.span));
        return None;
    }
    let finding =
        Finding::error(codes::KIND_UNKNOWN, said.node.span, format!("unknown kind of segment `{word}`"));
    scope.report.push(finding.help(suggest::help(word, "kinds", KINDS.iter().copied())));
    None
}
