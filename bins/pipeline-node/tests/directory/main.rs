//! Directories with real servers: ours, redis and (feature `etcd`) etcd, started by the tests on free ports with their data in
//! folders of their own. Where a server's program is not installed its tests say so in one line and do nothing.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod names;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/node.rs"]
mod node;
mod nodes;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/process.rs"]
mod process;
mod protocol;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../../tests/tests/engine/rig.rs"]
mod rig;
mod servers;
mod stores;
mod trouble;
mod without;
