//! `graph`: the pipeline of a file as a picture.

use std::io::Write as _;
use std::process::{Command, Stdio};

use clap::{Args as ClapArgs, ValueEnum};
use pipeline_graph::draw;

use super::exit::{Failure, Outcome};
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
    /// For a browser; drawn by Graphviz, which must be installed.
    Svg,
}

/// Draw the pipeline of a file.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node graph node.toml
  pipeline-node graph node.toml --format mermaid >> README.md
  pipeline-node graph node.toml --format svg > node.svg")]
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
/// Exit 78 when the file has errors, 71 when Graphviz is wanted and not there.
pub fn run(args: &Args) -> Outcome {
    let loaded = file::load(&args.file.source())?;
    let blueprint = &loaded.config.blueprint;
    let picture = match args.format {
        Format::Text => draw::text(blueprint),
        Format::Dot => draw::dot(blueprint),
        Format::Mermaid => draw::mermaid(blueprint),
        Format::Svg => svg(&draw::dot(blueprint))?,
    };
    file::print(&picture)
}

/// The picture as Graphviz lays it out.
fn svg(dot: &str) -> Result<String, Failure> {
    let absent = |e: std::io::Error| {
        let what = if e.kind() == std::io::ErrorKind::NotFound {
            "it is not installed".into()
        } else {
            e.to_string()
        };
        Failure::system(format!(
            "--format svg is drawn by Graphviz (`dot`): {what}\ninstall it (apt-get install graphviz, dnf install graphviz, \
             brew install graphviz), or take --format mermaid, which needs nothing"
        ))
    };
    let mut child = Command::new("dot")
        .arg("-Tsvg")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(absent)?;
    // Graphviz reads all before it writes, so the pipes cannot fill both at once.
    let fed = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(dot.as_bytes()));
    let drawn = child.wait_with_output().map_err(absent)?;
    if !drawn.status.success() || fed.is_err() {
        let why = String::from_utf8_lossy(&drawn.stderr);
        return Err(Failure::system(format!("Graphviz could not draw it: {}", why.trim())));
    }
    Ok(String::from_utf8_lossy(&drawn.stdout).into_owned())
}
