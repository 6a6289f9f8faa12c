//! The program over RDMA: `copy`, `bench` and the replay of a trace, between two nodes on two and on four devices.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::bed::{shipped, uses};
use crate::node::{Node, set, stdout};

/// Client's devices, and the target's.
const TWO: (&[usize], &[usize]) = (&[0], &[1]);
const FOUR: (&[usize], &[usize]) = (&[0, 1], &[2, 3]);

/// Everything below a folder: names to bytes, folders to `None`.
fn tree(folder: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            let bytes = if path.is_dir() { None } else { Some(fs::read(&path).unwrap()) };
            if path.is_dir() {
                todo.push(path);
            }
            found.insert(name, bytes);
        }
    }
    found
}

fn sample(folder: &Path) {
    fs::create_dir_all(folder.join("odd/deep/er")).unwrap();
    fs::create_dir_all(folder.join("empty folder")).unwrap();
    let bytes = crate::rig::pattern(1, 3_000_001);
    fs::write(folder.join("big.bin"), &bytes).unwrap();
    fs::write(folder.join("chunk"), &bytes[..1 << 20]).unwrap();
    fs::write(folder.join("odd/empty"), "").unwrap();
    fs::write(folder.join("odd/new\nline ❄"), "2").unwrap();
    for i in 0..20 {
        fs::write(folder.join(format!("odd/deep/er/{i}")), &bytes[..i * 977]).unwrap();
    }
}

/// A tree with large, empty and oddly named files goes to a node and comes back over RDMA, equal.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_tree_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store, back) = (dir.path().join("here"), dir.path().join("store"), dir.path().join("back"));
    fs::create_dir(&store).unwrap();
    sample(&here);
    let files = format!("segments.files={{ kind='dir', path='{}', access='read_write' }}", store.display());
    let node = Node::of("pipelines/rdma.toml", &[uses(TWO.1), vec![files]].concat());
    let (file, ours) = (shipped("pipelines/rdma.toml"), uses(TWO.0));
    let ours = [&["copy", "-c", file.to_str().unwrap()], &set(&ours)[..]].concat();
    let at = |path: &str| format!("{}:files/{path}", node.address);
    let said = stdout(&[&ours[..], &["--json", here.to_str().unwrap(), &at("")]].concat());
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["files"], &said["failed"]), (&24.into(), &0.into()));
    assert_eq!(tree(&here), tree(&store.join("here")));
    stdout(&[&ours[..], &[&at("here"), back.to_str().unwrap()]].concat());
    assert_eq!(tree(&here), tree(&back));
    node.leave();
}

fn bench(devices: (&[usize], &[usize]), more: &[&str]) -> Vec<Value> {
    let node = Node::target(devices.1, "8MiB");
    let (file, ours) = (shipped("pipelines/rdma.toml"), uses(devices.0));
    let words =
        ["bench", "--json", "--check", "--no-ceiling", "--target", &node.address, "--segment", "kv", "-c"];
    let args = [&words[..], &[file.to_str().unwrap()], &set(&ours)[..], more].concat();
    let lines = stdout(&args).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    node.leave();
    lines
}

/// `bench` over two and over four devices: every byte is confirmed and compared, in both directions.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn bench_is_right() {
    for (devices, op) in [(TWO, "write"), (TWO, "read"), (FOUR, "write"), (FOUR, "read")] {
        let loops = ["--size", "4KiB,100000", "--batch", "3", "--depth", "4", "--iterations", "20"];
        let lines =
            bench(devices, &[&loops[..], &["--rounds", "1", "--memory", "4MiB", "--op", op]].concat());
        assert_eq!(lines.iter().map(|l| l["bytes"].as_u64().unwrap()).collect::<Vec<_>>(), [4096, 100_000]);
        for line in lines {
            let bytes = line["bytes"].as_u64().unwrap();
            assert_eq!(line["confirmed_bytes"].as_u64().unwrap(), bytes * 3 * 20, "{line}");
            assert_eq!((&line["wrong"], &line["errors"]), (&0.into(), &0.into()), "{line}");
        }
    }
}

/// A trace of conversations is replayed over two and over four devices against a store that is cold: blocks are written there,
/// and read back when they have gone from here, which holds little more than the largest request; each is what it must be.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_trace_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.jsonl");
    let trace = stdout(&["generate-trace", "--turns", "3", "--seed", "3", "--conversations", "8"]);
    fs::write(&path, &trace).unwrap();
    let blocks = |line: &str| {
        let request: Value = serde_json::from_str(line).unwrap();
        request["hash_ids"].as_array().unwrap().len()
    };
    let memory = ((trace.lines().map(blocks).max().unwrap() + 4) << 14).to_string();
    for devices in [TWO, FOUR] {
        let replay = ["--trace", path.to_str().unwrap(), "--store", "cold", "--block-bytes", "16KiB"];
        let told = bench(devices, &[&replay[..], &["--memory", &memory]].concat()).remove(0);
        assert_eq!((&told["wrong"], &told["errors"]), (&0.into(), &0.into()), "{told}");
        for moved in ["written_bytes", "read_bytes"] {
            assert!(told[moved].as_u64().unwrap() > 0, "{moved}: {told}");
        }
    }
}
