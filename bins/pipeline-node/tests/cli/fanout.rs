//! `copy` to several nodes: every shape brings everything everywhere; nodes that die, freeze, refuse or are not there
//! cost only themselves.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::copy::tree;
use crate::node::{Node, failure, output, program};

/// Only a hang takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

struct Store {
    node: Node,
    dir: tempfile::TempDir,
}

fn store(set: &[&str]) -> Store {
    let dir = tempfile::tempdir().unwrap();
    Store { node: Node::serving_with_set(dir.path(), set), dir }
}

/// Nodes that pull from whom they are told to.
fn stores(count: usize) -> Vec<Store> {
    (0..count).map(|_| store(&["segments.files.pull='any'"])).collect()
}

/// A tree of `files` files of a megabyte each, one of ten, some small ones and an empty folder.
fn sample(folder: &Path, files: usize) {
    let bytes: Vec<u8> = (0..10_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    fs::create_dir_all(folder.join("empty")).unwrap();
    fs::create_dir_all(folder.join("many")).unwrap();
    fs::write(folder.join("big"), &bytes).unwrap();
    for i in 0..files {
        fs::write(folder.join(format!("many/{i:03}")), &bytes[i * 1000..][..1 << 20]).unwrap();
        fs::write(folder.join(format!("small{i}")), &bytes[..i]).unwrap();
    }
}

fn words(shape: &str, from: &Path, to: &[Store]) -> Vec<String> {
    let mut words: Vec<String> = ["copy", "--json", "--fanout", shape].map(str::to_owned).to_vec();
    words.push(from.to_str().unwrap().to_owned());
    words.extend(to.iter().map(|store| format!("{}:files/", store.node.address)));
    words
}

fn start(words: &[String]) -> Child {
    let mut command = program(&words.iter().map(String::as_str).collect::<Vec<_>>());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Its exit code, what it said as JSON, and its stderr.
fn end(child: Child) -> (Option<i32>, Value, String) {
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    let said = serde_json::from_slice(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"));
    (ended.status.code(), said, stderr)
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How many files of `many` are in their place at a node.
fn arrived(store: &Store) -> usize {
    let names = fs::read_dir(store.dir.path().join("tree/many")).into_iter().flatten().flatten();
    names.filter(|name| !name.file_name().to_string_lossy().starts_with('.')).count()
}

/// Whether everything wanted is in its place at a node, whatever else is there still.
fn has(store: &Store, wanted: &BTreeMap<String, Option<Vec<u8>>>) -> bool {
    wanted.iter().all(|(name, bytes)| {
        let path = store.dir.path().join("tree").join(name);
        bytes
            .as_ref()
            .map_or_else(|| path.is_dir(), |bytes| fs::read(&path).is_ok_and(|there| there == *bytes))
    })
}

/// Star, chain and tree bring the whole tree to each of five nodes; by chain and tree the source sends it once, and the
/// nodes pull the rest from each other.
#[test]
fn every_shape_brings_everything() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("tree");
    sample(&here, 12);
    let wanted = tree(&here);
    for (shape, times) in [("star", 5), ("chain", 1), ("tree", 1)] {
        let stores = stores(5);
        let (code, said, stderr) = end(start(&words(shape, &here, &stores)));
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{shape}: {said}");
        for store in &stores {
            assert!(tree(&store.dir.path().join("tree")) == wanted, "{shape}: {said}");
            assert_eq!(tree(store.dir.path()).len(), wanted.len() + 1, "nothing else is left there");
        }
        let (bytes, sent) = (said["bytes"].as_u64().unwrap(), said["sent_bytes"].as_u64().unwrap());
        assert!(sent >= bytes * times && sent <= bytes * times * 11 / 10, "{shape}: {said}");
        let ends = said["destinations"].as_array().unwrap();
        assert!(
            ends.iter().all(|end| end["bytes"] == said["bytes"] && end["files"] == said["files"]),
            "{said}"
        );
    }
}

/// A node that dies in the middle of a chain is reported, with the reason in the JSON too, and costs only itself: those behind it get everything.
#[test]
fn a_killed_node_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("tree");
    sample(&here, 80);
    let wanted = tree(&here);
    let mut stores = stores(4);
    let copy = start(&words("chain", &here, &stores));
    until("the second node has some files", || arrived(&stores[1]) >= 3);
    stores[1].node.crash();
    let (code, said, stderr) = end(copy);
    assert_eq!(code, Some(1), "{said}");
    for (i, store) in stores.iter().enumerate() {
        let end = &said["destinations"][i];
        let missing = end["failed"].as_u64().unwrap() + end["untried"].as_u64().unwrap();
        assert_eq!(missing > 0, i == 1, "{said}\n{stderr}");
        let error = end["error"].as_str().unwrap_or_default();
        let gone = format!("peer {} is gone; copy again when it is back", store.node.address);
        assert_eq!(error.starts_with(&gone), i == 1, "{said}");
        assert_eq!(tree(&store.dir.path().join("tree")) == wanted, i != 1, "node {i}: {said}");
    }
    assert!(stderr.contains("1 of 4 destinations"), "{stderr}");
}

/// A node that is frozen in the middle of a chain stops nobody else: the others have everything while it stands still.
/// When it gets on again it gets the rest, and nothing has failed.
#[test]
fn a_frozen_node_stops_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("tree");
    sample(&here, 80);
    let wanted = tree(&here);
    // Nobody shall be given up before it goes on.
    let patient = "limits.silence='120s'";
    let stores: Vec<Store> = (0..4).map(|_| store(&["segments.files.pull='any'", patient])).collect();
    let copy =
        start(&[words("chain", &here, &stores), vec!["--set".to_owned(), patient.to_owned()]].concat());
    until("the second node has some files", || arrived(&stores[1]) >= 3);
    stores[1].node.freeze();
    until("the others have everything", || [0, 2, 3].iter().all(|i| has(&stores[*i], &wanted)));
    assert!(!has(&stores[1], &wanted), "it was frozen too late to show anything");
    stores[1].node.signal(rustix::process::Signal::CONT);
    let (code, said, stderr) = end(copy);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{said}");
    assert!(stores.iter().all(|store| tree(&store.dir.path().join("tree")) == wanted), "{said}");
}

/// A copy by chain that was killed goes on with `--resume`: what each node has, whole files and parts of them, is not moved
/// again, neither by the source nor between nodes, and all is whole in the end.
#[test]
fn a_killed_copy_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("tree");
    sample(&here, 60);
    let stores = stores(4);
    let asked = [words("chain", &here, &stores), vec!["--resume".to_owned()]].concat();
    let mut copy = start(&asked);
    until("the last node has some files", || arrived(&stores[3]) >= 5);
    copy.kill().unwrap();
    copy.wait().unwrap();
    let (code, said, stderr) = end(start(&asked));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{said}");
    assert!(stores.iter().all(|store| has(store, &tree(&here))), "{said}");
    let bytes = said["bytes"].as_u64().unwrap();
    for end in said["destinations"].as_array().unwrap() {
        let count = |key: &str| end[key].as_u64().unwrap();
        let there = count("skipped_bytes") + count("resumed_bytes");
        assert!(there >= 5 << 20, "what was there counts: {said}");
        assert_eq!(count("sent_bytes") + count("pulled_bytes") + there, bytes, "{said}");
    }
    assert!(said["sent_bytes"].as_u64().unwrap() <= bytes - (5 << 20), "{said}");
}

