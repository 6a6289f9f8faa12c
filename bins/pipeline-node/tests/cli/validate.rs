//! `validate` and `graph`, and the command line itself.

use std::fs;
use std::path::PathBuf;

use crate::node::{failure, output, stdout};

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    fs::write(&path, text).unwrap();
    (dir, path)
}

/// A good file exits 0 and prints its plan: threads, and queues with what they hold; `check`, as others call it, is the same.
#[test]
fn a_good_file_has_a_plan() {
    let (_dir, path) = file("version = 1\nuse = \"tcp\"\n");
    let plan = stdout(&["validate", path.to_str().unwrap()]);
    assert!(plan.contains("nic") && plan.contains("64 batches") && plan.contains("2048 slices"), "{plan}");
    assert_eq!(stdout(&["check", path.to_str().unwrap()]), plan);
}

/// A bad file exits 78 with every finding at its place, on stderr; stdout stays empty.
#[test]
fn a_bad_file_has_findings() {
    let (_dir, path) = file("version = 1\nuse = \"tcp\"\n[pools]\nnic = { threads = 0 }\n[polls]\n");
    let path = path.to_str().unwrap();
    let ended = output(&["validate", path]);
    assert_eq!(ended.status.code(), Some(78));
    assert!(ended.stdout.is_empty());
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(stderr.contains(":4:") && stderr.contains(":5:"), "both places: {stderr}");
    assert!(stderr.contains("pools"), "did-you-mean: {stderr}");
    assert!(stderr.ends_with("\n\n2 errors\n"), "their number is told once: {stderr}");
    let (code, lines) = failure(&["validate", path, "--format", "json"]);
    assert_eq!(code, 78);
    let is_object = |l: &str| serde_json::from_str::<serde_json::Value>(l).is_ok_and(|v| v.is_object());
    assert!(lines.lines().count() == 2 && lines.lines().all(is_object), "{lines}");
}

/// With `--deny-warnings` a file that would run exits 78, and says which option made it so; in JSON stderr is objects only.
#[test]
fn warnings_can_be_denied() {
    let (_dir, path) = file("version = 1\nuse = \"tcp\"\n[nics]\nlo = {}\n");
    let args = ["validate", path.to_str().unwrap(), "--deny-warnings"];
    let ended = output(&args);
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!((ended.status.code(), ended.stdout.is_empty()), (Some(78), false));
    assert!(told.ends_with("\npipeline-node: 1 warning, and --deny-warnings\n"), "{told}");
    let (code, lines) = failure(&[&args[..], &["--json"]].concat());
    assert!(code == 78 && lines.lines().all(|line| line.starts_with('{')), "{lines}");
}

/// `--json` is what every command calls it, and the same as `--format json`; with another format it makes no sense.
#[test]
fn json_by_either_name() {
    let (_dir, path) = file("version = 1\nuse = \"tcp\"\n[polls]\n");
    let path = path.to_str().unwrap();
    assert_eq!(failure(&["validate", path, "--json"]), failure(&["validate", path, "--format", "json"]));
    assert!(failure(&["validate", path, "--json"]).1.starts_with('{'));
    assert_eq!(failure(&["validate", path, "--json", "--format", "text"]).0, 2);
    assert!(stdout(&["validate", "--help"]).contains("validate node.toml --json"));
}

/// Places that `cores` names are looked up on this machine: a NIC without a device has no CPUs near it, which is a warning of
/// `validate` and an error of whoever would run it. (`lo` has none on any machine.)
#[test]
fn places_are_looked_up() {
    let text = "version = 1\nuse = \"thread_per_core\"\n[pools]\ncore = { cores = \"nic:lo\" }\n";
    let (_dir, path) = file(text);
    let path = path.to_str().unwrap();
    let ended = output(&["validate", path]);
    let warned = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success() && warned.contains("warning[P0503]"), "{warned}");
    for command in [["run", path].as_slice(), &["bench", "-c", path]] {
        let (code, stderr) = failure(command);
        assert_eq!(code, 78, "{stderr}");
        assert!(stderr.contains("error[P0503]") && !stderr.contains("did not become ready"), "{stderr}");
    }
}

/// NICs that this machine lacks are a warning of `validate` and an error of `doctor`, in the same words; those that it has are
/// neither.
#[test]
fn nics_are_looked_up() {
    let nics = "transports.tcp.nics = [\"lo\", \"nosuch0\", \"moved\"]\nnics.moved.address = \"192.0.2.9\"\n";
    let (_dir, path) = file(&format!("version = 1\nuse = \"tcp\"\n{nics}"));
    let path = path.to_str().unwrap();
    let ended = output(&["validate", path]);
    let warned = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success() && warned.matches("warning[P0504]").count() == 2, "{warned}");
    let doctor = output(&["doctor", path]);
    assert_eq!(doctor.status.code(), Some(71));
    let told = String::from_utf8(doctor.stdout).unwrap();
    for words in ["there is no interface `nosuch0`", "no interface has its address 192.0.2.9"] {
        assert!(warned.contains(words) && told.contains(words), "{words}: {warned}\n{told}");
    }
    assert!(told.contains("ok    nics     `lo` of transport `tcp`") && !warned.contains("`lo`"), "{told}");
}

/// A file that does not exist is a finding as well; one whose name is nearly that of another one is told which.
#[test]
fn no_file() {
    let (code, stderr) = failure(&["validate", "/nonexistent.toml"]);
    assert_eq!(code, 78);
    assert!(stderr.contains("/nonexistent.toml") && !stderr.contains("did you mean"), "{stderr}");
    let (_dir, path) = file("version = 1\nuse = \"tcp\"\n");
    let (code, stderr) = failure(&["validate", path.with_file_name("ndoe.toml").to_str().unwrap()]);
    let meant = format!("did you mean {}?", path.display());
    assert_eq!((code, stderr.matches(&meant).count()), (78, 1), "{stderr}");
}

/// The three drawings show every stage.
#[test]
fn drawings() {
    let (_dir, path) = file("version = 1\nuse = \"tcp\"\n");
    for (format, mark) in [("text", "post"), ("mermaid", "flowchart"), ("dot", "digraph")] {
        let picture = stdout(&["graph", path.to_str().unwrap(), "--format", format]);
        assert!(picture.contains(mark) && picture.contains("retry"), "{format}: {picture}");
    }
}

/// A misspelt command exits 2 and is told what it may have meant.
#[test]
fn misspelt_commands() {
    let (code, stderr) = failure(&["valdate"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("validate"), "{stderr}");
}

/// A reader that stops early (`validate | head`) is no fault: no panic, exit 0.
#[test]
fn a_reader_may_stop_early() {
    let (_dir, path) = file("version = 1\nuse = \"tcp\"\n");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_pipeline-node"))
        .args(["validate", path.to_str().unwrap()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}
