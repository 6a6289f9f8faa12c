//! Logs of the program, on stderr. The library only emits; whoever embeds it installs what it likes.

use std::io::{IsTerminal, Write};

use pipeline_configs::levels;
use pipeline_stages::control::LOG_OF_PEERS;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The parts of this program that log.
const PARTS: [&str; 5] =
    ["pipeline_node", "pipeline_stages", "pipeline_transports", "pipeline_graph", "pipeline_configs"];

/// Of a command that does one thing and says what came of it: warnings, but for those of peers that cannot be reached or have
/// gone. That is what the command ends with, in its own words; a node has nobody else to tell it to.
pub fn of_command() {
    install(&format!("warn,{LOG_OF_PEERS}=off"), false);
}

/// Installs the subscriber: `RUST_LOG` beats `[log] level`; `json` is `[log] format = "json"`.
pub fn install(level: &str, json: bool) {
    let variable = std::env::var_os(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let (filter, warning) = filter(&variable.to_string_lossy(), level);
    if let Some(warning) = warning {
        eprintln!("pipeline-node: {warning}");
    }
    let filter = EnvFilter::try_new(filter);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new("warn")))
        .with_writer(|| Lines(std::io::stderr()))
        .with_ansi(std::io::stderr().is_terminal() && !json);
    let installed = if json { subscriber.json().try_init() } else { subscriber.try_init() };
    // Somebody else's subscriber (a test's) is as good as ours.
    drop(installed);
}

/// What is logged is a line, whatever names are in it: the subscriber writes each at once, and shows what would steer a terminal, but
/// not where one ends.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = line.replace('\n', "\\n").replace('\r', "\\r");
        self.0.write_all(format!("{line}\n").as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// What is logged, by `RUST_LOG` and by what holds without it; and what is wrong with the former. It is set for other programs too, so
/// it keeps nothing from starting; but what it does not say of this one must not silence it.
fn filter(variable: &str, level: &str) -> (String, Option<String>) {
    if variable.trim().is_empty() {
        return (level.to_owned(), None);
    }
    let shown = variable.escape_debug();
    let wrong = levels::words(variable).find(|word| !is_meant(word));
    // Filters by spans and their fields have a grammar of their own.
    if let Some(word) = wrong.filter(|_| !variable.contains('[')) {
        let (refused, help) = (levels::refused(word), levels::help(word));
        return (level.to_owned(), Some(format!("RUST_LOG={shown}: {refused}; `{level}` holds ({help})")));
    }
    if let Err(why) = EnvFilter::try_new(variable) {
        return (level.to_owned(), Some(format!("RUST_LOG={shown}: {why}; `{level}` holds")));
    }
    if !variable.split(',').any(concerns_us) {
        let parts = PARTS.join(", ");
        let warning = format!(
            "RUST_LOG={shown} says nothing of this program, where `{level}` holds; its parts are {parts}"
        );
        return (format!("{level},{variable}"), Some(warning));
    }
    (variable.to_owned(), None)
}

/// A level, or one of our parts by itself, which means all that it logs.
fn is_meant(word: &str) -> bool {
    levels::is_one(word) || word.parse::<LevelFilter>().is_ok() || is_ours(word)
}

fn is_ours(target: &str) -> bool {
    PARTS.iter().any(|part| {
        part.starts_with(target) || target.strip_prefix(part).is_some_and(|rest| rest.starts_with("::"))
    })
}

/// Whether one part of a filter is for all, or for one of our parts.
fn concerns_us(directive: &str) -> bool {
    let target = directive.split(['=', '[']).next().unwrap_or_default().trim();
    target.parse::<LevelFilter>().is_ok() || is_ours(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record stays a line, whatever is in it.
    #[test]
    fn a_record_is_a_line() {
        let mut out = Vec::new();
        let mut lines = Lines(&mut out);
        lines.write_all(b"WARN peer a\nERROR b\r went\n").unwrap();
        lines.write_all(b"INFO c\n").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "WARN peer a\\nERROR b\\r went\nINFO c\n");
    }

    /// What is no level, cannot be read, or is for other programs alone leaves the level of the file as it is, and is told; what is
    /// for this program beats it, without a word.
    #[test]
    fn nothing_silences_by_mistake() {
        for (variable, holds, says) in [
            ("verbose", "info", "`verbose` is no level of a log; `info` holds (levels: error, "),
            ("debgu", "info", "did you mean `debug`?"),
            ("pipeline_stages=debgu", "info", "`debgu` is no level of a log"),
            ("pipeline_stages::=x[", "info", "RUST_LOG="),
            ("tokio=debug", "info,tokio=debug", "says nothing of this program, where `info` holds"),
            ("a\u{1b}b", "info", "RUST_LOG=a\\u{1b}b: "),
        ] {
            let (filter, warning) = filter(variable, "info");
            assert_eq!(filter, holds, "{variable}");
            assert!(warning.as_ref().is_some_and(|w| w.contains(says)), "{variable}: {warning:?}");
        }
        for variable in [
            "debug",
            "OFF",
            "3",
            "pipeline_stages",
            "pipeline_stages::control=trace,warn",
            "pipeline=off",
            "tokio=warn,info",
            "[span{a=1}]=debug",
        ] {
            assert_eq!(filter(variable, "info"), (variable.to_owned(), None));
        }
        assert_eq!(filter("", "warn"), ("warn".to_owned(), None));
    }
}
