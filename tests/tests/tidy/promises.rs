//! Documents that promise something name the test that holds each promise, as `` `path/file.rs::test` ``. Every row of
//! their tables must name one, and each that is named must exist: a renamed test breaks this, not the document.

use crate::{Breach, Tree};

/// Documents whose tables are promises.
const PROMISES: &[&str] = &["docs/semantics.md", "docs/field-cases.md"];

pub fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for page in PROMISES {
        let Some(text) = tree.text(page) else {
            let what = "must exist".into();
            breaches.push(Breach { path: (*page).into(), line: 1, rule: "promise", what });
            continue;
        };
        for (line, names) in rows(text) {
            let mut breach =
                |what| breaches.push(Breach { path: (*page).into(), line, rule: "promise", what });
            if names.is_empty() {
                breach("a row without the test that holds it".into());
            }
            for name in names.iter().filter(|name| !exists(tree, name)) {
                breach(format!("names `{name}`, which does not exist"));
            }
        }
    }
}

/// Rows of tables without their heads, with the tests each names.
fn rows(text: &str) -> Vec<(usize, Vec<String>)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_row = |i: usize| lines.get(i).is_some_and(|l| l.starts_with('|'));
    let is_rule = |i: usize| is_row(i) && lines[i].chars().all(|c| "|-: ".contains(c));
    let body = (0..lines.len()).filter(|&i| is_row(i) && !is_rule(i) && !is_rule(i + 1));
    body.map(|i| (i + 1, names(lines[i]))).collect()
}

fn names(row: &str) -> Vec<String> {
    row.split('`').skip(1).step_by(2).filter(|code| code.contains(".rs::")).map(str::to_owned).collect()
}

fn exists(tree: &Tree, name: &str) -> bool {
    let Some((path, test)) = name.split_once("::") else { return false };
    let text = tree.text(path).unwrap_or_default();
    [format!("fn {test}("), format!("fn {test}<")].iter().any(|head| text.contains(head))
}

mod tests {
    use super::*;

    /// Rows below a head are found with the tests they name; a head, its rule and plain text are not.
    #[test]
    fn rows_are_found() {
        let text = "| a | test |\n|---|---|\n| x | `a/b.rs::c`, `d.rs::e` |\ntext | no row\n| y | `z` |\n";
        let found = rows(text);
        assert_eq!(found, [(3, vec!["a/b.rs::c".to_owned(), "d.rs::e".to_owned()]), (5, vec![])]);
    }
}
