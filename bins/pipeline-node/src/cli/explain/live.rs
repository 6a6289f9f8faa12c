//! `explain PEER --node NAME`: a running node says what it would do now. Deliberately its words, not ours: it may be of another
//! version.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::exit::{Failure, Outcome};
use super::super::file;
use super::super::show::live::{failure, find};

/// Prints it.
///
/// # Errors
/// 1 when the peer is not one that the node has opened, or has no way; 69 when there is no such node.
pub fn run(node: &str, peer: &str, as_json: bool) -> Outcome {
    let answer = find(Some(node))?.ask(&json!({ "explain": peer }), Duration::ZERO).map_err(failure)?;
    let text = match as_json {
        true => format!("{}\n", answer.get("explanation").unwrap_or(&Value::Null)),
        false => answer.get("text").and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    file::print(&text)?;
    answer.get("verdict").and_then(Value::as_str).map_or(Ok(()), |why| Err(Failure::failed(why)))
}
