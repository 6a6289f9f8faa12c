//! `[limits]`: the size of every table of the node. Nothing grows beyond these.

use pipeline_graph::{PoolDecl, PoolKind};

use crate::body::{self, Form};
use crate::codes;
use crate::config::Limits;
use crate::finding::{Finding, Report};
use crate::schema::{Change, Key, Kind, Values};
use crate::source::Span;
use crate::suggest;
use crate::tree::{Entry, Table};
use crate::value::Scope;

const fn count(name: &'static str, min: u64, max: u64, default: &'static str, doc: &'static str) -> Key {
    let kind = Kind::Count { min, max };
    Key { name, kind, default: Some(default), required: false, doc, change: Change::Restart, ..Key::PLAIN }
}

const MS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000 * MS;

const fn time(name: &'static str, min_ns: u64, default: &'static str, doc: &'static str) -> Key {
    let kind = Kind::Time { min_ns, max_ns: HOUR };
    Key { name, kind, default: Some(default), required: false, doc, change: Change::Restart, ..Key::PLAIN }
}

/// Keys of `[limits]`.
pub const KEYS: &[Key] = &[
    count("requests", 1, 1 << 24, "262144", "Requests accepted and not yet freed."),
    count("slices", 96, 1 << 24, "65536", "Slices in flight over all requests."),
    count("batches", 1, 1 << 20, "16384", "Batches not yet freed."),
    count("regions", 1, 1 << 20, "32768", "Registered regions of memory."),
    count("peers", 1, 1 << 16, "1024", "Peers known at once."),
    count("links", 1, 1 << 20, "4096", "Links open at once, over all peers, NICs and lanes."),
    count(
        "notices",
        1,
        1 << 16,
        "1024",
        "Notices, of at most 4 KiB each, that wait here for the program to read them, and of own batches those not yet taken.",
    ),
    Key {
        name: "peer_share",
        kind: Kind::Percent { min: 1, max: 100 },
        default: Some("25%"),
        required: false,
        doc: "Share of slices and bytes in flight that one peer may use.",
        change: Change::Live,
        ..Key::PLAIN
    },
    Key {
        name: "bytes_in_flight",
        kind: Kind::Bytes { min: 4096, max: 1 << 50 },
        default: Some("256MiB"),
        required: false,
        doc: "Bytes in flight over all peers.",
        change: Change::Live,
        ..Key::PLAIN
    },
    Key {
        name: "deadline",
        kind: Kind::Time { min_ns: 1_000_000, max_ns: 7 * 86_400_000_000_000 },
        default: Some("30s"),
        required: false,
        doc: "Deadline of a request that names none.",
        change: Change::Live,
        ..Key::PLAIN
    },
    time(
        "silence",
        100 * MS,
        "10s",
        "Silence after which a peer counts as dead and all its connections are closed; the lesser of both sides holds.",
    ),
    time(
        "connect",
        10 * MS,
        "5s",
        "Time for reaching one address of a peer, and for a stranger to finish its handshake here.",
    ),
    time(
        "reconnect",
        20 * MS,
        "1s",
        "Longest pause between two attempts to reach a peer that slices wait for; pauses double from 20 ms.",
    ),
    Key {
        name: "register",
        kind: Kind::Text,
        default: None,
        required: false,
        doc: "Pool of kind `stealing` whose threads register memory with devices: segments at the start, and what a program registers at once. Without it each region is registered by whoever asks, one after the other.",
        change: Change::Restart,
        ..Key::PLAIN
    },
    time(
        "rest",
        MS,
        "30s",
        "Longest time that a NIC, or the way between two NICs, rests after a failure while there are others; times double from 1 s with each failure that follows before it has worked for twice as long.",
    ),
];

/// Where the file says what other tables are judged by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    /// `slices`.
    pub slices: Option<Span>,
    /// `register`.
    pub register: Option<Span>,
}

/// Reads it; without the table all defaults hold.
pub fn read(entry: Option<&Entry>, scope: &mut Scope<'_>) -> (Limits, Said) {
    let form = Form::new("[limits]", KEYS);
    let empty = Table::default();
    let table = match entry {
        Some(entry) => match body::read_node(&entry.node, entry.key_span, &form, scope) {
            Some(body) => body,
            None => body::read(&empty, entry.key_span, &form, scope),
        },
        None => body::read(&empty, Span::default(), &form, scope),
    };
    let limits = typed(&table.values);
    if let (Some(at), true) = (table.spans.get("batches"), limits.batches > limits.requests) {
        let message = format!(
            "`batches` = {} is more than `requests` = {}: a batch has at least one request",
            limits.batches, limits.requests
        );
        scope.report.push(
            Finding::warning(codes::LIMITS_UNFIT, *at, message)
                .help(format!("write batches = {} or less", limits.requests)),
        );
    }
    let at = |key: &str| table.spans.get(key).copied();
    (limits, Said { slices: at("slices"), register: at("register") })
}

/// The pool that `register` names has work beside the graph from here on; it must be one of kind `stealing`.
pub fn register(limits: &Limits, at: Option<Span>, pools: &mut [PoolDecl], report: &mut Report) {
    let (Some(named), Some(at)) = (&limits.register, at) else { return };
    let Some(pool) = pools.iter_mut().find(|pool| pool.name == *named) else {
        let message = format!("`register` names the pool `{named}`, which is not declared");
        let help = suggest::help(named, "pools", pools.iter().map(|pool| pool.name.as_str()));
        return report.push(Finding::error(codes::POOL_UNKNOWN, at, message).help(help));
    };
    pool.beside = true;
    if pool.kind != PoolKind::Stealing {
        let message = format!("`register` names the pool `{named}`, which is not of kind `stealing`");
        let help =
            "add pools.register = { kind = \"stealing\", threads = 4 }, and write register = \"register\"";
        report.push(Finding::error(codes::REGISTER, at, message).help(help));
    }
}

fn typed(values: &Values) -> Limits {
    // A refused value has no entry; the finding stops the load, so what stands here is never used.
    let number = |key| values.number(key).unwrap_or(1);
    Limits {
        requests: number("requests"),
        slices: number("slices"),
        batches: number("batches"),
        regions: number("regions"),
        peers: number("peers"),
        links: number("links"),
        notices: number("notices"),
        bytes_in_flight: number("bytes_in_flight"),
        peer_share_percent: number("peer_share"),
        deadline: values.time("deadline").unwrap_or_default(),
        silence: values.time("silence").unwrap_or_default(),
        connect: values.time("connect").unwrap_or_default(),
        reconnect: values.time("reconnect").unwrap_or_default(),
        register: values.text("register").map(str::to_owned),
        rest: values.time("rest").unwrap_or_default(),
    }
}
