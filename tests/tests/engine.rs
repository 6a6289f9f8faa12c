//! Two engines in one process over TCP, through the public API only: what a user may rely on, and what users of
//! other engines have run into (numbers of field cases in the sentences).
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use pipeline_node::{Access, Engine, Error, Memory, Options, Peer, Reason, Request, Status, SubmitError};

const PATIENCE: Duration = Duration::from_secs(20);

fn engine(more: &str) -> Engine {
    Engine::from_toml(&format!("version = 1\nuse = \"tcp\"\n{more}")).unwrap()
}

fn open(client: &Engine, target: &Engine) -> Peer {
    client.open(&target.local_address().to_string()).unwrap()
}

/// Runs one batch to its end and tells how each request ended.
#[track_caller]
fn run(client: &Engine, requests: &[Request]) -> Vec<Status> {
    let batch = client.submit(requests, Options::default()).unwrap();
    batch.wait(PATIENCE).expect("a batch ends");
    batch.results().collect()
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i.wrapping_mul(31) >> 3) as u8).collect()
}

/// B01: an empty region is refused at once, naming its length, and spoils nothing that is registered after it.
#[test]
fn empty_regions_are_refused() {
    let node = engine("");
    let error = node.allocate(0).unwrap_err();
    assert!(matches!(error, Error::Memory(_)) && error.to_string().contains('0'), "{error}");
    let region = node.allocate(1 << 20).unwrap();
    region.write(0, &[7; 4096]).unwrap();
    node.unregister(region).unwrap();
}

/// B02: a request across the seam of two regions is cut there, and every byte arrives.
#[test]
fn seams_are_crossed() {
    let target = engine("stages.split = { slice = \"64KiB\" }\n");
    target.add_segment("kv").unwrap();
    let regions: Vec<_> = (0..2)
        .map(|_| target.register(Memory::allocate(1 << 20).unwrap(), Access::ReadWrite).unwrap())
        .collect();
    for region in &regions {
        target.publish("kv", region).unwrap();
    }
    let client = engine("stages.split = { slice = \"64KiB\" }\n");
    let local = client.allocate(96 << 10).unwrap();
    let sent = bytes(96 << 10);
    local.write(0, &sent).unwrap();
    let kv = open(&client, &target).segment("kv").unwrap();
    let start = (1 << 20) - (32 << 10);
    assert_eq!(run(&client, &[Request::write(&local, 0, kv.at(start), 96 << 10)]), [Status::Done]);
    let (mut first, mut second) = (vec![0; 32 << 10], vec![0; 64 << 10]);
    regions[0].read(start, &mut first).unwrap();
    regions[1].read(0, &mut second).unwrap();
    assert_eq!([first, second].concat(), sent);
}

/// B02: one request at memory that is gone fails alone; the other nine are done, nothing is left pending, and all
/// memory can be had back.
#[test]
fn one_bad_request_fails_alone() {
    let target = engine("segments.kv = { kind = \"dram\", size = \"1MiB\", access = \"read_write\" }\n");
    let client = engine("");
    let (good, gone) = (client.allocate(1 << 16).unwrap(), client.allocate(1 << 16).unwrap());
    let gone_id = gone.id();
    client.unregister(gone).unwrap();
    let kv = open(&client, &target).segment("kv").unwrap();
    let requests: Vec<Request> = (0..10)
        .map(|i| Request::write(if i == 5 { gone_id } else { good.id() }, 0, kv.at(i * 4096), 4096))
        .collect();
    for (i, status) in run(&client, &requests).into_iter().enumerate() {
        match status {
            Status::Done => assert_ne!(i, 5),
            Status::Failed(failure) => assert_eq!((i, failure.reason), (5, Reason::NotRegistered)),
            Status::Pending => panic!("request {i} is pending"),
        }
    }
    client.unregister(good).unwrap();
}

/// B05: sums that wrap are refused before anything is looked at; ranges past an end and rights that were not given
/// are typed failures; the node goes on.
#[test]
fn wrong_ranges_are_refused() {
    let target = engine("segments.ro = { kind = \"dram\", size = \"64KiB\", access = \"read\" }\n");
    let client = engine("");
    let local = client.allocate(1 << 16).unwrap();
    let ro = open(&client, &target).segment("ro").unwrap();
    for request in [
        Request::read(&local, 0xFFFF_FFFF_FFFF_F000, ro.at(0), 0x2000),
        Request::read(&local, 0, ro.at(0xFFFF_FFFF_FFFF_F000), 0x2000),
        Request::read(&local, 0, ro.at(0), 0),
    ] {
        let error = client.submit(&[request], Options::default()).unwrap_err();
        assert!(matches!(error, SubmitError::BadRequest { index: 0, .. }), "{error}");
    }
    let reasons: Vec<_> = run(
        &client,
        &[
            Request::read(&local, 1, ro.at(0), 1 << 16),
            Request::read(&local, 0, ro.at(1), 1 << 16),
            Request::write(&local, 0, ro.at(0), 1),
            Request::read(&local, 0, ro.at(0), 1 << 16),
        ],
    )
    .into_iter()
    .map(|s| if let Status::Failed(f) = s { Some(f.reason) } else { None })
    .collect();
    assert_eq!(reasons, [Some(Reason::LocalBounds), Some(Reason::RemoteBounds), Some(Reason::Denied), None]);
}

