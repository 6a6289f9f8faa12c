//! The Mooncake transport as an initiator, over real sockets: against targets that a test plays itself, byte by byte, and
//! against the transport's own target.

#![allow(clippy::unwrap_used, reason = "tests")]

mod answers;
mod conformance;
mod finding;
mod rig;
mod server;
mod silent;
mod taking_back;
mod transfer;
