//! Nodes that speak Mooncake's protocol to each other, over real sockets: both sides of it are of this engine here, so that
//! what control makes of such peers is seen without anybody else's program.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod dying;
mod nodes;
#[allow(dead_code, reason = "another test program uses the rest of it")]
#[path = "../engine/rig.rs"]
mod rig;

use pipeline_node::{Engine, Peer, Source};

/// What the file of a node here is called with.
const FILE: &str = "version = 1\nuse = \"tcp\"\nlimits.reconnect = \"20ms\"\nlimits.connect = \"2s\"\n\
    segments.kv = { kind = \"dram\", size = \"4MiB\", access = \"read_write\" }\n\
    transports.mooncake = { type = \"mooncake_tcp\" }\n";

/// A node that peers of both kinds find.
#[track_caller]
fn node(set: &[&str]) -> Engine {
    let source = Source::text("test", FILE).set(set.iter().copied());
    Engine::from_source(&source).unwrap_or_else(|e| panic!("{e}"))
}

/// How Mooncake peers name a node.
#[track_caller]
fn name(of: &Engine) -> String {
    format!("mooncake://{}", of.foreign_name("mooncake").expect("it listens"))
}

/// Opened as a Mooncake peer.
#[track_caller]
fn find(from: &Engine, to: &Engine) -> Peer {
    from.open(&name(to)).unwrap_or_else(|e| panic!("{e}"))
}
