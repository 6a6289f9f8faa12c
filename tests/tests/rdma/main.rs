//! RDMA between two nodes, over soft-RoCE devices: what is promised of every transport, and what happens when a network breaks.
//! Ignored by plain `cargo test`, because it needs four devices: `scripts/test rdma` runs it in the guest of `tests/rdma-vm`, one
//! test after the other, because all use the same ones. Verbs by themselves are tested in `transports/tests/rdma`.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod absent;
mod bed;
mod broken;
mod failover;
mod gone;
mod models;
mod mooncake;
mod node;
mod once;
mod pair;
#[allow(dead_code, reason = "another test program uses the rest of it")]
#[path = "../engine/rig.rs"]
mod rig;
#[allow(dead_code, reason = "another test program uses the rest of it")]
#[path = "../models/threads.rs"]
mod threads;
mod whole;
mod wire;
