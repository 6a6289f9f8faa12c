//! The built program, as a user runs it: what it prints, what it leaves, how it ends.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod bench;
mod compare;
mod config;
mod copy;
mod dead_peers;
mod explain;
mod fanout;
mod generations;
mod import_mooncake;
mod interrupted;
mod mooncake;
#[allow(dead_code, reason = "each test program uses some of it")]
mod node;
mod odd_files;
mod ports;
#[allow(dead_code, reason = "each test program uses some of it")]
mod process;
mod record;
mod resume;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../../tests/tests/engine/rig.rs"]
mod rig;
mod run;
mod trace;
mod tune;
mod validate;
mod zeros;
