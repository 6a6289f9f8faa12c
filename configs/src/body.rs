//! A table against its keys: every unknown key, wrong type, bad unit, value out of range and missing key of a
//! table is found in one pass. Deliberately the only reader of tables whose keys are declared.

use std::collections::BTreeMap;

use crate::codes;
use crate::finding::Finding;
use crate::schema::{Key, Later, Value, Values};
use crate::source::Span;
use crate::suggest;
use crate::tables;
use crate::tree::{Entry, Node, Table, Tree};
use crate::value::{self, Scope};

/// What a table is and which keys it knows.
pub struct Form<'a> {
    /// What findings call it: `[limits]`, `stage `post``.
    pub what: String,
    /// Its keys.
    pub keys: &'a [Key],
    /// Keys that the caller reads itself (`type`, `pool`).
    pub also: &'a [&'a str],
    /// Where else a key is at home: `stages of type retry`.
    pub elsewhere: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Form<'a> {
    /// A table that only has declared keys.
    pub fn new(what: impl Into<String>, keys: &'a [Key]) -> Self {
        Self { what: what.into(), keys, also: &[], elsewhere: &tables::home_of }
    }
}

/// The typed values of a table, and where those that the file says stand.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Values.
    pub values: Values,
    /// Places of values; defaults have none.
    pub spans: BTreeMap<&'static str, Span>,
}

impl Body {
    /// The place of a value, or that of the whole table.
    pub fn span(&self, key: &str, table: Span) -> Span {
        self.spans.get(key).copied().unwrap_or(table)
    }
}

/// Reads a table that must be one; `at` is what a missing key points to.
pub fn read_node(node: &Node, at: Span, form: &Form<'_>, scope: &mut Scope<'_>) -> Option<Body> {
    match &node.value {
        Tree::Table(table) => Some(read(table, at, form, scope)),
        other => {
            let message = format!("{} must be a table, not {}", form.what, other.type_name());
            let names: Vec<&str> =
                form.also.iter().copied().chain(form.keys.iter().map(|k| k.name)).collect();
            let help = format!("write {{ key = value, … }}; keys: {}", suggest::list(&names));
            scope.report.push(Finding::error(codes::TYPE, node.span, message).help(help));
            None
        }
    }
}

/// Reads a table.
pub fn read(table: &Table, at: Span, form: &Form<'_>, scope: &mut Scope<'_>) -> Body {
    let mut body = Body::default();
    for entry in &table.entries {
        let former = |key: &&Key| key.formerly.iter().any(|f| f.name == entry.key);
        let known = form.keys.iter().find(|key| key.name == entry.key);
        if let Some(key) = known.or_else(|| form.keys.iter().find(former)) {
            take(key, entry, form, &mut body, scope);
        } else if !form.also.contains(&entry.key.as_str()) {
            scope.report.push(unknown(&entry.key, entry.key_span, form));
        }
    }
    for key in form.keys {
        if body.spans.contains_key(key.name) {
            continue;
        }
        if key.required {
            scope.report.push(missing(key, at, &form.what));
        } else if let Some(value) = default(key) {
            body.values.0.insert(key.name, value);
        }
    }
    body
}

/// A default that does not fit its own key is a bug that a test over every catalogue finds.
fn default(key: &Key) -> Option<Value> {
    value::default_of(key, key.default?).ok()
}

/// Takes the value of a key, under its name or a former one.
fn take(key: &Key, entry: &Entry, form: &Form<'_>, body: &mut Body, scope: &mut Scope<'_>) {
    if let Some(first) = body.spans.get(key.name) {
        let message = format!("{} has both `{}` and its former name", form.what, key.name);
        let finding =
            Finding::error(codes::TWICE, entry.key_span, message).related(*first, "given here first");
        scope.report.push(finding.help(format!("keep `{}`", key.name)));
        return;
    }
    if let Some(former) = key.formerly.iter().find(|f| f.name == entry.key) {
        let message = format!("`{}` of {} is now called `{}`", former.name, form.what, key.name);
        let (major, minor) = former.since;
        let help =
            format!("write `{}`: version {major}.{} no longer reads the old name", key.name, minor + 1);
        scope.report.push(Finding::warning(codes::RENAMED, entry.key_span, message).help(help));
    }
    body.spans.insert(key.name, entry.node.span);
    let read = value::read(key, &entry.node, scope);
    if let (Some(later), true) = (key.later, read.is_some()) {
        not_yet(key, later, &entry.node, form, scope);
    }
    // After a finding the default stands in, so that later rules judge a sane value.
    if let Some(value) = read.or_else(|| default(key)) {
        body.values.0.insert(key.name, value);
    }
}

fn not_yet(key: &Key, later: Later, node: &Node, form: &Form<'_>, scope: &mut Scope<'_>) {
    if later.words.is_empty() {
        say(comes_later(&format!("`{}` of {}", key.name, form.what), later, node.span), later, scope);
        return;
    }
    let items = match &node.value {
        Tree::Array(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    for item in items {
        if let Some(word) = item.as_text().filter(|word| later.words.contains(word)) {
            say(comes_later(&format!("{} = \"{word}\"", key.name), later, item.span), later, scope);
        }
    }
}

fn say(finding: Finding, later: Later, scope: &mut Scope<'_>) {
    if later.refused {
        scope.report.push(finding);
    } else {
        scope.report.push_idle(later.brings, finding);
    }
}

/// A setting that is read, and that a later release carries out.
pub fn comes_later(what: &str, later: Later, at: Span) -> Finding {
    let brings = later.brings;
    if later.refused {
        let message = format!("{what} comes with a later release: the one that brings {brings}");
        let help = "the file validates, and `run` refuses it; take this out to run it now";
        Finding::warning(codes::LATER, at, message).help(help)
    } else {
        let message = format!("{what} has no effect before the release that brings {brings}");
        Finding::warning(codes::NO_EFFECT, at, message).help("nothing to do: `run` goes on without it")
    }
}

fn unknown(key: &str, at: Span, form: &Form<'_>) -> Finding {
    let names = form.also.iter().copied().chain(form.keys.iter().map(|k| k.name));
    Finding::error(codes::KEY_UNKNOWN, at, format!("unknown key `{key}` in {}", form.what))
        .help(suggest::help(key, "keys", names))
        .help_if((form.elsewhere)(key))
}

fn missing(key: &Key, at: Span, what: &str) -> Finding {
    Finding::error(codes::KEY_MISSING, at, format!("{what} lacks `{}`", key.name))
        .help(format!("add {} = …: {}", key.name, key.doc))
}
