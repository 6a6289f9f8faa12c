//! Whole nodes with faults on demand: what one lost, late, doubled or failed thing costs, and what it does not.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod accounts;
#[allow(dead_code, reason = "another test program uses the rest of it")]
#[path = "../engine/audience.rs"]
mod audience;
mod child;
mod completions;
mod connecting;
mod delivery;
mod elsewhere;
mod elsewhere_notices;
mod notices;
mod notices_cut;
mod one_sided;
mod panics;
mod proxy;
mod registering;
#[allow(dead_code, reason = "another test program uses the rest of it")]
#[path = "../engine/rig.rs"]
mod rig;
mod runs;

use pipeline_node::faults::{self, Plan};
use pipeline_node::{Engine, Source};

/// An engine of the preset `tcp` with overrides, with a plan.
#[track_caller]
fn faulty(plan: &Plan, set: &[&str]) -> Engine {
    let source = Source::text("test", "version = 1\nuse = \"tcp\"\n").set(set.iter().copied());
    faults::start(&source, plan).unwrap_or_else(|e| panic!("{e}"))
}
