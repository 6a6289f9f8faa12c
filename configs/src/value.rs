//! One value: from its place in the tree, or from the text of a default, to its type and into its range.
//! Deliberately the only place where a [`Kind`] is interpreted.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::address;
use crate::codes::{self, Code};
use crate::finding::{Finding, Report};
use crate::schema::{Key, Kind, Value};
use crate::source::{Sources, Span};
use crate::suggest;
use crate::tree::{Node, Tree};
use crate::units::{self, UnitError};

/// What values may refer to.
pub struct Scope<'a> {
    /// Texts, for paths.
    pub sources: &'a Sources,
    /// The start of the file: where a finding about something absent points.
    pub file: Span,
    /// Names of the declared transports; none: they could not be read, and none is missed.
    pub transports: &'a [String],
    /// NUMA nodes of this machine; none: they are not known, and none is missed.
    pub nodes: &'a [u32],
    /// Where findings go.
    pub report: &'a mut Report,
}

/// Why a value cannot be taken: code, message, label, help. The place is added by the caller.
struct Refusal {
    code: Code,
    message: String,
    label: String,
    help: String,
    at: Span,
}

impl Refusal {
    fn new(code: Code, at: Span, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code, message: message.into(), label: String::new(), help: help.into(), at }
    }
}

/// Reads one value; a refusal becomes a finding and nothing is returned.
pub fn read(key: &Key, node: &Node, scope: &mut Scope<'_>) -> Option<Value> {
    match typed(key, node, scope) {
        Ok(value) => Some(value),
        Err(no) => {
            scope.report.push(Finding::error(no.code, no.at, no.message).label(no.label).help(no.help));
            None
        }
    }
}

/// The value of a default, written as in a file, with or without its quotes.
///
/// # Errors
/// The default does not fit its own key: a bug of the declaration, held by a test over every catalogue.
pub fn default_of(key: &Key, text: &str) -> Result<Value, String> {
    let span = Span::default();
    let bare = Node { value: Tree::Text(text.to_owned()), span };
    let structured = text.starts_with(['"', '\'', '[', '{']);
    let parsed = structured.then(|| crate::document::parse_value(text, span.source, 0)).flatten();
    let sources = Sources::default();
    let mut report = Report::default();
    let scope = Scope { sources: &sources, file: span, transports: &[], nodes: &[], report: &mut report };
    typed(key, parsed.as_ref().unwrap_or(&bare), &scope)
        .map_err(|no| format!("the default of `{}`: {} ({})", key.name, no.message, no.help))
}

fn typed(key: &Key, node: &Node, scope: &Scope<'_>) -> Result<Value, Refusal> {
    match key.kind {
        Kind::Bytes { min, max } => size(key, node, min, max).map(Value::Number),
        Kind::Time { min_ns, max_ns } => {
            let nanos = unit(key, node, units::nanos, "a time such as \"30s\"")?;
            in_range(key.name, nanos, min_ns, max_ns, units::show_nanos, node.span)?;
            Ok(Value::Time(Duration::from_nanos(nanos)))
        }
        Kind::Count { min, max } => {
            let number = unit(key, node, units::count, "a whole number")?;
            in_range(key.name, number, min, max, |n| n.to_string(), node.span)?;
            Ok(Value::Number(number))
        }
        Kind::Rate { min, max } => {
            let number = unit(key, node, units::bits_per_second, "a rate such as \"200Gbit/s\"")?;
            in_range(key.name, number, min, max, units::show_bits_per_second, node.span)?;
            Ok(Value::Number(number))
        }
        Kind::Percent { min, max } => {
            let number = unit(key, node, units::percent, "a share such as \"25%\"")?;
            in_range(key.name, number, min, max, |n| format!("{n}%"), node.span)?;
            Ok(Value::Number(number))
        }
        Kind::Flag => flag(key, node).map(Value::Flag),
        Kind::Text => Ok(Value::Text(text(key, node, "a string")?.to_owned())),
        Kind::Path => path(key, node, scope).map(Value::Text),
        Kind::Address => address_of(key, node).map(Value::Text),
        Kind::Word(words) => {
            let said = text(key, node, "a word").map_err(|no| Refusal {
                help: format!("write {}", quoted(words).replace(", ", " or ")),
                ..no
            })?;
            one_of(key, said, words, node.span).map(Value::Text)
        }
        Kind::WordOrBytes(words, min, max) => word_or_size(key, node, words, min, max),
        Kind::Texts => list(key, node, |item| Ok(text(key, item, "a string")?.to_owned())),
        Kind::Addresses => list(key, node, |item| address_of(key, item)),
        Kind::Words(words) => {
            list(key, node, |item| one_of(key, text(key, item, "a word")?, words, item.span))
        }
        Kind::Transports => list(key, node, |item| {
            let name = text(key, item, "the name of a transport")?;
            transport(name, item.span, scope)?;
            Ok(name.to_owned())
        }),
        Kind::BytesPerTransport(words, min, max) => match &node.value {
            Tree::Table(table) => {
                let mut sizes = BTreeMap::new();
                for entry in &table.entries {
                    transport(&entry.key, entry.key_span, scope)?;
                    sizes.insert(entry.key.clone(), size(key, &entry.node, min, max)?);
                }
                Ok(Value::PerName(sizes))
            }
            _ => word_or_size(key, node, words, min, max),
        },
        Kind::WordOrTexts(words) => word_or_texts(key, node, words),
    }
}

