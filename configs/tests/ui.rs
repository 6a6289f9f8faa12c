//! What users read: every file in `tests/ui` is loaded, and its findings must equal the text beside it.
//! `UPDATE_GOLDENS=1 cargo test -p pipeline-configs --test ui` writes them anew; read the difference before you commit it.
//! Comments at the top of a file say what comes from outside: `# set PATH=VALUE`, `# env NAME=VALUE`, `# cpus LIST`,
//! `# sys FOLDER` (beside the file, in place of /sys).

#![allow(clippy::unwrap_used, reason = "only tests")]

mod kinds;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pipeline_configs::{Findings, Options, codes, load};

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir("tests/ui")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    files
}

fn options(text: &str) -> Options {
    let mut options = Options::default();
    for line in text.lines() {
        if let Some(set) = line.strip_prefix("# set ") {
            options.set.push(set.to_owned());
        } else if let Some((name, value)) = line.strip_prefix("# env ").and_then(|l| l.split_once('=')) {
            options.env.insert(name.to_owned(), value.to_owned());
        } else if let Some(cpus) = line.strip_prefix("# cpus ") {
            options.cpus = cpus.split(',').map(|cpu| cpu.parse().unwrap()).collect();
        } else if let Some(sys) = line.strip_prefix("# sys ") {
            options.near = Some(pipeline_graph::near::Near::below(format!("tests/ui/{sys}")));
        }
    }
    options
}

/// The findings of a file of `tests/ui`, and whether it may run in spite of them.
fn findings(path: &Path) -> (Findings, bool) {
    let text = std::fs::read_to_string(path).unwrap();
    match load(path, &kinds::catalog(), &options(&text)) {
        Ok(loaded) => (loaded.warnings, true),
        Err(findings) => (findings, false),
    }
}

/// Every file of `tests/ui` says, word for word, what is written beside it.
#[test]
fn goldens() {
    let update = std::env::var_os("UPDATE_GOLDENS").is_some();
    let mut wrong = Vec::new();
    for path in files() {
        let (found, runs) = findings(&path);
        let text = format!("{found}{}", if runs { "runs\n" } else { "" });
        let golden = path.with_extension("txt");
        if update {
            std::fs::write(&golden, &text).unwrap();
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != text {
            wrong.push(format!("--- {} says now:\n{text}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The golden set is broad: 60 files and more.
#[test]
fn the_set_is_broad() {
    assert!(files().len() >= 60, "{}", files().len());
}

/// Every code has at least one file that shows it; the rest is named here with its reason.
#[test]
fn every_code_is_shown() {
    // No file to show, see tests/load.rs; and what only the program looks up on its machine.
    let elsewhere = [codes::UNREADABLE, codes::NIC_ILL];
    let mut shown: BTreeSet<_> = elsewhere.into();
    for path in files() {
        shown.extend(findings(&path).0.list.iter().map(|f| f.code));
    }
    let missing: Vec<_> = codes::ALL.iter().filter(|(code, _)| !shown.contains(code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Every finding has a place and help, findings are sorted by place, and their JSON lines parse.
#[test]
fn findings_are_complete() {
    for path in files() {
        let (found, _) = findings(&path);
        let name = path.display();
        for finding in &found.list {
            assert!(!finding.help.is_empty(), "{name}: no help: {finding:?}");
            let lacks = finding.message.starts_with("the file declares no ");
            assert!(finding.place.is_some() || lacks, "{name}: no place: {finding:?}");
        }
        assert!(found.list.is_sorted_by_key(|f| f.place), "{name}");
        let lines: Vec<serde_json::Value> =
            found.json_lines().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), found.list.len(), "{name}");
    }
}

/// `docs/findings.md` is in step with the table of codes.
#[test]
fn findings_page() {
    let page = Path::new("../docs/findings.md");
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(page, codes::page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(page).unwrap_or_default(), codes::page());
}
