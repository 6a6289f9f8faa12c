//! A peer that comes back under the same address as another process with other memory (B11 over TCP, B13).

use std::time::{Duration, Instant};

use pipeline_node::{Options, Reason, Request};

use crate::node::Node;
use crate::rig::{
    PATIENCE, bytes_of, carry_out, done, engine, nothing_left, pattern, reasons, region_of, until,
};

fn again_at(address: &str, size: &str) -> Node {
    Node::target(size, &[&format!("node.listen='{address}'")])
}

/// After a restart with a segment twice as large, requests through the old handle fail and never write into the new
/// memory; opened again, at most one attempt fails, and the bytes are in the new process.
#[test]
fn a_restart_under_the_same_address() {
    let mut node = Node::target("1MiB", &[]);
    let client = engine(&[]);
    let old = client.open(&node.address).unwrap();
    let old_kv = old.segment("kv").unwrap();
    let bytes = pattern(11, 1 << 20);
    let (from, to) = (region_of(&client, &bytes), client.allocate(1 << 20).unwrap());
    done(&client, &[Request::write(&from, 0, old_kv.at(0), 1 << 20)]);
    let address = node.address.clone();
    node.crash();
    drop(node);
    let node = again_at(&address, "2MiB");

    let mut tried = 0;
    let new = loop {
        match client.open(&node.address) {
            Ok(peer) if peer.incarnation() != old.incarnation() => break peer,
            outcome => {
                tried += 1;
                assert!(tried <= 1, "more than one attempt in vain: {outcome:?}");
            }
        }
    };
    let kv = new.segment("kv").unwrap();
    assert_eq!(kv.len(), 2 << 20);
    let (_, stale) = carry_out(
        &client,
        &[Request::write(&from, 0, old_kv.at(0), 100), Request::read(&to, 0, old_kv.at(0), 100)],
    );
    assert_eq!(reasons(&stale), [Some(Reason::StalePeer); 2]);
    done(&client, &[Request::read(&to, 0, kv.at(0), 1 << 20)]);
    assert!(bytes_of(&to).iter().all(|b| *b == 0), "an old handle wrote into new memory");
    done(&client, &[Request::write(&from, 0, kv.at(1 << 20), 1 << 20)]);
    done(&client, &[Request::read(&to, 0, kv.at(1 << 20), 1 << 20)]);
    assert!(bytes_of(&to) == bytes);
    drop(stale);
    nothing_left(&client, [from, to]);
}

/// Nobody opens the peer again; a program just goes on submitting through its old handle. Each attempt ends fast and
/// typed: as gone while the peer is down, as `StalePeer` once it is back, and that tells it to open again.
#[test]
fn an_old_handle_says_so() {
    let mut node = Node::target("1MiB", &[]);
    let client = engine(&[]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let region = client.allocate(4096).unwrap();
    let request = Request::write(&region, 0, kv.at(0), 4096);
    done(&client, &[request]);
    let address = node.address.clone();
    node.crash();
    drop(node);
    let attempt = || {
        let begin = Instant::now();
        let (_, batch) = carry_out(&client, &[request]);
        assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
        reasons(&batch)[0].expect("its memory is gone")
    };
    for _ in 0..3 {
        assert!(matches!(attempt(), Reason::PeerGone | Reason::Undetermined));
    }
    let _node = again_at(&address, "1MiB");
    until("it is known to be another", || attempt() == Reason::StalePeer);
    let kv = client.open(&address).unwrap().segment("kv").unwrap();
    done(&client, &[Request::write(&region, 0, kv.at(0), 4096)]);
    nothing_left(&client, [region]);
}

/// B13: no failure is for ever. With the listener down for a while and back, a program that submits on and on has its
/// first success soon after, without a restart, however long it was down before.
#[test]
fn recovery_needs_no_restart() {
    let mut node = Node::target("1MiB", &[]);
    let address = node.address.clone();
    let client = engine(&[]);
    let region = client.allocate(4096).unwrap();
    let probe = || -> bool {
        let Ok(peer) = client.open_within(&address, Duration::from_secs(2)) else { return false };
        let kv = peer.segment("kv").unwrap();
        let batch =
            client.submit_wait(&[Request::write(&region, 0, kv.at(0), 4096)], Options::default(), PATIENCE);
        batch.unwrap().wait(PATIENCE).expect("an end").is_done()
    };
    for _ in 0..3 {
        assert!(probe());
        node.crash();
        for _ in 0..20 {
            assert!(!probe());
        }
        node = again_at(&address, "1MiB");
        let back = Instant::now();
        until("recovered", probe);
        assert!(back.elapsed() < Duration::from_secs(3), "{:?}", back.elapsed());
    }
    nothing_left(&client, [region]);
}
