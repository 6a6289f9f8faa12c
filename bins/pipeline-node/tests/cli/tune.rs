//! `tune`: short real runs, what it prints and writes, and what it refuses. Deliberately without a claim about times: what it finds
//! on a machine that does nothing else is shown by `tests/tune/prove`.

use std::path::PathBuf;
use std::process::Stdio;
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
        (&["--what-if", "here", "--write"], "cannot be used with '--write"),
        (&["--what-if", "here", "--bound", "threads<=2"], "cannot be used with '--bound"),
    ] {
        let (code, stderr) = code(more);
        assert!(code == 2 && stderr.contains(what), "{more:?}: {code} {stderr}");
    }
    let (code_of, stderr) = code(&["--write", "/no/such/folder/new.toml"]);
    assert!(
        code_of == 71 && stderr.contains("/no/such/folder/new.toml cannot be written"),
        "{code_of} {stderr}"
    );
    let begin = Instant::now();
    for alone in [["--save", "costs.json"], ["--shape", "1x4KiBx1"], ["--against", "other.toml"]] {
        let (code_of, stderr) = code(&[&["--budget", "2s"][..], &alone].concat());
        assert_eq!(code_of, 2, "{stderr}");
        assert!(stderr.contains(alone[0]) && stderr.contains("--what-if"), "{stderr}");
    }
    let (code_of, stderr) = code(&["--what-if", "here", "--save", "/no/such/folder/costs.json"]);
    assert!(
        code_of == 71 && stderr.contains("/no/such/folder/costs.json cannot be written"),
        "{code_of} {stderr}"
    );
    assert!(!stderr.contains("measuring") && begin.elapsed() < Duration::from_secs(10), "{stderr}");
    let wrong = File::new("version = 1\nuse = \"tpc\"\n");
    assert_eq!(failure(&["tune", "-c", &wrong.path()]).0, 78);
    for live in [&[][..], &["--live"]] {
        let nobody = code(&[&["--target", "127.0.0.1:9", "--budget", "2s"][..], live].concat());
        assert!(
            nobody.0 == 69 && nobody.1.contains("cannot be reached"),
            "{live:?}: {} {}",
            nobody.0,
            nobody.1
        );
    }
}

