//! What transports and stages share: a table whose `type` decides which keys it has.

use crate::codes;
use crate::finding::Finding;
use crate::source::Span;
use crate::suggest;
use crate::tree::{Entry, Tree};
use crate::value::Scope;

/// The word after `type =` and its place, if it is one of `types`.
pub fn type_of<'a>(
    what: &str,
    entry: &'a Entry,
    types: &[&str],
    scope: &mut Scope<'_>,
) -> Option<(&'a str, Span)> {
    let finding = match &entry.node.value {
        Tree::Table(table) => match table.get("type") {
            Some(said) => match said.node.as_text() {
                Some(word) if types.contains(&word) => return Some((word, said.node.span)),
                Some(word) => Finding::error(
                    codes::KIND_UNKNOWN,
                    said.node.span,
                    format!("unknown type of {what} `{word}`"),
                )
                .help(suggest::help(word, "types", types.iter().copied())),
                None => {
                    let message = format!("`type` must be a string, not {}", said.node.value.type_name());
                    Finding::error(codes::TYPE, said.node.span, message)
                        .help(format!("types: {}", suggest::list(types)))
                }
            },
            None => {
                let message = format!("{what} `{}` lacks `type`", entry.key);
                Finding::error(codes::KEY_MISSING, entry.key_span, message).help(
                    match types.contains(&entry.key.as_str()) {
                        true => format!("add type = \"{}\"", entry.key),
                        false => format!("add type = …; types: {}", suggest::list(types)),
                    },
                )
            }
        },
        other => {
            let message = format!("{what} `{}` must be a table, not {}", entry.key, other.type_name());
            Finding::error(codes::TYPE, entry.node.span, message)
                .help(format!("write {{ type = …, … }}; types: {}", suggest::list(types)))
        }
    };
    scope.report.push(finding);
    None
}

/// `\`attempts\` is valid for stages of type retry`, if it is valid anywhere.
pub fn valid_for<'a>(key: &str, what: &str, types: impl Iterator<Item = &'a str>) -> Option<String> {
    let types: Vec<&str> = types.collect();
    (!types.is_empty()).then(|| format!("`{key}` is valid for {what} of type {}", suggest::list(&types)))
}
