//! Whole nodes that speak Mooncake's RDMA protocol with each other: found by a name, no control session, no fence. What real nodes
//! of Mooncake say to it is tested in `transports/tests/rdma/mooncake_wheel.rs`.

use std::time::Instant;

use pipeline_node::{Batch, Engine, Options, Reason, Region, Request, Segment, Source};

use crate::bed::{shipped, uses};
use crate::node::{Node, kv};
use crate::pair::{LONG, PIECE, counted, finished};
use crate::rig::{bytes_of, nothing_left, pattern, reasons, region_of, until};

/// What makes the preset's transport speak it.
const SPEAKS: &str = "transports.rdma.type='mooncake_rdma'";
const MIB: usize = 8;

fn with(devices: &[usize], more: &[&str]) -> Vec<String> {
    let own = [SPEAKS].iter().chain(more).map(|set| (*set).to_owned());
    uses(devices).into_iter().chain(own).collect()
}

fn target(more: &[&str]) -> Node {
    Node::of("pipelines/rdma.toml", &[with(&[1], more), vec![kv(&format!("{MIB}MiB"))]].concat())
}

/// A client, and the only buffer of the node that it finds by this name.
fn client(name: &str) -> (Engine, Segment) {
    // Little at once, so that what happens in the middle happens to many.
    let few = ["limits.bytes_in_flight='2MiB'", "limits.peer_share='100%'"];
    let source = Source::file(shipped("pipelines/rdma.toml")).set(with(&[0], &few));
    let client = Engine::from_source(&source).unwrap_or_else(|e| panic!("{e}"));
    let buffer = buffer(&client, name);
    (client, buffer)
}

fn buffer(client: &Engine, name: &str) -> Segment {
    let peer = client.open_within(&format!("rdma://{name}"), LONG).unwrap_or_else(|e| panic!("{e}"));
    assert!(peer.is_foreign());
    peer.segment("buffer-0").unwrap()
}

fn pieces(of: &Region, there: &Segment, write: bool) -> Vec<Request> {
    let piece = |at: u64| match write {
        true => Request::write(of, at, there.at(at), PIECE),
        false => Request::read(of, at, there.at(at), PIECE),
    };
    (0..of.len() / PIECE).map(|i| piece(i * PIECE)).collect()
}

fn submit(client: &Engine, requests: &[Request]) -> Batch {
    let options = Options { deadline: Some(LONG), ..Options::default() };
    client.submit_wait(requests, options, LONG).unwrap_or_else(|e| panic!("{e}"))
}

/// Writes a region and reads it back, all of which comes to a good end but for WRITEs that a broken link left open: those are told
/// as such, and asked for again, because this wire has no fence.
fn written_and_read(client: &Engine, there: &Segment, bytes: &[u8]) {
    let (from, to) = (region_of(client, bytes), client.allocate(bytes.len() as u64).unwrap());
    let mut left = pieces(&from, there, true);
    for round in 0.. {
        let batch = submit(client, &left);
        batch.wait(LONG).expect("an end");
        let whys = reasons(&batch);
        assert!(whys.iter().flatten().all(|why| *why == Reason::Undetermined), "{}", counted(&whys));
        let mut whys = whys.iter();
        left.retain(|_| whys.next().unwrap().is_some());
        if left.is_empty() {
            break;
        }
        assert!(round < 8, "{} are still undetermined", left.len());
    }
    let batch = submit(client, &pieces(&to, there, false));
    assert!(batch.wait(LONG).expect("an end").is_done(), "{}", counted(&reasons(&batch)));
    drop(batch);
    assert!(bytes_of(&to) == bytes, "bytes that were read differ");
    nothing_left(client, [from, to]);
}

/// Two nodes: one finds the other by what it calls itself, writes all of its memory and reads it back; nothing is left.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn two_nodes() {
    let node = target(&[]);
    let (client, there) = client(&node.foreign);
    assert_eq!(there.len(), (MIB << 20) as u64);
    written_and_read(&client, &there, &pattern(31, MIB << 20));
    client.stop();
    node.leave();
}

/// The other node is killed in the middle of transfers: all end soon, with a reason that says it. One that is started at its
/// address is found again by its name, and written.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn killed_and_started_again() {
    let mut node = target(&[]);
    let name = node.foreign.clone();
    let (client, there) = client(&name);
    let from = region_of(&client, &pattern(32, MIB << 20));
    let batch = submit(&client, &pieces(&from, &there, true));
    until("some are there", || finished(&batch) >= 8);
    assert!(batch.poll().is_none(), "killed too late to tell anything");
    node.crash();
    let killed = Instant::now();
    batch.wait(LONG).expect("an end");
    let whys = reasons(&batch);
    println!(
        "measured: a Mooncake RDMA peer killed: all ended after {:?}: {}",
        killed.elapsed(),
        counted(&whys)
    );
    assert!(whys.iter().any(Option::is_some));
    drop(batch);
    nothing_left(&client, [from]);
    let again = target(&[&format!("transports.rdma.listen='{name}'")]);
    assert_eq!(again.foreign, name);
    written_and_read(&client, &buffer(&client, &name), &pattern(33, MIB << 20));
    client.stop();
    again.leave();
}
