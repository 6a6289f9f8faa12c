//! A question, as it comes over the socket. Deliberately strict: a key that nobody knows is an error that names it, so that
//! a misspelt one is not answered as if it had not been there.

use std::time::Duration;

use pipeline_configs::suggest;
use serde_json::{Map, Value};

use super::SUBJECTS;

/// Longest interval that is measured while somebody waits.
const INTERVAL_MAX_MS: u64 = 60_000;

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Something of the node; over an interval from now on, or since its start.
    Show {
        /// One of [`SUBJECTS`].
        subject: &'static str,
        /// `None`: since the start.
        interval: Option<Duration>,
    },
    /// The way to a peer.
    Explain {
        /// What it was opened by.
        peer: String,
    },
}

/// Reads a line.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub(super) fn read(line: &[u8]) -> Result<Question, String> {
    const FORM: &str = "write {\"show\": \"runtime\"} or {\"explain\": \"PEER\"}";
    let value: Value = serde_json::from_slice(line).map_err(|e| format!("no JSON ({e}): {FORM}"))?;
    let Value::Object(mut keys) = value else { return Err(format!("no object: {FORM}")) };
    let question = match (keys.remove("show"), keys.remove("explain")) {
        (Some(Value::String(subject)), None) => {
            Question::Show { subject: known(&subject)?, interval: interval(&mut keys)? }
        }
        (None, Some(Value::String(peer))) => Question::Explain { peer },
        _ => return Err(format!("nothing that is asked: {FORM}")),
    };
    match keys.keys().next() {
        Some(key) => Err(format!("unknown key `{}`", shown(key))),
        None => Ok(question),
    }
}

fn known(subject: &str) -> Result<&'static str, String> {
    let found = SUBJECTS.into_iter().find(|known| *known == subject);
    found.ok_or_else(|| {
        format!("nothing is called `{}`; {}", shown(subject), suggest::help(subject, "subjects", SUBJECTS))
    })
}

fn interval(keys: &mut Map<String, Value>) -> Result<Option<Duration>, String> {
    match keys.remove("interval_ms") {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(ms @ 1..=INTERVAL_MAX_MS) => Ok(Some(Duration::from_millis(ms))),
            _ => Err(format!("`interval_ms` is a number from 1 to {INTERVAL_MAX_MS}")),
        },
    }
}

/// What strangers wrote, short and without control characters.
fn shown(text: &str) -> String {
    text.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is right is understood, and what is wrong is answered with what would be right.
    #[test]
    fn questions() {
        let show = |subject, ms: u64| Question::Show {
            subject,
            interval: (ms > 0).then(|| Duration::from_millis(ms)),
        };
        assert_eq!(read(b"{\"show\":\"edges\"}"), Ok(show("edges", 0)));
        assert_eq!(read(b" {\"interval_ms\": 50, \"show\": \"runtime\"} "), Ok(show("runtime", 50)));
        assert_eq!(read(b"{\"explain\":\"b\"}"), Ok(Question::Explain { peer: "b".into() }));
        for (line, part) in [
            (&b"{\"show\":\"runtme\"}"[..], "did you mean `runtime`?"),
            (b"{\"show\":\"edges\",\"intervall_ms\":1}", "unknown key `intervall_ms`"),
            (b"{\"show\":\"edges\",\"interval_ms\":0}", "from 1 to 60000"),
            (b"{\"show\":\"edges\",\"interval_ms\":-1}", "from 1 to 60000"),
            (b"{\"show\":3}", "nothing that is asked"),
            (b"{\"show\":\"edges\",\"explain\":\"b\"}", "nothing that is asked"),
            (b"[]", "no object"),
            (b"", "no JSON"),
            (b"\xff\xfe\x00", "no JSON"),
            (b"{\"show\":\"\x1b[2J\"}", "no JSON"),
            (b"{\"show\":\"\\u001b[2J\"}", "`?[2J`"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let deep = [b"[".repeat(4000), b"]".repeat(4000)].concat();
        assert!(read(&deep).is_err());
    }
}
