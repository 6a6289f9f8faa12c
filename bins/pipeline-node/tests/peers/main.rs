//! Peers that are killed, frozen and restarted, as processes: what their partners see, and that nothing is lost.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod chaos;
mod fenced;
mod frozen;
mod killed;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/node.rs"]
mod node;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/process.rs"]
mod process;
mod restarted;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../../tests/tests/engine/rig.rs"]
mod rig;
mod stopping;
