//! The embedded directory until a signal.

use std::io::Write as _;

use clap::Args as ClapArgs;
use pipeline_transports::directory::VALUE_MAX;
use pipeline_transports::directory::server::{Bounds, Server};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::exit::{Failure, Outcome};
use crate::cli::load::child::end_with_parent;
use crate::cli::{logs, quantity};

/// What it serves, and how much of it.
#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    /// Where it listens: `host:port`, `[v6]:port`; port 0 for any free one. It knows no log-in: whoever reaches it may read
    /// and write all of it.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7080")]
    listen: String,
    /// The ready line as JSON.
    #[arg(long)]
    json: bool,
    /// Most keys; one more is refused with 507.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().keys)]
    keys: usize,
    /// Most bytes of all keys and values; more are refused with 507.
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, default_value = "256MiB")]
    bytes: u64,
    /// Most bytes of one value; more are refused with 413.
    #[arg(long, value_name = "SIZE", value_parser = value_bytes, default_value = "64MiB")]
    value_bytes: u64,
    /// Most connections at a time; one more is refused with 503.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().connections)]
    connections: usize,
    /// End when the parent process ends.
    #[arg(long, hide = true)]
    with_parent: bool,
}

fn value_bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        bytes if bytes > VALUE_MAX as u64 => Err("at most 64MiB".into()),
        bytes => Ok(bytes),
    }
}

/// Serves.
///
/// # Errors
/// 71 when the address cannot be had, 2 when it is none.
pub fn run(args: &ServeArgs) -> Outcome {
    if args.with_parent {
        end_with_parent()?;
    }
    logs::install("warn", false);
    let bounds = Bounds {
        keys: args.keys,
        bytes: args.bytes,
        value: usize::try_from(args.value_bytes).unwrap_or(VALUE_MAX),
        connections: args.connections,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let runtime = runtime.map_err(|e| Failure::system(format!("cannot serve: {e}")))?;
    runtime.block_on(async {
        let mut term = signal(SignalKind::terminate()).map_err(Failure::system)?;
        let mut int = signal(SignalKind::interrupt()).map_err(Failure::system)?;
        let server = Server::bind(&args.listen, bounds).await.map_err(|error| match error {
            pipeline_transports::Error::BadArgument(_) => Failure::usage(format!("--listen: {error}")),
            _ => Failure::system(error),
        })?;
        ready(&server, args.json).map_err(Failure::system)?;
        tokio::select! {
            never = server.run() => match never {},
            _ = term.recv() => Ok(()),
            _ = int.recv() => Ok(()),
        }
    })
}

fn ready(server: &Server, json: bool) -> std::io::Result<()> {
    let address = server.local_address();
    let url = format!("http://{address}/metadata");
    if !address.ip().is_loopback() {
        tracing::warn!("whoever reaches {address} may read and write this directory; it knows no log-in");
    }
    let mut out = std::io::stdout().lock();
    if json {
        let line = serde_json::json!({
            "event": "ready", "address": address.to_string(), "url": url, "pid": std::process::id(),
        });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "directory is ready at {url}")?;
    }
    out.flush()
}
