//! Whole nodes over several NICs: how bytes are shared out among them, and what the failure of one costs. On addresses of the
//! loopback network anywhere, and over wires of network namespaces of their own where those can be had; tests that need them
//! say so otherwise and do nothing.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod accounts;
mod failures;
mod hosts;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../bins/pipeline-node/tests/network/namespace.rs"]
mod namespace;
#[allow(dead_code, reason = "another test program uses the rest of it")]
#[path = "../engine/rig.rs"]
mod rig;
mod wires;
