//! `validate`: every finding of a file in one run, then what it would run. Judges the file only: no machine is
//! looked at and nothing is contacted.

use clap::{Args as ClapArgs, ValueEnum};
use pipeline_configs::Config;
use pipeline_graph::Plan;
use pipeline_graph::plan::readable_bytes;
use pipeline_stages::ledger::Sizes;

use super::exit::{Failure, Outcome};
use super::file::{self, FileArgs, count};

/// How findings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One object a line, for editors.
    Json,
}

/// Judge a file, and print its plan: threads, chains, queues, bytes.
///
/// Findings go to stderr, the plan to stdout. Exit 78 when there are errors.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node validate node.toml
  pipeline-node validate node.toml --set pools.nic.threads=2
  pipeline-node validate node.toml --format json --deny-warnings   # for an editor, for CI")]
pub struct Args {
    #[command(flatten)]
    file: FileArgs,
    /// How findings are written.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Warnings make it exit 78 as well.
    #[arg(long)]
    deny_warnings: bool,
}

/// Runs it.
///
/// # Errors
/// Exit 78 when the file has errors.
pub fn run(args: &Args) -> Outcome {
    let loaded = args.file.source().load();
    let findings = match &loaded {
        Ok(loaded) => &loaded.warnings,
        Err(findings) => findings,
    };
    match args.format {
        Format::Text => eprint!("{}", findings.text()),
        Format::Json => eprint!("{}", findings.json_lines()),
    }
    let failed = findings.errors() > 0 || (args.deny_warnings && findings.warnings() > 0);
    let Ok(loaded) = &loaded else { return Err(Failure::findings(count(findings))) };
    file::print(&(Plan::new(&loaded.config.blueprint).text("slices") + &besides(&loaded.config)))?;
    if failed { Err(Failure::findings(count(findings))) } else { Ok(()) }
}

/// What runs and is allocated besides the graph: with the plan above it, all of a node.
fn besides(config: &Config) -> String {
    let limits = &config.limits;
    let callbacks = config.stages.iter().any(|s| s.kind == "callbacks");
    let listens = |way: &String| ["eventfd", "waker"].contains(&way.as_str());
    let listeners = config.stages.iter().any(|s| s.values.texts("via").iter().any(listens));
    let tables = readable_bytes(Sizes::of(config).table_bytes(callbacks, listeners));
    let segments = config.segments.iter().map(|s| s.kind.host_bytes());
    format!(
        "besides the graph\n  control   1 thread: listens, dials, shakes hands, answers for segments\n  \
         resolver  up to 2 threads: look up host names, gone when idle\n  tables    {tables} for {} slices, {} \
         requests, {} batches\n  segments  {}\n",
        limits.slices,
        limits.requests,
        limits.batches,
        readable_bytes(segments.sum()),
    )
}
