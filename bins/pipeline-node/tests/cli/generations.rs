//! `copy --atomic`: readers see the old tree or the new one, whatever happens meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::copy::tree;
use crate::node::{Node, failure, program, stdout};

const FILES: usize = 12;

/// A tree of which every file says which generation it is of, and one never changes.
fn write_generation(folder: &Path, number: usize) {
    fs::create_dir_all(folder.join("sub")).unwrap();
    for i in 0..FILES {
        let name = if i % 2 == 0 { format!("{i}") } else { format!("sub/{i}") };
        fs::write(folder.join(name), format!("{number}\n").repeat(10_000 * (i % 3) + 1)).unwrap();
    }
    // There in every second one only.
    let odd = folder.join("odd");
    if number % 2 == 1 {
        fs::write(odd, format!("{number}\n")).unwrap();
    } else {
        let _ = fs::remove_file(odd);
    }
    let same = folder.join("same");
    if !same.exists() {
        fs::write(same, vec![7; 2 << 20]).unwrap();
    }
}

/// Which generation a tree is; a mixture or a half one panics.
#[track_caller]
fn generation_of(found: &BTreeMap<String, Option<Vec<u8>>>) -> usize {
    let number = |bytes: &[u8]| -> usize {
        let text = std::str::from_utf8(bytes).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines.dedup();
        assert_eq!(lines.len(), 1, "a mixture within one file");
        lines[0].parse().unwrap()
    };
    let files = found.iter().filter_map(|(name, bytes)| Some((name.as_str(), bytes.as_ref()?)));
    let mut numbers: Vec<_> =
        files.clone().filter(|(name, _)| *name != "same").map(|(_, bytes)| number(bytes)).collect();
    let count = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), 1, "a mixture: {numbers:?}");
    assert_eq!(count, FILES + numbers[0] % 2, "not all files of generation {}", numbers[0]);
    assert_eq!(found["same"], Some(vec![7; 2 << 20]));
    numbers[0]
}

/// What a reader sees that opens the folder, reads all of it, and looks whether it still stands in its place.
fn snapshot(folder: &Path) -> Option<usize> {
    let held = File::open(folder).expect("there is always a tree");
    let inside = format!("/proc/self/fd/{}/", held.as_raw_fd());
    let found = std::panic::catch_unwind(|| tree(Path::new(&inside)));
    let stands = fs::metadata(folder).unwrap().ino() == held.metadata().unwrap().ino();
    // Of a tree that was replaced meanwhile files may be gone already.
    stands.then(|| generation_of(&found.expect("a tree that stands can be read")))
}

/// Twenty generations up and five down while a reader looks all the time: each look is one generation, whole; what has
/// not changed is the same inode in all of them and not sent again; old generations are removed.
#[test]
fn readers_see_one_generation() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store, back) = (dir.path().join("here"), dir.path().join("store"), dir.path().join("back"));
    fs::create_dir(&store).unwrap();
    let node = Node::serving(&store);
    let there = format!("{}:files/live", node.address);
    let live = store.join("live");
    write_generation(&here, 0);
    stdout(&["copy", "--atomic", here.to_str().unwrap(), &there]);
    let inode = fs::metadata(live.join("same")).unwrap().ino();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen: Vec<usize> = Vec::new();
            while !over.load(Ordering::Relaxed) {
                seen.extend(snapshot(&live));
            }
            seen
        });
        for number in 1..=20 {
            write_generation(&here, number);
            let said = stdout(&["copy", "--atomic", "--json", here.to_str().unwrap(), &there]);
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            assert_eq!((said["skipped"].as_u64(), said["failed"].as_u64()), (Some(1), Some(0)), "{said}");
            assert_eq!(generation_of(&tree(&live)), number);
        }
        over.store(true, Ordering::Relaxed);
        let seen = reader.join().unwrap();
        assert!(seen.is_sorted(), "a generation came back: {seen:?}");
        let distinct = seen.chunk_by(|a, b| a == b).count();
        assert!(distinct >= 5, "it saw too little to say anything: {seen:?}");
    });
    assert_eq!(fs::metadata(live.join("same")).unwrap().ino(), inode);
    for number in 20..25 {
        write_generation(&here, number);
        stdout(&["copy", "--atomic", here.to_str().unwrap(), &there]);
        stdout(&["copy", "--atomic", &there, back.to_str().unwrap()]);
        assert_eq!(generation_of(&tree(&back)), number);
    }
    assert_eq!(
        tree(dir.path()).keys().filter(|name| name.contains("tree-")).count(),
        0,
        "old ones stay here"
    );
    until("old generations are removed", || !store.join(".pipeline-node").exists());
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Copies, and nodes, that are killed at any moment leave the old tree or the new one; and the next start of the node
/// removes what they had begun.
#[test]
fn a_kill_leaves_a_whole_tree() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store) = (dir.path().join("here"), dir.path().join("store"));
    fs::create_dir(&store).unwrap();
    let mut node = Node::serving(&store);
    write_generation(&here, 0);
    let to = |node: &Node| format!("{}:files/live", node.address);
    stdout(&["copy", "--atomic", here.to_str().unwrap(), &to(&node)]);
    let live = store.join("live");
    let begin = Instant::now();
    write_generation(&here, 1);
    stdout(&["copy", "--atomic", here.to_str().unwrap(), &to(&node)]);
    let takes = begin.elapsed();
    let (mut number, rounds) = (2, 16);
    for round in 0..rounds {
        write_generation(&here, number);
        let mut copy = program(&["copy", "--atomic", here.to_str().unwrap(), &to(&node)]).spawn().unwrap();
        // A moment of its own for each round, from the beginning to the end.
        std::thread::sleep(takes * round / rounds * 5 / 4);
        if round % 2 == 0 {
            node.crash();
        }
        copy.kill().unwrap();
        copy.wait().unwrap();
        let found = generation_of(&tree(&live));
        assert!(found == number || found + 1 == number, "{found} after round {round}");
        number = found + 1;
        if round % 2 == 0 {
            node = Node::serving(&store);
        }
        until("what was begun is removed", || !store.join(".pipeline-node").exists());
        assert_eq!(generation_of(&tree(&live)), found);
    }
}

