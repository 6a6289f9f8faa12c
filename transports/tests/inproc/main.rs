//! The transports of one process, put to the conformance suite, and what only they promise.

#![allow(clippy::unwrap_used, reason = "a test file")]

mod loopback;
mod pair;
mod sim;
mod suite;
