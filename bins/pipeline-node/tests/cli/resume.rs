//! `copy --resume` and `--skip-unchanged`: how much is sent again, what is not trusted, and what stays behind.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant, SystemTime};

use crate::copy::tree;
use crate::node::{Node, program, stdout};

const LARGE: usize = 64 << 20;
/// The lease is half of it, so at most 2 MiB are on their way.
const BUFFER: &str = "segments.files.buffer='4MiB'";
/// So slow that a kill finds it at work.
const SLOW: &str = "--bwlimit=24MiB/s";

fn bytes(seed: u32, n: usize) -> Vec<u8> {
    (0..n as u32).map(|i| ((i ^ seed).wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

/// Runs a copy that has to end well; answers what it says of itself.
#[track_caller]
fn copied(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(&[&["copy", "--json"], args].concat())).unwrap()
}

fn number(said: &serde_json::Value, key: &str) -> usize {
    said[key].as_u64().unwrap_or_else(|| panic!("{key}: {said}")) as usize
}

/// Bytes that a process has written to files.
fn written(pid: u32) -> usize {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    io.lines().find_map(|l| l.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

/// Waits until a process has written so many bytes to files; the end of `copy` before that is a failure.
fn until_written(pid: u32, wanted: usize, copy: &mut Child) {
    let begin = Instant::now();
    while written(pid) < wanted {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} of {wanted}", written(pid));
        assert!(copy.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn kill(copy: &mut Child) {
    copy.kill().unwrap();
    copy.wait().unwrap();
}

/// A copy of `from` to `to` that is killed when half of `all` bytes are written; the node writes them, or the copy.
fn killed_at_half(node: &Node, from: &str, to: &str, all: usize, node_writes: bool) {
    let before = written(node.child.id());
    let mut copy = program(&["copy", "--resume", SLOW, from, to]).spawn().unwrap();
    let (pid, before) = if node_writes { (node.child.id(), before) } else { (copy.id(), 0) };
    until_written(pid, before + all / 2, &mut copy);
    kill(&mut copy);
}

/// At most what was missing at the kill is sent, and a twentieth of all.
#[track_caller]
fn assert_resumed(said: &serde_json::Value, all: usize) {
    assert!(number(said, "sent_bytes") <= all / 2 + all / 20, "{said}");
    let there = number(said, "resumed_bytes") + number(said, "skipped_bytes");
    assert_eq!(number(said, "sent_bytes") + there, all, "{said}");
}

/// A large file whose copy is killed with -9 at half goes on there, up and down: at most 5 % is sent again, the file is
/// right, and nothing but it stays.
#[test]
fn a_killed_copy_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (store, back) = (dir.path().join("store"), dir.path().join("back"));
    fs::create_dir(&store).unwrap();
    fs::create_dir(&back).unwrap();
    let (file, whole) = (dir.path().join("file"), bytes(1, LARGE));
    fs::write(&file, &whole).unwrap();
    let node = Node::serving_with_set(&store, &[BUFFER]);
    let (from, there) = (file.to_str().unwrap(), format!("{}:files/deep/file", node.address));
    killed_at_half(&node, from, &there, LARGE, true);
    assert_eq!(fs::read_dir(store.join("deep")).unwrap().count(), 0, "half a file can be seen");
    assert_resumed(&copied(&["--resume", from, &there]), LARGE);
    assert!(fs::read(store.join("deep/file")).unwrap() == whole);
    assert_eq!(tree(&store).into_keys().collect::<Vec<_>>(), ["deep", "deep/file"]);

    let here = back.join("file");
    killed_at_half(&node, &there, here.to_str().unwrap(), LARGE, false);
    assert!(!here.exists());
    assert_resumed(&copied(&["--resume", &there, here.to_str().unwrap()]), LARGE);
    assert!(fs::read(&here).unwrap() == whole);
    assert_eq!(tree(&back).into_keys().collect::<Vec<_>>(), ["file"]);
}

/// The same when the node is killed: its next start finds what the one before had, up and down.
#[test]
fn a_killed_node_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (store, back) = (dir.path().join("store"), dir.path().join("back"));
    fs::create_dir(&store).unwrap();
    fs::create_dir(&back).unwrap();
    let (file, whole) = (dir.path().join("file"), bytes(2, LARGE));
    fs::write(&file, &whole).unwrap();
    let mut node = Node::serving_with_set(&store, &[BUFFER]);
    let (from, here) = (file.to_str().unwrap(), back.join("file"));
    let half = |node: &mut Node, from: &str, to: &str, node_writes: bool| {
        let mut copy = program(&["copy", "--resume", SLOW, from, to]).spawn().unwrap();
        let pid = if node_writes { node.child.id() } else { copy.id() };
        until_written(pid, LARGE / 2, &mut copy);
        node.crash();
        assert!(!copy.wait().unwrap().success());
        *node = Node::serving_with_set(&store, &[BUFFER]);
    };
    let to = format!("{}:files/file", node.address);
    half(&mut node, from, &to, true);
    assert_resumed(&copied(&["--resume", from, &format!("{}:files/file", node.address)]), LARGE);
    assert!(fs::read(store.join("file")).unwrap() == whole);
    let there = format!("{}:files/file", node.address);
    half(&mut node, &there, here.to_str().unwrap(), false);
    let there = format!("{}:files/file", node.address);
    assert_resumed(&copied(&["--resume", &there, here.to_str().unwrap()]), LARGE);
    assert!(fs::read(&here).unwrap() == whole);
    assert_eq!((tree(&store).len(), tree(&back).len()), (1, 1), "something stays behind");
}

/// A tree of many files whose copy is killed at half: what is whole there is not sent again.
#[test]
fn a_killed_tree_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store) = (dir.path().join("here"), dir.path().join("store"));
    let (count, each) = (400, 100_000);
    for i in 0..count {
        let folder = here.join(format!("{}", i % 7));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{i}")), bytes(i, each)).unwrap();
    }
    fs::create_dir(&store).unwrap();
    let node = Node::serving_with_set(&store, &[BUFFER]);
    let all = count as usize * each;
    let (from, to) = (here.to_str().unwrap(), format!("{}:files/there", node.address));
    killed_at_half(&node, from, &to, all, true);
    assert_resumed(&copied(&["--resume", from, &to]), all);
    assert_eq!(tree(&here), tree(&store.join("there")));
    assert!(!store.join(".pipeline-node").exists());
}

/// What was kept is compared, not trusted: if the source has changed meanwhile every byte that differs is sent, and the
/// file is the new one; so it is if somebody has damaged what was kept.
#[test]
fn nothing_kept_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, bytes(3, LARGE)).unwrap();
    let node = Node::serving_with_set(&store, &[BUFFER]);
    let (from, to) = (file.to_str().unwrap(), format!("{}:files/file", node.address));
    killed_at_half(&node, from, &to, LARGE, true);
    let other = bytes(99, LARGE - 4321);
    fs::write(&file, &other).unwrap();
    let said = copied(&["--resume", from, &to]);
    assert_eq!((number(&said, "resumed_bytes"), number(&said, "sent_bytes")), (0, other.len()));
    assert!(fs::read(store.join("file")).unwrap() == other);
    fs::remove_file(store.join("file")).unwrap();

    killed_at_half(&node, from, &to, LARGE, true);
    let unfinished = store.join(".pipeline-node");
    let part = fs::read_dir(&unfinished).unwrap().next().unwrap().unwrap().path();
    let mut kept = fs::read(&part).unwrap();
    kept[123_456] ^= 1;
    fs::write(&part, kept).unwrap();
    copied(&["--resume", from, &to]);
    assert!(fs::read(store.join("file")).unwrap() == other);
}

