//! Four devices, two a side: what one of them carried is carried by the others when it is gone, and it returns when it is back.
//! Who sent how much is the kernel's count of each device, not ours.

use std::time::{Duration, Instant};

use pipeline_node::{Options, Request};

use crate::pair::{LONG, PIECE, Pair};
use crate::wire::{End, Wire};

/// Less than this within a load is no payload: ARP, neighbours, and the beginnings of links.
const NOISE: u64 = 100_000;

fn both() -> [Wire; 2] {
    [Wire::of(0), Wire::of(1)]
}

/// What each of our devices sent meanwhile.
fn sent<T>(wires: &[Wire; 2], during: impl FnOnce() -> T) -> ([u64; 2], T) {
    let before = wires.each_ref().map(Wire::sent);
    let result = during();
    let after = wires.each_ref().map(Wire::sent);
    ([after[0] - before[0], after[1] - before[1]], result)
}

/// Writes the segment until a device carries its part again.
#[track_caller]
fn until_it_carries(pair: &Pair, wires: &[Wire; 2], which: usize) -> Duration {
    let begin = Instant::now();
    while sent(wires, || pair.written_while(|| {})).0[which] < 10 * NOISE {
        assert!(begin.elapsed() < LONG, "device {which} never returns");
    }
    begin.elapsed()
}

/// B35: what two equal NICs carry of a load is equal, within a fifth.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn each_carries_its_part() {
    let pair = Pair::new(&[0, 1], &[2, 3], 8);
    let wires = both();
    pair.written_while(|| {});
    let (sent, ()) = sent(&wires, || pair.written_while(|| {}));
    println!("measured: of 8 MiB, devices sent {sent:?}");
    let half = sent.iter().sum::<u64>() / 2;
    assert!(half > 4 << 20, "{sent:?}: less than was written");
    assert!(sent.iter().all(|bytes| bytes.abs_diff(half) * 5 < half), "{sent:?}");
    pair.nothing_lost();
}

/// One of two local devices goes down in the middle of a batch, and stays down: the batch completes by the other one. When
/// the device is back it carries its part again, after it has rested.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn the_rest_carry_the_load() {
    let pair = Pair::new(&[0, 1], &[2, 3], 8);
    let wires = both();
    until_it_carries(&pair, &wires, 0);
    let begin = Instant::now();
    pair.written_while(|| wires[0].cut(End::Own));
    println!("measured: own NIC down in the middle of 8 MiB: all written after {:?}", begin.elapsed());
    let (sent, ()) = sent(&wires, || pair.written_while(|| {}));
    assert!(sent[0] < NOISE && sent[1] > 8 << 20, "{sent:?}: one is down");
    wires[0].join(End::Own);
    wires[0].is_back();
    let returned = until_it_carries(&pair, &wires, 0);
    println!("measured: a NIC that is back carries again after {returned:?}");
    pair.nothing_lost();
}

/// The same with one of the peer's devices.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_device_of_the_peer() {
    let pair = Pair::new(&[0, 1], &[2, 3], 8);
    let theirs = Wire::of(2);
    pair.written_while(|| {});
    let begin = Instant::now();
    pair.written_while(|| theirs.cut(End::Switch));
    println!("measured: peer's NIC down in the middle of 8 MiB: all written after {:?}", begin.elapsed());
    // Nothing of ours is at fault: both of our devices go on, to the one that is left.
    let (sent, ()) = sent(&both(), || pair.written_while(|| {}));
    println!("measured: with one of the peer's NICs left, devices sent {sent:?}");
    theirs.join(End::Switch);
    theirs.is_back();
    pair.written_while(|| {});
    pair.nothing_lost();
}

/// B36: the address of our first NIC is taken away in the middle of a load and given back after five seconds. Everything
/// goes by the other one meanwhile, no request fails then nor when it returns, and return it does.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_local_failure_is_no_fault_of_the_peer() {
    let pair = Pair::new(&[0, 1], &[2, 3], 8);
    let mut first = Wire::of(0);
    let wires = both();
    until_it_carries(&pair, &wires, 0);
    pair.written_while(|| first.take_address());
    let gone = Instant::now();
    while gone.elapsed() < Duration::from_secs(5) {
        let (sent, ()) = sent(&wires, || pair.written_while(|| {}));
        assert!(sent[0] < NOISE && sent[1] > 8 << 20, "{sent:?}: the first has no address");
    }
    first.give_address();
    let returned = until_it_carries(&pair, &wires, 0);
    println!("measured: a NIC whose address is back carries again after {returned:?}");
    pair.nothing_lost();
}

/// How long the slowest request takes while a device is lost, one request at a time: what was on its way by that device ends by
/// another one, and this is the time to its first byte there and its end.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn time_to_the_new_path() {
    let pair = Pair::new(&[0, 1], &[2, 3], 1);
    let faults: [(&str, usize, End); 3] =
        [("own port", 0, End::Own), ("own cable", 0, End::Switch), ("peer's cable", 2, End::Switch)];
    for (name, index, end) in faults {
        let (wires, wire) = (both(), Wire::of(index));
        until_it_carries(&pair, &wires, 0);
        let options = || Options { deadline: Some(LONG), ..Options::default() };
        let one = |i: u64| {
            let pieces = pair.pieces(None);
            let piece: &Request = &pieces[(i % (pieces.len() as u64)) as usize];
            let begin = Instant::now();
            let batch = pair.client.submit_wait(std::slice::from_ref(piece), options(), LONG).unwrap();
            assert!(batch.wait(LONG).expect("an end").is_done(), "a request of {PIECE} bytes");
            begin.elapsed()
        };
        let usual = (0..20).map(one).max().unwrap();
        wire.cut(end);
        let slowest = (0..40).map(one).max().unwrap();
        println!("measured: {name} down: the slowest request took {slowest:?}, before it {usual:?}");
        assert!(slowest < Duration::from_secs(10), "{name}: {slowest:?}");
        wire.join(end);
        wire.is_back();
    }
    pair.nothing_lost();
}
