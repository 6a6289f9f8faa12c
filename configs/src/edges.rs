//! One entry of `[edges]`: its key (`"a -> b"`, a chain, `"stage.port -> b"`, `"*.port -> b"`) and its value.
//! Deliberately only reading: which entry wins is decided in [`crate::wiring`].

use pipeline_graph::blueprint::SUBMIT;
use pipeline_graph::{Dispatch, Mode, WhenFull};

use crate::body::{self, Form};
use crate::codes;
use crate::finding::{Finding, Report};
use crate::schema::{Change, Key, Kind};
use crate::source::{Sources, Span};
use crate::suggest;
use crate::tree::{Entry, Node, Tree};
use crate::value::Scope;

/// The port that a stage's plain name means.
pub const OUT: &str = "out";

/// Most stages in one chain.
const MAX_CHAIN: usize = 256;

/// Keys of the table form of an edge.
pub const KEYS: &[Key] = &[
    Key {
        name: "queue",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: None,
        required: false,
        doc: "Batches (of 1 to 32 slices) that the queue holds; with dispatch owner or hash, that each worker's queue holds.",
        change: Change::Restart,
        ..Key::PLAIN
    },
    Key {
        name: "when_full",
        kind: Kind::Word(&["wait", "reject"]),
        default: None,
        required: false,
        doc: "What happens when it is full: wait (back-pressure, the default) or reject (to `failed`; at `submit`: Busy).",
        change: Change::Restart,
        ..Key::PLAIN
    },
    Key {
        name: "dispatch",
        kind: Kind::Word(&["any", "owner", "hash"]),
        default: None,
        required: false,
        doc: "Which worker gets a slice: any (the default), the owner of its link, or by hash of its key.",
        change: Change::Restart,
        ..Key::PLAIN
    },
    Key {
        name: "return",
        kind: Kind::Flag,
        default: None,
        required: false,
        doc: "The one way back: holds every slice that can exist, so it is never full.",
        change: Change::Restart,
        ..Key::PLAIN
    },
];

/// A name within a key, with its place.
#[derive(Clone, Debug)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// Where a hop starts.
#[derive(Clone, Debug)]
pub enum From {
    /// `submit`.
    Submit(Span),
    /// `stage` or `stage.port`.
    Port {
        /// The stage.
        stage: Name,
        /// The port; `out` when it is not said.
        port: Name,
    },
    /// `*.port`.
    Every(Name),
}

/// One arrow of a key.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Where it starts.
    pub from: From,
    /// The stage it reaches.
    pub to: Name,
    /// From the first letter of its start to the last of its end.
    pub span: Span,
}

/// What an entry says about its hops. Options are what it leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `"inline"`.
    Inline,
    /// `{ queue = … }`.
    Queue {
        /// Capacity, batches.
        queue: Option<usize>,
        /// When it is full.
        when_full: Option<WhenFull>,
        /// Who gets an item.
        dispatch: Option<Dispatch>,
    },
    /// `"return"`.
    Return {
        /// Who gets an item.
        dispatch: Option<Dispatch>,
    },
    /// `false`.
    Remove,
}

impl Setting {
    /// What holds when this is said over `below`: what this leaves open stays.
    pub fn over(self, below: Setting) -> Setting {
        match (self, below) {
            (
                Setting::Queue { queue, when_full, dispatch },
                Setting::Queue { queue: q, when_full: w, dispatch: d },
            ) => Setting::Queue { queue: queue.or(q), when_full: when_full.or(w), dispatch: dispatch.or(d) },
            // `{ dispatch = "owner" }` over `"return"` stays a return.
            (Setting::Queue { queue: None, when_full: None, dispatch }, Setting::Return { dispatch: d }) => {
                Setting::Return { dispatch: dispatch.or(d) }
            }
            (Setting::Return { dispatch }, Setting::Return { dispatch: d }) => {
                Setting::Return { dispatch: dispatch.or(d) }
            }
            (this, _) => this,
        }
    }

