//! Text to tree: TOML with every syntax error at once, and with places kept.
//! Deliberately not serde: internally tagged enums lose their places, so tables are walked by hand.

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use crate::codes;
use crate::finding::{Finding, Report};
use crate::source::{SourceId, Sources, Span};
use crate::toml_version;
use crate::tree::{Entry, Node, Table, Tree};

/// Most bytes of one text: far above any real file, low enough that a wrong path (`-c disk.img`) ends at once.
pub const MAX_BYTES: u64 = 4 << 20;

/// Findings of one text that are shown; a binary file makes thousands.
const MAX_SYNTAX_FINDINGS: usize = 20;

/// Parses one text. What can be read in spite of errors is returned, so that later checks can speak too.
pub fn parse(sources: &Sources, source: SourceId, report: &mut Report) -> Table {
    let Some(text) = sources.get(source).map(|s| s.text.as_str()) else { return Table::default() };
    let (table, errors) = DeTable::parse_recoverable(text);
    let tree = own_table(table.get_ref(), source);
    for error in errors.iter().take(MAX_SYNTAX_FINDINGS) {
        report.push(syntax(error, text, &tree, source));
    }
    if errors.is_empty() {
        toml_version::check(table.get_ref(), text, source, report);
    }
    tree
}

/// Parses one TOML value, as `--set` and the environment give it; `None` if it is not one.
pub fn parse_value(text: &str, source: SourceId, offset: usize) -> Option<Node> {
    let value = DeValue::parse(text).ok()?;
    let mut node = own_value(&value, source);
    shift(&mut node, offset);
    Some(node)
}

/// A dotted path of keys as nested tables around an integer, with its places; `None` if it is not one dotted key.
pub fn parse_path(path: &str, source: SourceId) -> Option<Table> {
    let text = format!("{path} = 0");
    let table = DeTable::parse(&text).ok()?;
    let table = own_table(table.get_ref(), source);
    (!path.contains('\n') && table.entries.len() == 1).then_some(table)
}

fn shift(node: &mut Node, offset: usize) {
    node.span.start += offset;
    node.span.end += offset;
    match &mut node.value {
        Tree::Array(items) => items.iter_mut().for_each(|item| shift(item, offset)),
        Tree::Table(table) => table.entries.iter_mut().for_each(|entry| {
            entry.key_span.start += offset;
            entry.key_span.end += offset;
            shift(&mut entry.node, offset);
        }),
        _ => {}
    }
}

fn syntax(error: &Error, text: &str, tree: &Table, source: SourceId) -> Finding {
    let range = error.span().unwrap_or(text.len()..text.len());
    let span = Span { source, start: range.start, end: range.end };
    let message = error.message();
    if message.starts_with("duplicate key") {
        let key = text.get(range).unwrap_or("").trim_matches(['"', '\'']);
        let finding = Finding::error(codes::TWICE, span, format!("`{key}` is given twice in one table"));
        let mut before = Vec::new();
        named(tree, key, span.start, &mut before);
        // The parser does not tell the first place; where only one comes into question, it is that.
        let finding = match before.as_slice() {
            [first] => finding.related(*first, "given here first"),
            _ => finding,
        };
        return finding.label("given again here").help("keep one of the two, or give one another name");
    }
    let finding = Finding::error(codes::SYNTAX, span, format!("not TOML: {message}"));
    finding.help(remedy(message, text, span.start))
}

/// Places of a key before a byte, in any table.
fn named(table: &Table, key: &str, before: usize, places: &mut Vec<Span>) {
    for entry in &table.entries {
        if entry.key == key && entry.key_span.start < before {
            places.push(entry.key_span);
        }
        if let Tree::Table(inner) = &entry.node.value {
            named(inner, key, before, places);
        }
    }
}

