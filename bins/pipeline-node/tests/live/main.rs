//! A running node is asked: over its admin socket, by `show` and `explain`, and by those who mean no good; and what it says
//! limits it is what does.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod asked;
mod hostile;
mod limits;
mod load;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/node.rs"]
mod node;
mod places;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../../tests/tests/engine/rig.rs"]
mod rig;