/// With `--atomic` each node gets the tree as a generation of its own, and hands it on before and after it is published;
/// the source still sends once, and a second time only what is new.
#[test]
fn generations_are_handed_on() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("tree");
    sample(&here, 20);
    let stores = stores(4);
    let copy = || {
        let mut asked: Vec<String> =
            ["copy", "--json", "--atomic", "--fanout", "chain"].map(str::to_owned).to_vec();
        asked.push(here.to_str().unwrap().to_owned());
        asked.extend(stores.iter().map(|store| format!("{}:files/tree", store.node.address)));
        let (code, said, stderr) = end(start(&asked));
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{said}");
        assert!(stores.iter().all(|store| tree(&store.dir.path().join("tree")) == tree(&here)), "{said}");
        (said["sent_bytes"].as_u64().unwrap(), said["bytes"].as_u64().unwrap())
    };
    let (sent, bytes) = copy();
    assert!(sent <= bytes * 11 / 10, "{sent} of {bytes}");
    fs::write(here.join("new"), vec![7; 3 << 20]).unwrap();
    let (sent, _) = copy();
    assert!(((3 << 20)..(4 << 20)).contains(&sent), "{sent}");
}

/// Nodes that must not pull from each other are told so by name of the key, once each, and get everything from the source.
#[test]
fn refused_pulls_are_said_and_sent() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("tree");
    sample(&here, 3);
    let stores: Vec<Store> = (0..3).map(|_| store(&[])).collect();
    let (code, said, stderr) = end(start(&words("chain", &here, &stores)));
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(said["sent_bytes"].as_u64().unwrap(), 3 * said["bytes"].as_u64().unwrap());
    assert_eq!(stderr.matches("segments.files.pull").count(), 2, "{stderr}");
    assert!(stores.iter().all(|store| tree(&store.dir.path().join("tree")) == tree(&here)));
}

/// A destination that is not there is reported with its reason, and the others get everything; if none is there that is
/// another exit code. A destination named twice, or a source between destinations, is no command.
#[test]
fn destinations_that_are_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("tree");
    sample(&here, 2);
    let stores = stores(2);
    let mut asked = words("chain", &here, &stores);
    let last = asked.pop().unwrap();
    asked.extend(["127.0.0.1:1:files/".to_owned(), last.clone()]);
    let (code, said, stderr) = end(start(&asked));
    assert_eq!(code, Some(1));
    assert!(said["destinations"][1]["error"].as_str().unwrap().contains("127.0.0.1:1"), "{said}");
    assert!(stderr.contains("1 of 3 destinations"), "{stderr}");
    assert!(stores.iter().all(|store| tree(&store.dir.path().join("tree")) == tree(&here)));
    let here = here.to_str().unwrap();
    assert_eq!(failure(&["copy", here, "127.0.0.1:1:a", "127.0.0.1:2:a"]).0, 69);
    assert_eq!(failure(&["copy", here, &last, &last]).0, 2);
    assert_eq!(failure(&["copy", here, &last, here, "127.0.0.1:1:a"]).0, 2);
    assert!(output(&["copy", here, &last]).status.success(), "one is no fan-out");
}