/// If anything fails nothing is published; a file, the root of a segment and several sources cannot be replaced as a
/// whole, and it says so; nor can a folder on another file system than the segment's root.
#[test]
fn what_cannot_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store) = (dir.path().join("here"), dir.path().join("store"));
    fs::create_dir_all(store.join("live")).unwrap();
    fs::write(store.join("file"), "x").unwrap();
    write_generation(&here, 0);
    let node = Node::serving(&store);
    let at = |path: &str| format!("{}:files{path}", node.address);
    let from = here.to_str().unwrap();
    assert_eq!(failure(&["copy", "--atomic", &here.join("same").display().to_string(), &at("/live")]).0, 2);
    assert_eq!(failure(&["copy", "--atomic", from, from, &at("/live")]).0, 2);
    assert_eq!(failure(&["copy", "--atomic", "--resume", from, &at("/live")]).0, 2);
    let (code, stderr) = failure(&["copy", "--atomic", from, &at("/file")]);
    assert!(code == 1 && stderr.contains("not a directory"), "{stderr}");
    std::os::unix::fs::symlink("nowhere", here.join("dangling")).unwrap();
    let (code, stderr) = failure(&["copy", "--atomic", from, &at("/live")]);
    assert!(code == 1 && stderr.contains("nothing was published"), "{stderr}");
    assert!(tree(&store.join("live")).is_empty());
    until("what was begun is removed", || !store.join(".pipeline-node").exists());
    fs::remove_file(here.join("dangling")).unwrap();
    drop(node);

    let script = "mkdir -p \"$1/other\" && mount -t tmpfs none \"$1/other\" && shift && exec \"$@\"";
    let probe =
        Command::new("unshare").args(["-Urm", "sh", "-c", script, "-"]).arg(&store).arg("true").output();
    if !probe.is_ok_and(|ended| ended.status.success()) {
        eprintln!("skipped: no private mounts on this machine (unshare -Urm)");
        return;
    }
    let wrap = |command: &mut Command| {
        let mut inside = Command::new("unshare");
        inside.args(["-Urm", "sh", "-c", script, "-"]).arg(&store);
        inside.arg(command.get_program()).args(command.get_args());
        *command = inside;
    };
    let node = Node::serving_with(&store, wrap);
    let (code, stderr) = failure(&["copy", "--atomic", from, &format!("{}:files/other/live", node.address)]);
    assert!(code == 1 && stderr.contains("another file system") && stderr.contains("--atomic"), "{stderr}");
}

/// With `--fsync` files and generations arrive as without.
#[test]
fn on_the_disk_first() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store, back) = (dir.path().join("here"), dir.path().join("store"), dir.path().join("back"));
    fs::create_dir(&store).unwrap();
    write_generation(&here, 3);
    let node = Node::serving(&store);
    let from = here.to_str().unwrap();
    stdout(&["copy", "--fsync", from, &format!("{}:files/a/b", node.address)]);
    stdout(&["copy", "--fsync", "--atomic", from, &format!("{}:files/live", node.address)]);
    stdout(&["copy", "--fsync", "--atomic", &format!("{}:files/live", node.address), back.to_str().unwrap()]);
    for there in [store.join("a/b"), store.join("live"), back] {
        assert_eq!(tree(&there), tree(&here));
    }
}
