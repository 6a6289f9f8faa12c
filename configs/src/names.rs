//! The rules for names. Names of things in the file are `[a-z][a-z0-9_]*` without `__` (so that a variable
//! `PIPELINE_NODE__POOLS__NIC__THREADS` can spell them); names of nodes and peers are `[A-Za-z0-9._-]+`.

use crate::codes;
use crate::finding::{Finding, Report};
use crate::source::Span;

/// Longest name, bytes: names become thread names, metric labels and fields on the wire.
pub const MAX_NAME: usize = 64;

/// Checks the name of a stage, pool, transport or segment.
pub fn check(what: &str, name: &str, at: Span, report: &mut Report) -> bool {
    if is_name(name) {
        return true;
    }
    let finding = Finding::error(codes::NAME, at, format!("`{name}` cannot be the name of a {what}"));
    let rule = format!(
        "names are a-z, 0-9 and single `_`, start with a letter, and have at most {MAX_NAME} letters"
    );
    report.push(finding.help(match mended(name) {
        Some(better) => format!("write `{better}`; {rule}"),
        None => rule,
    }));
    false
}

/// Checks the name of a node or peer.
pub fn check_node(what: &str, name: &str, at: Span, report: &mut Report) -> bool {
    if is_node(name) {
        return true;
    }
    let rule = format!("such names are A-Z, a-z, 0-9, `.`, `_` and `-`, at most {MAX_NAME} of them");
    report
        .push(Finding::error(codes::NAME, at, format!("`{name}` cannot be the name of a {what}")).help(rule));
    false
}

/// Whether it could be the name of a node or peer.
pub fn is_node(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(good)
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !name.contains("__")
}

fn mended(name: &str) -> Option<String> {
    let mut better: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect::<String>()
        .trim_matches('_')
        .to_owned();
    while better.contains("__") {
        better = better.replace("__", "_");
    }
    is_name(&better).then_some(better)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that a variable can spell pass; the rest is refused with a better one.
    #[test]
    fn rules() {
        assert!(["a", "nic_select", "tcp0"].iter().all(|n| is_name(n)));
        assert!(["", "A", "0a", "_a", "a__b", "a-b", "é"].iter().all(|n| !is_name(n)));
        assert_eq!(mended("NIC-Select"), Some("nic_select".into()));
        assert_eq!(mended("é"), None);
        let mut report = Report::default();
        assert!(check_node("node", "decode-0.rack_1", Span::default(), &mut report));
        assert!(!check_node("peer", "a b", Span::default(), &mut report));
    }
}
