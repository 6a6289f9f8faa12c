//! Texts that settings come from, and places in them: the file, its preset, the environment, `--set`.
//! Deliberately ignorant of TOML: a place is a byte range, and line and column are counted when one is shown.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Index of a text in [`Sources`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u16);

/// A byte range in one text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Which text.
    pub source: SourceId,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// From the first byte of `self` to the last of `other`, in the text of `self`.
    pub fn to(self, other: Span) -> Span {
        Span { end: other.end.max(self.end), ..self }
    }
}

/// Who speaks: a later one beats an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The preset that the file uses.
    Preset,
    /// The file.
    File,
    /// `PIPELINE_NODE__…` variables.
    Environment,
    /// `--set`.
    Set,
}

/// One text.
#[derive(Clone, Debug)]
pub struct Source {
    /// What a finding calls it: a path as the user gave it, `<preset tcp>`, `--set`.
    pub name: String,
    /// Its whole text.
    pub text: String,
    /// Who speaks.
    pub layer: Layer,
    /// Where its relative paths start; `None`: the working directory.
    pub dir: Option<PathBuf>,
}

/// Line and column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl Source {
    /// Line and column of a byte; a byte past the end or inside a character is moved back onto the text.
    pub fn position(&self, byte: usize) -> Position {
        let byte = self.floor(byte);
        let before = &self.text[..byte];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Position {
            line: before.bytes().filter(|b| *b == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// The line that holds a byte, without its line end, and the byte where it starts.
    pub fn line(&self, byte: usize) -> (usize, &str) {
        let byte = self.floor(byte);
        let start = self.text[..byte].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[byte..].find('\n').map_or(self.text.len(), |at| byte + at);
        (start, self.text[start..end].trim_end_matches('\r'))
    }

    /// The text of a range; empty when the range is not on it.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or("")
    }

    fn floor(&self, byte: usize) -> usize {
        let mut byte = byte.min(self.text.len());
        while !self.text.is_char_boundary(byte) {
            byte -= 1;
        }
        byte
    }
}

/// All texts of one load. Cheap to clone: findings carry it, so that they can be shown anywhere.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<Arc<Source>>);

impl Sources {
    /// Adds a text. A load has a preset, a file and a bounded number of overrides, far below 65 536.
    pub fn add(&mut self, source: Source) -> SourceId {
        let id = SourceId(u16::try_from(self.0.len()).unwrap_or(u16::MAX));
        self.0.push(Arc::new(source));
        id
    }

    /// A text by its index.
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        self.0.get(usize::from(id.0)).map(Arc::as_ref)
    }

    /// Who speaks at a place.
    pub fn layer(&self, span: Span) -> Layer {
        self.get(span.source).map_or(Layer::File, |s| s.layer)
    }

    /// The text of a place.
    pub fn slice(&self, span: Span) -> &str {
        self.get(span.source).map_or("", |s| s.slice(span))
    }

    /// `file:line:column` of a place.
    pub fn label(&self, span: Span) -> String {
        match self.get(span.source) {
            Some(source) => {
                let at = source.position(span.start);
                format!("{}:{}:{}", source.name, at.line, at.column)
            }
            None => String::from("?"),
        }
    }

    /// A path said at a place: relative paths start where the text lies.
    pub fn resolve(&self, span: Span, path: &str) -> PathBuf {
        let path = path.strip_prefix("./").unwrap_or(path);
        match self.get(span.source).and_then(|s| s.dir.as_deref()) {
            Some(dir) if Path::new(path).is_relative() => dir.join(path),
            _ => PathBuf::from(path),
        }
    }

    /// All texts, in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter().map(Arc::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { name: "f".into(), text: text.into(), layer: Layer::File, dir: None }
    }

    /// Columns count characters, not bytes, and no byte offset panics.
    #[test]
    fn positions_count_characters() {
        let s = source("a = 1\r\nä = \"ö\"\n");
        assert_eq!(s.position(0), Position { line: 1, column: 1 });
        assert_eq!(s.position(7), Position { line: 2, column: 1 });
        assert_eq!(s.position(9), Position { line: 2, column: 2 });
        assert_eq!(s.position(8), Position { line: 2, column: 1 });
        assert_eq!(s.position(999), Position { line: 3, column: 1 });
        assert_eq!(s.line(3), (0, "a = 1"));
        assert_eq!(s.line(10).1, "ä = \"ö\"");
        assert_eq!(s.line(999).1, "");
    }

    /// Relative paths start at the text that says them, absolute ones stay.
    #[test]
    fn paths_start_at_their_file() {
        let mut sources = Sources::default();
        let id = sources.add(Source { dir: Some("/etc/node".into()), ..source("") });
        let span = Span { source: id, start: 0, end: 0 };
        assert_eq!(sources.resolve(span, "data"), Path::new("/etc/node/data"));
        assert_eq!(sources.resolve(span, "/data"), Path::new("/data"));
    }
}
