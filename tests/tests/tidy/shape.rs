//! Sizes of files and functions, what stands at the top of a file, what stands above a test, and words of
//! code that have their one place: `unsafe`, `unwrap`, clocks, synchronisation.

use crate::Breach;
use crate::source::Source;

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;

/// Folders (and files) that may say `unsafe`, besides tests. The two files of in-process transports only
/// call `memory::copy`, over two ranges that were checked and are held.
const UNSAFE: &[&str] = &[
    "transports/src/loopback/reap.rs",
    "transports/src/sim/staging.rs",
    "transports/src/memory",
    "transports/src/tcp",
    "transports/src/mooncake",
    "transports/src/shm",
    "transports/src/cma",
    "transports/src/file",
    "transports/src/mooncake",
    "transports/src/rdma",
    "transports/src/cuda",
    "graph/src/cpus",
    "graph/src/bell",
    "graph/src/clock",
    "graph/src/signals",
];

/// A word of code, the crate's folder it is banned from, the files that may use it, and why.
const ONE_PLACE: &[(&str, &str, &[&str], &str)] = &[
    ("Instant::now", "graph/", &["graph/src/clock"], "graph reads the clock in clock.rs only"),
    ("SystemTime", "graph/", &[], "graph never reads the wall clock"),
    ("SystemTime", "transports/", &["transports/src/mooncake/stamp"], "transports never read the wall clock"),
    (
        "SystemTime",
        "stages/src/",
        // Times of files; and the order of a name's starts on several machines.
        &["stages/src/files", "stages/src/control/announce"],
        "intervals never come from the wall clock",
    ),
    ("SystemTime", "configs/", &[], "a file means the same at any time"),
    ("SystemTime", "bins/", &[], "intervals never come from the wall clock"),
    ("Realtime", "", &[], "intervals never come from the wall clock: ClockId::Monotonic"),
    ("CLOCK_REALTIME", "", &[], "intervals never come from the wall clock"),
    ("std::sync::atomic", "graph/", &["graph/src/sync"], "atomics come from sync.rs, so that loom sees them"),
    ("std::sync::Mutex", "graph/", &["graph/src/sync"], "locks come from sync.rs, so that loom sees them"),
    ("std::sync::Condvar", "graph/", &["graph/src/sync"], "locks come from sync.rs, so that loom sees them"),
    ("std::sync::RwLock", "graph/", &["graph/src/sync"], "locks come from sync.rs, so that loom sees them"),
    ("std::sync::mpsc", "", &[], "an unbounded or blocking channel; use crossbeam's bounded one"),
    ("crossbeam_channel::unbounded", "", &[], "nothing is unbounded"),
    ("unbounded_channel", "", &[], "nothing is unbounded"),
    ("serde", "graph/", &[], "graph knows no file format"),
];

pub fn check(rust: &[Source], breaches: &mut Vec<Breach>) {
    for source in rust {
        sizes(source, breaches);
        top(source, breaches);
        test_sentences(source, breaches);
        places(source, breaches);
    }
}

fn breach(source: &Source, line: usize, rule: &'static str, what: String) -> Breach {
    Breach { path: source.path.clone(), line, rule, what }
}

fn sizes(source: &Source, breaches: &mut Vec<Breach>) {
    let lines = source.raw.len();
    if lines > FILE_LINES {
        let what = format!("{lines} lines, at most {FILE_LINES}: split it by concept");
        breaches.push(breach(source, 1, "file-size", what));
    }
    for f in source.functions() {
        if f.lines > FUNCTION_LINES {
            let what = format!("`{}` has {} lines, at most {FUNCTION_LINES}", f.name, f.lines);
            breaches.push(breach(source, f.line, "function-size", what));
        }
    }
}

fn top(source: &Source, breaches: &mut Vec<Breach>) {
    if !source.raw.first().is_some_and(|l| l.starts_with("//!")) {
        let what = "begin with `//!`: what the file is for, and what it deliberately does not do".into();
        breaches.push(breach(source, 1, "file-doc", what));
    }
}

