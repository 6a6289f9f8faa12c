//! Names that say nothing (of files, modules, types), and paths of somebody's machine.

use crate::source::{Source, after_word};
use crate::{Breach, Tree};

const BANNED: &[&str] = &["util", "utils", "helper", "helpers", "manager", "common", "misc"];

pub fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for source in &tree.rust {
        names(source, breaches);
    }
    for (path, text) in &tree.texts {
        machine_paths(path, text, breaches);
    }
}

fn names(source: &Source, breaches: &mut Vec<Breach>) {
    for part in source.path.trim_end_matches(".rs").split('/') {
        push_if_banned(source, 1, part, breaches);
    }
    for (i, line) in source.code.iter().enumerate() {
        for word in ["mod", "struct", "enum", "trait", "type"] {
            if let Some(name) = after_word(line, word) {
                push_if_banned(source, i + 1, &name, breaches);
            }
        }
    }
}

fn push_if_banned(source: &Source, line: usize, name: &str, breaches: &mut Vec<Breach>) {
    if let Some(word) = words(name).into_iter().find(|w| BANNED.contains(&w.as_str())) {
        let what = format!("`{name}`: `{word}` says nothing about what it is");
        breaches.push(Breach { path: source.path.clone(), line, rule: "name", what });
    }
}

/// `SnakeCase`, `snake_case` and `kebab-case` into lower-case words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c.is_uppercase() || matches!(c, '_' | '-' | '.') {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("never empty").extend(c.to_lowercase());
        }
    }
    words
}

/// Paths of the machine something was written on do not belong into a repository.
fn machine_paths(path: &str, text: &str, breaches: &mut Vec<Breach>) {
    // In two pieces, so that this file does not find itself.
    let roots = [concat!("/wo", "rk/"), concat!("/tmp/", "wt"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    for (i, line) in text.lines().enumerate() {
        for root in roots {
            // The start of a path, not the middle of one.
            let starts = line.match_indices(root).any(|(at, _)| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '}'))
            });
            if starts {
                let what = format!("`{root}…` is a path of somebody's machine");
                breaches.push(Breach { path: path.into(), line: i + 1, rule: "machine-path", what });
            }
        }
    }
}

mod tests {
    use super::*;

    /// Banned words are found inside compound names of files, modules and types, but not inside other words.
    #[test]
    fn banned_words_are_found() {
        let count = |path: &str, text: &str| {
            let mut breaches = Vec::new();
            names(&Source::new(path, text), &mut breaches);
            breaches.len()
        };
        assert_eq!(count("graph/src/pool_util.rs", "//! x\n"), 1);
        assert_eq!(count("graph/src/a.rs", "pub struct PoolManager {}\nmod helpers;\n"), 2);
        assert_eq!(count("graph/src/a.rs", "struct Utilisation;\nenum Commonest {}\n"), 0);
    }

    /// A path of the machine is found where a path begins, and nowhere else.
    #[test]
    fn machine_paths_are_found() {
        let mut breaches = Vec::new();
        machine_paths("a.md", concat!("see /wo", "rk/x\nsee stages/wo", "rk/x\n"), &mut breaches);
        assert_eq!(breaches.iter().map(|b| b.line).collect::<Vec<_>>(), [1]);
    }
}
