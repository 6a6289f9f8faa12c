//! `${VAR}`, `${VAR:-default}`, `${VAR:?message}` and `$$` in string values, after parsing.
//! Deliberately not in keys and not before parsing: a variable can change a value, never the shape of the file.

use std::collections::BTreeMap;

use crate::codes;
use crate::finding::{Finding, Report};
use crate::source::{Sources, Span};
use crate::suggest;
use crate::tree::{Node, Table, Tree};

/// Replaces variables in every string value of a tree.
pub fn table(table: &mut Table, env: &BTreeMap<String, String>, sources: &Sources, report: &mut Report) {
    for entry in &mut table.entries {
        node(&mut entry.node, env, sources, report);
    }
}

fn node(node_: &mut Node, env: &BTreeMap<String, String>, sources: &Sources, report: &mut Report) {
    match &mut node_.value {
        Tree::Text(text) if text.contains('$') => {
            let raw = sources.slice(node_.span);
            match replaced(text, env) {
                Ok(new) => *text = new,
                Err(error) => {
                    // The place is exact when the string stands in the file as it reads.
                    let start = raw.find(text.as_str()).map(|at| node_.span.start + at + error.start);
                    let at = start.map_or(node_.span, |start| Span {
                        start,
                        end: start + error.length,
                        ..node_.span
                    });
                    report.push(Finding::error(codes::INTERPOLATION, at, error.message).help(error.help));
                    report.mute(node_.span);
                }
            }
        }
        Tree::Array(items) => items.iter_mut().for_each(|item| node(item, env, sources, report)),
        Tree::Table(inner) => table(inner, env, sources, report),
        _ => {}
    }
}

struct Unresolved {
    start: usize,
    length: usize,
    message: String,
    help: String,
}

fn replaced(text: &str, env: &BTreeMap<String, String>) -> Result<String, Unresolved> {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(dollar) = text[at..].find('$').map(|found| at + found) {
        out.push_str(&text[at..dollar]);
        let rest = &text[dollar + 1..];
        if rest.starts_with('$') {
            out.push('$');
            at = dollar + 2;
        } else if let Some(inside) = rest.strip_prefix('{') {
            let end = inside.find('}');
            let length = end.map_or(text.len() - dollar, |end| end + 3);
            let fail =
                |(message, help): (String, String)| Unresolved { start: dollar, length, message, help };
            let body = end.map(|end| &inside[..end]);
            let unclosed = || {
                fail((
                    String::from("`${` has no closing brace"),
                    String::from("write ${VAR}, or $$ for a dollar"),
                ))
            };
            out.push_str(&variable(body.ok_or_else(unclosed)?, env).map_err(fail)?);
            at = dollar + length;
        } else {
            out.push('$');
            at = dollar + 1;
        }
    }
    out.push_str(&text[at..]);
    Ok(out)
}

fn variable(body: &str, env: &BTreeMap<String, String>) -> Result<String, (String, String)> {
    let end = body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(body.len());
    let (name, rest) = body.split_at(end);
    let forms = || String::from("write ${VAR}, ${VAR:-default} or ${VAR:?message}; a dollar is $$");
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err((format!("`${{{body}}}` names no variable"), forms()));
    }
    if rest.contains("${") {
        return Err((format!("`${{{body}}}}}` has a variable inside a variable"), forms()));
    }
    let value = env.get(name).filter(|value| !value.is_empty());
    if let Some(default) = rest.strip_prefix(":-") {
        return Ok(value.map_or(default, String::as_str).to_owned());
    }
    if let Some(message) = rest.strip_prefix(":?") {
        let message = if message.is_empty() { "it must be set" } else { message };
        let help = || format!("set it: {name}=… pipeline-node …");
        return value
            .cloned()
            .ok_or_else(|| (format!("the variable `{name}` is not set: {message}"), help()));
    }
    if !rest.is_empty() {
        return Err((format!("`${{{body}}}` cannot be read"), forms()));
    }
    env.get(name).cloned().ok_or_else(|| {
        let near = suggest::nearest(name, env.keys().map(String::as_str).filter(|key| key.len() > 3));
        let near = near.map_or(String::new(), |near| format!("did you mean ${{{near}}}?  "));
        let help = format!("{near}set it, or give a default: ${{{name}:-default}}");
        (format!("the variable `{name}` is not set"), help)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<String, String> {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())]);
        replaced(text, &env).map_err(|e| e.message)
    }

    /// Every form is replaced; a dollar alone stays one.
    #[test]
    fn forms() {
        assert_eq!(with("${A}${A}").as_deref(), Ok("11"));
        assert_eq!(with("é${B:-x y}é").as_deref(), Ok("éx yé"));
        assert_eq!(with("${EMPTY:-d}${EMPTY}").as_deref(), Ok("d"));
        assert_eq!(with("${A:?no}").as_deref(), Ok("1"));
        assert_eq!(with("$$ $ $${A} a$").as_deref(), Ok("$ $ ${A} a$"));
        assert_eq!(with("${B:-}").as_deref(), Ok(""));
    }

    /// What cannot be resolved says why.
    #[test]
    fn refusals() {
        for text in ["${B}", "${", "${}", "${1}", "${A", "${A-x}", "${B:?}", "${B:-${A}}", "${A B}", "${é}"]
        {
            assert!(with(text).is_err(), "{text}");
        }
        assert_eq!(with("${B:?say where}"), Err("the variable `B` is not set: say where".into()));
    }
}
