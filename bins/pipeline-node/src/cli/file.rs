//! How commands that work on a file find it, load it, and show what is wrong with it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use pipeline_configs::address::{self, Address};
use pipeline_configs::plain;
use pipeline_configs::{Config, Findings, Loaded};
use pipeline_node::Source;

use super::exit::Failure;

/// The file and its overrides.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct FileArgs {
    /// The file.
    #[arg(value_name = "FILE", required_unless_present = "config", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The file, for those who prefer an option.
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override a value of the file: 'pools.nic.threads=2'. May be repeated; the last one wins.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl FileArgs {
    /// Where the file comes from, with what overrides it.
    pub fn source(&self) -> Source {
        source(Some(self.path()), &self.set)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.file.as_deref().or(self.config.as_deref()).unwrap_or_else(|| Path::new(""))
    }

    /// What overrides it.
    pub fn overrides(&self) -> &[String] {
        &self.set
    }

    /// The same with this text, as if it stood at that path.
    pub fn source_of(&self, path: &Path, text: &str) -> Source {
        Source::text_at(path, text).environment().set(&self.set)
    }
}

/// A file, or the preset `tcp` when there is none, with overrides.
pub fn source(path: Option<&Path>, set: &[String]) -> Source {
    let source = match path {
        Some(path) => Source::file(path),
        None => Source::text("<built in>", "version = 1\nuse = \"tcp\"\n"),
    };
    source.environment().set(set)
}

/// Loads it; warnings go to stderr.
///
/// # Errors
/// Exit 78, after the findings were printed.
pub fn load(source: &Source) -> Result<Loaded, Failure> {
    let loaded = source.load().map_err(|findings| refused(&findings))?;
    eprint!("{}", loaded.warnings.text());
    Ok(loaded)
}

/// The same, for a node that only does a piece of work beside the one that may run from this file: it finds others in the
/// directory, and does not take the other's name there, nor its ports, its sockets and its name among other engines.
pub fn unpublished(mut config: Config) -> Config {
    config.bystander = true;
    if let Ok(listen) = address::parse(&config.node.listen) {
        config.node.listen = Address { port: 0, ..listen }.to_string();
    }
    (config.admin_socket, config.metrics_listen) = (None, None);
    if let Some(directory) = &mut config.directory {
        directory.publishes = false;
    }
    config
}

/// Prints findings as text, with their count, and makes them an exit code.
pub fn refused(findings: &Findings) -> Failure {
    eprint!("{}", findings.text());
    Failure::told()
}

/// Writes a result to stdout; what others wrote in it steers no terminal. Who reads it may stop early (`| head`): that is no fault of ours.
///
/// # Errors
/// 71 when stdout takes nothing for another reason.
pub fn print(text: &str) -> Result<(), Failure> {
    draw(&plain::lines(text))
}

/// The same for a text that steers the terminal itself, and in which what others wrote is a [`plain::line`] each.
///
/// # Errors
/// As [`print`].
pub fn draw(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::system(format!("stdout: {e}"))),
        _ => Ok(()),
    }
}
