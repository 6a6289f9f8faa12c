//! `[directory]`: where peers and their segments are found when they are not listed in `[peers]`.

use crate::body::{self, Form};
use crate::codes;
use crate::config::DirectoryConfig;
use crate::finding::Finding;
use crate::schema::{Change, Key, Kind, Later};
use crate::tree::Entry;
use crate::value::Scope;

const fn key(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Key {
    Key { name, kind, default, required: false, doc, change: Change::Restart, ..Key::PLAIN }
}

const BRINGS: Later = Later::refused("directories").words(&["http", "etcd", "redis"]);

/// Keys of `[directory]`.
pub const KEYS: &[Key] = &[
    Key {
        later: Some(BRINGS),
        ..key(
            "type",
            Kind::Word(&["p2p", "http", "etcd", "redis"]),
            Some("p2p"),
            "What keeps it: `p2p` (each node tells its own, as without the table), `http`, `etcd`, `redis`.",
        )
    },
    key(
        "endpoints",
        Kind::Texts,
        None,
        "Where it is, in the order they are tried, such as \"http://10.0.0.1:2379\".",
    ),
    key("prefix", Kind::Text, Some("pipeline-node/"), "What every key of ours in it starts with."),
    key(
        "ttl",
        Kind::Time { min_ns: 1_000_000_000, max_ns: 86_400_000_000_000 },
        Some("30s"),
        "How long an entry lives after its node was last heard of.",
    ),
    key("user", Kind::Text, None, "Name to log in with."),
    key(
        "password_file",
        Kind::Path,
        None,
        "File with the password; a password itself is never in a TOML file.",
    ),
    key("ca", Kind::Path, None, "File with the certificates that its TLS certificate must descend from."),
];

/// Reads it; `None` where there is none to ask.
pub fn read(entry: Option<&Entry>, scope: &mut Scope<'_>) -> Option<DirectoryConfig> {
    let entry = entry?;
    let body = body::read_node(&entry.node, entry.key_span, &Form::new("[directory]", KEYS), scope)?;
    let kind = body.values.text("type")?.to_owned();
    if kind != "p2p" && body.values.texts("endpoints").is_empty() {
        let at = body.span("endpoints", entry.key_span);
        let finding =
            Finding::error(codes::KEY_MISSING, at, format!("a directory of type {kind} needs `endpoints`"));
        scope.report.push(finding.help("add endpoints = [\"http://10.0.0.1:2379\"]"));
    }
    if kind == "p2p" {
        for key in ["endpoints", "user", "password_file", "ca"] {
            if let Some(at) = body.spans.get(key) {
                let message = format!(
                    "`{key}` and type = \"p2p\" exclude each other: nodes tell each other, there is no server"
                );
                let finding = Finding::error(codes::EXCLUSIVE, *at, message);
                scope.report.push(finding.help("take one of the two out"));
            }
        }
    }
    // Nodes tell each other: as without the table.
    (kind != "p2p").then_some(DirectoryConfig { kind, values: body.values })
}
