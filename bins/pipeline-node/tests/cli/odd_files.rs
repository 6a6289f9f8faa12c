//! `copy` of files that are odd, unreadable, special or too large, onto disks that are full, and to nodes that die.

use std::ffi::OsStr;
use std::fs;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::copy::tree;
use crate::node::{Node, failure, output, program, stdout};

/// Nobody in particular.
const NOBODY: u32 = 65_534;

fn bytes(n: usize) -> Vec<u8> {
    (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

/// The names of a folder that end in what is written beside a file.
fn unfinished(folder: &Path) -> Vec<String> {
    tree(folder).into_keys().filter(|name| name.contains(".part-")).collect()
}

/// Whether a node is writing a file below a folder that is not in its place yet. It has no name there, or a hidden one.
pub fn is_writing(node: &Node, folder: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{}/fd", node.child.id())).unwrap().flatten();
    let mut targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.any(|to| {
        let text = to.to_string_lossy();
        to.starts_with(folder) && (text.ends_with("(deleted)") || text.contains("part-"))
    })
}

/// The buffer that files of a folder pass through is no memory to measure: `bench` refuses it, and of a folder that is only read
/// no peer writes into it. What is fetched meanwhile is right.
#[test]
fn a_folder_is_not_measured() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), bytes(1 << 20)).unwrap();
    let node = Node::serving_with_set(dir.path(), &["segments.files.access='read'"]);
    let (code, stderr) =
        failure(&["bench", "--target", &node.address, "--segment", "files", "--size", "4KiB"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("`files`") && stderr.contains("is a folder"), "{stderr}");
    let seen = stdout(&["explain", &node.address, "files"]);
    assert!(seen.contains("READ") && !seen.contains("READ and WRITE"), "{seen}");
    let back = dir.path().join("back");
    stdout(&["copy", &format!("{}:files/file", node.address), back.to_str().unwrap()]);
    assert!(fs::read(back).unwrap() == bytes(1 << 20));
}

/// The longest legal names, names of only spaces and dots, control characters, emoji and leading dashes, several levels
/// deep, go there and come back byte for byte.
#[test]
fn names_that_trip_others() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store, back) = (dir.path().join("h"), dir.path().join("s"), dir.path().join("b"));
    let long = "x".repeat(255);
    // 252 bytes, and no cut at a multiple of ten is between two characters.
    let wide = "\u{2744}".repeat(84);
    let names = [
        " ",
        "...",
        ".hidden",
        "a\tb",
        "a\nb",
        "\u{7f}",
        "-rf",
        "--",
        "a b  c",
        "\u{1F980}",
        "a:b",
        "*?[",
        "\\",
        "'\"",
        &long,
        &wide,
    ];
    let deep = names.iter().take(6).fold(here.clone(), |at, name| at.join(name));
    fs::create_dir_all(&deep).unwrap();
    for folder in [&here, &deep] {
        for (i, name) in names.iter().enumerate() {
            let path = folder.join(name);
            if !path.exists() {
                fs::write(path, bytes(i * 100)).unwrap();
            }
        }
    }
    fs::create_dir(&store).unwrap();
    let node = Node::serving(&store);
    stdout(&["copy", here.to_str().unwrap(), &format!("{}:files/", node.address)]);
    assert_eq!(tree(&here), tree(&store.join("h")));
    stdout(&["copy", &format!("{}:files/h", node.address), back.to_str().unwrap()]);
    assert_eq!(tree(&here), tree(&back));
}

