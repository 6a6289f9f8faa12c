//! `schema`: the JSON schema of the file, for editors.

use clap::Args as ClapArgs;
use pipeline_configs::json_schema;
use pipeline_stages::catalog::catalog;

use super::exit::Outcome;
use super::file;

/// Print the JSON schema of the file, from which editors complete and check it.
///
/// Taplo and the editors that use it (VS Code's Even Better TOML, Zed, Helix, Neovim) read it from the first line of a
/// file: `#:schema ./pipeline-node.schema.json`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node schema > pipeline-node.schema.json")]
pub struct Args {}

/// Runs it.
///
/// # Errors
/// 71 when stdout takes nothing.
pub fn run(_: &Args) -> Outcome {
    file::print(&json_schema::text(&catalog()))
}
