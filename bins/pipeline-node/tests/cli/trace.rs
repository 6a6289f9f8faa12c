//! `generate-trace` and `bench --trace`: what is counted, moved and refused, by the built program.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::node::{Node, failure, output, stdout};

const KEEPER: &str = "version = 1\nuse = \"tcp\"\n\
    segments.bench = { kind = \"dram\", size = \"4MiB\", access = \"read_write\" }\n";

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A small generated trace.
    fn trace(&self, conversations: &str, more: &[&str]) -> PathBuf {
        let some = ["generate-trace", "--turns", "4", "--seed", "3", "--conversations", conversations];
        self.put("trace.jsonl", &stdout(&[&some, more].concat()))
    }
}

fn requests(path: &Path) -> Vec<Vec<u64>> {
    let text = std::fs::read_to_string(path).unwrap();
    let ids = |line: &str| serde_json::from_str::<Value>(line).unwrap()["hash_ids"].clone();
    text.lines().map(|line| serde_json::from_value(ids(line)).unwrap()).collect()
}

fn replay(path: &Path, more: &[&str]) -> Value {
    let all = ["bench", "--trace", path.to_str().unwrap(), "--json", "--check", "--block-bytes", "4096"];
    serde_json::from_str(&stdout(&[&all, more].concat())).unwrap()
}

/// What a cache of `slots` blocks holds of requests that come one after the other: blocks of a request stay until it
/// ends, and then the last one is the first to go.
fn held(requests: &[Vec<u64>], slots: usize) -> u64 {
    let mut cache: Vec<u64> = Vec::new();
    let mut hits = 0;
    for ids in requests {
        hits += ids.iter().filter(|id| cache.contains(id)).count();
        cache.retain(|id| !ids.contains(id));
        let room = slots - ids.len();
        cache.drain(..cache.len().saturating_sub(room));
        cache.extend(ids.iter().rev());
    }
    hits as u64
}

/// With room for all, each block is read once and every other one is a hit; each is a byte-for-byte copy.
#[test]
fn everything_is_read_once() {
    let scratch = Scratch::new();
    let path = scratch.trace("12", &[]);
    let requests = requests(&path);
    let blocks: usize = requests.iter().map(Vec::len).sum();
    let different = requests.iter().flatten().collect::<HashSet<_>>().len() as u64;
    let told = replay(&path, &[]);
    assert_eq!(told["requests"], requests.len());
    assert_eq!((&told["blocks"], &told["distinct_blocks"]), (&blocks.into(), &different.into()));
    assert_eq!((&told["read_blocks"], &told["new_blocks"]), (&different.into(), &0.into()));
    let here = told["local_blocks"].as_u64().unwrap() + told["joined_blocks"].as_u64().unwrap();
    assert_eq!(here, blocks as u64 - different);
    assert_eq!((&told["read_bytes"], &told["written_bytes"]), (&(different * 4096).into(), &0.into()));
    assert_eq!((&told["wrong"], &told["errors"]), (&0.into(), &0.into()));
    for key in ["elapsed_s", "gb_per_s_avg", "gb_per_s_peak", "cpu_s_per_gb_initiator", "cpu_s_per_gb_target"]
    {
        assert!(told[key].as_f64().unwrap() > 0.0, "{key}: {told}");
    }
    let (p50, max) = (told["read"]["p50_us"].as_f64().unwrap(), told["read"]["max_us"].as_f64().unwrap());
    assert!(0.0 < p50 && p50 <= max && told["behind"].is_null() && told["written"].is_null());
    assert!(told["stages"].as_array().unwrap().iter().any(|s| s["stage"] == "reap"));
}

/// With less room and one request at a time, exactly those blocks are hits that a least-recently-used cache of that size
/// holds.
#[test]
fn a_small_cache_is_a_plain_lru() {
    let scratch = Scratch::new();
    let path = scratch.trace("12", &["--vary", "80"]);
    let requests = requests(&path);
    let most = requests.iter().map(Vec::len).max().unwrap();
    for slots in [most, most + 9, 2 * most] {
        let memory = (slots * 4096).to_string();
        let told = replay(&path, &["--depth", "1", "--memory", &memory]);
        assert_eq!((&told["cache_blocks"], &told["wrong"]), (&slots.into(), &0.into()));
        assert_eq!(
            (&told["local_blocks"], &told["joined_blocks"]),
            (&held(&requests, slots).into(), &0.into())
        );
        let hits = told["local_blocks"].as_u64().unwrap() + told["read_blocks"].as_u64().unwrap();
        assert_eq!(&told["blocks"], hits);
    }
}

