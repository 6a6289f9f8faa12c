//! Pools of kind `stealing`: batches as jobs on other threads, with the outcomes of a stage that runs in place.
#![allow(clippy::unwrap_used)] // Whatever is missing here is a failed test.

mod gate;
mod jobs;
#[path = "../rig/mod.rs"]
mod rig;
mod threads;
mod traps;
mod trouble;