/// Names that are not UTF-8 cannot travel: on either side they are listed, the rest is copied, and the exit code is 1.
#[test]
fn names_that_are_no_text() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store) = (dir.path().join("here"), dir.path().join("store"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&store).unwrap();
    fs::write(here.join(OsStr::from_bytes(b"bad\xFFname")), "1").unwrap();
    fs::write(here.join("good"), "2").unwrap();
    let node = Node::serving(&store);
    let (code, stderr) = failure(&["copy", here.to_str().unwrap(), &format!("{}:files/", node.address)]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("bad") && stderr.contains("UTF-8"), "{stderr}");
    assert_eq!(fs::read(store.join("here/good")).unwrap(), b"2");

    fs::write(store.join(OsStr::from_bytes(b"worse\xFE")), "3").unwrap();
    let back = dir.path().join("back");
    let (code, stderr) = failure(&["copy", &format!("{}:files/", node.address), back.to_str().unwrap()]);
    assert_eq!(code, 1, "a file that does not come must not look like success: {stderr}");
    assert!(stderr.contains("worse"), "{stderr}");
    assert_eq!(fs::read(back.join("here/good")).unwrap(), b"2");
}

/// A name that would steer a terminal, or begin a line of its own, is shown and not carried out, wherever it is: among what failed there
/// and here, in the last line, in findings.
#[test]
fn names_that_steer_terminals() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store) = (dir.path().join("here"), dir.path().join("store"));
    let name = "a\nfailed: b\u{1b}[2J\u{9b}1m\u{202e}";
    for folder in [&here, &store] {
        fs::create_dir(folder).unwrap();
        assert!(Command::new("mkfifo").arg(folder.join(name)).status().unwrap().success());
    }
    let node = Node::serving(&store);
    let (to, back) = (format!("{}:files/", node.address), dir.path().join("back"));
    let gone = format!("{}:files/{name}", node.address);
    let config = dir.path().join(name);
    for args in [
        &["copy", here.to_str().unwrap(), &to][..],
        &["copy", &to, back.to_str().unwrap()],
        &["copy", &gone, back.to_str().unwrap()],
        &["copy", "--fanout", "star", here.to_str().unwrap(), &to, &format!("{}:files/{name}", node.address)],
        &["validate", config.to_str().unwrap()],
        &["tune", "-c", config.to_str().unwrap()],
        &["bench", "--trace", config.to_str().unwrap()],
    ] {
        let (code, stderr) = failure(args);
        assert!(code > 0 && stderr.contains("failed: b\\u001b[2J"), "{args:?}: {stderr:?}");
        assert!(!stderr.contains(|c: char| c != '\n' && c.is_control() || c == '\u{202e}'), "{stderr:?}");
        assert!(!stderr.lines().any(|line| line.starts_with("failed: b")), "{args:?}: {stderr}");
    }
}