/// A cold store is written each new block once, to where it is read from when it is not here any more; the bytes are
/// right both ways, on two peers.
#[test]
fn a_cold_store_is_written_and_read_back() {
    let scratch = Scratch::new();
    let path = scratch.trace("12", &[]);
    let different = requests(&path).iter().flatten().collect::<HashSet<_>>().len() as u64;
    let most = requests(&path).iter().map(Vec::len).max().unwrap();
    let keeper = scratch.put("keeper.toml", KEEPER);
    let keepers = [0, 1].map(|_| Node::start(&[keeper.to_str().unwrap()]));
    let targets = format!("{},{}", keepers[0].address, keepers[1].address);
    let memory = (2 * most * 4096).to_string();
    let told = replay(&path, &["--store", "cold", "--target", &targets, "--memory", &memory]);
    assert_eq!(
        (&told["new_blocks"], &told["written_bytes"]),
        (&different.into(), &(different * 4096).into())
    );
    assert_eq!((&told["wrong"], &told["errors"]), (&0.into(), &0.into()));
    assert!(told["read_blocks"].as_u64().unwrap() > 0, "{told}");
    assert!(told["written"]["max_us"].as_f64().unwrap() > 0.0);
    let peers = told["peers"].as_array().unwrap();
    let sum = |key: &str| peers.iter().map(|p| p[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("blocks"), different);
    assert_eq!(
        sum("moved_bytes"),
        told["read_bytes"].as_u64().unwrap() + told["written_bytes"].as_u64().unwrap()
    );
    assert!(peers.iter().all(|p| p["moved_bytes"].as_u64().unwrap() > 0 && p["places"] == p["blocks"]));
}

/// A block of a model lies in a run a layer for keys and for values, and its bytes are right in each; a segment that is
/// too small for all blocks is folded, and that is said.
#[test]
fn models_layers_and_folding() {
    let scratch = Scratch::new();
    let path = scratch.trace("12", &[]);
    let args =
        ["bench", "--trace", path.to_str().unwrap(), "--check", "--kv", "qwen3-8b:tp8:fp8", "--limit", "3"];
    let told: Value = serde_json::from_str(&stdout(&[&args[..], &["--json"]].concat())).unwrap();
    let bytes = 512 * 36 * 2 * 128;
    assert_eq!((&told["block_bytes"], &told["block_pieces"]), (&bytes.into(), &72.into()));
    assert_eq!((&told["wrong"], &told["errors"]), (&0.into(), &0.into()));
    let memory = (12 * bytes).to_string();
    let text = stdout(&[&args[..], &["--layout", "block", "--memory", &memory]].concat());
    assert!(text.contains("in 12 places, FOLDED") && text.contains("in 1 pieces"), "{text}");
    assert!(text.contains("last block read") && text.contains("service-p50/p99(us)"), "{text}");
}

/// At a speed the replay takes as long as the trace says, and requests are timed from when they were due.
#[test]
fn speed() {
    let scratch = Scratch::new();
    let path = scratch.put(
        "three.jsonl",
        "{\"timestamp\":1000,\"input_length\":512,\"output_length\":1,\"hash_ids\":[1]}\n\
         {\"timestamp\":3000,\"input_length\":512,\"output_length\":1,\"hash_ids\":[2]}\n\
         {\"timestamp\":5000,\"input_length\":512,\"output_length\":1,\"hash_ids\":[1]}\n",
    );
    let told = replay(&path, &["--speedup", "10"]);
    assert_eq!(
        (&told["speedup"], &told["requests"], &told["local_blocks"]),
        (&10.0.into(), &3.into(), &1.into())
    );
    assert!(told["elapsed_s"].as_f64().unwrap() >= 0.4, "{told}");
    assert_eq!((&told["read"]["requests"], &told["behind"]["requests"]), (&2.into(), &3.into()));
}

/// A request that must wait for its turn is timed from when it was due all the same: of twenty that are due at once and
/// come one after the other, the slowest took as long as all together.
#[test]
fn waiting_for_a_turn_counts() {
    let scratch = Scratch::new();
    let line =
        |i| format!("{{\"timestamp\":7,\"input_length\":512,\"output_length\":1,\"hash_ids\":[{i}]}}\n");
    let path = scratch.put("at_once.jsonl", &(0..20).map(line).collect::<String>());
    let told = replay(&path, &["--speedup", "1", "--depth", "1"]);
    let all = told["elapsed_s"].as_f64().unwrap() * 1e6;
    let (max, late) = (told["read"]["max_us"].as_f64().unwrap(), told["behind"]["max_us"].as_f64().unwrap());
    assert!(max > 0.98 * all && late < max && late > told["read"]["p50_us"].as_f64().unwrap(), "{told}");
}

/// A trace that makes no sense exits 65 with file and line; one that does not fit here or does not exist, and options
/// that do not go together, say what to do.
#[test]
fn nonsense_is_refused() {
    let scratch = Scratch::new();
    let bad = scratch
        .put("bad.jsonl", "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[-1]}\n");
    let (code, stderr) = failure(&["bench", "--trace", bad.to_str().unwrap()]);
    assert_eq!(code, 65, "{stderr}");
    assert!(stderr.contains("bad.jsonl:1: `hash_ids[0]` is -1"), "{stderr}");
    let (code, stderr) = failure(&["bench", "--trace", scratch.put("empty.jsonl", "").to_str().unwrap()]);
    assert_eq!((code, stderr.contains("no request in it")), (65, true), "{stderr}");
    let (code, stderr) = failure(&["bench", "--trace", "/no/such/trace"]);
    assert_eq!((code, stderr.contains("/no/such/trace: ")), (71, true), "{stderr}");
    let path = scratch.trace("12", &[]);
    let path = path.to_str().unwrap();
    let (code, stderr) = failure(&["bench", "--trace", path, "--memory", "128KiB"]);
    assert_eq!((code, stderr.contains("raise --memory to")), (1, true), "{stderr}");
    for wrong in [&["--op", "read"][..], &["--threads", "2"], &["--kv", "gpt-9:tp1"], &["--speedup", "0"]] {
        assert_eq!(failure(&[&["bench", "--trace", path], wrong].concat()).0, 2, "{wrong:?}");
    }
    assert_eq!(failure(&["bench", "--limit", "3"]).0, 2);
    assert_eq!(failure(&["bench", "--target", "127.0.0.1:1,127.0.0.1:2"]).0, 2);
    assert_eq!(failure(&["bench", "--trace", path, "--target", "127.0.0.1:1"]).0, 69);
    assert_eq!(failure(&["generate-trace", "--conversations", "0"]).0, 2);
    assert_eq!(failure(&["generate-trace", "--conversations", "1000000", "--turns", "1000"]).0, 2);
}

/// A pipe gets the tables and nothing else: no bar, no escape codes; thresholds set the exit code.
#[test]
fn a_pipe_hears_tables_only() {
    let scratch = Scratch::new();
    let path = scratch.trace("12", &[]);
    let ended = output(&["bench", "--trace", path.to_str().unwrap(), "--min-gb-per-s", "100000"]);
    assert_eq!(ended.status.code(), Some(3));
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("--min-gb-per-s 100000") && !ended.stdout.contains(&0x1b), "{stderr}");
}

/// A peer that is gone ends the replay with its reason, and what has failed is counted.
#[test]
fn a_peer_that_dies() {
    let scratch = Scratch::new();
    let path = scratch.trace("200", &[]);
    let keeper = scratch.put("keeper.toml", KEEPER);
    let mut keeper = Node::start(&[keeper.to_str().unwrap()]);
    let target = keeper.address.clone();
    let args = ["bench", "--trace", path.to_str().unwrap(), "--target", &target, "--json", "--speedup", "1"];
    let child = crate::node::program(&args)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    keeper.child.kill().unwrap();
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(69), "{stderr}");
    assert!(stderr.contains("stopped after") && stderr.contains("requests failed"), "{stderr}");
}
