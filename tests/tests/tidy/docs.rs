//! The documents a newcomer meets: they exist, and every relative link in them leads somewhere.

use crate::{Breach, Tree};

const WANTED: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "docs/cli.md",
    "docs/exit-codes.md",
    "scripts/demo",
    "scripts/test",
    ".ci/run",
];

pub fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for wanted in WANTED {
        if tree.text(wanted).is_none_or(|t| t.trim().is_empty()) {
            let what = "must exist and say something".into();
            breaches.push(Breach { path: (*wanted).into(), line: 1, rule: "docs-present", what });
        }
    }
    shipped(tree, breaches);
    for (path, text) in tree.texts.iter().filter(|(p, _)| p.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, target) in links(text) {
            if !tree.root.join(folder).join(&target).exists() {
                let what = format!("links to `{target}`, which does not exist");
                breaches.push(Breach { path: path.clone(), line, rule: "docs-link", what });
            }
        }
    }
}

/// Every stage type and transport type of the catalogue occurs in a shipped file: what nobody can copy from a file
/// that works, nobody finds.
fn shipped(tree: &Tree, breaches: &mut Vec<Breach>) {
    let files =
        tree.texts.iter().filter(|(p, _)| p.starts_with("configs/pipelines/") && p.ends_with(".toml"));
    let all: String = files.map(|(_, text)| text.as_str()).collect();
    let catalog = pipeline_stages::catalog::catalog();
    let stages = catalog.stages.iter().map(|kind| kind.name);
    let transports = catalog.transports.iter().map(|kind| kind.name);
    for name in stages.chain(transports).filter(|name| !all.contains(&format!("type = \"{name}\""))) {
        let what = format!("type `{name}` occurs in none of the shipped files");
        breaches.push(Breach { path: "configs/pipelines".into(), line: 1, rule: "shipped", what });
    }
}

/// Relative targets of `[text](target)`, without anchors, with their lines; nothing inside code fences.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        for piece in line.split("](").skip(1).filter(|_| !fenced) {
            let target = piece.split([')', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") {
                found.push((i + 1, target.to_owned()));
            }
        }
    }
    found
}

mod tests {
    use super::*;

    /// Relative links are found with their lines; anchors, web addresses and fenced text are not.
    #[test]
    fn links_are_found() {
        let text = "see [a](docs/a.md) and [b](#b)\n```\n[c](c.md)\n```\n[d](https://x.y) [e](e.md#f)\n";
        assert_eq!(links(text), [(1, "docs/a.md".into()), (5, "e.md".into())]);
    }
}
