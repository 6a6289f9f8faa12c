//! `tune`: short real runs, what it prints and writes, and what it refuses. Deliberately without a claim about times: what it finds
//! on a machine that does nothing else is shown by `tests/tune/prove`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::node::{Node, failure, output, program, stdout};

/// Far off in all that can be: four threads a pool that spin for long, queues of one batch, slices of 4 KiB.
const BAD: &str = r#"# Far off.
version = 1
use = "tcp"

[pools]
front = { threads = 4, wait = { spin = "100ms", park = "1s" } }
nic = { threads = 4, wait = { spin = "100ms", park = "1s" } }   # too many

[stages]
admit = { pool = "front" }
split = { pool = "front", slice = "4KiB" }
route = { pool = "front" }
select = { pool = "front" }

[edges]
"submit -> admit" = { queue = 1, dispatch = "hash" }
"admit -> split -> route -> select" = { queue = 1 }
"select -> post" = { queue = 1, dispatch = "owner" }
"#;

struct File(tempfile::TempDir);

impl File {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("node.toml"), text).unwrap();
        Self(folder)
    }

    fn path(&self) -> String {
        self.other("node.toml").display().to_string()
    }

    fn other(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }
}

/// The summary: the last object.
fn summary(text: &str) -> (Vec<Value>, Value) {
    let mut objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = objects.pop().unwrap();
    (objects, last)
}

/// A short run keeps to its budget and measures for real; what it decides it also does: a file that is written is the old one with
/// the changes that the summary lists, its comments kept, and validates; else nothing is written.
#[test]
fn a_short_run() {
    let file = File::new(BAD);
    let begin = Instant::now();
    let out = file.other("new.toml").display().to_string();
    let told = stdout(&[
        "tune",
        "-c",
        &file.path(),
        "--work",
        "latency",
        "--budget",
        "12s",
        "--json",
        "--write",
        &out,
    ]);
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    let (candidates, all) = summary(&told);
    assert!(all["old"]["p50_us"].as_f64().unwrap() > 0.0 && all["turns"].as_u64().unwrap() > 1, "{all}");
    assert!(
        !candidates.is_empty()
            && candidates.iter().all(|one| one["why"].as_str().is_some_and(|w| !w.is_empty()))
    );
    assert!(all["limited_by"].as_str().is_some_and(|words| !words.is_empty()), "{all}");
    assert_eq!(file.text(), BAD, "the file itself is not touched when another one is named");
    match all["changed"].as_bool().unwrap() {
        false => assert!(!file.other("new.toml").exists()),
        true => {
            let new = std::fs::read_to_string(&out).unwrap();
            assert!(new.starts_with("# Far off.\nversion = 1\n") && new.contains("# tune: "), "{new}");
            stdout(&["validate", &out]);
            let shown = stdout(&["show", "config", &out]);
            for change in
                all["changes"].as_array().unwrap().iter().filter(|change| change["value"] != "false")
            {
                let key = change["key"].as_str().unwrap().split('"').next().unwrap();
                assert!(shown.contains(key.trim_end_matches('.')), "{key}\n{shown}");
            }
        }
    }
}

/// Without --write a run prints what it tried and why, and leaves the file alone.
#[test]
fn the_report() {
    let file = File::new(BAD);
    let told =
        stdout(&["tune", "-c", &file.path(), "--goal", "latency", "--budget", "6s", "--bound", "threads<=4"]);
    for line in ["# goal latency", "the file as it is: ", "  limited by: ", "turns in "] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    assert_eq!(file.text(), BAD);
}

/// What makes no sense is refused before anything is measured.
#[test]
fn refusals() {
    let file = File::new(BAD);
    let path = file.path();
    let code = |more: &[&str]| failure(&[&["tune", "-c", &path][..], more].concat());
    for (more, what) in [
        (&["--bound", "threads=4"][..], "compares nothing"),
        (&["--bound", "thread<=4"], "did you mean `threads`?"),
        (&["--budget", "1s"], "from 2s to 24h"),
        (&["--work", "seep"], "did you mean sweep?"),
        (&["--work", "latency", "--batch", "4"], "--batch"),
    ] {
        let (code, stderr) = code(more);
        assert!(code == 2 && stderr.contains(what), "{more:?}: {code} {stderr}");
    }
    let wrong = File::new("version = 1\nuse = \"tpc\"\n");
    assert_eq!(failure(&["tune", "-c", &wrong.path()]).0, 78);
    let nobody = code(&["--target", "127.0.0.1:9", "--budget", "2s"]);
    assert_eq!(nobody.0, 69, "{}", nobody.1);
}

/// A target that is busy without us is refused, and measured against with --live; one that rests is not refused.
#[test]
fn a_target_with_other_traffic() {
    let segment = ["--set", "segments.kv={ kind='dram', size='64MiB', access='read_write' }"];
    let busy = Node::start(&[&["--built-in", "--set", "pools.nic.wait='spin'"], &segment[..]].concat());
    let file = File::new("version = 1\nuse = \"tcp\"\n");
    let path = file.path();
    let tune = |target: &str, more: &[&str]| {
        let words = [
            "tune",
            "-c",
            &path,
            "--target",
            target,
            "--segment",
            "kv",
            "--work",
            "latency",
            "--budget",
            "3s",
        ];
        output(&[&words[..], more].concat())
    };
    let refused = tune(&busy.address, &[]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(69), "{stderr}");
    assert!(
        stderr.contains("while nothing is asked of it from here") && stderr.contains("--live"),
        "{stderr}"
    );
    let taken = tune(&busy.address, &["--live"]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    drop(busy);
    let resting = Node::start(&[&["--built-in", "--set", "pools.nic.wait='park'"], &segment[..]].concat());
    let taken = tune(&resting.address, &[]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
}

/// An interrupt ends it after the turn that runs: nothing is written that is not sure, and the exit code says so.
#[test]
fn an_interrupt_writes_nothing() {
    let file = File::new(BAD);
    let mut command =
        program(&["tune", "-c", &file.path(), "--work", "latency", "--budget", "300s", "--write"]);
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut head = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    while !head.contains("# goal") {
        assert!(std::io::BufRead::read_line(&mut stdout, &mut head).unwrap() > 0, "{head}");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(1), "{rest}");
    assert!(rest.contains("stopped"), "{rest}");
    assert_eq!(file.text(), BAD);
}
