//! The small tables: `[auth]`, `[admin]`, `[metrics]`, `[stats]`, `[log]`, `[drain]`.

use std::path::PathBuf;
use std::time::Duration;

use crate::body::{self, Body, Form};
use crate::finding::{Finding, Report};
use crate::schema::{Change, Key, Kind};
use crate::source::Span;
use crate::tree::Table;
use crate::value::Scope;
use crate::{codes, levels};

/// Keys of `[auth]`.
pub const AUTH: &[Key] = &[Key {
    name: "key_file",
    kind: Kind::Path,
    default: None,
    required: false,
    doc: "File with the key that peers must prove to know; without it peers are not authenticated.",
    change: Change::Restart,
    ..Key::PLAIN
}];

/// Keys of `[admin]`.
pub const ADMIN: &[Key] = &[Key {
    name: "socket",
    kind: Kind::Path,
    default: None,
    required: false,
    doc: "Unix socket at which `show` and `explain` ask the running node: for its own user and root only (mode 0600), removed at the end. Without it `run` makes one at $XDG_RUNTIME_DIR/pipeline-node/NAME.sock, if there is such a folder of this user; an embedded engine makes none.",
    change: Change::Restart,
    ..Key::PLAIN
}];

/// Keys of `[metrics]`.
pub const METRICS: &[Key] = &[Key {
    name: "listen",
    kind: Kind::Address,
    default: None,
    required: false,
    doc: "Address and port where `GET /metrics` answers Prometheus text (docs/metrics.md); without it metrics are not served.",
    change: Change::Rebuild,
    ..Key::PLAIN
}];

/// Keys of `[stats]`.
pub const STATS: &[Key] = &[Key {
    name: "enabled",
    kind: Kind::Flag,
    default: Some("true"),
    required: false,
    doc: "Whether waits, services and holds of stages and the time of requests are measured. Without it they read 0 or nothing; what is counted is counted all the same.",
    change: Change::Restart,
    ..Key::PLAIN
}];

/// Keys of `[drain]`.
pub const DRAIN: &[Key] = &[Key {
    name: "timeout",
    kind: Kind::Time { min_ns: 1_000_000, max_ns: 86_400_000_000_000 },
    default: Some("10s"),
    required: false,
    doc: "How long a stopping node waits for what is in flight before it fails the rest.",
    change: Change::Live,
    ..Key::PLAIN
}];

/// Keys of `[log]`.
pub const LOG: &[Key] = &[
    Key {
        name: "level",
        kind: Kind::Text,
        default: Some("info"),
        required: false,
        doc: "Least level that is logged: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,pipeline_stages=debug`.",
        change: Change::Live,
        ..Key::PLAIN
    },
    Key {
        name: "format",
        kind: Kind::Word(&["text", "json"]),
        default: Some("text"),
        required: false,
        doc: "How lines are written: `text` for people, `json` for machines.",
        change: Change::Restart,
        ..Key::PLAIN
    },
];

/// What the small tables say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[auth] key_file`.
    pub auth_key_file: Option<PathBuf>,
    /// `[admin] socket`.
    pub admin_socket: Option<PathBuf>,
    /// `[metrics] listen`.
    pub metrics_listen: Option<String>,
    /// `[stats] enabled`.
    pub stats: bool,
    /// `[drain] timeout`.
    pub drain_timeout: Duration,
    /// `[log] level`.
    pub log_level: String,
    /// `[log] format` is `json`.
    pub log_json: bool,
}

/// Reads the six tables.
pub fn read(root: &Table, scope: &mut Scope<'_>) -> Settings {
    let auth = table(root, "auth", AUTH, scope);
    let admin = table(root, "admin", ADMIN, scope);
    let metrics = table(root, "metrics", METRICS, scope);
    let stats = table(root, "stats", STATS, scope);
    let drain = table(root, "drain", DRAIN, scope);
    let log = table(root, "log", LOG, scope);
    if let (Some(level), Some(at)) = (log.values.text("level"), log.spans.get("level")) {
        check_level(level, *at, scope.report);
    }
    Settings {
        auth_key_file: auth.values.text("key_file").map(PathBuf::from),
        admin_socket: admin.values.text("socket").map(PathBuf::from),
        metrics_listen: metrics.values.text("listen").map(str::to_owned),
        stats: stats.values.flag("enabled"),
        drain_timeout: drain.values.time("timeout").unwrap_or_default(),
        log_level: log.values.text("level").unwrap_or("info").to_owned(),
        log_json: log.values.text("format") == Some("json"),
    }
}

/// Refuses a word that is no level: in a filter it would name a part of the program, of which all is logged, and of all others nothing.
fn check_level(level: &str, at: Span, report: &mut Report) {
    for word in levels::words(level).filter(|word| !levels::is_one(word)) {
        let finding = Finding::error(codes::RANGE, at, levels::refused(word));
        report.push(finding.help(levels::help(word)));
    }
}

fn table(root: &Table, name: &str, keys: &[Key], scope: &mut Scope<'_>) -> Body {
    let form = Form::new(format!("[{name}]"), keys);
    match root.get(name) {
        Some(entry) => body::read_node(&entry.node, entry.key_span, &form, scope).unwrap_or_default(),
        None => body::read(&Table::default(), Span::default(), &form, scope),
    }
}
