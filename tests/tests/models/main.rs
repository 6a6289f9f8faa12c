//! The seven threading models of `configs/models/`, each proved by what can be observed of it: the shipped files themselves,
//! on real engines. Overridden are only ports, sizes, and the transport where a test needs a simulated wire.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod page;
mod rig;
