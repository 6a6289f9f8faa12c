//! WRITEs that were cut off in the middle: they are sent again only when their target has let go of the old link, and
//! what is written later is never overwritten by them.

use std::time::{Duration, Instant};

use pipeline_node::{Batch, Engine, Options, Reason, Region, Request, Segment, WaitError};
use rustix::process::Signal;

use crate::node::Node;
use crate::process::{sockets, sockets_at_rest};
use crate::rig::{PATIENCE, bytes_of, done, engine, nothing_left, pattern, reasons, region_of, until};

const MIB: u64 = 1 << 20;

fn within(deadline: Duration) -> Options {
    Options { deadline: Some(deadline), ..Options::default() }
}

fn write(engine: &Engine, from: &Region, to: &Segment, at: u64, options: Options) -> Batch {
    engine.submit_wait(&[Request::write(from, 0, to.at(at), from.len())], options, PATIENCE).unwrap()
}

/// What a segment holds, read by somebody else: not held up by what `engine` waits for.
fn holds(node: &Node, at: u64, len: u64) -> Vec<u8> {
    let reader = engine(&[]);
    let kv = reader.open(&node.address).unwrap().segment("kv").unwrap();
    let into = reader.allocate(len).unwrap();
    done(&reader, &[Request::read(&into, 0, kv.at(at), len)]);
    bytes_of(&into)
}

/// B16: a target that is frozen with begun WRITEs. The status is terminal at the deadline of two seconds, once, and as
/// `Undetermined`; batches to a neighbour and a READ from the frozen one with more time are not touched; newer bytes for
/// the same place wait, and when the target goes on they win over what its sockets still held.
#[test]
fn newer_bytes_win() {
    for lanes in [1, 2] {
        let (node, neighbour) = (Node::target("16MiB", &[]), Node::target("1MiB", &[]));
        let client = engine(&[&format!("transports.tcp.lanes={lanes}"), "stages.split.slice='256KiB'"]);
        let peer = client.open(&node.address).unwrap();
        let kv = peer.segment("kv").unwrap();
        let beside = client.open(&neighbour.address).unwrap().segment("kv").unwrap();
        let [old, new] = [1, 2].map(|seed| pattern(seed, 4 << 20));
        let (old, new_from) = (region_of(&client, &old), region_of(&client, &new));
        let (small, into) = (client.allocate(4096).unwrap(), client.allocate(4096).unwrap());
        done(&client, &[Request::write(&old, 0, kv.at(8 * MIB), 4 * MIB)]);
        peer.fence(Duration::ZERO).expect("there is nothing to fence");

        node.freeze();
        let begin = Instant::now();
        let cut_off = write(&client, &old, &kv, 0, within(Duration::from_secs(2)));
        let read = client.submit(&[Request::read(&into, 0, kv.at(8 * MIB), 4096)], within(PATIENCE)).unwrap();
        while cut_off.poll().is_none() {
            done(&client, &[Request::write(&small, 0, beside.at(0), 4096)]);
            assert!(begin.elapsed() < PATIENCE, "no end");
        }
        let took = begin.elapsed();
        assert!(took >= Duration::from_secs(2) && took < Duration::from_millis(2500), "{took:?}");
        assert_eq!(reasons(&cut_off), [Some(Reason::Undetermined)]);
        assert_eq!(read.poll(), None, "what has time goes on");
        let error = peer.fence(Duration::from_millis(50)).expect_err("it is frozen").to_string();
        assert!(error.contains(&node.address), "{error}");

        let newer = write(&client, &new_from, &kv, 0, within(PATIENCE));
        assert_eq!(newer.wait(Duration::from_millis(100)), Err(WaitError::Timeout));
        let summary = cut_off.poll();
        node.signal(Signal::CONT);
        assert!(newer.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(&newer));
        peer.fence(PATIENCE).expect("it goes on");
        assert!(read.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(&read));
        for _ in 0..3 {
            assert!(holds(&node, 0, 4 * MIB) == new, "older bytes came over newer ones");
        }
        assert_eq!(cut_off.poll(), summary, "it has ended once");
        drop((cut_off, read, newer));
        nothing_left(&client, [old, new_from, small, into]);
    }
}

