//! `kill -9` of a peer in the middle of transfers (B14).

use std::time::{Duration, Instant};

use pipeline_node::{Batch, Engine, Options, Reason, Request, Status};

use crate::node::Node;
use crate::rig::{PATIENCE, bytes_of, done, engine, nothing_left, pattern, reasons, region_of, until};

const MIB: u64 = 1 << 20;
/// Small enough that 64 MiB take their time.
const THROTTLE: &[&str] = &["limits.bytes_in_flight='512KiB'", "stages.split.slice='64KiB'"];

fn finished(batch: &Batch) -> usize {
    batch.results().filter(|status| *status != Status::Pending).count()
}

/// Requests of 1 MiB over the whole of a region and a segment.
fn pieces(engine: &Engine, at: &str, region: &pipeline_node::Region, write: bool) -> Vec<Request> {
    let kv = engine.open(at).unwrap().segment("kv").unwrap();
    let piece = |i: u64| match write {
        true => Request::write(region, i * MIB, kv.at(i * MIB), MIB),
        false => Request::read(region, i * MIB, kv.at(i * MIB), MIB),
    };
    (0..region.len() / MIB).map(piece).collect()
}

fn gone(reason: Reason, write: bool) -> bool {
    reason == Reason::PeerGone || (write && reason == Reason::Undetermined)
}

/// B14: of two targets that are written to, one is killed after a part. Its batch has failed within five seconds with
/// reasons that say so, the other's is done with every byte right, a new batch to that one works, and nothing of
/// either is left.
#[test]
fn one_of_two_targets_is_killed() {
    let (mut doomed, healthy) = (Node::target("64MiB", &[]), Node::target("64MiB", &[]));
    let client = engine(THROTTLE);
    let bytes = pattern(14, 64 << 20);
    let from = region_of(&client, &bytes);
    let [to_doomed, to_healthy] = [&doomed, &healthy].map(|node| pieces(&client, &node.address, &from, true));
    let to_doomed = to_doomed.repeat(12);
    let [lost, kept] =
        [&to_doomed, &to_healthy].map(|requests| client.submit(requests, Options::default()).unwrap());
    until("some are there", || finished(&lost) >= 13);
    assert!(lost.poll().is_none(), "killed too late to tell anything");
    doomed.crash();
    let killed = Instant::now();
    let summary = lost.wait(PATIENCE).expect("an end");
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    assert!(summary.failed > 0);
    let whys = reasons(&lost);
    assert!(whys.iter().flatten().all(|r| gone(*r, true)), "{whys:?}");
    assert!(whys.iter().filter(|why| why.is_none()).count() >= 13, "what was done stays done");
    let label = lost.results().find_map(|s| if let Status::Failed(f) = s { Some(f.peer) } else { None });
    assert_eq!(label.as_deref(), Some(&*doomed.address), "the failure names its peer");

    assert!(kept.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(&kept));
    let back = client.allocate(64 * MIB).unwrap();
    done(&client, &pieces(&client, &healthy.address, &back, false));
    assert!(bytes_of(&back) == bytes, "bytes differ at the survivor");
    drop((lost, kept));
    nothing_left(&client, [from, back]);
}

/// The same for reading, with the default pipeline and everything in flight at once: requests end as gone, never as
/// done with wrong bytes, and what comes next finds the peer gone without waiting for a deadline.
#[test]
fn killed_while_it_is_read() {
    let mut node = Node::target("64MiB", &[]);
    let client = engine(THROTTLE);
    let bytes = pattern(15, 64 << 20);
    let source = region_of(&client, &bytes);
    done(&client, &pieces(&client, &node.address, &source, true));
    let to = client.allocate(64 * MIB).unwrap();
    let reads = pieces(&client, &node.address, &to, false);
    let batch = client.submit(&reads, Options::default()).unwrap();
    until("some are there", || finished(&batch) >= 5);
    node.crash();
    let killed = Instant::now();
    batch.wait(PATIENCE).expect("an end");
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    let there = bytes_of(&to);
    for (i, why) in reasons(&batch).iter().enumerate() {
        let range = i << 20..(i + 1) << 20;
        match why {
            None => assert!(there[range.clone()] == bytes[range], "request {i} is done with wrong bytes"),
            Some(reason) => assert!(gone(*reason, false), "{reason:?}"),
        }
    }
    drop(batch);
    let again = Instant::now();
    let late = client.submit(&reads[..1], Options::default()).unwrap();
    late.wait(PATIENCE).expect("an end");
    assert_eq!(reasons(&late), [Some(Reason::PeerGone)]);
    assert!(again.elapsed() < Duration::from_secs(10), "{:?}", again.elapsed());
    drop(late);
    nothing_left(&client, [source, to]);
}

/// A hundred small batches in flight from eight threads when the target dies: each batch ends once, every waiter
/// wakes, and nothing is left.
#[test]
fn every_waiter_wakes() {
    let mut node = Node::target("1MiB", &[]);
    let client = engine(&[]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let from = client.allocate(1 << 20).unwrap();
    let ended = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for t in 0..8_u64 {
            let (client, kv, from, ended) = (&client, &kv, &from, &ended);
            scope.spawn(move || {
                loop {
                    let request = Request::write(from, t << 16, kv.at(t << 16), 1 << 16);
                    let batch = client.submit_wait(&[request], Options::default(), PATIENCE).unwrap();
                    let summary = batch.wait(PATIENCE).expect("every waiter wakes");
                    ended.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if !summary.is_done() {
                        assert!(gone(reasons(&batch)[0].unwrap(), true), "{:?}", reasons(&batch));
                        return;
                    }
                }
            });
        }
        until("they run", || ended.load(std::sync::atomic::Ordering::Relaxed) > 100);
        node.crash();
    });
    nothing_left(&client, [from]);
}
