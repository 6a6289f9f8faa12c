//! A peer that is alive but does nothing (SIGSTOP): what waits, what ends at its deadline, what is never touched
//! afterwards (B25, B16).

use std::time::{Duration, Instant};

use pipeline_node::{Options, Reason, Region, Request, WaitError};
use rustix::process::Signal;

use crate::node::Node;
use crate::rig::{PATIENCE, bytes_of, done, engine, nothing_left, pattern, reasons, region_of, until};

const MIB: u64 = 1 << 20;

fn within(deadline: Duration) -> Options {
    Options { deadline: Some(deadline), ..Options::default() }
}

/// B25: with its target frozen a write of 4 KiB is pending for two seconds, though the kernel has taken its bytes; it is
/// done once the target goes on, and its bytes are there.
#[test]
fn pending_while_frozen_and_done_after() {
    let node = Node::target("1MiB", &[]);
    let client = engine(&[]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let bytes = pattern(25, 4096);
    let (from, to) = (region_of(&client, &bytes), client.allocate(4096).unwrap());
    done(&client, &[Request::write(&to, 0, kv.at(0), 4096)]);
    node.freeze();
    let batch = client.submit(&[Request::write(&from, 0, kv.at(0), 4096)], within(PATIENCE)).unwrap();
    assert_eq!(
        batch.wait(Duration::from_secs(2)),
        Err(WaitError::Timeout),
        "done, and nobody has applied it"
    );
    node.signal(Signal::CONT);
    assert!(batch.wait(PATIENCE).expect("it goes on").is_done());
    done(&client, &[Request::read(&to, 0, kv.at(0), 4096)]);
    assert_eq!(bytes_of(&to), bytes);
    drop(batch);
    nothing_left(&client, [from, to]);
}

/// Tries until it is not busy any more.
#[track_caller]
fn unregister(engine: &pipeline_node::Engine, region: Region) {
    let mut region = Some(region);
    until("not busy any more", || match engine.unregister(region.take().unwrap()) {
        Ok(_) => true,
        Err((back, error)) => {
            assert!(error.to_string().contains("busy") || error.to_string().contains("in use"), "{error}");
            region = Some(back);
            false
        }
    });
}

/// Deadlines on a frozen peer: a WRITE that had begun ends `Undetermined`, a READ ends `Deadline`, both close to their
/// time and not before. A neighbour is served meanwhile. The buffers are the caller's again: when the peer goes on,
/// not a byte of the READ comes late. The peer works again without being opened again.
#[test]
fn deadlines_hold_and_nothing_comes_late() {
    let (node, neighbour) = (Node::target("16MiB", &[]), Node::target("1MiB", &[]));
    let client = engine(&["stages.split.slice='256KiB'"]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let beside = client.open(&neighbour.address).unwrap().segment("kv").unwrap();
    let stored = pattern(16, 16 << 20);
    let (source, into) = (region_of(&client, &stored), client.allocate(8 * MIB).unwrap());
    done(&client, &[Request::write(&source, 0, kv.at(0), 16 * MIB)]);
    into.write(0, &vec![0xC5; 8 << 20]).unwrap();

    node.freeze();
    let begin = Instant::now();
    let write = client
        .submit(&[Request::write(&source, 0, kv.at(0), 4 * MIB)], within(Duration::from_secs(1)))
        .unwrap();
    let read =
        client.submit(&[Request::read(&into, 0, kv.at(0), 8 * MIB)], within(Duration::from_secs(1))).unwrap();
    let mut slowest = Duration::ZERO;
    while write.poll().is_none() || read.poll().is_none() {
        let begun = Instant::now();
        done(&client, &[Request::write(&source, 0, beside.at(0), MIB)]);
        slowest = slowest.max(begun.elapsed());
        assert!(begin.elapsed() < PATIENCE, "no end: {:?} {:?}", write.poll(), read.poll());
    }
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(3), "{took:?}");
    assert!(slowest < Duration::from_millis(900), "the neighbour waited {slowest:?}");
    assert_eq!(reasons(&write), [Some(Reason::Undetermined)]);
    assert_eq!(reasons(&read), [Some(Reason::Deadline)]);
    drop((write, read));
    unregister(&client, source);
    into.write(0, &vec![0xA5; 8 << 20]).expect("nobody of ours touches it");

    node.signal(Signal::CONT);
    let back = client.allocate(MIB).unwrap();
    until("it serves again", || {
        let again = client.submit(&[Request::read(&back, 0, kv.at(8 * MIB), MIB)], within(PATIENCE)).unwrap();
        again.wait(PATIENCE).expect("an end").is_done()
    });
    assert!(bytes_of(&back) == stored[8 << 20..9 << 20], "what nobody wrote has changed");
    assert!(bytes_of(&into).iter().all(|b| *b == 0xA5), "bytes came after the deadline");
    unregister(&client, into);
    nothing_left(&client, [back]);
}

/// One frozen peer with more work than fits the window, and one that is well: the second gets all it wants, although
/// the first has filled its share (B18).
#[test]
fn a_frozen_peer_costs_only_itself() {
    let (frozen, well) = (Node::target("64MiB", &[]), Node::target("64MiB", &[]));
    let client =
        engine(&["limits.bytes_in_flight='8MiB'", "limits.slices=1024", "stages.split.slice='64KiB'"]);
    let [stuck, fine] = [&frozen, &well].map(|n| client.open(&n.address).unwrap().segment("kv").unwrap());
    let from = client.allocate(64 * MIB).unwrap();
    frozen.freeze();
    let to = |segment: &pipeline_node::Segment| -> Vec<_> {
        (0..1000).map(|i| Request::write(&from, i << 16, segment.at(i << 16), 1 << 16)).collect()
    };
    let lost = client.submit(&to(&stuck), within(Duration::from_secs(3))).unwrap();
    let begin = Instant::now();
    done(&client, &to(&fine));
    let took = begin.elapsed();
    assert!(lost.poll().is_none(), "the frozen one ended first, after {took:?}");
    lost.wait(PATIENCE).expect("its deadline ends it");
    let whys = reasons(&lost);
    assert!(whys.iter().all(|r| matches!(r, Some(Reason::Deadline | Reason::Undetermined))), "{whys:?}");
    let undetermined = whys.iter().filter(|r| **r == Some(Reason::Undetermined)).count();
    assert!(undetermined < 1000, "what never left is not undetermined");
    frozen.signal(Signal::CONT);
    drop(lost);
    nothing_left(&client, [from]);
}

/// Cancel on a frozen peer ends a batch at once, not at its deadline.
#[test]
fn cancel_does_not_wait_for_a_frozen_peer() {
    let node = Node::target("16MiB", &[]);
    let client = engine(&[]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let region = client.allocate(16 * MIB).unwrap();
    done(&client, &[Request::write(&region, 0, kv.at(0), 16 * MIB)]);
    node.freeze();
    let write = client.submit(&[Request::write(&region, 0, kv.at(0), 8 * MIB)], within(PATIENCE)).unwrap();
    let read =
        client.submit(&[Request::read(&region, 8 * MIB, kv.at(0), 8 * MIB)], within(PATIENCE)).unwrap();
    assert_eq!(write.wait(Duration::from_millis(100)), Err(WaitError::Timeout));
    let begin = Instant::now();
    write.cancel();
    read.cancel();
    write.wait(PATIENCE).expect("an end");
    read.wait(PATIENCE).expect("an end");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(
        matches!(reasons(&write)[..], [Some(Reason::Undetermined | Reason::Cancelled)]),
        "{:?}",
        reasons(&write)
    );
    assert_eq!(reasons(&read), [Some(Reason::Cancelled)]);
    node.signal(Signal::CONT);
    drop((write, read));
    nothing_left(&client, [region]);
}

/// A pool a stage, so that a cancel meets slices at every place between two threads.
pub const POOL_A_STAGE: &[&str] = &[
    "pools.a={ threads=1, wait='park' }",
    "pools.b={ threads=1, wait='park' }",
    "pools.c={ threads=1, wait='park' }",
    "pools.d={ threads=1, wait='park' }",
    "stages.split.pool='a'",
    "stages.route.pool='b'",
    "stages.select.pool='c'",
    "stages.retry.pool='d'",
    "edges.'admit -> split'={ queue=4 }",
    "edges.'split -> route'={ queue=4 }",
    "edges.'route -> select'={ queue=4 }",
    "edges.'*.retry -> retry'={ queue=4 }",
];

/// Batches that are cancelled at any moment of their way, to a peer that is frozen, all end soon and long before their
/// deadline, whatever the layout: a cancel is never overlooked.
#[test]
fn cancels_are_never_overlooked() {
    for layout in [&[][..], POOL_A_STAGE] {
        let node = Node::target("1MiB", &[]);
        let client =
            engine(&[&["limits.bytes_in_flight='256KiB'", "stages.split.slice='4KiB'"], layout].concat());
        let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
        let region = client.allocate(MIB).unwrap();
        done(&client, &[Request::write(&region, 0, kv.at(0), MIB)]);
        node.freeze();
        let mut batches = Vec::new();
        for i in 0..300_u64 {
            let request = match i % 3 {
                0 => Request::read(&region, 0, kv.at(0), 16 << 10),
                _ => Request::write(&region, 0, kv.at(0), 16 << 10),
            };
            let batch = client.submit_wait(&[request], within(Duration::from_secs(60)), PATIENCE).unwrap();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(i % 40 * 5) {
                std::hint::spin_loop();
            }
            batch.cancel();
            batches.push(batch);
        }
        let begin = Instant::now();
        for (i, batch) in batches.iter().enumerate() {
            batch.wait(Duration::from_secs(20)).unwrap_or_else(|_| panic!("cancel {i} was overlooked"));
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        node.signal(Signal::CONT);
        drop(batches);
        nothing_left(&client, [region]);
    }
}
