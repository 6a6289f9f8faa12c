//! Peers that freeze, die and come back: an engine in the test, nodes in processes of their own.

use std::time::{Duration, Instant};

use pipeline_node::{Engine, Options, Reason, Request, Status};
use rustix::process::Signal;

use crate::node::Node;

const PATIENCE: Duration = Duration::from_secs(20);
const SEGMENT: &str = "segments.kv={ kind='dram', size='8MiB', access='read_write' }";

fn target(more: &[&str]) -> Node {
    Node::start(&[&["--built-in", "--set", SEGMENT], more].concat())
}

fn client() -> Engine {
    Engine::from_toml("version = 1\nuse = \"tcp\"\n").unwrap()
}

/// B25: a write to a frozen target is not done, however small, until the target runs again; then its bytes are there.
#[test]
fn done_means_applied() {
    let (client, node) = (client(), target(&[]));
    let local = client.allocate(4096).unwrap();
    local.write(0, b"written while frozen").unwrap();
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    node.freeze();
    let batch = client.submit(&[Request::write(&local, 0, kv.at(0), 4096)], Options::default()).unwrap();
    assert_eq!(batch.wait(Duration::from_millis(700)), None, "nobody has applied it");
    node.signal(Signal::CONT);
    assert!(batch.wait(PATIENCE).unwrap().is_done());
    let back = client.allocate(4096).unwrap();
    let batch = client.submit(&[Request::read(&back, 0, kv.at(0), 4096)], Options::default()).unwrap();
    assert!(batch.wait(PATIENCE).unwrap().is_done());
    let mut bytes = [0; 20];
    back.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"written while frozen");
}

/// A deadline holds against a frozen target: the write ends undetermined near its time, and its source is free.
#[test]
fn deadlines_hold_against_a_frozen_target() {
    let (client, node) = (client(), target(&[]));
    let local = client.allocate(4096).unwrap();
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    node.freeze();
    let begin = Instant::now();
    let options = Options { deadline: Some(Duration::from_millis(300)) };
    let batch = client.submit(&[Request::write(&local, 0, kv.at(0), 4096)], options).unwrap();
    batch.wait(PATIENCE).expect("it ends");
    let Some(Status::Failed(failure)) = batch.results().next() else { panic!("{batch:?}") };
    assert_eq!(failure.reason, Reason::Undetermined, "{failure}");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    client.unregister(local).map(drop).unwrap();
}

/// B14: the batch to a killed target fails within five seconds, typed; the one to another target is done; the engine
/// goes on working with both the living one and the killed one's successor on the same port.
#[test]
fn a_killed_target_costs_only_its_own() {
    let more = "\nlimits = { bytes_in_flight = \"1MiB\" }\n";
    let client = Engine::from_toml(&format!("version = 1\nuse = \"tcp\"\n{more}")).unwrap();
    let (mut dies, lives) = (target(&[]), target(&[]));
    let local = client.allocate(8 << 20).unwrap();
    let to_dying = client.open(&dies.address).unwrap().segment("kv").unwrap();
    let to_living = client.open(&lives.address).unwrap().segment("kv").unwrap();
    let write = |kv: &pipeline_node::Segment| vec![Request::write(&local, 0, kv.at(0), 8 << 20); 16];
    dies.freeze();
    let doomed = client.submit(&write(&to_dying), Options::default()).unwrap();
    let fine = client.submit(&write(&to_living), Options::default()).unwrap();
    dies.child.kill().unwrap();
    dies.child.wait().unwrap();
    let begin = Instant::now();
    let summary = doomed.wait(PATIENCE).expect("it ends");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(summary.failed > 0);
    for status in doomed.results() {
        if let Status::Failed(failure) = status {
            assert!(matches!(failure.reason, Reason::PeerGone | Reason::Undetermined), "{failure}");
        }
    }
    assert!(fine.wait(PATIENCE).unwrap().is_done());
    let again = client.submit(&write(&to_living), Options::default()).unwrap();
    assert!(again.wait(PATIENCE).unwrap().is_done());
    let successor = target(&["--set", &format!("node.listen='{}'", dies.address)]);
    let stale = client.submit(&[Request::write(&local, 0, to_dying.at(0), 1)], Options::default()).unwrap();
    assert_eq!(stale.wait(PATIENCE).unwrap().failed, 1, "memory of the dead is not that of its successor");
    let kv = client.open(&successor.address).unwrap().segment("kv").unwrap();
    let batch = client.submit(&[Request::write(&local, 0, kv.at(0), 1 << 20)], Options::default()).unwrap();
    assert!(batch.wait(PATIENCE).unwrap().is_done());
}

/// An idle node, and a caller that waits on a frozen target, use less than one percent of a core.
#[test]
fn waiting_is_free() {
    let (client, node) = (client(), target(&[]));
    let local = client.allocate(4096).unwrap();
    let peer = client.open(&node.address).unwrap();
    let kv = peer.segment("kv").unwrap();
    let (idle, cpu) = (Instant::now(), peer.cpu_ns().unwrap());
    std::thread::sleep(Duration::from_millis(1500));
    let idle_share = (peer.cpu_ns().unwrap() - cpu) as f64 / idle.elapsed().as_nanos() as f64;
    node.freeze();
    let batch = client.submit(&[Request::write(&local, 0, kv.at(0), 4096)], Options::default()).unwrap();
    let own = || {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    };
    let (begin, before) = (Instant::now(), own());
    assert_eq!(batch.wait(Duration::from_millis(500)), None);
    let waiting_share = (own() - before) as f64 / begin.elapsed().as_nanos() as f64;
    node.signal(Signal::CONT);
    assert!(batch.wait(PATIENCE).unwrap().is_done());
    assert!(idle_share < 0.01, "an idle node uses {:.2} % of a core", 100.0 * idle_share);
    assert!(waiting_share < 0.01, "a waiting caller uses {:.2} % of a core", 100.0 * waiting_share);
}
