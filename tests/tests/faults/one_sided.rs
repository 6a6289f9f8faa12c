//! Whole nodes over a wire without a serve half: regions told by keys, links made by exchanges, dead links fenced by letting
//! go of their ends, failures blamed on what failed.

use std::time::Duration;

use pipeline_node::faults::{self, Blame, Wires};
use pipeline_node::{Access, Engine, Options, PeerEvent, Request, Source, WaitError};
use pipeline_transports::Refusal;

use crate::rig::{
    PATIENCE, bytes_of, carry_out, done, nothing_left, open, pattern, reasons, region_of, until,
};

const KIB: u64 = 1 << 10;
const FILE: &str = r#"
version = 1
use = "tcp"
limits = { rest = "200ms", reconnect = "20ms" }
segments.kv = { kind = "dram", size = "1MiB", access = "read_write" }
[transports]
tcp = false
loopback = { type = "loopback" }
[stages]
route = { prefer = ["loopback"] }
split = { slice = "16KiB" }
retry = { attempts = 1 }
"#;

/// A node, and what can be done to its wires.
#[track_caller]
fn node(set: &[&str]) -> (Engine, Wires) {
    let wires = Wires::default();
    (with(&wires, set), wires)
}

#[track_caller]
fn with(wires: &Wires, set: &[&str]) -> Engine {
    let source = Source::text("test", FILE).set(set.iter().copied());
    faults::start_one_sided(&source, wires).unwrap_or_else(|e| panic!("{e}"))
}

fn patient() -> Options {
    Options { deadline: Some(PATIENCE), ..Options::default() }
}

/// Bytes arrive both ways, over links that were made by an exchange, to regions that were told by keys before anybody could
/// name them. What was learnt is forgotten when the last session and link to that node is gone, and not before.
#[test]
fn bytes_move_by_keys() {
    let ((client, ours), (server, theirs)) = (node(&[]), node(&[]));
    let peer = open(&client, &server);
    let (kv, bytes) = (peer.segment("kv").unwrap(), pattern(1, 256 << 10));
    let (from, into) = (region_of(&client, &bytes), client.allocate(256 * KIB).unwrap());
    done(&client, &[Request::write(&from, 0, kv.at(64 * KIB), 256 * KIB)]);
    done(&client, &[Request::read(&into, 0, kv.at(64 * KIB), 256 * KIB)]);
    assert!(bytes_of(&into) == bytes);
    assert_eq!((ours.learnt(), ours.links(), theirs.serving()), (1, 1, 1));
    assert_eq!((ours.counts().dialled, theirs.counts().answered, ours.counts().unlearnt), (1, 1, 0));
    assert_eq!((ours.counts().bound, theirs.counts().bound), (3, 1));
    // Under a second name it is the same node: nothing is forgotten before both are gone.
    let named = client.open(&format!("localhost:{}", server.local_address().port())).unwrap();
    assert_eq!(named.incarnation(), peer.incarnation());
    until("a second link", || ours.links() == 2);
    assert_eq!((ours.learnt(), ours.counts().forgotten), (1, 0));
    drop(server);
    until("forgotten", || ours.counts().forgotten == 1 && ours.links() == 0);
    assert_eq!(ours.learnt(), 0);
    nothing_left(&client, [from, into]);
}

/// A region whose keys make no sense cannot be reached over that transport; its neighbours can, and the peer stays up.
#[test]
fn nonsense_costs_its_region() {
    let ((client, ours), (server, theirs)) = (node(&[]), node(&[]));
    theirs.tell_nonsense(true);
    let memory = pipeline_transports::memory::Memory::allocate(4096).unwrap();
    let region = server.register(memory, Access::ReadWrite).unwrap();
    let at = server.publish("kv", &region).unwrap();
    let kv = open(&client, &server).segment("kv").unwrap();
    let local = client.allocate(4096).unwrap();
    let (_, batch) = carry_out(&client, &[Request::write(&local, 0, kv.at(at), 4096)]);
    let refused =
        pipeline_node::Reason::Transport(pipeline_stages::reason::Transport::Refused(Refusal::UnknownRegion));
    assert_eq!(reasons(&batch), [Some(refused)]);
    assert_eq!(ours.counts().unlearnt, 1);
    done(&client, &[Request::write(&local, 0, kv.at(0), 4096)]);
    drop(batch);
    nothing_left(&client, [local]);
}

/// A WRITE that had begun on a link which died is sent again only when its target has let go of the old end: not as long
/// as that takes, and at once after it. A READ waits for nobody. Nothing is told twice, and the bytes are right.
#[test]
fn a_begun_write_waits_for_its_target() {
    let ((client, ours), (server, theirs)) = (node(&["stages.retry.attempts=2"]), node(&[]));
    let kv = open(&client, &server).segment("kv").unwrap();
    let bytes = pattern(2, 64 << 10);
    let (from, into) = (region_of(&client, &bytes), client.allocate(64 * KIB).unwrap());
    done(&client, &[Request::write(&from, 0, kv.at(0), 64 * KIB)]);
    ours.stall(true);
    theirs.hold_ends(true);
    let write = client.submit(&[Request::write(&from, 0, kv.at(64 * KIB), 64 * KIB)], patient()).unwrap();
    let read = client.submit(&[Request::read(&into, 0, kv.at(0), 64 * KIB)], patient()).unwrap();
    assert_eq!(write.wait(Duration::from_millis(50)), Err(WaitError::Timeout));
    ours.stall(false);
    ours.kill(0, Blame::Path);
    assert!(read.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(&read));
    assert!(bytes_of(&into) == bytes);
    assert_eq!(write.wait(Duration::from_millis(100)), Err(WaitError::Timeout), "before it was fenced");
    assert_eq!(theirs.counts().let_go, 0);
    theirs.hold_ends(false);
    assert!(write.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(&write));
    assert_eq!((theirs.counts().let_go, theirs.serving()), (1, 1));
    done(&client, &[Request::read(&into, 0, kv.at(64 * KIB), 64 * KIB)]);
    assert!(bytes_of(&into) == bytes);
    let failures = client.peer_failures();
    assert_eq!((failures[0].path, failures[0].peer_failures), (1, 0));
    drop((write, read));
    nothing_left(&client, [from, into]);
}

