//! Real nodes of Mooncake against this transport, over soft-RoCE: theirs reads and writes ours, ours reads and writes theirs.
//!
//! `RDMA_MOONCAKE` is the Python of an environment that has the wheel `mooncake-transfer-engine-non-cuda`; without it these
//! tests say that they are skipped. Deliberately no stages: what is tested is what both say on the wire.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pipeline_transports::{Access, Op, Transport};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::mooncake::{Node, memory_of, regions_of, request};
use crate::rig::{quiet_network, runtime, settings, soon};

const LEN: u64 = 8 << 20;

/// A node of Mooncake, in a process of its own.
struct Wheel {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    name: String,
    address: u64,
}

impl Wheel {
    /// On this device, with these settings of its environment; `None` where there is no wheel.
    fn new(device: &str, environment: &[(&str, &str)]) -> Option<Self> {
        let Ok(python) = std::env::var("RDMA_MOONCAKE") else {
            println!("skipped: RDMA_MOONCAKE names no Python with Mooncake's wheel");
            return None;
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rdma/wheel.py");
        let mut process = Command::new(python)
            .args([script, "127.0.0.1", device, &LEN.to_string()])
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let mut wheel = Self { process, to, from, name: String::new(), address: 0 };
        let ready = wheel.hear();
        wheel.name = ready["name"].as_str().unwrap().to_owned();
        wheel.address = ready["address"].as_u64().unwrap();
        Some(wheel)
    }

    fn hear(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "Mooncake's node has ended");
            if line.starts_with('{') {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }

    fn ask(&mut self, task: Value) -> Value {
        writeln!(self.to, "{task}").unwrap();
        self.hear()
    }

    /// Has `count` pieces of `size` bytes moved between the beginning of its buffer and an address. Soft-RoCE short of CPU breaks a
    /// healthy queue pair now and then; what its own tries do not mend is asked for again.
    #[track_caller]
    fn moves(&mut self, op: &str, peer: &str, address: u64, (size, count): (u64, u64)) {
        let task =
            json!({ "do": op, "peer": peer, "address": address, "at": 0, "size": size, "count": count });
        let mut ended = (0..8).map(|_| self.ask(task.clone())["status"].as_i64().unwrap());
        assert!(ended.any(|status| status == 0), "{op} of {count} x {size} bytes");
    }

    fn fill(&mut self, at: u64, size: u64, byte: u8) {
        self.ask(json!({ "do": "fill", "at": at, "size": size, "byte": byte }));
    }

    fn digest(&mut self, at: u64, size: u64) -> String {
        let told = self.ask(json!({ "do": "digest", "at": at, "size": size }));
        told["sha256"].as_str().unwrap().to_owned()
    }
}

impl Drop for Wheel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// We write into and read from the memory of a real node, by several links at once, and its own digest of it is ours. A node that
/// connects another number of queue pairs at once is found out and dialled with as many.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn ours_to_theirs() {
    let _network = quiet_network();
    for pairs in ["2", "3"] {
        let Some(mut wheel) = Wheel::new("rxe1", &[("MC_NUM_QP_PER_EP", pairs)]) else { return };
        let mut near = Node::new(&settings(&["rxe0"]), 2);
        let here = near.region(LEN, 0x11, Access::ReadWrite);
        wheel.fill(LEN / 2, LEN / 2, 0x33);
        let found = near.find_by_name(&wheel.name);
        let theirs = regions_of(&found, "buffer-0")[0].id;
        assert_eq!(memory_of(&found), (wheel.address, LEN));
        let size = 64 << 10;
        // Two lanes side by side: the second does not end the first.
        near.connect(&found, 1);
        for (lane, (op, from)) in (0..).zip([(Op::Write, 0), (Op::Read, LEN / 2)]) {
            let work: Vec<_> = (0..LEN / 2 / size)
                .map(|i| request(i, op, (here, from + i * size), (theirs, from + i * size), size))
                .collect();
            near.done(&found, lane, &work);
        }
        let ours = near.bytes(here, 0, LEN as usize);
        assert!(ours[LEN as usize / 2..].iter().all(|byte| *byte == 0x33));
        assert_eq!(wheel.digest(0, LEN), digest(&ours));
        println!("measured: 4 MiB each way to Mooncake's node with {pairs} queue pairs, digests equal");
    }
}