/// Kept uploads have an end: those older than a week go, and of more than 256 the oldest; a link or a foreign file in
/// their place is neither followed nor written to.
#[test]
fn what_is_kept_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (store, file) = (dir.path().join("store"), dir.path().join("file"));
    let unfinished = store.join(".pipeline-node");
    fs::create_dir_all(&unfinished).unwrap();
    fs::write(&file, bytes(4, 3 << 20)).unwrap();
    let old = |age_days: u64| SystemTime::now() - Duration::from_secs(age_days * 24 * 3600);
    for i in 0..300_u64 {
        let part = File::create(unfinished.join(format!("part-{i:032x}"))).unwrap();
        part.set_modified(old(if i < 10 { 8 } else { 1 })).unwrap();
    }
    let node = Node::serving(&store);
    stdout(&["copy", "--resume", file.to_str().unwrap(), &format!("{}:files/a", node.address)]);
    let left: Vec<_> = tree(&unfinished).into_keys().collect();
    assert!(left.len() < 256, "{} are left", left.len());
    assert!(left.iter().all(|name| name.as_str() >= "part-0000000000000000000000000000000a"), "{left:?}");

    // The name that an upload to `b` is kept under.
    let mut copy = program(&[
        "copy",
        "--resume",
        "--bwlimit=64KiB",
        file.to_str().unwrap(),
        &format!("{}:files/b", node.address),
    ])
    .spawn()
    .unwrap();
    let begin = Instant::now();
    let known = |name: &String| !left.contains(name);
    let name = loop {
        if let Some(name) = tree(&unfinished).into_keys().find(known) {
            break name;
        }
        assert!(begin.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    };
    kill(&mut copy);
    let secret = dir.path().join("secret");
    for planted in [
        |secret: &Path, at: &Path| std::os::unix::fs::symlink(secret, at).unwrap(),
        |secret: &Path, at: &Path| fs::hard_link(secret, at).unwrap(),
    ] {
        fs::write(&secret, "secret").unwrap();
        let _ = fs::remove_file(unfinished.join(&name));
        planted(&secret, &unfinished.join(&name));
        let _ = program(&["copy", "--resume", file.to_str().unwrap(), &format!("{}:files/b", node.address)])
            .output()
            .unwrap();
        assert_eq!(fs::read(&secret).unwrap(), b"secret");
    }
    assert!(fs::read(store.join("b")).unwrap() == bytes(4, 3 << 20));
}

