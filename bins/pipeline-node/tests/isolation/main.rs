//! One stuck peer and one request of a terabyte cost the others nothing: with slack here, because tests share their machine;
//! `cargo bench -p pipeline-node --bench isolation` prints the figures.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod folded;
mod measure;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/node.rs"]
mod node;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../../tests/tests/engine/rig.rs"]
mod rig;

use measure::{Giant, To, frozen_neighbour, submission};

/// Submitting 150 000 requests costs about fifteen times as much as 10 000: nothing grows but their number.
#[test]
fn submissions_are_linear() {
    let (costs, ns) = submission(7);
    println!("{costs}, {ns:.0} ns a request");
    assert!(costs.floor <= 18.0, "{costs}");
}

/// A frozen peer, with its share of everything taken, does not slow another one down.
#[test]
fn a_frozen_neighbour_costs_nothing() {
    let beside = frozen_neighbour(5);
    println!("{beside}");
    assert!(beside.floor <= 1.5, "{beside}");
}

/// What 99 of 100 small requests may take here beside a terabyte, at the median of rounds. Without the engine's fairness
/// it was 252 ms to the same peer and minutes for reads; how much of the rest is the scheduler's only the bench can tell.
const STARVED_US: f64 = 150_000.0;

/// Requests of 4 KiB beside one of a terabyte are not starved, to another peer and to the same one, in both directions.
#[test]
fn a_terabyte_beside_small_requests() {
    let giant = Giant::new(&[]);
    println!("beside threads that count: {}", giant.beside_counting(2, 200));
    for to in [To::OtherPeer, To::SamePeer] {
        for write in [true, false] {
            let (beside, gb_per_s) = giant.beside(5, 200, to, write);
            println!("{to:?} write={write}: {beside}, {gb_per_s:.2} GB/s");
            assert!(beside.beside_us <= STARVED_US, "{to:?} write={write}: {beside}");
        }
    }
}