/// A target that dies while it is measured against ends it with the reason and 69, and never as if there were nothing to change.
#[test]
fn a_target_that_dies() {
    let mut target = Node::target("64MiB", &[]);
    let file = File::new(BAD);
    let path = file.path();
    let words = ["tune", "-c", &path, "--segment", "kv", "--work", "latency", "--budget", "40s"];
    let mut command = program(&[&words[..], &["--target", &target.address]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Long enough for the file to have run, and too short for all to have ended.
    std::thread::sleep(Duration::from_secs(5));
    assert!(child.try_wait().unwrap().is_none(), "it has not even begun");
    target.crash();
    let begin = Instant::now();
    let ended = child.wait_with_output().unwrap();
    let [out, err] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(ended.status.code(), Some(69), "{out}\n{err}");
    assert!(err.contains("ran, and no longer does: ") && err.contains("cannot be reached"), "{err}");
    assert!(out.contains("no longer runs") && !out.contains("nothing to change"), "{out}");
    assert!(begin.elapsed() < Duration::from_secs(25), "it went on for {:?}", begin.elapsed());
}

/// A warning of the user's file is told once; what `--what-if` measures besides, to know what things cost here, is of its own
/// making, and nothing is said of that, however crowded it is.
#[test]
fn only_the_users_file_is_warned_of() {
    let file = File::new("version = 1\nuse = \"tcp\"\npools.nic.threads = 3\n");
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let mut two = rustix::thread::CpuSet::new();
    (0..1024).filter(|cpu| allowed.is_set(*cpu)).take(2).for_each(|cpu| two.set(cpu));
    // Its children have what it has.
    rustix::thread::sched_setaffinity(None, &two).unwrap();
    let path = file.path();
    let args =
        ["tune", &path, "--what-if", "here", "--rounds", "1", "--shape", "1x4KiBx1", "--against", &path];
    let ended = output(&args);
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{told}");
    let warnings: Vec<&str> = told.lines().filter(|line| line.starts_with("warning[")).collect();
    assert_eq!(
        warnings,
        ["warning[P0502]: pool `nic` has 3 threads, but this process may use 2 CPUs"],
        "{told}"
    );
}

/// A record that `bench --record` made and a trace are work to tune by: each turn plays them, in their own words, and what was
/// measured is told.
#[test]
fn a_record_and_a_trace_are_work() {
    let file = File::new("version = 1\nuse = \"tcp\"\n");
    let [record, trace] = ["r.jsonl", "t.jsonl"].map(|name| file.other(name).display().to_string());
    let loops =
        ["--size", "4KiB,64KiB", "--batch", "4", "--iterations", "50", "--rounds", "1", "--no-ceiling"];
    stdout(&[&["bench", "--record", &record][..], &loops].concat());
    std::fs::write(&trace, stdout(&["generate-trace", "--conversations", "10"])).unwrap();
    let path = file.path();
    for (work, says) in
        [(format!("record:{record}"), "100 batches with 400 requests"), (format!("trace:{trace}"), "blocks")]
    {
        let ran = output(&["tune", "-c", &path, "--work", &work, "--budget", "5s", "--json"]);
        let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{work}: {stderr}");
        let (kind, name) = work.split_once(':').unwrap();
        assert!(
            stderr.contains(&format!("work {kind}: {name}")) && stderr.contains(says),
            "{work}: {stderr}"
        );
        let (_, all) = summary(&stdout);
        assert!(
            all["turns"].as_u64().unwrap() > 0 && all["old"]["gb_per_s"].as_f64().unwrap() > 0.0,
            "{work}: {all}"
        );
    }
}

/// Records and traces that are damaged are refused with the line before anything is measured, those that are not there by name.
#[test]
fn damaged_work_is_refused() {
    let file = File::new("version = 1\nuse = \"tcp\"\n");
    let (path, bad) = (file.path(), file.other("bad.jsonl").display().to_string());
    let head = "{\"pipeline_node_record\":1}\n";
    let batch = "{\"gap_ns\":5,\"requests\":[{\"op\":\"read\",\"peer\":\"a\",\"bytes\":8}]}\n";
    for (kind, text, says) in [
        ("record", format!("{head}{batch}{{\"gap_ns\":"), ":3: the line is cut off"),
        ("record", format!("{head}nonsense\n"), ":2: no JSON object"),
        ("record", batch.to_owned(), ":1: no record"),
        ("record", head.to_owned(), ": no batch in it"),
        ("trace", "nonsense\n".to_owned(), ":1: "),
        ("trace", String::new(), ""),
    ] {
        std::fs::write(&bad, text).unwrap();
        let (code, stderr) = failure(&["tune", "-c", &path, "--work", &format!("{kind}:{bad}")]);
        assert!(code == 65 && stderr.contains(&format!("{bad}{says}")), "{kind}: {code} {stderr}");
    }
    for kind in ["record", "trace"] {
        let (code, stderr) = failure(&["tune", "-c", &path, "--work", &format!("{kind}:/no/such/file")]);
        assert!(code == 71 && stderr.contains("/no/such/file"), "{kind}: {code} {stderr}");
    }
}

/// A target that serves somebody else is refused, with what it served, and measured against with --live; one whose threads spin
/// while nothing is asked of it is not.
#[test]
fn a_target_with_other_traffic() {
    let segment = ["--set", "segments.kv={ kind='dram', size='64MiB', access='read_write' }"];
    let target = Node::start(&[&["--built-in", "--set", "pools.nic.wait='spin'"], &segment[..]].concat());
    let file = File::new("version = 1\nuse = \"tcp\"\n");
    let path = file.path();
    let tune = |more: &[&str]| {
        let words = ["tune", "-c", &path, "--segment", "kv", "--work", "latency", "--budget", "3s"];
        output(&[&words[..], &["--target", &target.address], more].concat())
    };
    let spinning = tune(&[]);
    assert!(spinning.status.success(), "{}", String::from_utf8_lossy(&spinning.stderr));
    let load = ["--segment", "kv", "--size", "4KiB", "--depth", "1", "--seconds", "600", "--no-ceiling"];
    let mut other = program(&[&["bench", "--target", &target.address][..], &load].concat());
    let mut other = other.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Until its traffic has begun, nobody could see any.
    let begin = Instant::now();
    let refused = loop {
        let refused = tune(&[]);
        if !refused.status.success() || begin.elapsed() > Duration::from_secs(60) {
            break refused;
        }
    };
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(69), "{stderr}");
    assert!(stderr.contains("has other traffic: while") && stderr.contains("--live"), "{stderr}");
    let taken = tune(&["--live"]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    other.kill().unwrap();
    other.wait().unwrap();
}

/// An interrupt ends it after the turn that runs: nothing is written that is not sure, and the exit code says so.
#[test]
fn an_interrupt_writes_nothing() {
    let file = File::new(BAD);
    let mut command =
        program(&["tune", "-c", &file.path(), "--work", "latency", "--budget", "300s", "--write"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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
