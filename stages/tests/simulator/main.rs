//! Two whole nodes under a simulated clock, stepped in an order that a seed draws: random programs, requests,
//! deadlines, cancels, links that die and stages that panic. What must hold for every seed is in `story`.
//!
//! `SIM_SEED=n` replays one seed and prints what happens; `SIM_SEEDS=n` runs so many instead of a few.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod genes;
mod node;
#[path = "../rig/mod.rs"]
mod rig;
mod story;

use rig::trip::TRIPPED;
use story::{Story, Told};

/// What panics in a stage is meant to, and need not be told; what panics here says which seed.
fn hush() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<String>().is_none_or(|what| what != TRIPPED) {
            usual(info);
        }
    }));
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|n| n.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// For every seed: each accepted batch ends once and in time, its statuses match the bytes at the destinations, what
/// has ended changes nothing any more, all slots, windows and pins come back, no worker sleeps beside work, and both
/// nodes drain.
#[test]
fn every_seed() {
    if let Some(seed) = number("SIM_SEED") {
        eprintln!("{:?}", Story::new(seed, true).run());
        return;
    }
    hush();
    let first = number("SIM_FIRST").unwrap_or(1);
    let mut all = Told::default();
    for seed in first..first + number("SIM_SEEDS").unwrap_or(40) {
        let told = Story::new(seed, false).run();
        all.steps += told.steps;
        all.done += told.done;
        all.failed += told.failed;
        all.panics += told.panics;
        all.late_ns = all.late_ns.max(told.late_ns);
    }
    eprintln!("{all:?}");
    assert!(all.done > 0 && all.failed > 0 && all.panics > 0, "nothing happened: {all:?}");
}

/// A seed means the same each time: what it found can be looked at again.
#[test]
fn a_seed_replays() {
    for seed in [3, 7, 11] {
        assert_eq!(Story::new(seed, false).run(), Story::new(seed, false).run(), "seed {seed}");
    }
}
