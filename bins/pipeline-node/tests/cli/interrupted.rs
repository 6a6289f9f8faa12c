//! A copy that is interrupted or comes to nothing: which folders stay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::node::{Node, failure, program, stdout};

/// So slow that a signal finds it at work.
const SLOW: &str = "--bwlimit=256KiB";

struct Scene {
    dir: tempfile::TempDir,
    store: PathBuf,
    node: Node,
}

impl Scene {
    /// A node that serves a folder, with a file that takes long and, before it, one that does not.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        fs::create_dir_all(store.join("sample/empty")).unwrap();
        fs::write(store.join("sample/large"), vec![7; 8 << 20]).unwrap();
        let node = Node::serving(&store);
        Self { dir, store, node }
    }

    fn at(&self, path: &str) -> String {
        self.dir.path().join(path).to_str().unwrap().to_owned()
    }

    fn there(&self, path: &str) -> String {
        format!("{}:files/{path}", self.node.address)
    }

    fn exists(&self, path: &str) -> bool {
        self.dir.path().join(path).exists()
    }

    /// A copy that is at work: the folder is there.
    fn begun(&self, args: &[&str], folder: &str) -> Child {
        let mut copy = program(&[&["copy", SLOW], args].concat()).spawn().unwrap();
        eventually(|| self.exists(folder));
        std::thread::sleep(Duration::from_millis(100));
        assert!(copy.try_wait().unwrap().is_none(), "it ended too early");
        copy
    }
}

#[track_caller]
fn eventually(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ended(mut copy: Child, signal: Signal) -> Option<i32> {
    kill_process(Pid::from_child(&copy), signal).unwrap();
    copy.wait().unwrap().code()
}

/// Everything below a folder; what goes while it is looked through may be missing.
fn names(folder: &Path) -> Vec<String> {
    let (mut found, mut todo) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            found.push(entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            todo.extend(Some(entry.path()).filter(|path| path.is_dir()));
        }
    }
    found.sort();
    found
}

/// A copy to here that SIGINT or SIGTERM ends leaves no empty folder that it has made, neither its destination nor those above
/// or in that, and none of its hidden folder; empty folders that were there stay. Its exit code is the one of the signal.
#[test]
fn to_here() {
    let scene = Scene::new();
    fs::create_dir_all(scene.at("there/before")).unwrap();
    let (from, to) = (scene.there("sample"), scene.at("there/new/deep/"));
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for more in [&[][..], &["--atomic"]] {
            let copy = scene.begun(&[more, &[&from, &to]].concat(), "there/new/deep");
            assert_eq!(ended(copy, signal), Some(code));
            assert_eq!(names(&scene.dir.path().join("there")), ["before"], "{more:?}");
        }
    }
    let copy = scene.begun(&[&from, &scene.at("there/before/")], "there/before/sample/empty");
    assert_eq!(ended(copy, Signal::INT), Some(130));
    assert_eq!(names(&scene.dir.path().join("there")), ["before"]);
}

/// What has come whole stays with its folders, and so does what is kept for a resume.
#[test]
fn what_has_come_stays() {
    let scene = Scene::new();
    fs::create_dir_all(scene.store.join("sample/a/b")).unwrap();
    fs::write(scene.store.join("sample/a/b/small"), "whole").unwrap();
    let from = scene.there("sample");
    let copy = scene.begun(&[&from, &scene.at("new")], "new/a/b/small");
    assert_eq!(ended(copy, Signal::INT), Some(130));
    assert_eq!(names(&scene.dir.path().join("new")), ["a", "a/b", "a/b/small"]);

    let copy =
        scene.begun(&["--resume", &scene.there("sample/large"), &scene.at("kept/")], "kept/.pipeline-node");
    eventually(|| names(&scene.dir.path().join("kept")).len() == 2);
    assert_eq!(ended(copy, Signal::TERM), Some(143));
    assert_eq!(names(&scene.dir.path().join("kept")).len(), 2);
    stdout(&["copy", "--resume", &scene.there("sample/large"), &scene.at("kept/")]);
    assert_eq!(names(&scene.dir.path().join("kept")), ["large"]);
}

/// A copy to a node that ends in the middle, by whatever signal, leaves nothing empty that was made for it there.
#[test]
fn to_a_node() {
    let scene = Scene::new();
    fs::create_dir_all(scene.at("here/empty")).unwrap();
    fs::write(scene.at("here/large"), vec![7; 8 << 20]).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        for (from, to, begun) in [
            ("here", "new/deep/", "store/new/deep/here/empty"),
            ("here/large", "new/deep/", "store/new/deep"),
            ("here", "sample/", "store/sample/here/empty"),
        ] {
            let copy = scene.begun(&[&scene.at(from), &scene.there(to)], begun);
            ended(copy, signal);
            eventually(|| names(&scene.store) == ["sample", "sample/empty", "sample/large"]);
        }
    }
}

/// A copy that comes to nothing because there is no such source, or because the node goes, leaves no empty folder here; one of
/// which only a file fails leaves the folders that were copied.
#[test]
fn what_comes_to_nothing() {
    let mut scene = Scene::new();
    let (code, _) = failure(&["copy", &scene.there("none"), &scene.at("new/deep/")]);
    assert_eq!((code, scene.exists("new")), (1, false));
    std::os::unix::fs::symlink("nowhere", scene.store.join("sample/link")).unwrap();
    fs::remove_file(scene.store.join("sample/large")).unwrap();
    let (code, _) = failure(&["copy", &scene.there("sample"), &scene.at("new/deep/")]);
    assert_eq!((code, scene.exists("new/deep/sample/empty")), (1, true));
    fs::remove_dir_all(scene.at("new")).unwrap();

    fs::write(scene.store.join("sample/large"), vec![7; 8 << 20]).unwrap();
    let mut copy = scene.begun(&[&scene.there("sample"), &scene.at("new/deep/")], "new/deep/sample/empty");
    scene.node.crash();
    assert_eq!((copy.wait().unwrap().code(), scene.exists("new")), (Some(1), false));
}