/// What to write instead, for the slips that people make.
fn remedy(message: &str, text: &str, at: usize) -> String {
    let line = text.get(..at).map_or(0, |before| before.rfind('\n').map_or(0, |n| n + 1));
    let rest = text.get(line..).and_then(|t| t.lines().next()).unwrap_or("").trim();
    if message.contains("extend value of type inline table") {
        let inside = "a table written with braces is closed: add the key inside the braces";
        return format!("{inside}, or write a [table] with one key a line");
    }
    if rest.contains("->") && !rest.starts_with(['"', '\'', '[']) {
        return String::from("write the key of an edge in quotes: \"a -> b\" = \"inline\"");
    }
    let value = rest.split_once('=').map_or("", |(_, v)| v.split('#').next().unwrap_or("").trim());
    let bare = !value.is_empty() && !value.contains(['"', '\'', '{', '[', '\\', ' ', '=']);
    if bare && (message.contains("invalid") || message.contains("must be quoted")) {
        return format!("write strings, sizes and times in quotes: \"{value}\"");
    }
    match message.rsplit_once("expected `").and_then(|(_, tail)| tail.strip_suffix('`')) {
        Some(wanted) => format!("add `{wanted}` here, or look for what is not closed above"),
        None => String::from("a line is key = value, a [table] header, or a # comment"),
    }
}

fn own_table(table: &DeTable<'_>, source: SourceId) -> Table {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_span: span(key.span(), source),
            node: own_value(value, source),
        })
        .collect();
    // The parser sorts keys by name; users and NIC workers count in the order of the file.
    entries.sort_by_key(|e| e.key_span.start);
    Table { entries }
}

fn own_value(value: &Spanned<DeValue<'_>>, source: SourceId) -> Node {
    let tree = match value.get_ref() {
        DeValue::String(text) => Tree::Text(text.to_string()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Tree::Integer(number),
            // More digits than 128 bits hold: out of every range, with the sign it had.
            Err(_) if number.as_str().starts_with('-') => Tree::Integer(i128::MIN),
            Err(_) => Tree::Integer(i128::MAX),
        },
        DeValue::Float(number) => Tree::Float(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Tree::Flag(*flag),
        DeValue::Datetime(at) => Tree::Datetime(at.to_string()),
        DeValue::Array(items) => Tree::Array(items.iter().map(|item| own_value(item, source)).collect()),
        DeValue::Table(table) => Tree::Table(own_table(table, source)),
    };
    Node { value: tree, span: span(value.span(), source) }
}

fn span(range: std::ops::Range<usize>, source: SourceId) -> Span {
    Span { source, start: range.start, end: range.end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Layer, Source};

    fn read(text: &str) -> (Table, Report) {
        let mut sources = Sources::default();
        let id = sources.add(Source { name: "t".into(), text: text.into(), layer: Layer::File, dir: None });
        let mut report = Report::default();
        let table = parse(&sources, id, &mut report);
        (table, report)
    }

    /// Entries keep the order of the file, also through dotted keys and headers.
    #[test]
    fn order_of_the_file() {
        let (table, report) = read("z = 1\na.y = 2\na.b = 3\n[m]\n[c]\n");
        assert!(report.findings.is_empty());
        let keys: Vec<&str> = table.entries.iter().map(|e| e.key.as_str()).collect();
        assert_eq!(keys, ["z", "a", "m", "c"]);
        let a = table.get("a").and_then(|e| e.node.as_table()).unwrap();
        assert_eq!(a.entries.iter().map(|e| e.key.as_str()).collect::<Vec<_>>(), ["y", "b"]);
    }

    /// Several syntax errors are found in one run, and the rest is still readable.
    #[test]
    fn several_errors_and_the_rest() {
        let (table, report) = read("a = \nb = 64KiB\nok = 1\n");
        assert!(report.findings.len() >= 2, "{:?}", report.findings);
        assert!(table.get("ok").is_some());
    }

    /// Integers of any length and both signs survive.
    #[test]
    fn long_integers() {
        let (table, _) = read(
            "a = 17293822569102704640\nb = -1\nc = 0x10\nd = 9999999999999999999999999999999999999999999\n",
        );
        let numbers: Vec<i128> = table
            .entries
            .iter()
            .map(|e| match e.node.value {
                Tree::Integer(n) => n,
                _ => 0,
            })
            .collect();
        assert_eq!(numbers, [17_293_822_569_102_704_640, -1, 16, i128::MAX]);
    }
}
