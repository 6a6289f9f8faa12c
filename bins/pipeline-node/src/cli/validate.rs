//! `validate`: every finding of a file in one run, then what it would run. Judges the file; what of this machine it
//! depends on (CPUs, network interfaces) is looked at for warnings only, and nothing is contacted.

use clap::{Args as ClapArgs, ValueEnum};
use pipeline_configs::{Config, Finding, codes};
use pipeline_graph::Plan;
use pipeline_graph::plan::readable_bytes;
use pipeline_transports::interfaces::Interfaces;

use super::exit::{Failure, Outcome};
use super::file::{self, FileArgs};
use super::footprint::Footprint;
use super::nics_here::{Here, nics_here};

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
  pipeline-node validate node.toml --json --deny-warnings   # for an editor, for CI")]
pub struct Args {
    #[command(flatten)]
    file: FileArgs,
    /// How findings are written.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Warnings make it exit 78 as well.
    #[arg(long)]
    deny_warnings: bool,
}

/// Runs it.
///
/// # Errors
/// Exit 78 when the file has errors.
pub fn run(args: &Args) -> Outcome {
    let mut loaded = args.file.source().load();
    if let (Ok(loaded), Ok(on)) = (&mut loaded, Interfaces::now()) {
        let here = nics_here(&loaded.config, &on);
        loaded.warnings.list.extend(here.into_iter().filter_map(warning));
    }
    let findings = match &loaded {
        Ok(loaded) => &loaded.warnings,
        Err(findings) => findings,
    };
    let is_json = args.json || args.format == Format::Json;
    eprint!("{}", if is_json { findings.json_lines() } else { findings.text() });
    let Ok(loaded) = &loaded else { return Err(Failure::told()) };
    file::print(&(Plan::new(&loaded.config.blueprint).text("slices") + &besides(&loaded.config)))?;
    match args.deny_warnings && findings.warnings() > 0 {
        false => Ok(()),
        true if is_json => Err(Failure::told()),
        // A plan and warnings alone do not look like a failure.
        true => Err(Failure::findings(format!("{}, and --deny-warnings", findings.count()))),
    }
}

/// A file may be for another machine, or for this one when its cables are in.
fn warning(here: Here) -> Option<Finding> {
    let (transport, nic, why) = (here.transport, here.nic, here.illness?);
    let (what, mend) = why.split_once("; ").unwrap_or((&why, "see `ip -br address`"));
    let message = format!("NIC `{nic}` of transport `{transport}` cannot be used on this machine: {what}");
    Some(Finding::placeless(codes::NIC_ILL, message).as_warning().help(mend))
}

/// What runs and is allocated besides the graph: with the plan above it, all of a node.
fn besides(config: &Config) -> String {
    let limits = &config.limits;
    let Footprint { segments, tables } = Footprint::of(config);
    format!(
        "besides the graph\n  control   1 thread: listens, dials, shakes hands, answers for segments\n  \
         resolver  up to 2 threads: look up host names, destroy queue pairs, gone when idle\n  tables    {} for {} slices, {} \
         requests, {} batches\n  segments  {}\n",
        readable_bytes(tables),
        limits.slices,
        limits.requests,
        limits.batches,
        readable_bytes(segments),
    )
}
