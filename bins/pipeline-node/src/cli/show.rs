//! `show config`: every value of a file and where it comes from. What a running node shows comes with its
//! administration.

use clap::{Args as ClapArgs, Subcommand};
use pipeline_configs::show;
use pipeline_stages::catalog::catalog;

use super::exit::Outcome;
use super::file::{self, FileArgs};

/// Show what a file comes to.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node show config node.toml")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Config(ConfigArgs),
}

/// Every value with its source: --set, environment, file, preset or default.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node show config node.toml
  pipeline-node show config node.toml --set limits.slices=4096 | grep limits
  pipeline-node show config node.toml --json | jq 'select(.source != \"default\")'")]
struct ConfigArgs {
    #[command(flatten)]
    file: FileArgs,
    /// One object a line: path, value, source.
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// Exit 78 when the file has errors.
pub fn run(args: &Args) -> Outcome {
    let What::Config(args) = &args.what;
    let loaded = file::load(&args.file.source())?;
    let shown = show::show(&loaded, &catalog());
    if !args.json {
        return file::print(&show::text(&shown));
    }
    let line = |s: show::Shown| {
        format!("{}\n", serde_json::json!({ "path": s.path, "value": s.value, "source": s.source }))
    };
    file::print(&shown.into_iter().map(line).collect::<String>())
}