/// A pipe, a socket and a device are listed and never opened: a copy does not hang on them, here or there.
#[test]
fn special_files() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store) = (dir.path().join("here"), dir.path().join("store"));
    for folder in [&here, &store] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("plain"), "x").unwrap();
        let made = Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap();
        assert!(made.success());
        drop(std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap());
    }
    symlink("/dev/zero", here.join("device")).unwrap();
    let node = Node::serving(&store);
    let (code, stderr) = failure(&["copy", here.to_str().unwrap(), &format!("{}:files/", node.address)]);
    assert_eq!(code, 1);
    assert!(["pipe", "socket", "device"].iter().all(|name| stderr.contains(name)), "{stderr}");
    assert_eq!(tree(&store.join("here")).into_keys().collect::<Vec<_>>(), ["plain"]);
    let back = dir.path().join("back");
    let (code, stderr) = failure(&["copy", &format!("{}:files/", node.address), back.to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(["pipe", "socket"].iter().all(|name| stderr.contains(name)), "{stderr}");
    for path in ["pipe", "socket"] {
        let to = dir.path().join("never");
        assert_eq!(failure(&["copy", &format!("{}:files/{path}", node.address), to.to_str().unwrap()]).0, 1);
        assert!(!to.exists());
    }
    // Nor written to: the file takes the pipe's place or is refused, but nobody waits for a reader.
    let plain = here.join("plain");
    output(&["copy", plain.to_str().unwrap(), &format!("{}:files/pipe", node.address)]);
}

/// What may not be read is listed by name, on either side; the rest is copied and the exit code is 1.
#[test]
fn unreadable_files() {
    let dir = tempfile::tempdir().unwrap();
    let root = rustix::process::getuid().is_root();
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(dir.path(), 0o755);
    let (here, store, back) = (dir.path().join("here"), dir.path().join("store"), dir.path().join("back"));
    for folder in [&here, &store, &back] {
        fs::create_dir(folder).unwrap();
        open(folder, 0o777);
    }
    for folder in [&here, &store] {
        fs::write(folder.join("open"), "x").unwrap();
        fs::write(folder.join("secret"), "y").unwrap();
        open(&folder.join("secret"), 0o000);
    }
    // The superuser reads everything: then both sides run as somebody else.
    let as_other = |command: &mut Command| {
        if root {
            command.uid(NOBODY);
        }
    };
    if root {
        chown(&store, Some(NOBODY), None).unwrap();
    }
    let node = Node::serving_with(&store, as_other);
    let copy = |from: &str, to: &str| {
        let mut command = program(&["copy", from, to]);
        as_other(&mut command);
        let ended = command.output().unwrap();
        (ended.status.code().unwrap_or(-1), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let (code, stderr) = copy(here.to_str().unwrap(), &format!("{}:files/", node.address));
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("secret") && stderr.contains("ermission"), "{stderr}");
    assert_eq!(fs::read(store.join("here/open")).unwrap(), b"x");
    let (code, stderr) = copy(&format!("{}:files/", node.address), &format!("{}/", back.display()));
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("secret") && stderr.contains("ermission"), "{stderr}");
    let there = tree(&back);
    assert!(there.keys().any(|name| name.ends_with("open")) && unfinished(&back).is_empty(), "{there:?}");
}

/// A file many times the size of the bounce region, at odd lengths, both ways.
#[test]
fn larger_than_the_bounce_region() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let node = Node::serving_with_set(&store, &["segments.files.buffer='64KiB'"]);
    for len in [65_535, 65_536, 65_537, 3_000_001] {
        let (file, back) = (dir.path().join("file"), dir.path().join("back"));
        fs::write(&file, bytes(len)).unwrap();
        stdout(&["copy", file.to_str().unwrap(), &format!("{}:files/there", node.address)]);
        stdout(&["copy", &format!("{}:files/there", node.address), back.to_str().unwrap()]);
        assert!(fs::read(&back).unwrap() == bytes(len), "{len}");
    }
    assert!(unfinished(&store).is_empty());
}

/// A full disk there: the file that does not fit is listed with the reason, small ones are copied, no piece of the
/// large one stays, and once there is space it is copied without a restart (B17).
#[test]
fn a_full_disk_there() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store) = (dir.path().join("here"), dir.path().join("store"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&store).unwrap();
    fs::write(here.join("large"), bytes(3 << 20)).unwrap();
    fs::write(here.join("small"), "small").unwrap();
    let script = "mount -t tmpfs -o size=2m none \"$1\" && shift && exec \"$@\"";
    let probe = Command::new("unshare")
        .args(["-Urm", "sh", "-c", script, "-", store.to_str().unwrap(), "true"])
        .output();
    if !probe.is_ok_and(|ended| ended.status.success()) {
        eprintln!("skipped: no private mounts on this machine (unshare -Urm)");
        return;
    }
    let wrap = |command: &mut Command| {
        let mut inside = Command::new("unshare");
        inside
            .args(["-Urm", "sh", "-c", script, "-"])
            .arg(&store)
            .arg(command.get_program())
            .args(command.get_args());
        *command = inside;
    };
    let node = Node::serving_with(&store, wrap);
    let to = format!("{}:files/", node.address);
    let (code, stderr) = failure(&["copy", here.to_str().unwrap(), &to]);
    assert_eq!(code, 1);
    assert!(stderr.contains("large") && stderr.contains("space"), "{stderr}");
    let back = dir.path().join("back");
    stdout(&["copy", &to, back.to_str().unwrap()]);
    assert_eq!(
        tree(&back).into_iter().filter_map(|(n, b)| Some((n, b?))).collect::<Vec<_>>(),
        [("here/small".to_owned(), b"small".to_vec())]
    );
    // No reservation of the large one was left: what fits still fits.
    let fits = dir.path().join("fits");
    fs::write(&fits, bytes(1 << 20)).unwrap();
    stdout(&["copy", fits.to_str().unwrap(), &to]);
}

