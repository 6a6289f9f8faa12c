//! A file that takes part, or why it does not. Deliberately without a look at other files: what is wrong with one keeps
//! none of the others away.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pipeline_configs::{Config, Findings, codes, plain};
use pipeline_graph::Plan;
use pipeline_node::Source;
use pipeline_stages::catalog::mover;
use pipeline_transports::Mover;

use super::args::Args;
use crate::cli::exit::Failure;
use crate::cli::file;
use crate::cli::work::{Application, Over, beside};

/// A file.
pub struct Entrant {
    /// What it is called in the table.
    pub model: String,
    /// Where it is.
    pub file: PathBuf,
    /// What runs, or why it does not.
    pub state: Result<Ready, Why>,
}

/// A file that can run.
pub struct Ready {
    /// With the transport of the comparison, out of the way of a node that may run from the file.
    pub config: Config,
    /// What it asks of the application.
    pub application: Application,
    /// Bytes of all bounded queues.
    pub queue_bytes: u64,
    /// Bytes of all return edges.
    pub return_bytes: u64,
    /// What it declares and does not get here.
    pub replaced: Option<String>,
}

/// Why a file has no figures.
#[derive(Debug)]
pub enum Why {
    /// What it is for cannot be had over this transport: no failure.
    NotApplicable(String),
    /// It does not validate. Its findings are told once, by themselves.
    Refused(Findings),
    /// It does not start, or fails at its work.
    Failed(Failure),
}

impl Why {
    /// In a row of the table.
    pub fn text(&self) -> String {
        match self {
            Self::NotApplicable(why) => format!("n/a: {why}"),
            Self::Refused(findings) if findings.list.iter().any(|f| f.code == codes::UNREADABLE) => {
                "the file cannot be read".to_owned()
            }
            Self::Refused(findings) => format!("the file has {}", findings.count()),
            Self::Failed(failure) => failure.to_string(),
        }
    }
}

/// All files, in the order of the command line. Findings are printed: once, also those that several files share (of `--set`).
pub fn entrants(args: &Args) -> Vec<Entrant> {
    let models = models(&args.files);
    let mut told = BTreeSet::new();
    let entrant = |(file, model): (&PathBuf, String)| {
        let state = ready(file, args);
        if let Err(Why::Refused(findings)) = &state
            && told.insert(findings.text())
        {
            eprint!("{}", findings.text());
        }
        Entrant { model, file: file.clone(), state }
    };
    args.files.iter().zip(models).map(entrant).collect()
}

/// The stem of each file; its whole path where another file has the same, with a number where that is the same file.
fn models(files: &[PathBuf]) -> Vec<String> {
    let stem = |file: &PathBuf| {
        file.file_stem().map_or_else(|| file.display().to_string(), |s| s.to_string_lossy().into_owned())
    };
    let stems: Vec<String> = files.iter().map(stem).collect();
    let is_taken = |name: &String| stems.iter().filter(|other| *other == name).count() > 1;
    let named = files.iter().zip(&stems);
    let named: Vec<String> =
        named.map(|(file, s)| if is_taken(s) { file.display().to_string() } else { s.clone() }).collect();
    let numbered = |(i, name): (usize, &String)| match named[..i].iter().filter(|n| *n == name).count() {
        0 => name.clone(),
        before => format!("{name} ({})", before + 1),
    };
    let shown = |name: String| plain::line(&name).into_owned();
    named.iter().enumerate().map(numbered).map(shown).collect()
}

fn ready(path: &Path, args: &Args) -> Result<Ready, Why> {
    let over = args.over();
    let source = file::source(Some(path), &args.set);
    let declared = source.load().map_err(Why::Refused)?.config;
    if over.copies()
        && !declared.transports.is_empty()
        && declared.transports.iter().all(|t| mover(t) == Mover::Device)
    {
        let kinds: Vec<&str> = declared.transports.iter().map(|t| t.kind.as_str()).collect();
        let (kinds, over) = (kinds.join(", "), over.kind());
        return Err(Why::NotApplicable(format!(
            "memcpy ({over} copies by CPU what {kinds} moves by DMA; --over sim runs it)"
        )));
    }
    let source: Source = source.set(over.overrides(&declared));
    let loaded = source.load().map_err(Why::Refused)?;
    loaded.runnable().map_err(Why::Refused)?;
    let plan = Plan::new(&loaded.config.blueprint);
    Ok(Ready {
        application: Application::of(&loaded.config),
        queue_bytes: plan.queues.iter().map(|queue| queue.bytes).sum(),
        return_bytes: plan.returns.iter().map(|edge| edge.bytes).sum(),
        replaced: replaced(&declared, over),
        config: beside(loaded.config, args.target.is_some()),
    })
}

/// `rdma, mooncake_tcp`, if that is not what it gets.
fn replaced(declared: &Config, over: Over) -> Option<String> {
    let kinds: Vec<&str> = declared.transports.iter().map(|t| t.kind.as_str()).collect();
    (kinds != [over.kind()]).then(|| kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model is called as its file is; files that share a name are told apart by their paths, and turns of one file by
    /// numbers.
    #[test]
    fn names_of_models() {
        let files = ["a/x.toml", "b/x.toml", "b/y.toml"].map(PathBuf::from);
        assert_eq!(models(&files), ["a/x.toml", "b/x.toml", "y"]);
        let twice = ["a/x.toml", "b/y.toml", "a/x.toml", "a/x.toml"].map(PathBuf::from);
        assert_eq!(models(&twice), ["a/x.toml", "y", "a/x.toml (2)", "a/x.toml (3)"]);
    }
}
