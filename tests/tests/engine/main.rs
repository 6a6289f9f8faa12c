//! Two engines in one process over real sockets: memory, addresses, sizes, and every way to lay out the threads.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod addresses;
mod audience;
mod batches;
mod callbacks;
mod callers;
mod checks;
mod delivery;
mod descriptors;
mod layouts;
mod lifetime;
mod many_regions;
mod overlaps;
mod prepared;
mod pulls;
mod regions;
#[allow(dead_code, reason = "another test program uses the rest of it")]
mod rig;
mod rounds;
mod seams;
mod waiting;
mod whole;
