//! Finds what only TOML 1.1 allows: line breaks and a last comma in `{ … }`, and the escapes `\e` and `\xHH`.
//! Deliberately refused: files stay TOML 1.0, which every editor and schema tool reads.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::codes;
use crate::finding::{Finding, Report};
use crate::source::{SourceId, Span};

/// Checks a parsed document against its text.
pub fn check(table: &DeTable<'_>, text: &str, source: SourceId, report: &mut Report) {
    let mut walk = Walk { text, source, report };
    walk.table(table);
}

struct Walk<'a> {
    text: &'a str,
    source: SourceId,
    report: &'a mut Report,
}

impl Walk<'_> {
    fn table(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            self.escapes(key.span());
            self.value(value);
        }
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::String(_) => self.escapes(value.span()),
            DeValue::Array(items) => items.iter().for_each(|item| self.value(item)),
            DeValue::Table(table) => {
                if self.text[value.span()].starts_with('{') {
                    self.braces(table, value.span());
                }
                self.table(table);
            }
            _ => {}
        }
    }

    /// Looks at the text between the entries of an inline table.
    fn braces(&mut self, table: &DeTable<'_>, range: std::ops::Range<usize>) {
        let mut taken = Vec::new();
        leaves(table, self.text, &mut taken);
        taken.sort_by_key(|r| r.start);
        let mut at = range.start + 1;
        for inner in taken.iter().chain([&(range.end.saturating_sub(1)..range.end)]) {
            let gap = self.text.get(at..inner.start).unwrap_or("");
            let code = gap.split('#').next().unwrap_or("");
            if let Some(newline) = gap.find('\n') {
                self.found(
                    at + newline..at + newline + 1,
                    "a line break inside `{ … }`",
                    "write the table on one line, or as a [table] of its own with one key a line",
                );
                return;
            }
            if let Some(comma) = code.rfind(',').filter(|_| inner.end == range.end) {
                let help = "take the comma before `}` away";
                self.found(at + comma..at + comma + 1, "a comma after the last key of `{ … }`", help);
            }
            at = at.max(inner.end);
        }
    }

    fn escapes(&mut self, range: std::ops::Range<usize>) {
        let raw = self.text.get(range.clone()).unwrap_or("");
        if !raw.starts_with('"') {
            return;
        }
        let mut chars = raw.char_indices();
        while let Some((at, c)) = chars.next() {
            if c != '\\' {
                continue;
            }
            if let Some((_, escaped @ ('e' | 'x'))) = chars.next() {
                let start = range.start + at;
                let help = if escaped == 'e' { "write \\u001B" } else { "write \\u00HH" };
                self.found(start..start + 2, &format!("the escape `\\{escaped}`"), help);
            }
        }
    }

    fn found(&mut self, range: std::ops::Range<usize>, what: &str, help: &str) {
        let span = Span { source: self.source, start: range.start, end: range.end };
        let message = format!("{what} is TOML 1.1 only; files here are TOML 1.0");
        self.report.push(Finding::error(codes::TOML_1_1, span, message).help(help));
    }
}

/// Ranges of keys and written values, through dotted keys.
fn leaves(table: &DeTable<'_>, text: &str, out: &mut Vec<std::ops::Range<usize>>) {
    for (key, value) in table {
        out.push(key.span());
        match value.get_ref() {
            DeValue::Table(inner) if !text[value.span()].starts_with('{') => leaves(inner, text, out),
            _ => out.push(value.span()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let table = DeTable::parse(text).unwrap();
        let mut report = Report::default();
        check(table.get_ref(), text, SourceId(0), &mut report);
        report.findings.into_iter().map(|f| format!("{:?} {}", f.place.map(|p| p.start), f.message)).collect()
    }

    /// Each TOML 1.1 form is found at its place.
    #[test]
    fn forms_of_1_1() {
        assert_eq!(found("a = { b = 1,\n c = 2 }\n").len(), 1);
        assert_eq!(
            found("a = { b = 1, }\n"),
            ["Some(11) a comma after the last key of `{ … }` is TOML 1.1 only; files here are TOML 1.0"]
        );
        assert_eq!(found(r#"a = "\e[0m""#).len(), 1);
        assert_eq!(found(r#"a = "\x41""#).len(), 1);
    }

    /// What TOML 1.0 allows is left alone.
    #[test]
    fn forms_of_1_0() {
        let text = "a = { b = [\n 1,\n 2,\n], s = \"\"\"x,\n}\"\"\", d.e = \"\\\\e,\", l = '\\e' }\n[t]\nx = { y = { z = 1 } }\n";
        assert_eq!(found(text), Vec::<String>::new());
    }
}