/// A second run sends nothing; what has changed in bytes, length or mode is sent, also if its time of modification says
/// that it has not. Both ways.
#[test]
fn unchanged_files_are_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store, back) = (dir.path().join("here"), dir.path().join("store"), dir.path().join("back"));
    fs::create_dir_all(here.join("sub")).unwrap();
    fs::create_dir(&store).unwrap();
    let names = ["empty", "small", "sub/large", "mode"];
    for (name, len) in names.into_iter().zip([0, 1000, 3_000_001, 5]) {
        fs::write(here.join(name), bytes(5, len)).unwrap();
    }
    let node = Node::serving(&store);
    let there = format!("{}:files/there", node.address);
    let up = ["--skip-unchanged", here.to_str().unwrap(), there.as_str()];
    let down = ["--checksum", there.as_str(), back.to_str().unwrap()];
    let counts = |said: &serde_json::Value| (number(said, "files"), number(said, "skipped"));
    for way in [&up, &down] {
        assert_eq!(counts(&copied(way)), (4, 0));
        let again = copied(way);
        assert_eq!((counts(&again), number(&again, "sent_bytes")), ((0, 4), 0));
        assert_eq!(number(&again, "skipped_bytes"), 3_001_006);
    }
    // One byte in the middle, with the old time; and a mode.
    let large = here.join("sub/large");
    let time = fs::metadata(&large).unwrap().modified().unwrap();
    let mut changed = bytes(5, 3_000_001);
    changed[1_500_000] ^= 1;
    fs::write(&large, &changed).unwrap();
    File::options().write(true).open(&large).unwrap().set_modified(time).unwrap();
    fs::set_permissions(here.join("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    for way in [&up, &down] {
        assert_eq!(counts(&copied(way)), (2, 2));
    }
    assert_eq!((tree(&here), tree(&here)), (tree(&store.join("there")), tree(&back)));
    assert_ne!(fs::metadata(back.join("mode")).unwrap().permissions().mode() & 0o100, 0);
}

/// With several destinations each has its own answers: one that lacks a file gets it, from another node if so asked, and
/// one that has all of it gets nothing.
#[test]
fn each_destination_has_its_own_answers() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("here");
    fs::create_dir(&here).unwrap();
    for i in 0..5 {
        fs::write(here.join(format!("{i}")), bytes(i, 300_000)).unwrap();
    }
    let stores = ["a", "b"].map(|name| dir.path().join(name));
    stores.iter().for_each(|store| fs::create_dir(store).unwrap());
    let nodes = [&stores[0], &stores[1]].map(|s| Node::serving_with_set(s, &["segments.files.pull='any'"]));
    let to = [0, 1].map(|i: usize| format!("{}:files/there", nodes[i].address));
    let args = ["--skip-unchanged", "--fanout=chain", here.to_str().unwrap(), &to[0], &to[1]];
    assert_eq!(number(&copied(&args), "sent_bytes"), 1_500_000);
    fs::remove_file(stores[1].join("there/3")).unwrap();
    let said = copied(&args);
    let skipped = |i: usize| number(&said["destinations"][i], "skipped");
    assert_eq!((skipped(0), skipped(1)), (5, 4), "{said}");
    let moved = &said["destinations"][1];
    assert_eq!(number(moved, "sent_bytes") + number(moved, "pulled_bytes"), 300_000, "{said}");
    assert_eq!(number(&copied(&args), "sent_bytes"), 0);
    stores.iter().for_each(|store| assert_eq!(tree(&store.join("there")), tree(&here)));
}
