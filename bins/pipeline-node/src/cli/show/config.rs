//! `show config`: every value of a file and where it comes from, and where a running node differs from it.

use clap::Args as ClapArgs;
use pipeline_configs::show;
use pipeline_stages::catalog::catalog;

use super::super::exit::Outcome;
use super::super::file::{self, FileArgs};
use super::diff;

/// Every value with its source: --set, environment, file, preset or default.
///
/// With --diff, where a running node and the file differ: exit 1 if they do.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node show config node.toml
  pipeline-node show config node.toml --set limits.slices=4096 | grep limits
  pipeline-node show config node.toml --diff --node decode-0
  pipeline-node show config node.toml --json | jq 'select(.source != \"default\")'")]
pub struct Args {
    #[command(flatten)]
    file: FileArgs,
    /// Where a running node differs from the file.
    #[arg(long)]
    diff: bool,
    /// The running node, by its name or its admin socket [default: the name that the file gives it, or the socket].
    #[arg(long, value_name = "NAME|SOCKET")]
    node: Option<String>,
    /// One object a line: path, value, source; with --diff: path, file and node.
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// 78 when the file has errors; with --diff 1 when they differ, 69 when there is no such node.
pub fn run(args: &Args) -> Outcome {
    let loaded = file::load(&args.file.source())?;
    let shown = show::show(&loaded, &catalog());
    if args.diff {
        let config = &loaded.config;
        let of_file = || {
            let socket = config.admin_socket.as_ref().map(|socket| socket.display().to_string());
            // With a slash, it is a path.
            socket.map_or(config.node.name.clone(), |s| if s.contains('/') { s } else { format!("./{s}") })
        };
        return diff::run(&shown, &args.node.clone().unwrap_or_else(of_file), args.json);
    }
    if !args.json {
        return file::print(&show::text(&shown));
    }
    let line = |s: show::Shown| {
        format!("{}\n", serde_json::json!({ "path": s.path, "value": s.value, "source": s.source }))
    };
    file::print(&shown.into_iter().map(line).collect::<String>())
}