fn word_or_texts(key: &Key, node: &Node, words: &[&str]) -> Result<Value, Refusal> {
    let Tree::Table(table) = &node.value else {
        let said = text(key, node, "a table").map_err(|no| Refusal {
            help: format!("write {} or {{ name = [\"…\"] }}", quoted(words).replace(", ", " or ")),
            ..no
        })?;
        return one_of(key, said, words, node.span).map(Value::Text);
    };
    let mut all = BTreeMap::new();
    for entry in &table.entries {
        let listed = list(key, &entry.node, |item| Ok(text(key, item, "a string")?.to_owned()))?;
        if let Value::Texts(texts) = listed {
            all.insert(entry.key.clone(), texts);
        }
    }
    Ok(Value::TextsPerName(all))
}

fn word_or_size(key: &Key, node: &Node, words: &[&str], min: u64, max: u64) -> Result<Value, Refusal> {
    match node.as_text() {
        Some(said) if words.contains(&said) => Ok(Value::Text(said.to_owned())),
        Some(said) if !said.trim_start().starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => {
            let near = suggest::nearest(said, words.iter().copied());
            let near = near.map_or(String::new(), |w| format!("did you mean \"{w}\"?  "));
            let help = format!("{near}write {} or a size such as \"64KiB\"", quoted(words));
            Err(Refusal::new(codes::WORD, node.span, format!("`{}` cannot be \"{said}\"", key.name), help))
        }
        _ => size(key, node, min, max).map(Value::Number),
    }
}

fn size(key: &Key, node: &Node, min: u64, max: u64) -> Result<u64, Refusal> {
    let number = unit(key, node, units::bytes, "a size such as \"64KiB\"")?;
    in_range(key.name, number, min, max, units::show_bytes, node.span)?;
    Ok(number)
}

/// A number with or without a unit. Numbers in TOML and texts go through the same reader.
fn unit(
    key: &Key,
    node: &Node,
    reader: fn(&str) -> Result<u64, UnitError>,
    what: &str,
) -> Result<u64, Refusal> {
    let written = match &node.value {
        Tree::Text(text) => text.clone(),
        Tree::Integer(number) => number.to_string(),
        Tree::Float(number) => number.clone(),
        other => return Err(wrong_type(key.name, other, what, node.span)),
    };
    reader(&written).map_err(|error| {
        if error.out_of_range {
            let (min, max, show) = bounds(&key.kind);
            let message = format!("`{}` = {} is outside its range", key.name, written.trim());
            return Refusal {
                label: error.message,
                ..Refusal::new(codes::RANGE, node.span, message, permitted(min, max, show))
            };
        }
        let message = format!("`{}`: {}", key.name, error.message);
        Refusal::new(codes::UNIT, node.span, message, error.help)
    })
}

type Show = fn(u64) -> String;

fn bounds(kind: &Kind) -> (u64, u64, Show) {
    match *kind {
        Kind::Bytes { min, max } => (min, max, units::show_bytes),
        Kind::WordOrBytes(_, min, max) | Kind::BytesPerTransport(_, min, max) => {
            (min, max, units::show_bytes)
        }
        Kind::Time { min_ns, max_ns } => (min_ns, max_ns, units::show_nanos),
        Kind::Rate { min, max } => (min, max, units::show_bits_per_second),
        Kind::Percent { min, max } => (min, max, |n| format!("{n}%")),
        Kind::Count { min, max } => (min, max, |n| n.to_string()),
        _ => (0, u64::MAX, |n| n.to_string()),
    }
}