    /// As the graph takes it; `None` when it is a queue of no size.
    pub fn mode(self) -> Option<Mode> {
        match self {
            Setting::Inline => Some(Mode::Inline),
            Setting::Queue { queue, when_full, dispatch } => Some(Mode::Queue {
                capacity: queue?,
                when_full: when_full.unwrap_or(WhenFull::Wait),
                dispatch: dispatch.unwrap_or(Dispatch::Any),
            }),
            Setting::Return { dispatch } => {
                Some(Mode::Return { dispatch: dispatch.unwrap_or(Dispatch::Any) })
            }
            Setting::Remove => None,
        }
    }
}

/// One entry.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its hops, in the order of the chain; every one gets the same setting.
    pub hops: Vec<Hop>,
    /// What it says.
    pub setting: Setting,
    /// Where its value stands.
    pub value_span: Span,
}

/// Reads one entry; `None` when key or value cannot be read, with findings for both.
pub fn read(entry: &Entry, scope: &mut Scope<'_>) -> Option<Written> {
    let hops = hops(entry, scope.sources, scope.report);
    let setting = setting(&entry.key, &entry.node, scope);
    Some(Written { hops: hops?, setting: setting?, value_span: entry.node.span })
}

fn hops(entry: &Entry, sources: &Sources, report: &mut Report) -> Option<Vec<Hop>> {
    let mut refuse = |at: Span, message: String, help: &str| {
        report.push(Finding::error(codes::EDGE_KEY, at, message).help(help));
    };
    let parts: Vec<Name> = parts(entry, sources);
    if parts.len() < 2 || parts.len() > MAX_CHAIN {
        let message = format!("the key `{}` is not an edge", entry.key);
        refuse(entry.key_span, message, "write \"a -> b\", or a chain \"a -> b -> c\"");
        return None;
    }
    if let Some(empty) = parts.iter().find(|p| p.text.is_empty()) {
        let at = if empty.span.start < empty.span.end { empty.span } else { entry.key_span };
        refuse(at, format!("`{}` has an arrow without a name", entry.key), "write \"a -> b\"");
        return None;
    }
    let mut hops = Vec::with_capacity(parts.len() - 1);
    for (index, pair) in parts.windows(2).enumerate() {
        let from = start(&pair[0], index, &mut refuse)?;
        let (stage, port) = cut(&pair[1]);
        let last = index + 2 == parts.len();
        if stage.text == "*" || stage.text == SUBMIT {
            let message = format!("`{}` cannot be the end of an edge", stage.text);
            let help = "an edge ends at one stage; `submit` and `*` only stand at its start";
            refuse(pair[1].span, message, help);
            return None;
        }
        if let (Some(port), true) = (port, last) {
            let message = format!("`{}` names a port where an edge ends", pair[1].text);
            let help = format!("stages have output ports only: write \"… -> {}\"", stage.text);
            refuse(port.span, message, &help);
            return None;
        }
        hops.push(Hop { from, to: stage, span: pair[0].span.to(pair[1].span) });
    }
    Some(hops)
}

fn start(name: &Name, index: usize, refuse: &mut dyn FnMut(Span, String, &str)) -> Option<From> {
    let (stage, port) = cut(name);
    if stage.text == SUBMIT {
        if index > 0 || port.is_some() {
            let help = "`submit` is the way into the graph: it stands alone at the start of an edge";
            refuse(name.span, format!("`{}` cannot stand here", name.text), help);
            return None;
        }
        return Some(From::Submit(name.span));
    }
    if stage.text == "*" {
        return match port {
            Some(port) if index == 0 => Some(From::Every(port)),
            _ => {
                let help = "write \"*.failed -> b\": the port `failed` of every stage that has one";
                refuse(name.span, format!("the wildcard `{}` cannot stand here", name.text), help);
                None
            }
        };
    }
    if name.text.contains('*') {
        let help = "`*` stands for every stage; it cannot be part of a name";
        refuse(name.span, format!("`{}` is not a name", name.text), help);
        return None;
    }
    let port = port.unwrap_or_else(|| Name { text: OUT.to_owned(), span: stage.span });
    Some(From::Port { stage, port })
}

