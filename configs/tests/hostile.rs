//! Whatever bytes a file holds, loading it ends with a value or with findings, and never with a panic.

#![allow(clippy::unwrap_used, reason = "only tests")]

mod kinds;

use pipeline_configs::{Options, load_str};
use proptest::prelude::*;

/// Pieces that make a mutated file reach deep into the readers.
const PIECES: &[&str] = &[
    "->",
    "\"",
    "*",
    ".",
    "submit",
    "= {",
    "}",
    "[edges]",
    "[stages]",
    "queue = 0",
    "-1",
    "9223372036854775808",
    "\"64KiB\"",
    "false",
    "${A:-",
    "}",
    "$$",
    "type = \"tcp\"",
    "\n",
    "'''",
    "\\e",
    "é",
    "\u{0}",
    "1979-05-27",
    "[[routes]]",
    "use = \"tcp\"",
    "1e999999999",
    "return",
    "wait = {",
    "a.b.c.d",
    "{ {",
];

fn never_panics(text: &str, set: Vec<String>) {
    let options = Options { set, ..Options::default() };
    match load_str("hostile.toml", text, &kinds::catalog(), &options) {
        Ok(loaded) => assert_eq!(loaded.warnings.errors(), 0),
        Err(findings) => {
            assert!(findings.errors() > 0);
            assert!(!findings.text().is_empty() && !findings.json_lines().is_empty());
        }
    }
}

fn good_files() -> Vec<String> {
    let mut files: Vec<_> = std::fs::read_dir("tests/ui").unwrap().map(|e| e.unwrap().path()).collect();
    files.push("pipelines/tcp.toml".into());
    files.sort();
    let toml = files.iter().filter(|p| p.extension().is_some_and(|e| e == "toml"));
    toml.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Arbitrary text, as a file and as an override.
    #[test]
    fn arbitrary_text(text in any::<String>(), set in any::<String>()) {
        never_panics(&text, vec![set]);
    }

    /// Files that are nearly right: pieces cut out, put in and doubled at any place.
    #[test]
    fn mutated_files(
        file in prop::sample::select(good_files()),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, prop::sample::select(PIECES)), 1..6),
    ) {
        let mut chars: Vec<char> = file.chars().collect();
        for (at, cut, piece) in edits {
            let at = at.index(chars.len() + 1);
            let end = (at + cut).min(chars.len());
            chars.splice(at..end, piece.chars());
        }
        never_panics(&chars.into_iter().collect::<String>(), Vec::new());
    }

    /// Every number in every unit reads, or is refused with help; what reads is exact.
    #[test]
    fn units_are_exact(number in any::<u64>(), shift in 0u32..6) {
        let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let text = format!("{number}{}", units[shift as usize]);
        let exact = u64::try_from(u128::from(number) << (10 * shift)).ok();
        prop_assert_eq!(pipeline_configs::units::bytes(&text).ok(), exact);
        if let Some(bytes) = exact {
            prop_assert_eq!(pipeline_configs::units::bytes(&pipeline_configs::units::show_bytes(bytes)), Ok(bytes));
        }
    }
}

/// Tables of absurd size are refused at once instead of being judged for minutes.
#[test]
fn absurd_sizes() {
    let mut text = String::from("version = 1\nuse = \"tcp\"\n[stages]\n");
    for i in 0..20_000 {
        text.push_str(&format!("s{i} = {{ type = \"wr_pots\", pool = \"nci\" }}\n"));
    }
    text.push_str("[edges]\n");
    for i in 0..20_000 {
        text.push_str(&format!("\"t{i} -> u{i}\" = \"inlin\"\n"));
    }
    let findings = load_str("t", &text, &kinds::catalog(), &Options::default()).unwrap_err();
    assert_eq!(findings.errors(), 2, "{findings}");
    let many: String = (0..3000).map(|i| format!("k{i} = 1\n")).collect();
    let findings =
        load_str("t", &format!("version = 1\n{many}"), &kinds::catalog(), &Options::default()).unwrap_err();
    assert!(findings.errors() > 3000);
    assert!(findings.text().lines().count() < 2000, "the text is bounded");
    assert!(findings.json_lines().lines().count() > 3000, "JSON lines are complete");
}
