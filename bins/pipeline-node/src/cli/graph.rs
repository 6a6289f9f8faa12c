//! `graph`: the pipeline of a file as a picture.

use clap::{Args as ClapArgs, ValueEnum};
use pipeline_graph::draw;

use super::exit::Outcome;
use super::file::{self, FileArgs};

/// What it is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a terminal.
    Text,
    /// For Graphviz.
    Dot,
    /// For Markdown.
    Mermaid,
}

/// Draw the pipeline of a file.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node graph node.toml
  pipeline-node graph node.toml --format mermaid >> README.md
  pipeline-node graph node.toml --format dot | dot -Tsvg > node.svg")]
pub struct Args {
    #[command(flatten)]
    file: FileArgs,
    /// What it is drawn with.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs it.
///
/// # Errors
/// Exit 78 when the file has errors.
pub fn run(args: &Args) -> Outcome {
    let loaded = file::load(&args.file.source())?;
    let blueprint = &loaded.config.blueprint;
    let picture = match args.format {
        Format::Text => draw::text(blueprint),
        Format::Dot => draw::dot(blueprint),
        Format::Mermaid => draw::mermaid(blueprint),
    };
    print!("{picture}");
    Ok(())
}
