//! The small tables: `[auth]`, `[drain]`, `[log]`; and the tables that come with later releases.

use std::path::PathBuf;
use std::time::Duration;

use crate::body::{self, Body, Form};
use crate::schema::{Change, Key, Kind};
use crate::source::Span;
use crate::tree::Table;
use crate::value::Scope;

/// Keys of `[auth]`.
pub const AUTH: &[Key] = &[Key {
    name: "key_file",
    kind: Kind::Path,
    default: None,
    required: false,
    doc: "File with the key that peers must prove to know; without it peers are not authenticated.",
    change: Change::Restart,
}];

/// Keys of `[drain]`.
pub const DRAIN: &[Key] = &[Key {
    name: "timeout",
    kind: Kind::Time { min_ns: 1_000_000, max_ns: 86_400_000_000_000 },
    default: Some("10s"),
    required: false,
    doc: "How long a stopping node waits for what is in flight before it fails the rest.",
    change: Change::Live,
}];

/// Keys of `[log]`.
pub const LOG: &[Key] = &[Key {
    name: "level",
    kind: Kind::Text,
    default: Some("info"),
    required: false,
    doc: "Least level that is logged: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,control=debug`.",
    change: Change::Live,
}];

/// Tables of the schema that this release does not read.
pub const LATER: &[&str] = &["admin", "metrics", "directory", "nics", "routes"];

/// What the small tables say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[auth] key_file`.
    pub auth_key_file: Option<PathBuf>,
    /// `[drain] timeout`.
    pub drain_timeout: Duration,
    /// `[log] level`.
    pub log_level: String,
}

/// Reads the three tables.
pub fn read(root: &Table, scope: &mut Scope<'_>) -> Settings {
    let auth = table(root, "auth", AUTH, scope);
    let drain = table(root, "drain", DRAIN, scope);
    let log = table(root, "log", LOG, scope);
    Settings {
        auth_key_file: auth.values.text("key_file").map(PathBuf::from),
        drain_timeout: drain.values.time("timeout").unwrap_or_default(),
        log_level: log.values.text("level").unwrap_or("info").to_owned(),
    }
}

fn table(root: &Table, name: &str, keys: &[Key], scope: &mut Scope<'_>) -> Body {
    let form = Form::new(format!("[{name}]"), keys);
    match root.get(name) {
        Some(entry) => body::read_node(&entry.node, entry.key_span, &form, scope).unwrap_or_default(),
        None => body::read(&Table::default(), Span::default(), &form, scope),
    }
}
