//! What waiting costs, in a process of its own because CPU time is counted by process.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "cli/node.rs"]
mod node;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "cli/process.rs"]
mod process;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../tests/tests/engine/rig.rs"]
mod rig;

use std::time::{Duration, Instant};

use pipeline_node::{Options, Request};
use rustix::process::Signal;

use node::Node;
use process::cpu_time;
use rig::{PATIENCE, done, engine, nothing_left};

/// Share of one core that a process uses while `f` runs.
fn share(pid: u32, f: impl FnOnce()) -> f64 {
    let (begin, before) = (Instant::now(), cpu_time(pid));
    f();
    (cpu_time(pid) - before).as_secs_f64() / begin.elapsed().as_secs_f64()
}

/// An idle node with open sessions and lanes uses less than one percent of a core; so does a process with eight
/// callers that wait in `wait` for a frozen peer, its engine's threads included.
#[test]
fn waiting_costs_nothing() {
    let node = Node::target("1MiB", &[]);
    let client = engine(&[]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let local = client.allocate(1 << 16).unwrap();
    done(&client, &[Request::write(&local, 0, kv.at(0), 1 << 16)]);
    // Adaptive waits may take a moment to believe that nothing comes.
    std::thread::sleep(Duration::from_millis(500));
    let idle = share(node.child.id(), || std::thread::sleep(Duration::from_secs(3)));
    node.freeze();
    std::thread::scope(|scope| {
        for i in 0..8_u64 {
            let (client, kv, local) = (&client, &kv, &local);
            scope.spawn(move || {
                let request = Request::write(local, i << 10, kv.at(i << 10), 1 << 10);
                let batch = client.submit(&[request], Options::default()).unwrap();
                assert!(batch.wait(PATIENCE).expect("an end").is_done());
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let waiting = share(std::process::id(), || std::thread::sleep(Duration::from_secs(3)));
        node.signal(Signal::CONT);
        assert!(idle < 0.01, "an idle node uses {:.2} % of a core", 100.0 * idle);
        assert!(waiting < 0.01, "eight waiting callers use {:.2} % of a core", 100.0 * waiting);
    });
    nothing_left(&client, [local]);
}
