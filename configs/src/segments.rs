//! `[segments.NAME]`: memory and directories that peers may read and write.

use std::path::PathBuf;

use crate::body::{self, Form};
use crate::codes;
use crate::config::{PullFrom, SegmentConfig, SegmentKind};
use crate::finding::Finding;
use crate::names;
use crate::numa;
use crate::schema::{Change, Key, Kind, Later};
use crate::source::Span;
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
    ..Key::PLAIN
};

const SIZE: Key = Key {
    name: "size",
    kind: Kind::Bytes { min: 1, max: 1 << 50 },
    default: None,
    required: true,
    doc: "Bytes that peers may reach, such as \"1GiB\".",
    change: Change::Restart,
    ..Key::PLAIN
};

/// Keys of a segment of kind `dram`.
pub const DRAM: &[Key] = &[
    SIZE,
    ACCESS,
    Key {
        name: "numa",
        kind: Kind::Count { min: 0, max: 1023 },
        doc: "NUMA node that the memory is taken from; without it, where the system puts it.",
        change: Change::Restart,
        ..Key::PLAIN
    },
    Key {
        name: "hugepages",
        kind: Kind::Word(&["off", "2MiB", "1GiB"]),
        default: Some("off"),
        doc: "Size of the pages that the memory is made of.",
        change: Change::Restart,
        later: Some(Later::harmless("huge pages").words(&["2MiB", "1GiB"])),
        ..Key::PLAIN
    },
];

/// Keys of a segment of kind `cuda:N`.
pub const CUDA: &[Key] = &[SIZE, ACCESS];

/// Keys of a segment of kind `file`.
pub const FILE: &[Key] = &[
    Key {
        name: "path",
        kind: Kind::Path,
        default: None,
        required: true,
        doc: "The file; it is made, or made longer, when it is smaller than `size`.",
        change: Change::Restart,
        ..Key::PLAIN
    },
    SIZE,
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
        ..Key::PLAIN
    },
    Key {
        name: "buffer",
        kind: Kind::Bytes { min: 64 << 10, max: 1 << 40 },
        default: Some("16MiB"),
        required: false,
        doc: "Bytes of registered memory that files pass through.",
        change: Change::Restart,
        ..Key::PLAIN
    },
    ACCESS,
    Key {
        name: "pull",
        kind: Kind::Word(&["off", "known", "any"]),
        default: Some("known"),
        doc: "From which nodes this one may fetch the bytes of files that a client writes here (`copy --fanout`); known: those under [peers], and with [auth] key_file every node that proves to know the key; any: whatever address a client names; off: none.",
        change: Change::Restart,
        ..Key::PLAIN
    },
];

/// A kind of segment.
#[derive(Clone, Copy, Debug)]
pub struct SegmentDecl {
    /// The word after `kind =`; `cuda:N` stands for one word a GPU.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its keys besides `kind`.
    pub keys: &'static [Key],
    /// What brings it, if it comes with a later release.
    pub later: Option<Later>,
}

/// The kinds of segments.
pub const KINDS: &[SegmentDecl] = &[
    SegmentDecl { name: "dram", summary: "Memory of the node.", keys: DRAM, later: None },
    SegmentDecl { name: "dir", summary: "A directory tree, for `copy`.", keys: DIR, later: None },
    SegmentDecl {
        name: "cuda:N",
        summary: "Memory of the GPU with index N.",
        keys: CUDA,
        later: Some(Later::refused("GPU memory")),
    },
    SegmentDecl {
        name: "file",
        summary: "One file or block device, read and written in place.",
        keys: FILE,
        later: Some(Later::refused("file segments")),
    },
];

/// The index of a GPU, from `cuda:0`.
pub fn gpu(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("cuda:")?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|n| plain && *n < 1024)
}

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
    let (word, decl, at) = kind(entry, scope)?;
    let elsewhere = |key: &str| {
        let others: Vec<&str> =
            KINDS.iter().filter(|k| k.keys.iter().any(|k| k.name == key)).map(|k| k.name).collect();
        (!others.is_empty())
            .then(|| format!("`{key}` is valid for segments of kind {}", suggest::list(&others)))
    };
    let form = Form {
        also: &["kind"],
        elsewhere: &elsewhere,
        ..Form::new(format!("segment `{}` (kind {word})", entry.key), decl.keys)
    };
    let body = body::read_node(&entry.node, entry.key_span, &form, scope)?;
    if let Some(later) = decl.later {
        scope.report.push(body::comes_later(&format!("kind = \"{word}\""), later, at));
    }
    numa::judge(&body, scope);
    let number = |key| body.values.number(key).unwrap_or(1);
    let path = || PathBuf::from(body.values.text("path").unwrap_or(""));
    let kind = match decl.name {
        "dir" => {
            let pull = match body.values.text("pull") {
                Some("off") => PullFrom::Off,
                Some("any") => PullFrom::Any,
                _ => PullFrom::Known,
            };
            SegmentKind::Dir { path: path(), buffer: number("buffer"), pull }
        }
        "file" => SegmentKind::File { path: path(), size: number("size") },
        "cuda:N" => SegmentKind::Cuda { device: gpu(word).unwrap_or(0), size: number("size") },
        _ => SegmentKind::Dram { size: number("size") },
    };
    let access = body.values.text("access").unwrap_or("read_write").to_owned();
    let numa = body.values.number("numa").and_then(|node| u16::try_from(node).ok());
    Some(SegmentConfig { name: entry.key.clone(), kind, access, numa })
}

fn kind<'a>(entry: &'a Entry, scope: &mut Scope<'_>) -> Option<(&'a str, &'static SegmentDecl, Span)> {
    let shown = |name| if name == "cuda:N" { "cuda:0" } else { name };
    let names: Vec<&str> = KINDS.iter().map(|k| shown(k.name)).collect();
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
        scope.report.push(finding.help(format!("add kind = …; kinds: {}", suggest::list(&names))));
        return None;
    };
    let Some(word) = said.node.as_text() else {
        let message = format!("`kind` must be a string, not {}", said.node.value.type_name());
        let finding = Finding::error(codes::TYPE, said.node.span, message);
        scope.report.push(finding.help("write kind = \"dram\""));
        return None;
    };
    let called = if gpu(word).is_some() { "cuda:N" } else { word };
    // The name of the kind stands for a number, and is none itself.
    if let Some(decl) = KINDS.iter().find(|k| k.name == called).filter(|_| word != "cuda:N") {
        return Some((word, decl, said.node.span));
    }
    let finding =
        Finding::error(codes::KIND_UNKNOWN, said.node.span, format!("unknown kind of segment `{word}`"));
    scope.report.push(finding.help(suggest::help(word, "kinds", names)));
    None
}
