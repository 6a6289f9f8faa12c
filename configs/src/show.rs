//! Every value of a loaded file, with where it comes from: `show config`. What is listed is what the readers know:
//! declared keys, with the defaults of those that nobody says.

use std::fmt::Write as _;

use pipeline_graph::blueprint::SUBMIT;
use pipeline_graph::{Dispatch, Mode, WhenFull};

use crate::load::Loaded;
use crate::schema::{Catalog, Key};
use crate::source::{Layer, Sources, Span};
use crate::tables::{self, Form, TableDecl};
use crate::tree::{Entry, Node, Table, Tree};
use crate::{edges, segments};

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its path, as `--set` takes it: `pools.nic.threads`.
    pub path: String,
    /// As TOML.
    pub value: String,
    /// `default`, `node.toml:3:1`, `<preset tcp>:12:9`, `env PIPELINE_NODE__…`, `--set`.
    pub source: String,
}

/// All of them, in the order of the documentation.
pub fn show(loaded: &Loaded, catalog: &Catalog) -> Vec<Shown> {
    let mut list = List { sources: &loaded.warnings.sources, shown: Vec::new() };
    let root = &loaded.tree;
    for key in [tables::VERSION, tables::USE] {
        list.key("", &key, root);
    }
    let all = tables::all(catalog);
    let mut done: Vec<&str> = Vec::new();
    for decl in &all {
        let table = root.get(decl.path).map(|e| &e.node);
        match decl.form {
            Form::Single => list.keys(decl.path, &decl.keys, table.and_then(Node::as_table)),
            // All variants at once, so that things stay in the order of the file.
            Form::Named if !done.contains(&decl.path) => {
                done.push(decl.path);
                for entry in table.and_then(Node::as_table).map_or(&[][..], |t| &t.entries) {
                    list.thing(decl.path, entry, &all);
                }
            }
            Form::Listed => {
                if let Some(Tree::Array(items)) = table.map(|n| &n.value) {
                    for (index, item) in items.iter().enumerate() {
                        list.whole(format!("{}[{index}]", decl.path), item);
                    }
                }
            }
            Form::Inside if decl.path == "edges" => list.edges(loaded),
            Form::Named | Form::Inside => {}
        }
    }
    if let Some(peers) = root.get("peers").and_then(|e| e.node.as_table()) {
        for peer in &peers.entries {
            list.whole(format!("peers.{}", bare(&peer.key)), &peer.node);
        }
    }
    list.shown
}

/// As text: paths, values and sources in columns.
pub fn text(shown: &[Shown]) -> String {
    let longest = |f: fn(&Shown) -> &str| shown.iter().map(|s| f(s).chars().count()).max().unwrap_or(0);
    let (path, value) = (longest(|s| &s.path).min(48), longest(|s| &s.value).min(40));
    shown.iter().fold(String::new(), |mut text, s| {
        let _ = writeln!(text, "{:path$} = {:value$}  # {}", s.path, s.value, s.source);
        text
    })
}

struct List<'a> {
    sources: &'a Sources,
    shown: Vec<Shown>,
}