/// With a second lane that is well, newer bytes could be there first and older ones come over them: the older WRITE sits
/// in the socket of the lane that its target serves last. They wait for the fence all the same, time after time.
#[test]
fn no_lane_overtakes_the_fence() {
    let node = Node::target("16MiB", &[]);
    let before = sockets_at_rest(node.child.id());
    let client = engine(&["transports.tcp.lanes=2", "limits.reconnect='20ms'"]);
    let peer = client.open(&node.address).unwrap();
    let kv = peer.segment("kv").unwrap();
    let small = client.allocate(4096).unwrap();
    for round in 0..8 {
        until("session and both lanes", || sockets(node.child.id()) == before + 3);
        let [old, new] = [1, 2].map(|seed| pattern(2 * round + seed, 256 << 10));
        let (old, from) = (region_of(&client, &old), region_of(&client, &new));
        done(&client, &[Request::write(&small, 0, kv.at(MIB), 4096)]);
        node.freeze();
        // Of the two lanes the first is taken.
        let first = write(&client, &small, &kv, MIB, within(PATIENCE));
        assert_eq!(first.wait(Duration::from_millis(20)), Err(WaitError::Timeout));
        let cut_off = write(&client, &old, &kv, 0, within(Duration::from_millis(200)));
        cut_off.wait(PATIENCE).expect("an end");
        assert_eq!(reasons(&cut_off), [Some(Reason::Undetermined)]);
        let newer = write(&client, &from, &kv, 0, within(PATIENCE));
        assert_eq!(newer.wait(Duration::from_millis(20)), Err(WaitError::Timeout));
        node.signal(Signal::CONT);
        assert!(newer.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(&newer));
        assert!(first.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(&first));
        peer.fence(PATIENCE).expect("it goes on");
        assert!(holds(&node, 0, 256 << 10) == new, "round {round}: older bytes came over newer ones");
        drop((first, cut_off, newer));
        nothing_left(&client, [old, from]);
    }
    nothing_left(&client, [small]);
}

