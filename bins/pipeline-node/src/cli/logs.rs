//! Logs of the program, on stderr. The library only emits; whoever embeds it installs what it likes.

use std::io::IsTerminal;

use pipeline_stages::control::LOG_OF_PEERS;

use tracing_subscriber::EnvFilter;

/// Of a command that does one thing and says what came of it: warnings, but for those of peers that cannot be reached or have
/// gone. That is what the command ends with, in its own words; a node has nobody else to tell it to.
pub fn of_command() {
    install(&format!("warn,{LOG_OF_PEERS}=off"), false);
}

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
