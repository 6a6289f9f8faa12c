//! The seven threading models of `configs/models/`, each proved by what can be observed of it: the shipped files themselves,
//! on real engines. Overridden are only ports, sizes, and the transport where a test needs a simulated wire.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod adaptive_polling;
mod equivalence;
mod event_driven;
mod files;
mod mooncake_like;
mod page;
mod pipeline;
mod program;
#[allow(dead_code, reason = "another test program uses the rest of it")]
#[path = "../engine/rig.rs"]
mod rig;
mod run_to_completion;
mod submit_then_poll;
mod thread_per_core;
mod threads;
mod zero_copy_dma;
