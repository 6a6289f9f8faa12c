//! Presets: whole files that a file says less than. `use = "tcp"` names a built-in one, `use = "./base.toml"` a
//! file beside the one that says it. One deep: a preset is read, not followed.

use std::path::{Path, PathBuf};

use crate::codes;
use crate::finding::{Finding, Report};
use crate::source::{Layer, Source, SourceId, Sources, Span};
use crate::suggest;
use crate::tree::{Entry, Table, Tree};

/// A built-in preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The word after `use =`.
    pub name: &'static str,
    /// Its whole text.
    pub text: &'static str,
}

/// The built-in presets.
pub const PRESETS: &[Preset] = &[
    Preset { name: "tcp", text: include_str!("../pipelines/tcp.toml") },
    Preset { name: "shm", text: include_str!("../pipelines/shm.toml") },
    Preset { name: "rdma", text: include_str!("../pipelines/rdma.toml") },
    Preset { name: "gpu_rdma", text: include_str!("../pipelines/gpu_rdma.toml") },
    Preset { name: "nvme_tier", text: include_str!("../pipelines/nvme_tier.toml") },
    Preset { name: "run_to_completion", text: include_str!("../models/run_to_completion.toml") },
    Preset { name: "pipeline", text: include_str!("../models/pipeline.toml") },
    Preset { name: "thread_per_core", text: include_str!("../models/thread_per_core.toml") },
    Preset { name: "submit_then_poll", text: include_str!("../models/submit_then_poll.toml") },
    Preset { name: "event_driven", text: include_str!("../models/event_driven.toml") },
    Preset { name: "zero_copy_dma", text: include_str!("../models/zero_copy_dma.toml") },
    Preset { name: "adaptive_polling", text: include_str!("../models/adaptive_polling.toml") },
];

/// The text of the preset that a file uses, added to the sources; `None` if it uses none, or after a finding. After the
/// finding of a misspelt name it is the preset that was meant: so the rest of the file is judged as it will be.
pub fn source_of(root: &Table, sources: &mut Sources, report: &mut Report) -> Option<SourceId> {
    let said = root.get("use")?;
    let Some(name) = said.node.as_text() else {
        let message = format!("`use` must be a string, not {}", said.node.value.type_name());
        report.push(Finding::error(codes::TYPE, said.node.span, message).help(builtin_help("")));
        return None;
    };
    if let Some(preset) = builtin(name) {
        return Some(sources.add(preset));
    }
    if !name.contains('/') && !name.ends_with(".toml") {
        let finding = Finding::error(codes::PRESET, said.node.span, format!("there is no preset `{name}`"));
        report.push(finding.help(builtin_help(name)).help("a path ends in .toml: use = \"./base.toml\""));
        let meant = suggest::nearest(name, PRESETS.iter().map(|p| p.name))?;
        return Some(sources.add(builtin(meant)?));
    }
    let path = sources.resolve(said.node.span, name);
    match read_file(&path) {
        Ok(text) => {
            let dir = directory(&path);
            let name = path.display().to_string();
            Some(sources.add(Source { name, text, layer: Layer::Preset, dir }))
        }
        Err(why) => {
            let message = format!("the preset {} cannot be read: {why}", path.display());
            let finding = Finding::error(codes::PRESET, said.node.span, message);
            report
                .push(finding.help("a relative path starts at the file that says it").help(builtin_help("")));
            None
        }
    }
}

fn builtin(name: &str) -> Option<Source> {
    let preset = PRESETS.iter().find(|p| p.name == name)?;
    let (name, text) = (format!("<preset {}>", preset.name), preset.text.to_owned());
    Some(Source { name, text, layer: Layer::Preset, dir: None })
}

fn builtin_help(said: &str) -> String {
    suggest::help(said, "presets", PRESETS.iter().map(|p| p.name))
}

/// The directory where relative paths of a file start.
pub fn directory(path: &Path) -> Option<PathBuf> {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).map(Path::to_path_buf)
}

