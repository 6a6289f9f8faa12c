//! A TOML document as a tree of owned values, each with its place, tables in the order of the file.
//! Deliberately untyped: what a value means is decided by the table it stands in.

use crate::source::Span;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub value: Tree,
    /// Where it stands. For a `[table]`, its header.
    pub span: Span,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Tree {
    /// A string.
    Text(String),
    /// An integer as written (decimal after its radix was resolved), which may exceed 64 bits.
    Integer(i128),
    /// A float as written.
    Float(String),
    /// A boolean.
    Flag(bool),
    /// A date or time as written.
    Datetime(String),
    /// An array.
    Array(Vec<Node>),
    /// A table.
    Table(Table),
}

/// A table: entries in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Entries.
    pub entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

impl Table {
    /// An entry by its key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// An entry by its key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.key == key)
    }
}

impl Tree {
    /// What a person calls it, with its article.
    pub fn type_name(&self) -> &'static str {
        match self {
            Tree::Text(_) => "a string",
            Tree::Integer(_) => "an integer",
            Tree::Float(_) => "a float",
            Tree::Flag(_) => "a boolean",
            Tree::Datetime(_) => "a date or time",
            Tree::Array(_) => "an array",
            Tree::Table(_) => "a table",
        }
    }
}

impl Node {
    /// Its text, if it is a string.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its entries, if it is a table.
    pub fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Tree::Table(table) => Some(table),
            _ => None,
        }
    }
}