/// A real node writes into and reads from our memory, in batches and across the cuts of its own slices, and what it sees is what is
/// there.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn theirs_to_ours() {
    let _network = quiet_network();
    let Some(mut wheel) = Wheel::new("rxe1", &[]) else { return };
    let mut far = Node::new(&settings(&["rxe0"]), 2);
    let there = far.region(LEN, 0x22, Access::ReadWrite);
    let name = far.name();
    let address = wheel.ask(json!({ "do": "first", "peer": name }))["address"].as_u64().unwrap();
    for (size, count, byte) in [(1, 1, 1), (4096, 64, 2), ((64 << 10) + 1, 16, 3), (LEN, 1, 4)] {
        wheel.fill(0, LEN, byte);
        wheel.moves("write", &name, address, (size, count));
        let moved = (size * count) as usize;
        assert!(far.bytes(there, 0, moved).iter().all(|seen| *seen == byte), "{size} x {count}");
        wheel.fill(0, LEN, 0);
        wheel.moves("read", &name, address, (size, count));
        assert_eq!(wheel.digest(0, size * count), digest(&vec![byte; moved]), "{size} x {count}");
    }
    assert_eq!(far.transport.accepted(), 1);
    println!("measured: Mooncake's node wrote and read 1 B to 8 MiB of ours, digests equal");
}

/// Ours writes to theirs while theirs writes to ours: each has connected its own queue pairs, and neither ends those of the
/// other.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn both_at_once() {
    let _network = quiet_network();
    let Some(mut wheel) = Wheel::new("rxe1", &[]) else { return };
    let mut near = Node::new(&settings(&["rxe0"]), 2);
    let here = near.region(LEN, 0x44, Access::ReadWrite);
    let (name, half) = (near.name(), LEN / 2);
    let address = wheel.ask(json!({ "do": "first", "peer": name }))["address"].as_u64().unwrap();
    let found = near.find_by_name(&wheel.name);
    let theirs = regions_of(&found, "buffer-0")[0].id;
    wheel.fill(0, half, 0x55);
    std::thread::scope(|scope| {
        let (wheel, name) = (&mut wheel, &name);
        scope.spawn(move || (0..4).for_each(|_| wheel.moves("write", name, address, (half, 1))));
        for round in 0..4 {
            let work: Vec<_> = (0..64)
                .map(|i| (half + i * (64 << 10), round * 64 + i))
                .map(|(at, id)| request(id, Op::Write, (here, at), (theirs, at), 64 << 10))
                .collect();
            near.done(&found, 0, &work);
        }
    });
    let ours = near.bytes(here, 0, LEN as usize);
    assert!(ours[..half as usize].iter().all(|byte| *byte == 0x55));
    assert_eq!(wheel.digest(0, LEN), digest(&ours));
    println!("measured: both directions at once with Mooncake's node, digests equal");
}

/// Notices and the question whether it lives go both ways.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn notices_and_probes() {
    let Some(mut wheel) = Wheel::new("rxe1", &[]) else { return };
    let near = Node::new(&settings(&["rxe0"]), 2);
    runtime().block_on(async {
        let notice =
            pipeline_transports::foreign::ForeignNotice { name: "us".into(), body: b"done".to_vec() };
        let foreign = near.transport.foreign().unwrap();
        foreign.probe(&wheel.name, soon()).await.unwrap();
        foreign.notify(&wheel.name, &notice, soon()).await.unwrap();
    });
    assert_eq!(wheel.ask(json!({ "do": "notices" }))["heard"], json!([["us", "done"]]));
    assert_eq!(wheel.ask(json!({ "do": "probe", "peer": near.name() }))["status"], 0);
}
