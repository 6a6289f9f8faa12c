//! `run`: a node until a signal. Commands handle signals, the library never does.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use pipeline_configs::plain;
use pipeline_node::{DrainReport, Engine, Laggard, Remaining, admin};
use tokio::signal::unix::{SignalKind, signal};

use super::exit::{Failure, Outcome};
use super::failures::engine;
use super::file::{self, source};
use super::load::child::end_with_parent;
use super::logs;

/// How often the laggards are named while the node drains.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// A signal is seen within this.
const STEP: Duration = Duration::from_millis(50);

/// Start a node: serve its segments until SIGTERM or SIGINT.
///
/// Prints one line when it is ready, with the address it listens on, and what peers of other engines call it. The first signal drains: nothing new is
/// taken, peers are told, and what has begun ends, here and at the peers; each second a line says what is not done yet.
/// The second one, or the end of `[drain] timeout`, stops it at once (exit 75).
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
    /// The ready line, and what is said while it drains, as JSON on stdout.
    #[arg(long)]
    json: bool,
    /// No file: the preset `tcp`.
    #[arg(long, hide = true, conflicts_with_all = ["file", "config"])]
    built_in: bool,
    /// End when the parent process ends, which works beside the node that may run from this file: take neither its ports nor
    /// its names.
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
    let mut loaded = loaded.map_err(|findings| file::refused(&findings))?;
    if args.with_parent {
        // One that another command started beside the node that may run from this file.
        loaded.config = file::unpublished(loaded.config);
    }
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
        if node.admin_socket().is_none() && !args.with_parent {
            serve_admin(&node);
        }
        ready(&node, args.json).map_err(Failure::system)?;
        let name = tokio::select! { _ = term.recv() => "SIGTERM", _ = int.recv() => "SIGINT" };
        tracing::info!(signal = name, "draining");
        let begin = Instant::now();
        let mut drained = tokio::select! {
            report = drain(&node, timeout, args.json) => report,
            _ = term.recv() => node.drain(Duration::ZERO),
            _ = int.recv() => node.drain(Duration::ZERO),
        };
        // Since the first signal, whatever ended it.
        drained.took_ns = begin.elapsed().as_nanos() as u64;
        if args.json {
            tell(&drained, if drained.empty { "drained" } else { "not_drained" }, true);
        }
        node.stop();
        if drained.empty { Ok(()) } else { Err(Failure::undrained(drained)) }
    })
}

/// At the usual place, where there is one. A node that names no socket runs without, if that cannot be had.
fn serve_admin(node: &Engine) {
    let served = match admin::default_socket(node.name()) {
        Ok(None) => return,
        Ok(Some(socket)) => node.serve_admin(socket).map_err(|e| e.to_string()),
        Err(error) => Err(format!("no folder for its admin socket: {error}")),
    };
    if let Err(why) = served {
        tracing::warn!("this node runs, but `show` and `explain --node` cannot ask it: {why}");
    }
}

fn ready(node: &Engine, json: bool) -> std::io::Result<()> {
    let (name, address) = (node.name(), node.local_address().to_string());
    let foreign = node.foreign_names();
    let metrics = node.metrics_address();
    let mut out = std::io::stdout().lock();
    if json {
        let line = serde_json::json!({
            "event": "ready", "name": name, "address": address, "pid": std::process::id(),
            "segments": node.segments(), "metrics": metrics.map(|at| at.to_string()),
            "admin": node.admin_socket(),
            "foreign": foreign.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        });
        writeln!(out, "{line}")?;
    } else {
        let also: String = foreign.iter().map(|(t, name)| format!(", and as {t}://{name}")).collect();
        let metrics = metrics.map(|at| format!(", metrics at http://{at}/metrics")).unwrap_or_default();
        writeln!(out, "{name} is ready at {address}{also}{metrics}")?;
    }
    out.flush()
}

/// In short steps, so that a second signal is seen. Says each second what is not done yet.
async fn drain(node: &Engine, timeout: Duration, json: bool) -> DrainReport {
    let begin = Instant::now();
    let mut next = TOLD_EVERY;
    loop {
        let left = timeout.saturating_sub(begin.elapsed());
        let mut report = node.drain(STEP.min(left));
        report.took_ns = begin.elapsed().as_nanos() as u64;
        if report.empty || left.is_zero() {
            return report;
        }
        if begin.elapsed() >= next {
            next += TOLD_EVERY;
            tell(&report, "draining", json);
        }
        // Signals have their turn.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Names what is not done: as text on stderr, as a line of JSON on stdout. Nobody may be there to read it.
fn tell(report: &DrainReport, event: &str, json: bool) {
    if !json {
        eprintln!("pipeline-node: {}", plain::line(&report.to_string()));
        return;
    }
    let stage = |l: &Laggard| serde_json::json!({ "stage": l.stage, "items": l.items });
    let peer = |p: &Remaining| serde_json::json!({ "peer": p.peer, "requests": p.requests });
    let line = serde_json::json!({
        "event": event, "elapsed_ms": report.took_ns / 1_000_000, "requests": report.requests,
        "stages": report.left.iter().map(stage).collect::<Vec<_>>(),
        "peers": report.peers.iter().map(peer).collect::<Vec<_>>(),
    });
    let _ = writeln!(std::io::stdout(), "{line}");
}