/// Every test has a `///` sentence among its attributes.
fn test_sentences(source: &Source, breaches: &mut Vec<Breach>) {
    for (i, line) in source.code.iter().enumerate() {
        let line = line.trim();
        if line != "#[test]" && !line.starts_with("#[tokio::test") {
            continue;
        }
        let attached = |l: &&String| l.trim_start().starts_with("///") || l.trim_start().starts_with("#[");
        let above = source.raw[..i].iter().rev().take_while(attached);
        let below = source.raw[i + 1..].iter().take_while(attached);
        if !above.chain(below).any(|l| l.trim_start().starts_with("///")) {
            let what = "say in one `///` sentence what the test guarantees".into();
            breaches.push(breach(source, i + 1, "test-sentence", what));
        }
    }
}

fn places(source: &Source, breaches: &mut Vec<Breach>) {
    let path = source.path.as_str();
    if !UNSAFE.iter().any(|allowed| path.starts_with(allowed)) {
        for word in ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"] {
            for line in source.uses(word) {
                let what = format!("`{word}` outside the {} places listed in tidy/shape.rs", UNSAFE.len());
                breaches.push(breach(source, line, "unsafe", what));
            }
        }
    }
    for line in source.uses(".unwrap()") {
        let what = "`unwrap` outside tests; use `?`, or `expect` with the proof as its text".into();
        breaches.push(breach(source, line, "unwrap", what));
    }
    for (word, folder, allowed, why) in ONE_PLACE {
        if path.starts_with(folder) && !allowed.iter().any(|a| path.starts_with(a)) {
            for line in source.uses(word) {
                breaches.push(breach(source, line, "one-place", format!("`{word}`: {why}")));
            }
        }
    }
}

mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let mut breaches = Vec::new();
        check(&[Source::new(path, text)], &mut breaches);
        breaches.into_iter().map(|b| (b.line, b.rule)).collect()
    }

    /// Each rule about the shape of a file fires on a file that breaks it, at the right line.
    #[test]
    fn every_rule_can_fail() {
        let long = format!("//! x\nfn a() {{\n{}}}\n", "  b();\n".repeat(FUNCTION_LINES));
        assert_eq!(rules("graph/src/a.rs", &long), [(2, "function-size")]);
        let tall = format!("//! x\n{}", "\n".repeat(FILE_LINES));
        assert_eq!(rules("graph/src/a.rs", &tall), [(1, "file-size")]);
        assert_eq!(rules("graph/src/a.rs", "fn a() {}\n"), [(1, "file-doc")]);
        assert_eq!(rules("graph/src/a.rs", "//! x\n#[test]\nfn a() {}\n"), [(2, "test-sentence")]);
        assert_eq!(rules("graph/src/a.rs", "//! x\nfn a() { unsafe { b() } }\n"), [(2, "unsafe")]);
        assert_eq!(rules("graph/src/a.rs", "//! x\nfn a() { b().unwrap() }\n"), [(2, "unwrap")]);
        assert_eq!(rules("graph/src/a.rs", "//! x\nuse std::sync::atomic::AtomicU8;\n"), [(2, "one-place")]);
    }

    /// What the house allows is left alone: unsafe in its folders, sync in sync.rs, documented tests.
    #[test]
    fn allowed_things_pass() {
        assert_eq!(rules("graph/src/bell.rs", "//! x\nfn a() { unsafe { b() } }\n"), []);
        assert_eq!(rules("graph/src/sync.rs", "//! x\npub use std::sync::atomic::AtomicU8;\n"), []);
        assert_eq!(rules("graph/src/a.rs", "//! x\n/// It adds.\n#[test]\nfn a() {}\n"), []);
        assert_eq!(rules("tests/src/lib.rs", "//! x\nfn a() { b().unwrap() }\n"), []);
    }
}