/// Neighbours of a WRITE whose lane was aborted for its sake keep their only attempt: when the target goes on they are
/// sent again and done, with every byte right.
#[test]
fn neighbours_on_an_aborted_lane_are_done() {
    let node = Node::target("16MiB", &[]);
    let client = engine(&["transports.tcp.lanes=1", "stages.retry.attempts=1", "stages.split.slice='16KiB'"]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let [lost, kept] = [3, 4].map(|seed| pattern(seed, 1 << 20));
    let (lost, from) = (region_of(&client, &lost), region_of(&client, &kept));
    done(&client, &[Request::write(&lost, 0, kv.at(0), MIB)]);
    node.freeze();
    let short = write(&client, &lost, &kv, 0, within(Duration::from_millis(300)));
    let long: Vec<_> = (1..4).map(|i| write(&client, &from, &kv, i * MIB, within(PATIENCE))).collect();
    short.wait(PATIENCE).expect("an end");
    assert_eq!(reasons(&short), [Some(Reason::Undetermined)]);
    let given_up = write(&client, &from, &kv, 5 * MIB, within(PATIENCE));
    given_up.cancel();
    given_up.wait(Duration::from_secs(5)).expect("a cancel does not wait for a frozen target");
    assert!(long.iter().all(|batch| batch.poll().is_none()), "they have time");
    node.signal(Signal::CONT);
    for (i, batch) in (1..4).zip(&long) {
        assert!(batch.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(batch));
        assert!(holds(&node, i * MIB, MIB) == kept, "done with other bytes");
    }
    drop((short, long, given_up));
    nothing_left(&client, [lost, from]);
}

/// A session that ends and comes back, with begun WRITEs on its lanes, loses none of them: the new session fences what
/// the earlier one left, and the WRITEs are done without anybody noticing.
#[test]
fn a_new_session_fences_the_earlier_one() {
    let node = Node::target("16MiB", &["limits.silence='400ms'"]);
    let client = engine(&["limits.silence='400ms'", "stages.split.slice='64KiB'"]);
    let peer = client.open(&node.address).unwrap();
    let kv = peer.segment("kv").unwrap();
    let bytes = pattern(5, 8 << 20);
    let from = region_of(&client, &bytes);
    done(&client, &[Request::write(&from, 0, kv.at(8 * MIB), 8 * MIB)]);
    node.freeze();
    let batch = write(&client, &from, &kv, 0, within(PATIENCE));
    // Far longer than the session lives.
    assert_eq!(batch.wait(Duration::from_millis(1500)), Err(WaitError::Timeout));
    node.signal(Signal::CONT);
    batch.wait(PATIENCE).expect("an end");
    // What had not begun found no peer; what had begun is never undetermined.
    assert!(matches!(reasons(&batch)[..], [None | Some(Reason::PeerGone)]), "{:?}", reasons(&batch));
    peer.fence(PATIENCE).expect("it is back");
    done(&client, &[Request::write(&from, 0, kv.at(0), 8 * MIB)]);
    assert!(holds(&node, 0, 8 * MIB) == bytes);
    drop(batch);
    nothing_left(&client, [from]);
}

/// A target that is killed with begun WRITEs confirms nothing any more: they end `Undetermined` as soon as it is known to
/// be out of reach, long before their deadline, and a new start of it is not held up by the links of the old one.
#[test]
fn a_restarted_target_owes_nothing() {
    let mut node = Node::target("16MiB", &[]);
    let address = node.address.clone();
    let client = engine(&["stages.split.slice='256KiB'"]);
    let old = client.open(&address).unwrap();
    let kv = old.segment("kv").unwrap();
    let from = client.allocate(8 * MIB).unwrap();
    done(&client, &[Request::write(&from, 0, kv.at(0), 8 * MIB)]);
    node.freeze();
    let batch = write(&client, &from, &kv, 0, within(PATIENCE));
    assert_eq!(batch.wait(Duration::from_millis(50)), Err(WaitError::Timeout));
    let begin = Instant::now();
    node.crash();
    batch.wait(PATIENCE).expect("an end");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let whys = reasons(&batch);
    assert!(matches!(whys[..], [Some(Reason::Undetermined | Reason::PeerGone)]), "{whys:?}");
    let error = old.fence(Duration::from_secs(5)).expect_err("it is gone").to_string();
    assert!(error.contains(&address), "{error}");

    let _node = Node::target("16MiB", &[&format!("node.listen='{address}'")]);
    old.fence(PATIENCE).expect("its memory is gone, and with it what might have been written there");
    let kv = client.open(&address).unwrap().segment("kv").unwrap();
    done(&client, &[Request::write(&from, 0, kv.at(0), 8 * MIB)]);
    drop(batch);
    nothing_left(&client, [from]);
}

/// B08: a wait that timed out leaves the handle as it was. Its buffer cannot be unregistered until the transfer has
/// ended, whether the handle is kept or dropped; then the status is terminal, once, and it can.
#[test]
fn a_wait_that_timed_out() {
    for kept in [true, false] {
        let node = Node::target("4MiB", &[]);
        let client = engine(&[]);
        let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
        let from = region_of(&client, &pattern(8, 4 << 20));
        node.freeze();
        let batch = write(&client, &from, &kv, 0, within(PATIENCE));
        assert_eq!(batch.wait(Duration::from_millis(10)), Err(WaitError::Timeout));
        assert_eq!(batch.poll(), None);
        let batch = kept.then_some(batch);
        let (from, error) = client.unregister(from).map(drop).expect_err("the transfer reads it");
        assert!(error.to_string().contains("busy") || error.to_string().contains("in use"), "{error}");
        let (from, _) =
            client.unregister_within(from, Duration::from_millis(50)).map(drop).expect_err("still");
        assert_eq!(client.usage().batches, 1, "dropped or not, it is carried out");
        node.signal(Signal::CONT);
        if let Some(batch) = batch {
            let summary = batch.wait(PATIENCE).expect("it goes on");
            assert!(summary.is_done());
            assert_eq!((batch.poll(), batch.wait(Duration::ZERO)), (Some(summary), Ok(summary)));
        }
        client.unregister_within(from, PATIENCE).map_err(|(_, e)| e).expect("it has ended");
        nothing_left(&client, []);
    }
}