/// `Disconnected` is told when nothing of the peer touches memory any more: not before the ends of its links are let go of.
#[test]
fn disconnected_means_let_go() {
    let ((client, _), (server, theirs)) = (node(&[]), node(&[]));
    let events = server.peer_events();
    open(&client, &server);
    assert_eq!(theirs.serving(), 1);
    theirs.hold_ends(true);
    drop(client);
    assert!(matches!(events.next(PATIENCE), Ok(PeerEvent::Connected { .. })));
    assert!(events.next(Duration::from_millis(200)).is_err(), "its end is still there");
    theirs.hold_ends(false);
    assert!(matches!(events.next(PATIENCE), Ok(PeerEvent::Disconnected { .. })));
    assert_eq!((theirs.serving(), theirs.counts().let_go), (0, 1));
}

/// A link that was closed because nobody used it is not dialled again before somebody wants it, and is then.
#[test]
fn unused_links_rest_until_wanted() {
    let ((client, ours), (server, _)) = (node(&[]), node(&[]));
    let peer = open(&client, &server);
    let (kv, local) = (peer.segment("kv").unwrap(), client.allocate(4096).unwrap());
    for round in 1..4 {
        done(&client, &[Request::write(&local, 0, kv.at(0), 4096)]);
        assert_eq!((ours.counts().dialled, ours.links()), (round, 1));
        ours.kill(0, Blame::Nobody);
        until("closed", || ours.links() == 0);
        // Ten times as long as a dial after a failure would wait.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(ours.counts().dialled, round, "nobody wants it");
    }
    // Opening asks for a link as well.
    open(&client, &server);
    assert_eq!(ours.links(), 1);
    assert_eq!(client.nics().iter().map(|nic| nic.local_failures + nic.path_failures).sum::<u64>(), 0);
    nothing_left(&client, [local]);
}

/// A transport that panics while it looks after its devices takes nothing along.
#[test]
fn tending_may_panic() {
    let wires = Wires::default();
    wires.panic_in_tend();
    let ((client, _), server) = (node(&[]), with(&wires, &[]));
    let kv = open(&client, &server).segment("kv").unwrap();
    let local = client.allocate(4096).unwrap();
    done(&client, &[Request::write(&local, 0, kv.at(0), 4096)]);
    nothing_left(&client, [local]);
}

/// Two NICs, and one goes down in the middle: what it had begun and what waited for it comes through over the other, without
/// a request failed. It is blamed on the NIC, never on the peer; the NIC carries nothing while it rests, its early refusals
/// cost nobody anything, and after its rest it carries work again.
#[test]
fn a_nic_rests_and_returns() {
    let two = "transports.loopback.nics=['east','west']";
    // What the first kill sends to the other NIC, the second may meet there.
    let set = [two, "transports.loopback.depth=4", "limits.deadline='30s'", "stages.retry.attempts=2"];
    let ((client, ours), (server, _)) = (node(&set), node(&[two]));
    let kv = open(&client, &server).segment("kv").unwrap();
    until("a link on each", || ours.links() == 2);
    let (bytes, into) = (pattern(3, 512 << 10), client.allocate(512 * KIB).unwrap());
    let from = region_of(&client, &bytes);
    ours.stall(true);
    let write = client.submit(&[Request::write(&from, 0, kv.at(0), 512 * KIB)], patient()).unwrap();
    assert_eq!(write.wait(Duration::from_millis(50)), Err(WaitError::Timeout));
    ours.set_down(0, true);
    ours.stall(false);
    ours.kill(0, Blame::LocalNic);
    ours.kill(1, Blame::LocalNic);
    assert!(write.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(&write));
    let nics = client.nics();
    let east = nics.iter().find(|nic| nic.name == "east").unwrap();
    assert!(east.facts.resting.as_ref().is_some_and(|why| why.contains("down")), "{east:?}");
    assert!(east.local_failures >= 1 && east.links == 0, "{east:?}");
    for _ in 0..20 {
        done(&client, &[Request::read(&into, 0, kv.at(0), 512 * KIB)]);
    }
    assert!(bytes_of(&into) == bytes);
    ours.set_down(0, false);
    until("it returns", || client.nics().iter().all(|nic| nic.facts.resting.is_none() && nic.links == 1));
    done(&client, &[Request::read(&into, 0, kv.at(0), 512 * KIB)]);
    let failures = client.peer_failures();
    assert_eq!((failures[0].path, failures[0].peer_failures), (0, 0), "it was no fault of the peer");
    drop(write);
    nothing_left(&client, [from, into]);
}
