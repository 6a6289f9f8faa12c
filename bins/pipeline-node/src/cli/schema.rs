//! `schema`: the JSON schema of the file, for editors.

use clap::Args as ClapArgs;
use pipeline_configs::json_schema;
use pipeline_stages::catalog::catalog;

use super::exit::Outcome;

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
/// None.
pub fn run(_: &Args) -> Outcome {
    print!("{}", json_schema::text(&catalog()));
    Ok(())
}
