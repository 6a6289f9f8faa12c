//! The way in: a path or a text becomes a [`Config`], or every finding there is.

use std::collections::BTreeMap;
use std::path::Path;

use pipeline_graph::near::Near;

use crate::alone;
use crate::codes;
use crate::config::Config;
use crate::document;
use crate::finding::{Finding, Findings, Report, Severity};
use crate::interpolate;
use crate::judge;
use crate::lower::{self, Lowered, Places};
use crate::misspelt;
use crate::overrides;
use crate::pools::Machine;
use crate::preset::{self, Merged};
use crate::schema::Catalog;
use crate::show;
use crate::source::{Layer, Source, SourceId, Sources, Span};
use crate::tree::{Table, Tree};

/// The schema that this release reads.
pub const VERSION: i128 = 1;

/// What comes from outside the file. The default is nothing: the file alone.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--set` arguments, `pools.nic.threads=2`, the last one winning.
    pub set: Vec<String>,
    /// The environment: for `${VAR}` and `PIPELINE_NODE__…`.
    pub env: BTreeMap<String, String>,
    /// CPUs that this process may use; empty: unknown, and nothing is judged by them.
    pub cpus: Vec<usize>,
    /// How many threads of this process can run at once: `threads` of a pool that does not say it; 0: unknown, one.
    pub budget: usize,
    /// What CPUs are near to; `None`: unknown, and places that `cores` names stand for no CPUs.
    pub near: Option<Near>,
}

impl Options {
    /// With the environment and the CPUs of this process, and these `--set` arguments. Variables that are not
    /// UTF-8 are left out.
    pub fn of_process(set: Vec<String>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let cpus = pipeline_graph::cpus::Cpus::of_process();
        let env = std::env::vars_os().filter_map(text).collect();
        let near = Some(Near::of_machine());
        Self { set, env, cpus: cpus.allowed.clone(), budget: cpus.budget(), near }
    }
}

/// A file that can be run.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// What somebody should look at; no errors.
    pub warnings: Findings,
    /// Where the things of the blueprint stand.
    pub places: Places,
    /// Preset, file and overrides as one tree; its places are in the texts of `warnings`.
    pub tree: Table,
}

impl Loaded {
    /// What stands in the way of running it here, now as errors: settings that a later release carries out, and places that
    /// have no CPUs on this machine. A file may be written and validated before the release, and apart from the machine,
    /// that runs it.
    ///
    /// # Errors
    /// The findings, if there are any.
    pub fn runnable(&self) -> Result<(), Findings> {
        let later =
            self.warnings.list.iter().filter(|f| [codes::LATER, codes::CPU_NOWHERE].contains(&f.code));
        let list: Vec<Finding> = later.map(|f| Finding { severity: Severity::Error, ..f.clone() }).collect();
        if list.is_empty() { Ok(()) } else { Err(Findings::new(list, self.warnings.sources.clone())) }
    }
}

/// Loads a file.
///
/// # Errors
/// Everything that is wrong with it, sorted by place, with at least one error among it.
pub fn load(path: &Path, catalog: &Catalog, options: &Options) -> Result<Loaded, Findings> {
    let name = path.display().to_string();
    match preset::read_file(path) {
        Ok(text) => load_from(
            Source { name, text, layer: Layer::File, dir: preset::directory(path) },
            catalog,
            options,
        ),
        Err(why) => {
            let finding = Finding::placeless(codes::UNREADABLE, format!("{name} cannot be read: {why}"));
            let finding = match misspelt::meant(path) {
                Some(meant) => finding.help(format!("did you mean {}?", meant.display())),
                None => finding.help("name a file that can be read, such as -c node.toml"),
            };
            Err(Findings::new(vec![finding], Sources::default()))
        }
    }
}

/// Loads a text that stands for the file at `path`: for what is not written yet.
///
/// # Errors
/// As [`load`].
pub fn load_as(path: &Path, text: &str, catalog: &Catalog, options: &Options) -> Result<Loaded, Findings> {
    let name = path.display().to_string();
    let dir = preset::directory(path);
    load_from(Source { name, text: text.to_owned(), layer: Layer::File, dir }, catalog, options)
}