/// Reads a text file that is small enough to be a configuration; the reason as words otherwise.
pub fn read_file(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let limit = crate::document::MAX_BYTES;
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    if file.metadata().map_err(|e| e.to_string())?.is_dir() {
        return Err(String::from("it is a directory"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > limit {
        return Err(format!("it is larger than {}", crate::units::show_bytes(limit)));
    }
    String::from_utf8(bytes).map_err(|e| format!("it is not UTF-8 (byte {})", e.utf8_error().valid_up_to()))
}

/// Preset, file and overrides, one over the other.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// The whole tree.
    pub root: Table,
    /// The file itself.
    pub file: SourceId,
    /// Stages that `= false` took away, and where.
    pub removed: Vec<(String, Span)>,
    /// It uses a preset that is not to be had.
    pub alone: bool,
}

/// Tables of things with names, where `= false` takes a thing of the preset away.
const NAMED: &[&str] = &["stages", "pools", "transports", "segments", "peers", "nics"];

/// Lays `over` on `base`: tables merge, everything else is replaced, `false` removes. A table whose `type` or
/// `kind` changes is replaced whole, because its keys are another type's. Edges are only gathered: which one
/// wins is decided port by port in [`crate::wiring`].
pub fn merge(merged: &mut Merged, over: Table, report: &mut Report) {
    let stages = over.get("stages").and_then(|e| e.node.as_table());
    let gone =
        stages.into_iter().flat_map(|t| &t.entries).filter(|e| matches!(e.node.value, Tree::Flag(false)));
    merged.removed.extend(gone.map(|e| (e.key.clone(), e.key_span)));
    let base = &mut merged.root;
    for entry in over.entries {
        match (entry.key.as_str(), base.get_mut(&entry.key)) {
            ("edges", Some(Entry { node, .. })) => match (&mut node.value, entry.node.value) {
                (Tree::Table(below), Tree::Table(above)) => below.entries.extend(above.entries),
                (below, above) => {
                    *below = above;
                    node.span = entry.node.span;
                }
            },
            (_, Some(_)) => lay(base, entry, 0, report),
            (name, None) => {
                let named = NAMED.contains(&name);
                let mut entry = entry;
                if let (Tree::Table(table), true) = (&mut entry.node.value, named) {
                    table.entries.retain(|inner| !removes_nothing(inner, &Table::default(), report));
                }
                base.entries.push(entry);
            }
        }
    }
}

fn lay(base: &mut Table, over: Entry, depth: usize, report: &mut Report) {
    let Some(below) = base.get_mut(&over.key) else {
        base.entries.push(over);
        return;
    };
    let removes = matches!(over.node.value, Tree::Flag(false)) && !matches!(below.node.value, Tree::Flag(_));
    if removes && depth > 0 {
        base.entries.retain(|e| e.key != over.key);
        return;
    }
    below.key_span = over.key_span;
    match (&mut below.node.value, over.node.value) {
        (Tree::Table(inner), Tree::Table(above)) if !changes_type(inner, &above) => {
            below.node.span = over.node.span;
            let named = depth == 0 && NAMED.contains(&over.key.as_str());
            for entry in above.entries {
                let stranger = named && inner.get(&entry.key).is_none();
                if !(stranger && removes_nothing(&entry, inner, report)) {
                    lay(inner, entry, depth + 1, report);
                }
            }
        }
        (value, mut above) => {
            keep_nics(value, &mut above);
            *value = above;
            below.node.span = over.node.span;
        }
    }
}

/// Keys of another type mean nothing any more; `nics` has every transport.
fn keep_nics(below: &Tree, above: &mut Tree) {
    if let (Tree::Table(below), Tree::Table(above)) = (below, above)
        && let (Some(nics), None) = (below.get("nics"), above.get("nics"))
    {
        above.entries.push(nics.clone());
    }
}

fn changes_type(below: &Table, above: &Table) -> bool {
    ["type", "kind"].iter().any(|key| {
        let word = |table: &Table| table.get(key).and_then(|e| e.node.as_text().map(str::to_owned));
        matches!((word(below), word(above)), (Some(b), Some(a)) if a != b)
    })
}

fn removes_nothing(entry: &Entry, below: &Table, report: &mut Report) -> bool {
    if !matches!(entry.node.value, Tree::Flag(false)) {
        return false;
    }
    let message = format!("`{} = false` removes nothing: the preset has no `{0}`", entry.key);
    let help = suggest::nearest(&entry.key, below.entries.iter().map(|e| e.key.as_str()));
    let help = help.map_or("take the line out".to_owned(), |name| format!("did you mean `{name}`?"));
    report.push(Finding::error(codes::REMOVES_NOTHING, entry.key_span, message).help(help));
    true
}