fn in_range(name: &str, number: u64, min: u64, max: u64, show: Show, at: Span) -> Result<(), Refusal> {
    if (min..=max).contains(&number) {
        return Ok(());
    }
    let label = if number < min {
        format!("the least is {}", show(min))
    } else {
        format!("the most is {}", show(max))
    };
    let message = format!("`{name}` = {} is outside its range", show(number));
    Err(Refusal { label, ..Refusal::new(codes::RANGE, at, message, permitted(min, max, show)) })
}

/// The permitted range, in words.
fn permitted(min: u64, max: u64, show: Show) -> String {
    match max {
        u64::MAX => format!("permitted: {} or more, below 2^64", show(min)),
        _ => format!("permitted: {} to {}", show(min), show(max)),
    }
}

/// The permitted range of a kind, for documentation and findings; `None` where there is none.
pub fn range_of(kind: &Kind) -> Option<String> {
    let (min, max, show) = bounds(kind);
    (min > 0 || max < u64::MAX).then(|| permitted(min, max, show))
}

fn flag(key: &Key, node: &Node) -> Result<bool, Refusal> {
    match &node.value {
        Tree::Flag(flag) => Ok(*flag),
        Tree::Text(text) if text == "true" => Ok(true),
        Tree::Text(text) if text == "false" => Ok(false),
        other => Err(wrong_type(key.name, other, "true or false", node.span)),
    }
}

fn text<'a>(key: &Key, node: &'a Node, what: &str) -> Result<&'a str, Refusal> {
    node.as_text().ok_or_else(|| wrong_type(key.name, &node.value, what, node.span))
}

fn path(key: &Key, node: &Node, scope: &Scope<'_>) -> Result<String, Refusal> {
    let said = text(key, node, "a path")?;
    if said.is_empty() || said.contains('\0') {
        let help = "write the path of a file or directory; relative ones start at the file that says them";
        return Err(Refusal::new(codes::TYPE, node.span, format!("`{}` is not a path", key.name), help));
    }
    Ok(scope.sources.resolve(node.span, said).to_string_lossy().into_owned())
}

fn address_of(key: &Key, node: &Node) -> Result<String, Refusal> {
    let said = text(key, node, "an address such as \"10.0.0.5:7001\"")?;
    match address::parse(said) {
        Ok(address) => Ok(address.to_string()),
        Err(error) => {
            let message = format!("`{}`: {}", key.name, error.message);
            Err(Refusal::new(codes::ADDRESS, node.span, message, error.help))
        }
    }
}

fn one_of(key: &Key, said: &str, words: &[&str], at: Span) -> Result<String, Refusal> {
    if words.contains(&said) {
        return Ok(said.to_owned());
    }
    let message = format!("`{}` cannot be \"{said}\"", key.name);
    Err(Refusal::new(codes::WORD, at, message, suggest::help(said, "words", words.iter().copied())))
}

fn transport(name: &str, at: Span, scope: &Scope<'_>) -> Result<(), Refusal> {
    if scope.transports.is_empty() || scope.transports.iter().any(|t| t == name) {
        return Ok(());
    }
    let help = suggest::help(name, "transports", scope.transports.iter().map(String::as_str));
    Err(Refusal::new(codes::TRANSPORT_UNKNOWN, at, format!("unknown transport `{name}`"), help))
}

fn list(
    key: &Key,
    node: &Node,
    mut item: impl FnMut(&Node) -> Result<String, Refusal>,
) -> Result<Value, Refusal> {
    let Tree::Array(items) = &node.value else {
        let near = node.as_text().map(|text| format!("write [\"{text}\"]"));
        let no = wrong_type(key.name, &node.value, "an array", node.span);
        return Err(Refusal { help: near.unwrap_or(no.help), ..no });
    };
    let mut texts: Vec<String> = Vec::with_capacity(items.len());
    for node in items {
        let text = item(node)?;
        if texts.contains(&text) {
            let message = format!("`{}` lists \"{text}\" twice", key.name);
            return Err(Refusal::new(codes::TWICE, node.span, message, "name it once"));
        }
        texts.push(text);
    }
    Ok(Value::Texts(texts))
}

fn wrong_type(name: &str, found: &Tree, what: &str, at: Span) -> Refusal {
    let message = format!("`{name}` must be {what}, not {}", found.type_name());
    Refusal::new(codes::TYPE, at, message, format!("write {what}"))
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|w| format!("\"{w}\"")).collect::<Vec<_>>().join(", ")
}