impl List<'_> {
    fn push(&mut self, path: String, value: String, source: String) {
        self.shown.push(Shown { path, value, source });
    }

    fn whole(&mut self, path: String, node: &Node) {
        self.push(path, toml(node), self.source(node.span));
    }

    fn source(&self, at: Span) -> String {
        match (self.sources.layer(at), self.sources.get(at.source)) {
            (Layer::Set, _) => String::from("--set"),
            (Layer::Environment, Some(source)) => {
                format!("env {}", source.text.split('=').next().unwrap_or(""))
            }
            _ => self.sources.label(at),
        }
    }

    /// One key of a table; one that nobody says and that has no default is not listed.
    fn key(&mut self, path: &str, key: &Key, table: &Table) {
        let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        let former = || key.formerly.iter().find_map(|f| table.get(f.name));
        match (table.get(key.name).or_else(former), key.default) {
            (Some(said), _) => self.whole(path, &said.node),
            (None, Some(default)) => self.push(path, written(default), String::from("default")),
            (None, None) => {}
        }
    }

    fn keys(&mut self, path: &str, keys: &[Key], table: Option<&Table>) {
        let empty = Table::default();
        for key in keys {
            self.key(path, key, table.unwrap_or(&empty));
        }
    }

    /// A pool, transport, stage, segment or NIC.
    fn thing(&mut self, table: &str, entry: &Entry, all: &[TableDecl]) {
        let path = format!("{table}.{}", bare(&entry.key));
        let Some(body) = entry.node.as_table() else { return };
        let decl = all.iter().find(|decl| {
            decl.path == table
                && decl.variant.is_none_or(|(key, word)| {
                    let said = body.get(key).and_then(|e| e.node.as_text());
                    said.is_some_and(|s| s == word || (word == "cuda:N" && segments::gpu(s).is_some()))
                })
        });
        let Some(decl) = decl else { return };
        if let Some(said) = decl.variant.and_then(|(key, _)| body.get(key)) {
            self.whole(format!("{path}.{}", said.key), &said.node);
        }
        self.keys(&path, &decl.keys, Some(body));
    }

    /// Edges as they were resolved, port by port: which line of the file won.
    fn edges(&mut self, loaded: &Loaded) {
        let blueprint = &loaded.config.blueprint;
        for (edge, place) in blueprint.edges.iter().zip(&loaded.places.edges) {
            let to = &blueprint.stages[edge.to].name;
            let from = match edge.from.map(|from| &blueprint.stages[from]) {
                None => SUBMIT.to_owned(),
                Some(stage) => match &stage.shape.ports[edge.port].name {
                    port if port == edges::OUT => stage.name.clone(),
                    port => format!("{}.{port}", stage.name),
                },
            };
            let source = self.source(place.value);
            self.push(format!("edges.\"{from} -> {to}\""), mode(&edge.mode), source);
        }
    }
}

fn mode(mode: &Mode) -> String {
    let dispatch = |d: &Dispatch| match d {
        Dispatch::Any => "any",
        Dispatch::Owner => "owner",
        Dispatch::Hash => "hash",
    };
    match mode {
        Mode::Inline => String::from("\"inline\""),
        Mode::Return { dispatch: Dispatch::Any } => String::from("\"return\""),
        Mode::Return { dispatch: d } => format!("{{ return = true, dispatch = \"{}\" }}", dispatch(d)),
        Mode::Queue { capacity, when_full, dispatch: d } => {
            let full = if matches!(when_full, WhenFull::Wait) { "wait" } else { "reject" };
            format!("{{ queue = {capacity}, when_full = \"{full}\", dispatch = \"{}\" }}", dispatch(d))
        }
    }
}

/// A default as TOML: numbers, flags, arrays and tables as they are, the rest in quotes.
fn written(default: &str) -> String {
    let plain = default.parse::<u64>().is_ok() || matches!(default, "true" | "false");
    if plain || default.starts_with(['"', '[', '{']) { default.to_owned() } else { quoted(default) }
}

fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        '\n' => String::from("\\n"),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

fn bare(key: &str) -> String {
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    if plain { key.to_owned() } else { quoted(key) }
}

fn toml(node: &Node) -> String {
    match &node.value {
        Tree::Text(text) => quoted(text),
        Tree::Integer(number) => number.to_string(),
        Tree::Float(text) | Tree::Datetime(text) => text.clone(),
        Tree::Flag(flag) => flag.to_string(),
        Tree::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Tree::Table(table) if table.entries.is_empty() => String::from("{}"),
        Tree::Table(table) => {
            let pairs = table.entries.iter().map(|e| format!("{} = {}", bare(&e.key), toml(&e.node)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}
