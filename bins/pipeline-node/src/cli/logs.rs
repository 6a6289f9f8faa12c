//! Logs of the program, on stderr. The library only emits; whoever embeds it installs what it likes.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Installs the subscriber: `RUST_LOG` beats `[log] level`; `json` is `[log] format = "json"`.
pub fn install(level: &str, json: bool) {
    let filter = EnvFilter::try_from_default_env().or_else(|_| EnvFilter::try_new(level));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new("warn")))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && !json);
    let installed = if json { subscriber.json().try_init() } else { subscriber.try_init() };
    // Somebody else's subscriber (a test's) is as good as ours.
    drop(installed);
}
