//! What the listener of a node is told by strangers, liars and holders of other keys. The hand-made client is written
//! from `docs/wire.md` alone and shares no code with the product.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod announcements;
mod garbage;
mod keys;
mod lanes;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/node.rs"]
mod node;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/process.rs"]
mod process;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../../tests/tests/engine/rig.rs"]
mod rig;
mod wire;