/// A node that is killed in the middle of a copy: the copy ends soon and not with success, and under its final name
/// there is no half file; the next copy, to its successor, works.
#[test]
fn killed_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, bytes(128 << 20)).unwrap();
    let mut node = Node::serving_with_set(&store, &["segments.files.buffer='256KiB'"]);
    let to = format!("{}:files/file", node.address);
    let mut copy = program(&["copy", file.to_str().unwrap(), &to]);
    let mut copy = copy.stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while !is_writing(&node, &store) {
        assert!(begin.elapsed() < Duration::from_secs(30), "it never began");
        std::thread::sleep(Duration::from_millis(2));
    }
    node.crash();
    let killed = Instant::now();
    let status = copy.wait().unwrap();
    assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
    let said: Vec<String> =
        std::io::BufReader::new(copy.stderr.take().unwrap()).lines().map_while(Result::ok).collect();
    assert!(matches!(status.code(), Some(1 | 69)), "{status:?}: {said:?}");
    assert!(said.iter().any(|line| line.contains(&node.address)), "it does not say who: {said:?}");
    assert_eq!(tree(&store).into_keys().collect::<Vec<_>>(), [""; 0], "something of it stays behind");
    let next = Node::serving(&store);
    stdout(&["copy", file.to_str().unwrap(), &format!("{}:files/file", next.address)]);
    assert!(fs::read(store.join("file")).unwrap() == bytes(128 << 20));
}

/// A copy that is itself killed leaves nothing on the node: its session's end removes what was unfinished.
#[test]
fn a_killed_copy_leaves_nothing_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, bytes(128 << 20)).unwrap();
    let node = Node::serving_with_set(&store, &["segments.files.buffer='256KiB'"]);
    let mut copy =
        program(&["copy", file.to_str().unwrap(), &format!("{}:files/file", node.address)]).spawn().unwrap();
    let begin = Instant::now();
    while !is_writing(&node, &store) {
        assert!(begin.elapsed() < Duration::from_secs(30), "it never began");
        std::thread::sleep(Duration::from_millis(2));
    }
    copy.kill().unwrap();
    copy.wait().unwrap();
    while is_writing(&node, &store) || !tree(&store).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(30), "left behind: {:?}", tree(&store).into_keys());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Many copies at the same time, to the same names and to different ones: each is whole.
#[test]
fn many_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let node = Node::serving(&store);
    std::thread::scope(|scope| {
        for i in 0..6_usize {
            let (dir, node) = (dir.path(), &node);
            scope.spawn(move || {
                let file = dir.join(format!("file-{i}"));
                fs::write(&file, vec![i as u8; 2 << 20]).unwrap();
                for to in ["shared".to_owned(), format!("own-{i}")] {
                    stdout(&["copy", file.to_str().unwrap(), &format!("{}:files/{to}", node.address)]);
                }
            });
        }
    });
    let shared = fs::read(store.join("shared")).unwrap();
    assert!(shared.len() == 2 << 20 && shared.iter().all(|b| *b == shared[0]), "mixed");
    for i in 0..6 {
        assert!(fs::read(store.join(format!("own-{i}"))).unwrap() == vec![i as u8; 2 << 20]);
    }
    assert!(unfinished(&store).is_empty());
}
