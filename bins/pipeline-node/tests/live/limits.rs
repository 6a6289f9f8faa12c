//! Bad files, and whether the node names what is bad about each. A machine that is busy with something else may say so for a
//! while: each is asked again until it has the figures of a quiet moment.

use std::time::{Duration, Instant};

use pipeline_node::{Because, Engine, Limit, Source, limit};

use crate::load::{Load, Shape};
use crate::node::Node;
use crate::rig::{PATIENCE, engine, target};

/// From one look to the next.
const INTERVAL: Duration = Duration::from_millis(200);
const SMALL: Shape = Shape { bytes: 4096, batch: 64, depth: 16, thinks: Duration::ZERO };

/// What the node says until it is what is meant.
#[track_caller]
fn says(engine: &Engine, is_meant: impl Fn(&Limit) -> bool) -> Limit {
    let begin = Instant::now();
    loop {
        let before = engine.observe();
        std::thread::sleep(INTERVAL);
        let found = limit(&engine.observe().since(&before), engine.config());
        if is_meant(&found) {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{found:?}");
    }
}

/// Its knob is a key of the file, and the file with the better value is a good one.
#[track_caller]
fn turns(found: &Limit, toml: &str, set: &[&str], path: &str) {
    let knob = found.knob.as_ref().unwrap_or_else(|| panic!("no knob: {found}"));
    assert_eq!(knob.path, path, "{found}");
    let better = format!("{}={}", knob.path, knob.better);
    let source = Source::text("test", toml).set(set.iter().copied()).set([better]);
    assert!(source.load().is_ok(), "{}", source.load().unwrap_err().text());
}

const TCP: &str = "version = 1\nuse = \"tcp\"\n";

/// Two engines over a transport that takes its time and costs no CPU: bytes are not moved.
fn pair(lines: &str) -> (String, Engine, Engine) {
    let toml = |more: &str| {
        format!(
            "version = 1\nuse = \"tcp\"\ntransports = {{ tcp = false, sim = {{ type = \"sim\", move = false, delay_max = \"20us\" }} }}\n\
             stages.route.prefer = [\"sim\"]\n{more}\n"
        )
    };
    let kv = "segments.kv = { kind = \"dram\", size = \"64MiB\", access = \"read_write\" }";
    let there = Engine::from_toml(&toml(kv)).unwrap();
    let here = Engine::from_toml(&toml(lines)).unwrap_or_else(|e| panic!("{e}"));
    (toml(lines), there, here)
}

/// Nothing to do, and too little of it.
#[test]
fn nothing_to_do() {
    let (there, here) = (target("16MiB"), engine(&[]));
    says(&here, |found| found.because == Because::Idle);
    let peer = there.local_address().to_string();
    let rare = Shape { batch: 1, depth: 1, thinks: Duration::from_millis(20), ..SMALL };
    let _load = Load::start(&here, &peer, rare);
    says(&here, |found| found.because == Because::Application);
}

/// A window of a few slices.
#[test]
fn a_tiny_window() {
    let set = ["limits.bytes_in_flight='64KiB'"];
    let (there, here) = (target("16MiB"), engine(&set));
    let _load = Load::start(&here, &there.local_address().to_string(), SMALL);
    let found = says(&here, |found| found.because == Because::Window);
    assert_eq!(found.stage.as_deref(), Some("split"));
    turns(&found, TCP, &set, "limits.bytes_in_flight");
}

/// Far more threads than CPUs, none of which ever sleeps.
#[test]
fn spinning_threads() {
    let threads = 4 * std::thread::available_parallelism().unwrap().get();
    let set = [format!("pools.nic={{ threads={threads}, wait='spin' }}")];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let (there, here) = (Node::target("16MiB", &[]), engine(&set));
    let _load = Load::start(&here, &there.address, SMALL);
    let found = says(&here, |found| found.because == Because::Cpu);
    turns(&found, TCP, &set, "pools.nic.wait");
}

/// Queues of one batch between threads that sleep: whoever writes to one finds it full, and who reads it has time.
#[test]
fn queues_of_one_batch() {
    let lines = "pools.front = { threads = 1, wait = \"park\" }\npools.nic.wait = \"park\"\n\
                 stages.admit.pool = \"front\"\nstages.split.pool = \"front\"\nstages.route.pool = \"front\"\n\
                 stages.select.pool = \"front\"\nedges.\"select -> post\".queue = 1\nedges.\"submit -> admit\".queue = 64";
    let (toml, there, here) = pair(lines);
    let _load = Load::start(&here, &there.local_address().to_string(), Shape { batch: 512, ..SMALL });
    let meant = |found: &Limit| found.because == Because::Queue && found.stage.as_deref() == Some("post");
    let found = says(&here, meant);
    turns(&found, &toml, &[], "edges.\"select -> post\".queue");
}

/// A check of every byte, by one thread, behind a transport that costs nothing: the check is what limits, and not the stages
/// that wait for it.
#[test]
fn a_slow_stage() {
    let lines = "pools.crew = { kind = \"stealing\", threads = 1 }\n\
                 stages.back = { type = \"read_back\", pool = \"nic\", scratch = \"32MiB\" }\n\
                 stages.check = { type = \"checksum\", pool = \"crew\" }\n\
                 edges.\"reap -> notify\" = false\nedges.\"reap -> back\" = \"inline\"\nedges.\"back.again -> select\" = \"return\"\n\
                 edges.\"back -> check\" = \"inline\"\nedges.\"check -> notify\" = \"inline\"";
    let (_, there, here) = pair(lines);
    let large = Shape { bytes: 256 << 10, batch: 8, depth: 8, ..SMALL };
    let _load = Load::start(&here, &there.local_address().to_string(), large);
    let found =
        says(&here, |found| found.because == Because::Busy && found.stage.as_deref() == Some("check"));
    assert!(found.words.contains("pool `crew`"), "{found}");
}

/// A peer that stands still, and one that is gone.
#[test]
fn a_peer_that_does_not_answer() {
    let (mut there, here) = (Node::target("16MiB", &[]), engine(&["limits.silence='60s'"]));
    let _load = Load::start(&here, &there.address, SMALL);
    says(&here, |found| !matches!(found.because, Because::Idle | Because::Peer));
    there.freeze();
    // In the interval in which it stopped it has only become slow.
    says(&here, |found| found.because == Because::Peer && found.words.contains("has answered none"));
    there.crash();
    says(&here, |found| found.because == Because::Peer && found.words.contains("is down"));
}
