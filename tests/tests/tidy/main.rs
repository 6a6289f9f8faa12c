//! Holds the rules of the house that neither rustc, clippy nor rustfmt can hold, and reports every breach at
//! once as `file:line: rule: what`. Deliberately a text scanner: it needs no crate and runs in a blink.

mod arrows;
mod docs;
mod promises;
mod shape;
mod source;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use source::Source;

/// One breach of one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Breach {
    path: String,
    line: usize,
    rule: &'static str,
    what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.what)
    }
}

/// Everything the rules look at: all text files of the repository, Rust ones scanned.
struct Tree {
    root: PathBuf,
    texts: Vec<(String, String)>,
    rust: Vec<Source>,
}

impl Tree {
    fn load() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent").to_path_buf();
        let mut texts = Vec::new();
        walk(&root, &root, &mut texts);
        texts.sort();
        let rust = texts.iter().filter(|(p, _)| p.ends_with(".rs")).map(|(p, t)| Source::new(p, t));
        let mut rust: Vec<Source> = rust.collect();
        // A module of tests may be a file of its own.
        let of_tests: BTreeSet<String> = rust.iter().flat_map(Source::test_files).collect();
        rust.iter_mut().filter(|file| of_tests.contains(&file.path)).for_each(Source::all_tests);
        Self { root, texts, rust }
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|(p, _)| p == path).map(|(_, t)| t.as_str())
    }
}

fn walk(root: &Path, dir: &Path, texts: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(dir).expect("a readable folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().expect("a file type");
        if kind.is_dir() {
            let skipped = name == "target" || name == "shared" || (name.starts_with('.') && name != ".ci");
            if !skipped {
                walk(root, &entry.path(), texts);
            }
        } else if kind.is_file()
            && !["Cargo.lock", ".git"].contains(&name.as_str())
            && let Ok(text) = std::fs::read_to_string(entry.path())
        {
            let path = entry.path();
            let relative = path.strip_prefix(root).expect("inside the root");
            texts.push((relative.to_string_lossy().into_owned(), text));
        }
    }
}

/// The repository keeps every rule of the house; all breaches are listed in one run.
#[test]
fn the_house_is_tidy() {
    let tree = Tree::load();
    assert!(tree.rust.len() > 20, "the walk found only {} Rust files: it is broken", tree.rust.len());
    let mut breaches = Vec::new();
    arrows::check(&tree, &mut breaches);
    shape::check(&tree.rust, &mut breaches);
    words::check(&tree, &mut breaches);
    docs::check(&tree, &mut breaches);
    promises::check(&tree, &mut breaches);
    breaches.sort();
    let list: Vec<String> = breaches.iter().map(Breach::to_string).collect();
    assert!(breaches.is_empty(), "{} breaches:\n{}\n", breaches.len(), list.join("\n"));
}
