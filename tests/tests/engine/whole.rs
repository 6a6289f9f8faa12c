//! An engine as a whole: its own peer, its drain, its findings.

use pipeline_node::{Engine, Error, Options, Request, SubmitError};

use crate::rig::{PATIENCE, done, engine, nothing_left, open, target};

/// An engine can be a peer of itself.
#[test]
fn a_peer_of_itself() {
    let node = target("64KiB");
    let local = node.allocate(1 << 16).unwrap();
    let kv = open(&node, &node).segment("kv").unwrap();
    done(&node, &[Request::write(&local, 0, kv.at(0), 1 << 16)]);
    nothing_left(&node, [local]);
}

/// A drained engine takes nothing more and says so; what it took has ended; its memory can be had back.
#[test]
fn drain_ends_everything() {
    let target = target("1MiB");
    let client = engine(&[]);
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
