//! Networks that break and systems that run out: in private network namespaces, so that nobody else's is touched. Where
//! user namespaces are not allowed the tests say so and do nothing.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod addresses;
mod descriptors;
mod fanout;
#[allow(dead_code, reason = "each test program uses some of it")]
mod namespace;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/node.rs"]
mod node;
mod ports;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/process.rs"]
mod process;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../../tests/tests/engine/rig.rs"]
mod rig;
mod vanished;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../hostile/wire.rs"]
mod wire;