/// Cuts a key at its arrows. Places are exact unless the key has escapes; then each name has the whole key's.
fn parts(entry: &Entry, sources: &Sources) -> Vec<Name> {
    let raw = sources.slice(entry.key_span);
    let quoted = raw.len() == entry.key.len() + 2 && raw.get(1..raw.len() - 1) == Some(entry.key.as_str());
    let mut parts = Vec::new();
    let mut at = 0;
    for piece in entry.key.split("->") {
        let name = piece.trim();
        let start = at + (piece.len() - piece.trim_start().len());
        let span = if quoted {
            let first = entry.key_span.start + 1 + start;
            Span { source: entry.key_span.source, start: first, end: first + name.len() }
        } else {
            entry.key_span
        };
        parts.push(Name { text: name.to_owned(), span });
        at += piece.len() + 2;
    }
    parts
}

/// Cuts `stage.port`.
fn cut(name: &Name) -> (Name, Option<Name>) {
    let Some((stage, port)) = name.text.split_once('.') else { return (name.clone(), None) };
    let exact = name.span.end - name.span.start == name.text.len();
    let at = |start: usize, text: &str| {
        let start = name.span.start + start;
        let span = Span { source: name.span.source, start, end: start + text.len() };
        Name { text: text.to_owned(), span: if exact { span } else { name.span } }
    };
    (at(0, stage), Some(at(stage.len() + 1, port)))
}

const VALUE_HELP: &str = "write \"inline\", { queue = 64 } or \"return\"";

fn setting(key: &str, node: &Node, scope: &mut Scope<'_>) -> Option<Setting> {
    let words = ["inline", "return", "queue"];
    let finding = match &node.value {
        Tree::Text(word) if word == "inline" => return Some(Setting::Inline),
        Tree::Text(word) if word == "return" => return Some(Setting::Return { dispatch: None }),
        Tree::Text(word) if word == "queue" => {
            Finding::error(codes::EDGE_VALUE, node.span, format!("the queue of `{key}` has no size"))
                .help("write { queue = 64 }: it then holds 64 batches of up to 32 slices")
        }
        Tree::Text(word) => {
            let near = suggest::nearest(word, words).map(|w| format!("did you mean \"{w}\"?"));
            Finding::error(codes::EDGE_VALUE, node.span, format!("`{key}` cannot be \"{word}\""))
                .help_if(near)
                .help(VALUE_HELP)
        }
        Tree::Integer(number) => {
            Finding::error(codes::EDGE_VALUE, node.span, format!("`{key}` cannot be a bare number"))
                .help(format!("write {{ queue = {} }}", (*number).max(1)))
        }
        Tree::Flag(false) => return Some(Setting::Remove),
        Tree::Table(table) => {
            let form = Form::new(format!("edge `{key}`"), KEYS);
            let before = scope.report.findings.len();
            let body = body::read(table, node.span, &form, scope);
            if scope.report.findings.len() > before {
                return None;
            }
            return table_setting(key, &body, node.span, scope.report);
        }
        other => {
            let message = format!("`{key}` cannot be {}", other.type_name());
            Finding::error(codes::EDGE_VALUE, node.span, message).help(VALUE_HELP)
        }
    };
    scope.report.push(finding);
    None
}

fn table_setting(key: &str, body: &body::Body, at: Span, report: &mut Report) -> Option<Setting> {
    let dispatch = body.values.text("dispatch").map(|word| match word {
        "owner" => Dispatch::Owner,
        "hash" => Dispatch::Hash,
        _ => Dispatch::Any,
    });
    let when_full = body.values.text("when_full").map(|word| match word {
        "reject" => WhenFull::Reject,
        _ => WhenFull::Wait,
    });
    let queue = body.values.number("queue").map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    if body.values.flag("return") {
        if let Some(other) = ["queue", "when_full"].iter().find_map(|k| body.spans.get(k)) {
            let message = format!("`{key}` is a return edge, which has no size and is never full");
            let finding = Finding::error(codes::EXCLUSIVE, *other, message);
            report.push(finding.help("take `queue` and `when_full` out, or take `return` out"));
            return None;
        }
        return Some(Setting::Return { dispatch });
    }
    if queue.is_none() && when_full.is_none() && dispatch.is_none() {
        report.push(Finding::error(codes::EDGE_VALUE, at, format!("`{key}` says nothing")).help(VALUE_HELP));
        return None;
    }
    Some(Setting::Queue { queue, when_full, dispatch })
}
