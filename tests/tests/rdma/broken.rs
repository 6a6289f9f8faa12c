//! One path that breaks and is mended while a segment is written over it: everything comes to a good end, once, and every byte is
//! there. What soft-RoCE does under these faults differs from try to try and from kernel to kernel; the outcome must not.

use std::time::{Duration, Instant};

use crate::pair::Pair;
use crate::wire::{End, Wire};

/// Longer than any grace for a port that is down, so that links die of it.
const OUTAGE: Duration = Duration::from_millis(1500);
/// Shorter than it.
const FLAP: Duration = Duration::from_millis(100);

/// A fault of so long.
fn out(wire: &Wire, end: End, long: Duration) {
    wire.cut(end);
    std::thread::sleep(long);
    wire.join(end);
}

/// The cable of the peer's device is pulled for a while, and the device itself is taken down: both end the links to it, and
/// when it is back the rest gets there.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn the_port_of_the_peer() {
    let pair = Pair::new(&[0], &[1], 4);
    let wire = Wire::of(1);
    for end in [End::Switch, End::Own] {
        let begin = Instant::now();
        pair.written_while(|| out(&wire, end, OUTAGE));
        println!(
            "measured: peer's port down for {OUTAGE:?} ({end:?} end): all written after {:?}",
            begin.elapsed()
        );
    }
    pair.nothing_lost();
}

/// Our own device goes down in the middle of a stream. It then completes what is posted with an error, or not at all: the
/// one as well as the other ends in links that are let go of, and when it is back the rest gets there. Several times,
/// because which of the two it does is chance; the reads as well as the writes.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn our_own_port() {
    let pair = Pair::new(&[0], &[1], 4);
    let wire = Wire::of(0);
    for _ in 0..3 {
        let begin = Instant::now();
        pair.written_while(|| out(&wire, End::Own, OUTAGE));
        println!("measured: own port down for {OUTAGE:?}: all written after {:?}", begin.elapsed());
    }
    pair.read_while(|| out(&wire, End::Own, OUTAGE));
    pair.nothing_lost();
}

/// A flap of 100 ms is no error, whichever end it was. Of a pulled cable not even a slice is sent again: it is within the grace,
/// and the NIC sends again by itself. Soft-RoCE that is taken down itself may fail what is posted at once, and what failed is
/// sent again. A try in which the machine made more of it than a flap does not count.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_flap() {
    let pair = Pair::new(&[0], &[1], 4);
    for (whose, end) in [(0, End::Switch), (1, End::Switch), (0, End::Own)] {
        let wire = Wire::of(whose);
        let short = |_: &u32| {
            let (before, mut was) = (pair.retried(), Duration::ZERO);
            pair.written_while(|| {
                let begin = Instant::now();
                out(&wire, end, FLAP);
                was = begin.elapsed();
            });
            let again = pair.retried() - before;
            println!("measured: a flap of {was:?} (device {whose}, {end:?} end): {again} slices sent again");
            let counts = was < 2 * FLAP;
            assert!(!counts || end == End::Own || again == 0, "a flap of {was:?} is an error");
            counts
        };
        assert!((0..10).any(|i| short(&i)), "this machine cannot flap for {FLAP:?}");
    }
    pair.nothing_lost();
}

/// The address of a device is taken away, and its GID with it, and given back: ours, and the peer's. Links of the old GID die,
/// those after it are made with the GID that there is then.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn an_address_goes_and_comes() {
    let pair = Pair::new(&[0], &[1], 4);
    for whose in [0, 1] {
        let mut wire = Wire::of(whose);
        let begin = Instant::now();
        pair.written_while(|| {
            wire.take_address();
            std::thread::sleep(OUTAGE);
            wire.give_address();
        });
        println!("measured: address of {whose} gone for {OUTAGE:?}: all written after {:?}", begin.elapsed());
    }
    pair.nothing_lost();
}

/// One packet in a hundred is lost, and one in five: slower, and nothing else.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn packets_are_lost() {
    for (percent, mib) in [(1, 4), (20, 1)] {
        let pair = Pair::new(&[0], &[1], mib);
        let mut wire = Wire::of(1);
        wire.lose(percent);
        let begin = Instant::now();
        pair.written();
        println!("measured: {mib} MiB with {percent} % loss in {:?}", begin.elapsed());
        wire.mend();
        pair.nothing_lost();
    }
}
