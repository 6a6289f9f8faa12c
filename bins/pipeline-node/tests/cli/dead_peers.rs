//! A peer that is not there, or goes in the middle: what a command says of it, which is for who started the command.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::node::{Node, failure, output, program};

/// Nobody listens at either.
const NOBODY: [&str; 2] = ["127.0.0.1:1", "127.0.0.1:2"];

/// Each command says it in one line, which names the peer and what to look at, without a log before it, and exits 69; with
/// several peers that is a line each. The log is there for who asks for it.
#[test]
fn nobody_listens() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("file"), "x").unwrap();
    fs::write(at("node.toml"), "version = 1\nuse = \"tcp\"\n").unwrap();
    let (file, node, new) = (at("file"), at("node.toml"), at("new"));
    let there = NOBODY.map(|peer| format!("{peer}:files/"));
    let commands: [&[&str]; 6] = [
        &["copy", &file, &there[0]],
        &["copy", &there[0], &new],
        &["copy", &file, &there[0], &there[1]],
        &["bench", "--target", NOBODY[0], "--size", "4KiB"],
        &["tune", &node, "--target", NOBODY[0]],
        &["explain", NOBODY[0]],
    ];
    for command in commands {
        let (code, stderr) = failure(command);
        let lines: Vec<&str> = stderr.lines().collect();
        assert_eq!(
            (code, lines.len()),
            (69, if command.len() == 4 && command[0] == "copy" { 2 } else { 1 }),
            "{stderr}"
        );
        for (line, peer) in lines.iter().zip(NOBODY) {
            assert!(line.starts_with(&format!("pipeline-node: peer {peer} cannot be reached: ")), "{line}");
            assert!(line.ends_with("; check its address, and that it runs"), "{line}");
        }
    }
    assert!(!dir.path().join("new").exists());
    let logged = program(commands[0]).env("RUST_LOG", "warn").output().unwrap();
    assert!(String::from_utf8(logged.stderr).unwrap().contains("WARN"), "RUST_LOG beats it");
    let compared = output(&["compare", &node, "--target", NOBODY[0], "--work", "latency"]);
    let [out, err] = [compared.stdout, compared.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(
        (compared.status.code(), out.matches("cannot be reached").count(), err.lines().count()),
        (Some(69), 1, 1)
    );
}

/// A node keeps its log of peers that it does not reach: nobody else is told.
#[test]
fn a_node_logs_it() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let stderr = fs::File::create(&log).unwrap();
    let node = Node::serving_with(dir.path(), |command| {
        command.stderr(stderr).args(["--set", "segments.files.pull='any'"]);
    });
    let file = dir.path().join("file");
    fs::write(&file, vec![7; 4 << 20]).unwrap();
    let other = tempfile::tempdir().unwrap();
    let mut first = Node::serving(other.path());
    let to = [format!("{}:files/a", first.address), format!("{}:files/a", node.address)];
    let args = ["copy", "--fanout=chain", "--bwlimit=512KiB", file.to_str().unwrap(), &to[0], &to[1]];
    let mut copy = program(&args).stderr(Stdio::null()).spawn().unwrap();
    // It pulls from the other one by then, which goes.
    std::thread::sleep(Duration::from_secs(1));
    first.crash();
    let begin = Instant::now();
    while !fs::read_to_string(&log).unwrap().contains("WARN") {
        assert!(begin.elapsed() < Duration::from_secs(30), "{}", fs::read_to_string(&log).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = copy.kill();
    copy.wait().unwrap();
}

/// A copy whose node goes in the middle lists what failed and ends with one line that names it and says how to go on: no log, and
/// no word of requests and how to submit them.
#[test]
fn it_goes_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let (store, here) = (dir.path().join("store"), dir.path().join("here"));
    fs::create_dir(&store).unwrap();
    fs::create_dir(&here).unwrap();
    for i in 0..4 {
        fs::write(here.join(format!("{i}")), vec![7; 4 << 20]).unwrap();
    }
    let mut node = Node::serving(&store);
    let to = format!("{}:files/there", node.address);
    let mut command = program(&["copy", "--bwlimit=1MiB", here.to_str().unwrap(), &to]);
    let copy = command.stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while !store.join("there").exists() {
        assert!(begin.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(500));
    node.crash();
    let ended = copy.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    let (failed, last) = told.trim_end().rsplit_once('\n').unwrap_or_else(|| panic!("{told}"));
    assert!(failed.lines().all(|line| line.starts_with("failed: ")), "{told}");
    assert!(last.contains(&format!("peer {} is gone; copy again when it is back", node.address)), "{told}");
    assert!(!told.contains("WARN") && !told.contains("submit") && !told.contains("open it again"), "{told}");
}

/// A target that leaves in good order in the middle of a `bench` is a peer that went: 69, in one line that says so.
#[test]
fn a_target_leaves() {
    let node = Node::target("64MiB", &[]);
    let args = ["bench", "--target", &node.address, "--segment", "kv", "--size", "64KiB", "--seconds", "20"];
    let mut bench = program(&args);
    let bench = bench.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    node.signal(rustix::process::Signal::TERM);
    let ended = bench.wait_with_output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(69), "{stderr}");
    assert!(stderr.contains("has gone") && !stderr.contains("use another peer"), "{stderr}");
}
