//! The domain: what a slice is, how a request is cut, routed, posted, reaped and told about.
//!
//! It knows requests, slices, peers and transports. It deliberately does not know threads, queues or TOML:
//! the graph gives it batches of keys, the catalogue gives it typed values.

mod admit;
mod arming;
pub mod batch;
mod callbacks;
pub mod catalog;
pub mod checksum;
pub mod client;
mod completion_notify;
pub mod control;
mod cq_reap;
pub mod delivery;
pub mod explain;
pub mod faults;
mod feed;
pub mod fence;
pub mod files;
mod holding;
pub mod key;
mod leading;
pub mod ledger;
mod links;
mod list;
pub mod mail;
mod nic_select;
pub mod notices;
pub mod peer;
pub mod peer_events;
pub mod peers;
mod posted;
mod preference;
mod protocol_route;
mod read_back;
pub mod reason;
pub mod request;
mod request_split;
mod retry;
pub mod seats;
pub mod segments;
mod serve;
mod spec;
mod stays;
mod sync;
#[cfg(test)]
mod testing;
pub mod topology;
pub mod traffic;
mod wheel;
pub mod window;
pub mod world;
mod wr_post;

pub use batch::{Batch, Status, WaitError};
pub use callbacks::OnDoneError;
pub use client::{Client, Inlet, Pick, PrepareError, Prepared, SubmitError};
pub use delivery::{AwaitError, DescriptorError, Doorbell, WhenDone};
pub use feed::ListenError;
pub use key::Key;
pub use ledger::Summary;
pub use pipeline_configs::Location;
pub use reason::{Failure, Reason};
pub use request::{Options, Remote, Request};
pub use world::World;
