//! A node that runs out of descriptors. Alone in its process, because the limit is the process's.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test may panic")]

#[path = "control/rig.rs"]
#[allow(dead_code, reason = "shared with the tests of the control pool")]
mod rig;

use std::net::SocketAddr;
use std::time::Duration;

use rig::{Rig, With, by, settings};
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

fn cpu() -> Duration {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// While no descriptor is left the node neither dies nor spins, and it serves again when there are some.
#[test]
fn out_of_descriptors() {
    let (node, honest) = (Rig::new("node", With::Tcp, settings()), Rig::new("honest", With::Tcp, settings()));
    let waiting = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let before = getrlimit(Resource::Nofile);
    // Below every open descriptor but the standard ones: the next one cannot be had.
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).unwrap();
    let at: SocketAddr = node.control.local_address();
    connect(&waiting, &at).unwrap();
    let start = cpu();
    std::thread::sleep(Duration::from_millis(1000));
    let spent = cpu() - start;
    let error = honest.control.open(&node.address(), by(5)).unwrap_err();
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(error.to_string().contains("Too many open files"), "{error}");
    // The two drivers of the rig poll a thousand times a second each; a spinning listener takes it all.
    assert!(spent < Duration::from_millis(500), "{spent:?} of CPU time in a second");
    honest.control.open(&node.address(), by(5)).unwrap();
}