/// Loads a text; relative paths in it start at the working directory.
///
/// # Errors
/// As [`load`].
pub fn load_str(name: &str, text: &str, catalog: &Catalog, options: &Options) -> Result<Loaded, Findings> {
    let source = Source { name: name.to_owned(), text: text.to_owned(), layer: Layer::File, dir: None };
    load_from(source, catalog, options)
}

fn load_from(source: Source, catalog: &Catalog, options: &Options) -> Result<Loaded, Findings> {
    let mut sources = Sources::default();
    let mut report = Report::default();
    let id = sources.add(source);
    let Some(merged) = layers(id, options, &mut sources, &mut report) else {
        return Err(Findings::new(report.finish(), sources));
    };
    let near = options.near.as_ref();
    let machine = Machine { cpus: &options.cpus, budget: options.budget, near };
    if merged.alone {
        return Err(Findings::new(alone::findings(&merged, catalog, machine, &sources, report), sources));
    }
    let Lowered { mut config, places, whole } =
        lower::lower(&merged, catalog, machine, &sources, &mut report);
    judge::judge(&config, &places, catalog, &sources, &options.cpus, whole, &mut report);
    let failed = report.has_errors();
    let findings = Findings::new(report.finish(), sources);
    if failed {
        return Err(findings);
    }
    let later = findings.list.iter().filter(|f| f.code == codes::LATER);
    config.later = later.map(|f| f.message.clone()).collect();
    let mut loaded = Loaded { config, warnings: findings, places, tree: merged.root };
    loaded.config.shown = show::show(&loaded, catalog).into();
    Ok(loaded)
}

/// Preset, file and overrides as one tree; `None` when the file is not TOML (what could be read of it would only
/// bring findings that are not so) or of absurd size. Where the preset is not to be had the file stands alone.
fn layers(id: SourceId, options: &Options, sources: &mut Sources, report: &mut Report) -> Option<Merged> {
    let mut file = document::parse(sources, id, report);
    if is_broken(report) || !lower::sane(&file, report) {
        return None;
    }
    interpolate::table(&mut file, &options.env, sources, report);
    version(&file, id, report);
    let mut merged = Merged { file: id, ..Merged::default() };
    if file.get("use").is_some() {
        match preset_of(&file, options, sources, report) {
            Some(root) => merged.root = root,
            None => merged.alone = true,
        }
    }
    preset::merge(&mut merged, file, report);
    // What a path reaches into may be in the preset that is not there: then nothing is called a stranger.
    let nothing = Table::default();
    let below = if merged.alone { &nothing } else { &merged.root };
    for table in overrides::environment(&options.env, below, sources, report) {
        preset::merge(&mut merged, table, report);
    }
    for argument in &options.set {
        let below = if merged.alone { &nothing } else { &merged.root };
        if let Some(table) = overrides::set(argument, below, sources, report) {
            preset::merge(&mut merged, table, report);
        }
    }
    lower::sane(&merged.root, report).then_some(merged)
}

/// The tree of the preset that a file uses; `None` after a finding.
fn preset_of(file: &Table, options: &Options, sources: &mut Sources, report: &mut Report) -> Option<Table> {
    let preset = preset::source_of(file, sources, report)?;
    let mut root = document::parse(sources, preset, report);
    if is_broken(report) || !lower::sane(&root, report) {
        return None;
    }
    interpolate::table(&mut root, &options.env, sources, report);
    version(&root, preset, report);
    if let Some(deep) = root.get("use") {
        let finding =
            Finding::error(codes::PRESET_DEPTH, deep.key_span, "a preset cannot use another preset");
        report.push(finding.help("copy what it needs into this file: presets are one deep"));
        return None;
    }
    Some(root)
}

fn is_broken(report: &Report) -> bool {
    report.findings.iter().any(|f| f.severity == Severity::Error && f.code == codes::SYNTAX)
}

fn version(root: &Table, id: SourceId, report: &mut Report) {
    let Some(said) = root.get("version") else {
        let finding = Finding::error(
            codes::VERSION,
            Span { source: id, start: 0, end: 0 },
            "the file has no `version`",
        );
        report.push(finding.help("write version = 1 as its first line"));
        return;
    };
    let message = match said.node.value {
        Tree::Integer(VERSION) => return,
        Tree::Integer(number) => format!("this release does not know version {number}"),
        ref other => format!("`version` must be an integer, not {}", other.type_name()),
    };
    report.push(Finding::error(codes::VERSION, said.node.span, message).help("write version = 1"));
}
