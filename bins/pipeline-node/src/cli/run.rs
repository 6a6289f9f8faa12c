//! `run`: a node until a signal. The one place of the product that handles signals.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use pipeline_node::{DrainReport, Engine};
use tokio::signal::unix::{SignalKind, signal};

use super::bench::child::end_with_parent;
use super::exit::{Failure, Outcome};
use super::failures::engine;
use super::file::{self, source};
use super::logs;

/// Start a node: serve its segments until SIGTERM or SIGINT.
///
/// Prints one line when it is ready, with the address it listens on. The first signal drains: nothing new is
/// taken, what this node has submitted ends. The second one, or the end of `[drain] timeout`, stops it at once (exit 75).
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node run node.toml
  pipeline-node run node.toml --set node.listen='0.0.0.0:7001'
  pipeline-node run node.toml --json | jq -r .address")]
pub struct Args {
    /// The file.
    #[arg(value_name = "FILE", required_unless_present_any = ["config", "built_in"])]
    file: Option<PathBuf>,
    /// The file, for those who prefer an option.
    #[arg(short = 'c', long = "config", value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Override a value of the file: 'pools.nic.threads=2'. May be repeated; the last one wins.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The ready line as JSON.
    #[arg(long)]
    json: bool,
    /// No file: the preset `tcp`.
    #[arg(long, hide = true, conflicts_with_all = ["file", "config"])]
    built_in: bool,
    /// End when the parent process ends.
    #[arg(long, hide = true)]
    with_parent: bool,
}

/// Runs it.
///
/// # Errors
/// 78 for findings, 71 when the system refuses, 75 when it could not drain.
pub fn run(args: &Args) -> Outcome {
    if args.with_parent {
        end_with_parent()?;
    }
    let path = args.file.as_deref().or(args.config.as_deref());
    let source = source(path, &args.set);
    let loaded = source.load().and_then(|loaded| loaded.runnable().map(|()| loaded));
    let loaded = loaded.map_err(|findings| file::refused(&findings))?;
    eprint!("{}", loaded.warnings.text());
    logs::install(&loaded.config.log_level, loaded.config.log_json);
    let timeout = loaded.config.drain_timeout;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::system(format!("cannot wait for signals: {e}")))?;
    runtime.block_on(async {
        // Before the engine: a signal that comes while it starts must not be lost.
        let mut term = signal(SignalKind::terminate()).map_err(Failure::system)?;
        let mut int = signal(SignalKind::interrupt()).map_err(Failure::system)?;
        let node = Engine::start(loaded.config).map_err(|e| engine(&e))?;
        ready(&node, args.json).map_err(Failure::system)?;
        let name = tokio::select! { _ = term.recv() => "SIGTERM", _ = int.recv() => "SIGINT" };
        tracing::info!(signal = name, "draining");
        let drained = tokio::select! {
            report = drain(&node, timeout) => report,
            _ = term.recv() => now(&node),
            _ = int.recv() => now(&node),
        };
        node.stop();
        if drained.empty { Ok(()) } else { Err(Failure::undrained(drained)) }
    })
}

fn ready(node: &Engine, json: bool) -> std::io::Result<()> {
    let (name, address) = (node.name(), node.local_address().to_string());
    let mut out = std::io::stdout().lock();
    if json {
        let line = serde_json::json!({
            "event": "ready", "name": name, "address": address, "pid": std::process::id(),
            "segments": node.segments(),
        });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "{name} is ready at {address}")?;
    }
    out.flush()
}

/// In short steps, so that a second signal is seen.
async fn drain(node: &Engine, timeout: Duration) -> DrainReport {
    let begin = Instant::now();
    loop {
        let report = node.drain(Duration::from_millis(2));
        if report.empty || begin.elapsed() >= timeout {
            return report;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What is left, without waiting.
fn now(node: &Engine) -> DrainReport {
    node.drain(Duration::ZERO)
}
