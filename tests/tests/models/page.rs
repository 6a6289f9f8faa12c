//! `docs/models.md` shows pieces of the shipped files and their pictures: they are what the files say.
//! `UPDATE_GOLDENS=1 cargo test -p pipeline-tests --test models page` writes them anew.
//!
//! A piece stands between `<!-- FILE: WHAT -->` and `<!-- to here -->`. WHAT is `picture`, or names of tables (`[edges]`)
//! and of their lines (`stages.notify`).

use std::path::{Path, PathBuf};

use pipeline_configs::{Options, load};
use pipeline_graph::draw;
use pipeline_stages::catalog::catalog;

use crate::files::MODELS;

const END: &str = "<!-- to here -->";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The page with every piece as the files have it, and the pieces there are.
fn anew(page: &str) -> (String, Vec<(String, String)>) {
    let (mut text, mut pieces, mut lines) = (String::new(), Vec::new(), page.lines());
    while let Some(line) = lines.next() {
        text += &format!("{line}\n");
        let inner = line.strip_prefix("<!-- configs/").and_then(|l| l.strip_suffix(" -->"));
        let Some((file, what)) = inner.and_then(|l| l.split_once(": ")) else { continue };
        text += &piece(&root().join("configs").join(file), what);
        text += &format!("{END}\n");
        pieces.push((file.to_owned(), what.to_owned()));
        assert!(lines.any(|line| line == END), "`{line}` without `{END}`");
    }
    (text, pieces)
}

fn piece(file: &Path, what: &str) -> String {
    if what == "picture" {
        return format!("```mermaid\n{}```\n", picture(file));
    }
    let toml = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut blocks = Vec::new();
    let mut wanted = what.split(' ').peekable();
    while let Some(name) = wanted.next() {
        if name.starts_with('[') {
            blocks.push(table(&toml, name).join("\n"));
            continue;
        }
        let (of, mut key) = name.split_once('.').unwrap_or_else(|| panic!("`{name}` is no table.key"));
        let mut block = vec![format!("[{of}]")];
        loop {
            let begin = format!("{key} = ");
            let lines = table(&toml, &format!("[{of}]"));
            let line = lines.iter().find(|line| line.starts_with(&begin));
            block.push((*line.unwrap_or_else(|| panic!("{}: no {of}.{key}", file.display()))).to_owned());
            let Some(next) = wanted.next_if(|next| next.starts_with(&format!("{of}."))) else { break };
            key = &next[of.len() + 1..];
        }
        blocks.push(block.join("\n"));
    }
    format!("```toml\n{}\n```\n", blocks.join("\n\n"))
}

/// The lines of a table, its head first.
fn table<'a>(toml: &'a str, head: &str) -> Vec<&'a str> {
    let from = toml.lines().skip_while(|line| *line != head);
    let lines: Vec<_> = from.take_while(|line| !line.is_empty()).collect();
    assert!(!lines.is_empty(), "no {head}");
    lines
}

/// As `pipeline-node graph --format mermaid` draws it, on a machine of four CPUs.
fn picture(file: &Path) -> String {
    let options = Options { cpus: vec![0, 1, 2, 3], budget: 4, ..Options::default() };
    let loaded = load(file, &catalog(), &options).unwrap_or_else(|findings| panic!("{findings}"));
    draw::mermaid(&loaded.config.blueprint)
}

/// Every piece on the page is what its file says, and every model has a heading, its picture, its TOML and a place for its
/// measured row.
#[test]
fn pieces_are_what_the_files_say() {
    let path = root().join("docs/models.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (text, pieces) = anew(&page);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    for model in MODELS {
        let file = format!("models/{model}.toml");
        let of = |what: &dyn Fn(&str) -> bool| pieces.iter().any(|(f, w)| *f == file && what(w));
        assert!(of(&|what| what == "picture") && of(&|what| what != "picture"), "{model}");
        assert!(page.contains(&format!("<!-- scripts/models writes from here: {model} -->")), "{model}");
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(there == text, "docs/models.md is not what the files say; run with UPDATE_GOLDENS=1");
}