/// B22: an engine that listens on IPv6 is reached by its address in brackets.
#[test]
fn ipv6_works() {
    let target = engine(
        "node = { listen = \"[::1]:0\" }\nsegments.kv = { kind = \"dram\", size = \"4KiB\", access = \"read_write\" }\n",
    );
    assert!(target.local_address().to_string().starts_with("[::1]:"));
    let client = engine("");
    let local = client.allocate(4096).unwrap();
    let kv = open(&client, &target).segment("kv").unwrap();
    assert_eq!(run(&client, &[Request::write(&local, 0, kv.at(0), 4096)]), [Status::Done]);
}

/// B40: a peer with 20 000 regions can be opened, and the last of them read.
#[test]
fn twenty_thousand_regions() {
    let target = engine("limits = { regions = 20001 }\n");
    target.add_segment("many").unwrap();
    let memory = bytes(4096);
    for i in 0..20_000 {
        let region = target.register(Memory::allocate(4096).unwrap(), Access::Read).unwrap();
        if i == 19_999 {
            region.write(0, &memory).unwrap();
        }
        target.publish("many", &region).unwrap();
    }
    let client = engine("");
    let local = client.allocate(4096).unwrap();
    let many = open(&client, &target).segment("many").unwrap();
    assert_eq!(many.len(), 20_000 * 4096);
    assert_eq!(run(&client, &[Request::read(&local, 0, many.at(19_999 * 4096), 4096)]), [Status::Done]);
    let mut got = vec![0; 4096];
    local.read(0, &mut got).unwrap();
    assert_eq!(got, memory);
}

/// A peer with another key, or none, is refused on both sides with a reason that speaks of the key; one with the
/// same key is let in.
#[test]
fn keys_decide() {
    let dir = tempfile::tempdir().unwrap();
    let auth = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("auth = {{ key_file = \"{}\" }}\n", path.display())
    };
    let (one, two) =
        (auth("one", "0123456789abcdef0123456789abcdef"), auth("two", "another key, as long as it must be"));
    let target = engine(&one);
    let address = target.local_address().to_string();
    for wrong in [two.as_str(), ""] {
        let error = engine(wrong).open(&address).unwrap_err();
        assert!(error.is_peer() && error.to_string().contains("key"), "{error}");
    }
    engine(&one).open(&address).unwrap();
}

/// An engine can be a peer of itself.
#[test]
fn a_peer_of_itself() {
    let node = engine("segments.kv = { kind = \"dram\", size = \"64KiB\", access = \"read_write\" }\n");
    let local = node.allocate(1 << 16).unwrap();
    let kv = open(&node, &node).segment("kv").unwrap();
    assert_eq!(run(&node, &[Request::write(&local, 0, kv.at(0), 1 << 16)]), [Status::Done]);
}

/// A drained engine takes nothing more and says so; what it took has ended; its memory can be had back.
#[test]
fn drain_ends_everything() {
    let target = engine("segments.kv = { kind = \"dram\", size = \"1MiB\", access = \"read_write\" }\n");
    let client = engine("");
    let local = client.allocate(1 << 20).unwrap();
    let kv = open(&client, &target).segment("kv").unwrap();
    let batches: Vec<_> = (0..32)
        .map(|_| client.submit(&[Request::write(&local, 0, kv.at(0), 1 << 20)], Options::default()).unwrap())
        .collect();
    let report = client.drain(PATIENCE);
    assert!(report.empty, "{report}");
    assert!(batches.iter().all(|b| b.poll().is_some_and(|s| s.is_done())));
    let late = client.submit(&[Request::write(&local, 0, kv.at(0), 1)], Options::default());
    assert!(matches!(late, Err(SubmitError::Stopped)), "{late:?}");
    client.unregister(local).unwrap();
    client.stop();
}

/// Every mistake of a text is in one error, with its place.
#[test]
fn findings_come_as_one_error() {
    let error = Engine::from_toml("version = 1\nuse = \"tcp\"\npools.nic = { threads = 0 }\nnonsense = 1\n")
        .unwrap_err();
    let Error::Config(findings) = &error else { panic!("{error}") };
    assert!(findings.errors() >= 2);
    assert!(error.to_string().contains("<text>:3:") && error.to_string().contains("<text>:4:"), "{error}");
}
