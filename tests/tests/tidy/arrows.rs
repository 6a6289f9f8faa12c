//! Who may import whom: `configs → graph`, `stages → graph, configs, transports`, the binary and the tests →
//! all. Held in `Cargo.toml` and in the code, so that neither can drift. Also here: what only tests may switch on.

use crate::{Breach, Tree};

/// Folder of a crate, and the crates of ours it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("graph", &[]),
    ("transports", &[]),
    ("configs", &["graph"]),
    ("stages", &["graph", "configs", "transports"]),
    ("bins/pipeline-node", &["graph", "configs", "transports", "stages"]),
];

const CRATES: &[&str] = &["graph", "configs", "transports", "stages", "node"];

/// Features that assert or break things on purpose: no released binary may contain them.
const FOR_TESTS: &[&str] = &["faults", "conformance"];

pub fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        features(path, text, breaches);
    }
    for (folder, allowed) in ARROWS {
        let manifest = format!("{folder}/Cargo.toml");
        let text = tree.text(&manifest).unwrap_or_default();
        assert!(!text.is_empty(), "{manifest} is missing: bring ARROWS up to date");
        scan(&manifest, text.lines(), "pipeline-", own(folder), allowed, breaches);
        let inside = format!("{folder}/");
        for source in tree.rust.iter().filter(|s| s.path.starts_with(&inside)) {
            scan(
                &source.path,
                source.code.iter().map(String::as_str),
                "pipeline_",
                own(folder),
                allowed,
                breaches,
            );
        }
    }
}

/// Under `[features]` such a feature may only forward itself, and only dev-dependencies may switch it on.
fn features(path: &str, text: &str, breaches: &mut Vec<Breach>) {
    let mut table = "";
    for (i, line) in text.lines().map(str::trim).enumerate() {
        if line.starts_with('[') {
            table = line;
        }
        for feature in FOR_TESTS {
            let forwards = table == "[features]" && line.starts_with(&format!("{feature} ="));
            let named = line.contains(&format!("\"{feature}\"")) || line.contains(&format!("/{feature}\""));
            if named && !line.starts_with('#') && !forwards && !table.contains("dev-dependencies") {
                let what = format!("`{feature}` is for tests: only dev-dependencies may switch it on");
                breaches.push(Breach { path: path.into(), line: i + 1, rule: "test-feature", what });
            }
        }
    }
}

/// What a crate calls itself: it may of course name itself (its own tests do).
fn own(folder: &str) -> &str {
    folder.rsplit(['/', '-']).next().unwrap_or(folder)
}

fn scan<'a>(
    path: &str,
    lines: impl Iterator<Item = &'a str>,
    prefix: &str,
    own: &str,
    allowed: &[&str],
    breaches: &mut Vec<Breach>,
) {
    for (i, line) in lines.enumerate() {
        for target in CRATES.iter().filter(|t| **t != own && !allowed.contains(t)) {
            let name = format!("{prefix}{target}");
            if mentions(line, &name) {
                let what = format!("`{own}` must not see `{name}`");
                breaches.push(Breach { path: path.into(), line: i + 1, rule: "arrow", what });
            }
        }
    }
}

fn mentions(line: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(name).any(|(at, _)| {
        !line[..at].ends_with(part) && !line[at + name.len()..].starts_with(part) && !line.contains('"')
    })
}

mod tests {
    use super::*;

    /// A feature for tests that a default, another feature or a plain dependency switches on is found; one that is
    /// forwarded under its own name, or switched on by a dev-dependency, is not.
    #[test]
    fn features_for_tests_stay_there() {
        let lines = |text: &str| {
            let mut breaches = Vec::new();
            features("x", text, &mut breaches);
            breaches.into_iter().map(|b| b.line).collect::<Vec<_>>()
        };
        assert_eq!(
            lines("[features]\nfaults = [\"a/faults\"]\n[dev-dependencies]\na = [\"faults\"]"),
            [0; 0]
        );
        assert_eq!(lines("[features]\ndefault = [\"faults\"]\nall = [\"a/faults\"]"), [2, 3]);
        assert_eq!(lines("[dependencies]\na = { features = [\"faults\"] }"), [2]);
    }

    /// An import against the arrows is found in code and in a manifest; an allowed one and a longer name are not.
    #[test]
    fn arrows_are_held() {
        let lines = |prefix: &str, own: &str, allowed: &[&str], text: &str| {
            let mut breaches = Vec::new();
            scan("x", text.lines(), prefix, own, allowed, &mut breaches);
            breaches.into_iter().map(|b| b.line).collect::<Vec<_>>()
        };
        assert_eq!(lines("pipeline_", "graph", &[], "use std::x;\nuse pipeline_transports::Y;\n"), [2]);
        assert_eq!(
            lines(
                "pipeline-",
                "configs",
                &["graph"],
                "pipeline-graph.workspace = true\npipeline-stages = {}"
            ),
            [2]
        );
        assert_eq!(
            lines("pipeline_", "graph", &[], "let pipeline_stages_total = 1; pipeline_graph::x()"),
            [0; 0]
        );
    }
}
