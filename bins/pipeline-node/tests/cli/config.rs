//! The commands about the file: `show config`, `init`, `doctor`, `schema`, and what `run` refuses.

use std::fs;

use crate::node::{failure, output, stdout};

fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

/// Every value has its source, and the source is who won: `--set`, file, preset or default.
#[test]
fn values_have_sources() {
    let (_dir, path) = file("version = 1\nuse = \"tcp\"\nlimits.requests = 1000\nlimits.slices = 2000\n");
    let json = stdout(&["show", "config", &path, "--set", "limits.slices=4096", "--json"]);
    let of = |wanted: &str| {
        let mut lines = json.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        let found = lines.find(|v| v["path"] == wanted).unwrap_or_else(|| panic!("{wanted} in {json}"));
        (found["value"].as_str().unwrap().to_owned(), found["source"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("limits.slices"), ("4096".into(), "--set".into()));
    assert_eq!(of("limits.requests"), ("1000".into(), format!("{path}:3:19")));
    assert_eq!(of("limits.peers"), ("1024".into(), "default".into()));
    assert!(of("transports.tcp.lanes").1.starts_with("<preset tcp>:"));
    assert!(of("edges.\"select -> post\"").0.contains("queue = 64"));
}

/// `init` writes a file that validates, and never writes over one.
#[test]
fn init_writes_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    let path = path.to_str().unwrap();
    stdout(&["init", "--detect", "-o", path]);
    stdout(&["validate", path, "--set", "transports.tcp.nics=[\"eth0\"]"]);
    let before = fs::read_to_string(path).unwrap();
    let (code, stderr) = failure(&["init", "rdma", "-o", path]);
    assert_eq!(code, 71);
    assert!(stderr.contains("is there already"), "{stderr}");
    assert_eq!(fs::read_to_string(path).unwrap(), before);
    let (code, stderr) = failure(&["init", "rmda", "-o", "-"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("did you mean `rdma`"), "{stderr}");
    // A shipped file that is no preset says what it is.
    let (code, stderr) = failure(&["init", "mooncake_like", "-o", "-"]);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("whole file") && stderr.contains("configs/models/mooncake_like.toml"),
        "{stderr}"
    );
}

/// `doctor` is content with a small file here, and says of one that does not suit what mends it.
#[test]
fn doctor_says_what_mends() {
    let (_dir, path) = file("version = 1\nuse = \"tcp\"\nlimits = { links = 4, peers = 4 }\n");
    // What would be faster on this machine is a hint, and no error.
    let well = stdout(&["doctor", &path]);
    assert!(well.starts_with("ok") && !well.contains("error"), "{well}");
    let hints = well.lines().filter(|line| !line.starts_with("ok")).collect::<Vec<_>>();
    let is_hint = |pair: &[&str]| pair[0].starts_with("hint ") && pair[1].contains("= better: ");
    assert!(hints.chunks(2).all(is_hint), "{well}");
    let ended = output(&["doctor", &path, "--set", "segments.huge={ kind='dram', size='64TiB' }"]);
    let told = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.code() == Some(71) && told.contains("error memory "), "{told}");
    assert!(told.contains("make segment `huge` smaller, which has 64.00 TiB"), "{told}");
    let ended = output(&["doctor", &path, "--set", "transports.tcp.nics=[\"nosuch0\"]"]);
    assert_eq!(ended.status.code(), Some(71));
    let out = String::from_utf8(ended.stdout).unwrap();
    assert!(out.contains("error nics") && out.contains("mend: "), "{out}");
}

/// `schema` prints a JSON schema with the shape of every stage type.
#[test]
fn schema_is_json() {
    let schema: serde_json::Value = serde_json::from_str(&stdout(&["schema"])).unwrap();
    assert_eq!(schema["definitions"]["stages.retry"]["properties"]["type"]["const"], "retry");
}

/// `run` refuses what a later release brings, with the place; `validate` does not.
#[test]
fn later_is_refused_by_run() {
    let (_dir, path) = file("version = 1\nuse = \"shm\"\n");
    stdout(&["validate", &path]);
    let (code, stderr) = failure(&["run", &path]);
    assert_eq!(code, 78);
    assert!(stderr.contains("comes with a later release") && stderr.contains("<preset shm>:"), "{stderr}");
    assert_eq!(failure(&["validate", &path, "--deny-warnings"]).0, 78);
}

/// A program without the feature `rdma` judges a file that asks for it, without a warning, because the file is right; `run`
/// and `doctor` refuse it and say how to build the program that runs it.
#[cfg(not(feature = "rdma"))]
#[test]
fn rdma_is_another_build() {
    let (_dir, path) = file("version = 1\nuse = \"rdma\"\n");
    stdout(&["validate", &path, "--deny-warnings"]);
    let (code, stderr) = failure(&["run", &path]);
    assert_eq!(code, 71);
    assert!(stderr.contains("without it") && stderr.contains("--features rdma"), "{stderr}");
    let doctor =
        std::process::Command::new(env!("CARGO_BIN_EXE_pipeline-node")).args(["doctor", &path]).output();
    let doctor = doctor.unwrap();
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(71), "{said}");
    assert!(said.contains("error rdma") && said.contains("libibverbs-dev"), "{said}");
}

/// `graph --format svg` is drawn by Graphviz: its picture is passed on, what it says against it too, and without it
/// the user is told how to get it.
#[test]
fn svg_is_drawn_by_graphviz() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, path) = file("version = 1\nuse = \"tcp\"\n");
    let dot = dir.path().join("dot");
    let graph = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pipeline-node"));
        command.args(["graph", &path, "--format", "svg"]).env("PATH", dir.path());
        let ended = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ended.status.code(), text(ended.stdout), text(ended.stderr))
    };
    let (code, _, stderr) = graph();
    assert_eq!(code, Some(71));
    assert!(stderr.contains("apt-get install graphviz"), "{stderr}");
    let script = |text: &str| {
        fs::write(&dot, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&dot, fs::Permissions::from_mode(0o755)).unwrap();
    };
    // Says what it was given, so that the test sees that it was the whole graph.
    script("echo '<svg>'; while read -r line; do echo \"$line\"; done; echo '</svg>'");
    let (code, stdout, stderr) = graph();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("<svg>\ndigraph pipeline") && stdout.ends_with("}\n</svg>\n"), "{stdout}");
    script("echo 'no layout engine' >&2; exit 1");
    let (code, _, stderr) = graph();
    assert_eq!(code, Some(71));
    assert!(stderr.contains("no layout engine"), "{stderr}");
}
