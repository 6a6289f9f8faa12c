//! Every table that a file may have, with its keys: what the documentation, the JSON schema and `show config` are
//! made of. Deliberately made from the same declarations that the readers use, so that none can lag behind.

use crate::schema::{Catalog, Change, Key, Kind, Later};
use crate::{
    directory, edges, limits, nics, node, pools, routes, segments, settings, stages, topology, transports,
    wait,
};

/// Tables and keys at the top of a file.
pub const TOP: &[&str] = &[
    "version",
    "use",
    "node",
    "limits",
    "pools",
    "transports",
    "stages",
    "edges",
    "peers",
    "segments",
    "nics",
    "topology",
    "routes",
    "directory",
    "auth",
    "admin",
    "metrics",
    "stats",
    "log",
    "drain",
];

/// Tables of which there is one, with all their keys.
const SINGLE: &[(&str, &[Key], &str)] = &[
    ("node", node::KEYS, "Who this node is, where it listens, and what it asks of its machine."),
    (
        "limits",
        limits::KEYS,
        "The size of everything that is planned at start, which nothing grows beyond, and the times after which a node gives up.",
    ),
    ("topology", topology::KEYS, "What lies near to what, where that is not as the system tells."),
    ("directory", directory::KEYS, "Where peers are found that `[peers]` does not list."),
    ("auth", settings::AUTH, "How peers prove who they are."),
    ("admin", settings::ADMIN, "Talking to a running node."),
    ("metrics", settings::METRICS, "Figures for monitoring."),
    ("stats", settings::STATS, "What a node measures of itself."),
    ("log", settings::LOG, "What is logged, on stderr. `RUST_LOG` beats `level`."),
    ("drain", settings::DRAIN, "How a node stops."),
];

/// How often a table occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Once: `[limits]`.
    Single,
    /// Once a name: `[pools.NAME]`.
    Named,
    /// As an array: `[[routes]]`.
    Listed,
    /// As the value of a key: `wait = { … }`.
    Inside,
}

/// One table, or one variant of it.
#[derive(Clone, Debug)]
pub struct TableDecl {
    /// Where it stands: `limits`, `stages`, `pools.wait`.
    pub path: &'static str,
    /// How often.
    pub form: Form,
    /// Which key and word choose this variant: `type = "retry"`.
    pub variant: Option<(&'static str, &'static str)>,
    /// One sentence.
    pub summary: &'static str,
    /// Its keys.
    pub keys: Vec<Key>,
    /// What brings it, if it comes with a later release.
    pub later: Option<Later>,
}

impl TableDecl {
    fn new(path: &'static str, form: Form, keys: Vec<Key>, summary: &'static str) -> Self {
        Self { path, form, variant: None, summary, keys, later: None }
    }

    /// As a heading: `[stages.NAME]`, `[[routes]]`.
    pub fn heading(&self) -> String {
        match self.form {
            Form::Single => format!("[{}]", self.path),
            Form::Named => format!("[{}.NAME]", self.path),
            Form::Listed => format!("[[{}]]", self.path),
            Form::Inside => match self.path {
                "pools.wait" => String::from("wait = { … } of a pool"),
                "edges" => String::from("\"a -> b\" = { … } in [edges]"),
                _ => String::from("match = { … } of a route"),
            },
        }
    }
}

/// All of them, in the order in which a reader wants them.
pub fn all(catalog: &Catalog) -> Vec<TableDecl> {
    let single = |&(path, keys, summary): &(&'static str, &[Key], &'static str)| {
        TableDecl::new(path, Form::Single, keys.to_vec(), summary)
    };
    let mut all: Vec<TableDecl> = SINGLE[..2].iter().map(single).collect();
    let pool = pools::KEYS.iter().copied().chain([wait::WAIT]).collect();
    all.push(TableDecl::new(
        "pools",
        Form::Named,
        pool,
        "Threads, what they are pinned to, and how they wait.",
    ));
    let summary = "How the threads of a pool wait: the thresholds behind its words.";
    all.push(TableDecl::new("pools.wait", Form::Inside, wait::KEYS.to_vec(), summary));
    for kind in &catalog.transports {
        let keys = kind.keys.iter().copied().chain([transports::NICS]).collect();
        all.push(TableDecl {
            variant: Some(("type", kind.name)),
            later: kind.later.map(Later::refused),
            ..TableDecl::new("transports", Form::Named, keys, kind.summary)
        });
    }
    for kind in &catalog.stages {
        let keys = [stages::POOL].into_iter().chain(kind.keys.iter().copied()).collect();
        all.push(TableDecl {
            variant: Some(("type", kind.name)),
            later: kind.later.map(Later::refused),
            ..TableDecl::new("stages", Form::Named, keys, kind.summary)
        });
    }
    let summary =
        "A hop between two stages. The words `\"inline\"` and `\"return\"` stand for tables of their own.";
    all.push(TableDecl::new("edges", Form::Inside, edges::KEYS.to_vec(), summary));
    for kind in segments::KINDS {
        all.push(TableDecl {
            variant: Some(("kind", kind.name)),
            later: kind.later,
            ..TableDecl::new("segments", Form::Named, kind.keys.to_vec(), kind.summary)
        });
    }
    let summary = "A network interface. Only needed where it differs from what its name says.";
    all.push(TableDecl::new("nics", Form::Named, nics::KEYS.to_vec(), summary));
    let summary = "Which transport a transfer takes; the first route that matches counts.";
    let later = Some(routes::LATER);
    all.push(TableDecl { later, ..TableDecl::new("routes", Form::Listed, routes::KEYS.to_vec(), summary) });
    let summary = "What must be true of a transfer; what is left out is always true.";
    all.push(TableDecl::new("routes.match", Form::Inside, routes::MATCH.to_vec(), summary));
    all.extend(SINGLE[2..].iter().map(single));
    all
}

/// The keys at the top of a file that are no tables.
pub const VERSION: Key = Key {
    name: "version",
    kind: Kind::Count { min: 1, max: 1 },
    required: true,
    doc: "Version of the schema.",
    change: Change::Restart,
    ..Key::PLAIN
};

/// The preset.
pub const USE: Key = Key {
    name: "use",
    kind: Kind::Text,
    doc: "Preset that the file only differs from: the name of a built-in one, or a path ending in .toml.",
    change: Change::Restart,
    ..Key::PLAIN
};

/// The tables that a key is at home in, as a hint names them: `listen` belongs to `node` and `metrics`.
pub fn home_of(key: &str) -> Option<String> {
    let homes = SINGLE.iter().filter(|(_, keys, _)| keys.iter().any(|k| k.name == key));
    let homes: Vec<String> = homes.map(|(name, _, _)| format!("[{name}]")).collect();
    (!homes.is_empty()).then(|| format!("`{key}` is a key of {}", homes.join(", ")))
}
