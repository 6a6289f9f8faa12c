//! What cannot come to a good end: a peer that dies, and memory that is no more. It ends soon, once, with the reason; and costs
//! nobody else anything.

use std::time::{Duration, Instant};

use pipeline_node::{Access, Engine, Memory, Options, Reason, Request, Source};
use pipeline_stages::reason::Transport;

use crate::bed::{shipped, uses};
use crate::node::Node;
use crate::pair::{LONG, Pair, counted, finished};
use crate::rig::{bytes_of, done, nothing_left, open, pattern, reasons, region_of, until};

/// The peer's process is killed in the middle of transfers. Everything has ended in under a second, with a reason that says
/// it; what was done stays done; nothing is left.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn the_peer_is_killed() {
    for write in [true, false] {
        let mut pair = Pair::new(&[0], &[1], 8);
        let to = pair.client.allocate(8 << 20).unwrap();
        let requests = pair.pieces(if write { None } else { Some(&to) });
        let batch = pair.submit(&requests);
        until("some are there", || finished(&batch) >= 8);
        assert!(batch.poll().is_none(), "killed too late to tell anything");
        pair.node.crash();
        let killed = Instant::now();
        let summary = batch.wait(LONG).expect("an end");
        let took = killed.elapsed();
        let whys = reasons(&batch);
        println!("measured: peer killed, write: {write}: all ended after {took:?}: {}", counted(&whys));
        assert!(took < Duration::from_secs(1), "{took:?}: {}", counted(&whys));
        assert!(summary.failed > 0);
        let gone = |why| why == Reason::PeerGone || (write && why == Reason::Undetermined);
        assert!(whys.iter().flatten().all(|why| gone(*why)), "{}", counted(&whys));
        drop(batch);
        pair.client.unregister_within(to, LONG).map_err(|(_, e)| e).expect("a pin was left");
        pair.without_target();
    }
}

fn engine(devices: &[usize]) -> Engine {
    let source = Source::file(shipped("pipelines/rdma.toml")).set(uses(devices));
    Engine::from_source(&source).unwrap_or_else(|e| panic!("{e}"))
}

/// A region that the target has taken back, and registered anew: the NIC refuses its old key, which costs the link that it came
/// by, whoever has the new one. The request fails as refused, for good; those beside it, to a region that is still there, are
/// done, every byte of them.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_key_that_is_no_more() {
    let (client, target) = (engine(&[0]), engine(&[1]));
    let region = |access| target.register(Memory::allocate(1 << 20).unwrap(), access).unwrap();
    let (stays, goes) = (region(Access::ReadWrite), region(Access::ReadWrite));
    for (name, region) in [("stays", &stays), ("goes", &goes)] {
        target.add_segment(name).unwrap();
        target.publish(name, region).unwrap();
    }
    let peer = open(&client, &target);
    let (good, bad) = (peer.segment("stays").unwrap(), peer.segment("goes").unwrap());
    let bytes = pattern(9, 1 << 20);
    let from = region_of(&client, &bytes);
    done(&client, &[Request::write(&from, 0, good.at(0), 4096), Request::write(&from, 0, bad.at(0), 4096)]);
    let memory = target.unregister_within(goes, LONG).map_err(|(_, e)| e).unwrap();
    let again = target.register(memory, Access::ReadWrite).unwrap();
    let old = bytes_of(&again);

    let good_ones = (0..16).map(|i| Request::write(&from, i << 16, good.at(i << 16), 1 << 16));
    let mut requests: Vec<Request> = good_ones.collect();
    requests.insert(5, Request::write(&from, 0, bad.at(0), 4096));
    requests.insert(11, Request::read(&from, 0, bad.at(4096), 4096));
    let options = Options { deadline: Some(LONG), ..Options::default() };
    let batch = client.submit_wait(&requests, options, LONG).unwrap();
    batch.wait(LONG).expect("an end");
    let whys = reasons(&batch);
    println!("measured: a key that is no more: {}", counted(&whys));
    for (i, why) in whys.iter().enumerate() {
        match (i, why) {
            (5 | 11, Some(Reason::Transport(Transport::Refused(_)) | Reason::UnknownSegment)) => {}
            (5 | 11, why) => panic!("request {i} to memory that is gone: {why:?}"),
            (_, why) => assert_eq!(*why, None, "request {i} paid for another one"),
        }
    }
    drop(batch);
    assert!(bytes_of(&stays) == bytes);
    assert!(bytes_of(&again) == old, "written by a key that is no more");
    nothing_left(&client, [from]);
}

/// A node that is started again at the same address: what was opened before is stale, what is opened anew is written.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_peer_that_was_started_again() {
    let client = engine(&[0]);
    let from = region_of(&client, &pattern(11, 1 << 16));
    let mut node = Node::target(&[1], "1MiB");
    let address = node.address.clone();
    let old = client.open_within(&address, LONG).unwrap().segment("kv").unwrap();
    done(&client, &[Request::write(&from, 0, old.at(0), 1 << 16)]);
    node.crash();
    let listen = format!("node.listen='{address}'");
    let again =
        Node::of("pipelines/rdma.toml", &[uses(&[1]), vec![crate::node::kv("1MiB"), listen]].concat());
    let peer = client.open_within(&again.address, LONG).unwrap();
    done(&client, &[Request::write(&from, 0, peer.segment("kv").unwrap().at(0), 1 << 16)]);
    let batch = client.submit(&[Request::write(&from, 0, old.at(0), 1 << 16)], Options::default()).unwrap();
    batch.wait(LONG).expect("an end");
    assert_eq!(reasons(&batch), [Some(Reason::StalePeer)]);
    drop(batch);
    nothing_left(&client, [from]);
    again.leave();
}
