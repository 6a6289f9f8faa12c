//! Changes in the text of a file: comments, order and layout stay, only changed values are new, and a comment behind each says what
//! it was. What a preset says is not rewritten: its overrides are added to the file.
//!
//! Deliberately checked after the fact and not trusted: the new text is loaded, and must say the same as what was measured.

mod diff;
mod place;
#[cfg(test)]
mod tests;

use pipeline_configs::Loaded;
use pipeline_configs::show::show;
use pipeline_configs::source::{Layer, Source, SourceId};
use pipeline_stages::catalog::catalog;
use toml_edit::DocumentMut;

use super::space::Change;

pub use diff::unified;

/// The text with all changes made; `note` stands in the comment behind each, `preset` is the text that the file is laid over.
///
/// # Errors
/// What cannot be changed, and why.
pub fn rewrite(text: &str, preset: &str, changes: &[Change], note: &str) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|e| format!("the file is not TOML: {e}"))?;
    let preset: DocumentMut = preset.parse().map_err(|e| format!("its preset is not TOML: {e}"))?;
    for change in changes {
        place::change(&mut document, &preset, change, note)?;
    }
    Ok(document.to_string())
}

/// The text of the preset that a file uses; nothing where it uses none.
pub fn preset_of(loaded: &Loaded) -> &str {
    let sources = &loaded.warnings.sources;
    let mut texts = (0..u16::MAX).map_while(|id| sources.get(SourceId(id)));
    let is_preset =
        |source: &&Source| source.layer == Layer::Preset && source.text.parse::<DocumentMut>().is_ok();
    texts.find(is_preset).map_or("", |source| &source.text)
}

/// Whether two files say the same, in every value, wherever each comes from.
///
/// # Errors
/// The first value that differs.
pub fn same(written: &Loaded, measured: &Loaded) -> Result<(), String> {
    let values = |loaded: &Loaded| {
        let mut values: Vec<(String, String)> =
            show(loaded, &catalog()).into_iter().map(|shown| (shown.path, ordered(&shown.value))).collect();
        values.sort();
        values
    };
    let (written, measured) = (values(written), values(measured));
    let differs = written.iter().find(|value| !measured.contains(value));
    let lacks = || measured.iter().find(|value| !written.contains(value));
    match differs.or_else(lacks) {
        None => Ok(()),
        Some((path, value)) => Err(format!("`{path}` is {value} in only one of the two")),
    }
}

/// A table with its keys in order: one that is laid over another has those of that first.
fn ordered(value: &str) -> String {
    let Some(keys) = value.strip_prefix("{ ").and_then(|rest| rest.strip_suffix(" }")) else {
        return value.to_owned();
    };
    let mut keys: Vec<&str> = keys.split(", ").collect();
    keys.sort_unstable();
    format!("{{ {} }}", keys.join(", "))
}

/// Keys of edges are equal whatever blanks stand in them.
fn same_key(one: &str, other: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" -> ", "->");
    plain(one).replace(' ', "") == plain(other).replace(' ', "")
}

/// A value of TOML.
fn value(text: &str) -> Result<toml_edit::Value, String> {
    text.parse().map_err(|_| format!("`{text}` is no value"))
}
