//! The domain: what a slice is, how a request is cut, routed, posted, reaped and told about.
//!
//! It knows requests, slices, peers and transports. It deliberately does not know threads, queues or TOML:
//! the graph gives it batches of keys, the catalogue gives it typed values.

pub mod batch;
pub mod client;
pub mod control;
pub mod files;
pub mod key;
pub mod ledger;
mod list;
pub mod mail;
pub mod peer;
pub mod peers;
mod posted;
pub mod reason;
pub mod request;
pub mod seats;
pub mod segments;
#[cfg(test)]
mod testing;
mod wheel;
pub mod window;
pub mod world;

pub use batch::{Batch, Status};
pub use client::{Client, Inlet, SubmitError};
pub use key::Key;
pub use ledger::Summary;
pub use reason::{Failure, Reason};
pub use request::{Options, Remote, Request};
pub use world::World;
