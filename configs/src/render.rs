//! Findings as text with a snippet and carets, and as JSON lines.
//! Deliberately without colour: the binary may add it; goldens and logs stay plain.

use std::fmt::Write as _;

use serde_json::json;

use crate::finding::{Finding, Findings, Severity};
use crate::plain;
use crate::source::{Sources, Span};

/// Characters of a line that a snippet shows at most.
const LINE_SHOWN: usize = 160;

/// Findings that the text shows at most; JSON lines have them all.
const SHOWN: usize = 200;

/// All findings, with a last line that counts them.
pub fn text(findings: &Findings) -> String {
    let mut out = String::new();
    for finding in findings.list.iter().take(SHOWN) {
        one(&mut out, finding, &findings.sources);
        out.push('\n');
    }
    if findings.list.len() > SHOWN {
        let _ = writeln!(out, "and {} more\n", findings.list.len() - SHOWN);
    }
    if !findings.is_empty() {
        let _ = writeln!(out, "{}", findings.count());
    }
    out
}

/// What there is of both, and nothing of what there is not.
pub fn count(errors: usize, warnings: usize) -> String {
    let some = |n: usize, what: &str| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    };
    [some(errors, "error"), some(warnings, "warning")].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn one(out: &mut String, finding: &Finding, sources: &Sources) {
    let word = severity(finding.severity);
    let _ = writeln!(out, "{word}[{}]: {}", finding.code, plain::line(&finding.message));
    let places = finding.place.iter().chain(finding.related.iter().map(|(span, _)| span));
    let width = places.map(|s| line_number(sources, *s).to_string().len()).max().unwrap_or(1).max(2);
    if let Some(place) = finding.place {
        let _ = writeln!(out, "{:width$}--> {}", "", plain::line(&sources.label(place)));
        snippet(out, sources, place, width, '^', &finding.label);
    }
    for (place, remark) in &finding.related {
        let _ = writeln!(out, "{:width$}::: {}", "", plain::line(&sources.label(*place)));
        snippet(out, sources, *place, width, '-', remark);
    }
    for help in &finding.help {
        let _ = writeln!(out, "{:width$} = help: {}", "", plain::line(help));
    }
}

fn snippet(out: &mut String, sources: &Sources, span: Span, width: usize, mark: char, remark: &str) {
    let Some(source) = sources.get(span.source) else { return };
    let number = source.position(span.start).line;
    let (line_start, line) = source.line(span.start);
    let start = span.start.saturating_sub(line_start).min(line.len());
    let end = span.end.saturating_sub(line_start).clamp(start, line.len());
    let column = line.get(..start).map_or(0, |before| before.chars().count());
    let length = line.get(start..end).map_or(1, |marked| marked.chars().count()).max(1);
    // A window keeps one long line from flooding the terminal.
    let skip = if column + length.min(LINE_SHOWN / 2) > LINE_SHOWN { column - LINE_SHOWN / 4 } else { 0 };
    let shown: String = line.chars().skip(skip).take(LINE_SHOWN).map(visible).collect();
    let length = length.min(LINE_SHOWN.saturating_sub(column - skip)).max(1);
    let marks: String = std::iter::repeat_n(mark, length).collect();
    let _ = writeln!(out, "{:width$} |", "");
    let _ = writeln!(out, "{}", format!("{number:width$} | {shown}").trim_end());
    let under =
        format!("{:width$} | {:indent$}{marks} {}", "", "", plain::line(remark), indent = column - skip);
    let _ = writeln!(out, "{}", under.trim_end());
}

/// One object a finding, one line an object.
pub fn json_lines(findings: &Findings) -> String {
    findings.list.iter().map(|f| format!("{}\n", object(f, &findings.sources))).collect()
}

fn object(finding: &Finding, sources: &Sources) -> serde_json::Value {
    let related: Vec<_> = finding
        .related
        .iter()
        .map(|(span, remark)| {
            let mut at = place(sources, *span);
            at["message"] = json!(remark);
            at
        })
        .collect();
    let mut object = finding.place.map_or_else(|| json!({}), |span| place(sources, span));
    object["severity"] = json!(severity(finding.severity));
    object["code"] = json!(finding.code.to_string());
    object["message"] = json!(finding.message);
    object["label"] = json!(finding.label);
    object["help"] = json!(finding.help);
    object["related"] = json!(related);
    object
}

fn place(sources: &Sources, span: Span) -> serde_json::Value {
    let Some(source) = sources.get(span.source) else { return json!({}) };
    let (start, end) = (source.position(span.start), source.position(span.end));
    json!({ "file": source.name, "line": start.line, "column": start.column,
            "end_line": end.line, "end_column": end.column })
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn line_number(sources: &Sources, span: Span) -> usize {
    sources.get(span.source).map_or(1, |s| s.position(span.start).line)
}

/// A file must not be able to speak to the terminal through its findings; in a snippet each character keeps its column.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;
    use crate::source::{Layer, Source};

    fn findings(text: &str, range: std::ops::Range<usize>) -> Findings {
        let mut sources = Sources::default();
        let source =
            sources.add(Source { name: "a.toml".into(), text: text.into(), layer: Layer::File, dir: None });
        let span = Span { source, start: range.start, end: range.end };
        let finding = Finding::error(codes::POOL_UNKNOWN, span, "unknown pool `fornt`")
            .label("no such pool")
            .help("did you mean `front`?");
        Findings::new(vec![finding], sources)
    }

    /// The layout is the one that the documentation shows.
    #[test]
    fn text_layout() {
        let text = findings("x = 1\npool = \"fornt\"\n", 13..20).text();
        let want = "error[P0203]: unknown pool `fornt`\n  --> a.toml:2:8\n   |\n 2 | pool = \"fornt\"\n   \
                    |        ^^^^^^^ no such pool\n   = help: did you mean `front`?\n\n1 error\n";
        assert_eq!(text, want);
    }

    /// Escape sequences in a file do not reach the terminal, and a long line is cut to a window.
    #[test]
    fn hostile_and_long_lines() {
        let text = findings("\u{1b}[31m = \"ä\"", 0..5).text();
        assert!(!text.contains('\u{1b}'), "{text}");
        let long = format!("{} = \"fornt\"", "k".repeat(10_000));
        let text = findings(&long, 10_003..10_010).text();
        assert!(text.lines().all(|l| l.chars().count() < 300), "{text}");
        assert!(text.contains("\"fornt\"") && text.contains("^^^^^^^"), "{text}");
    }

    /// Each line of JSON is one object with place, code and help.
    #[test]
    fn json_has_places() {
        let lines = findings("x = 1\npool = \"fornt\"\n", 13..20).json_lines();
        let object: serde_json::Value = serde_json::from_str(lines.trim_end()).unwrap();
        assert_eq!((&object["line"], &object["column"]), (&json!(2), &json!(8)));
        assert_eq!((&object["code"], &object["severity"]), (&json!("P0203"), &json!("error")));
    }
}
