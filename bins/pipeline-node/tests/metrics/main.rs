//! Metrics of a running node, as Prometheus gets them: what is said, to whom, how bounded; and that the board and the alerts
//! in `docs/grafana` speak of what is there.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod cardinality;
mod endpoint;
mod grafana;
mod http;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/node.rs"]
mod node;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/process.rs"]
mod process;
mod promtool;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../../tests/tests/engine/rig.rs"]
mod rig;
mod scrape;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../hostile/wire.rs"]
mod wire;
