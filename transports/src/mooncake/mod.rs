//! Mooncake's protocols, so that nodes of this engine and nodes that run its Transfer Engine read and write each other.
//!
//! Two ports a node: a *handshake port* where others ask what it has, leave notices, and look whether it lives
//! ([`handshake`], [`ask`]); and a *data port* where they read and write registered buffers by address ([`wire`]).
//! [`descriptor`] is what a node tells of itself. [`MooncakeTcp`] is all of it as a transport.
//!
//! Deliberately no session and no fence: their wire has none. Who can connect can read and write, as far as the access of
//! each region goes; so its listeners are on loopback unless a file says otherwise.

mod arrivals;
pub mod ask;
pub mod bodies;
mod buffers;
pub mod descriptor;
mod dial;
mod find;
mod hall;
pub mod handshake;
mod initiator;
pub mod keys;
mod lane;
mod listener;
pub mod name;
mod outgoing;
mod peers;
mod port;
mod post;
mod publish;
#[cfg(feature = "rdma")]
pub mod rdma;
mod reap;
mod region_names;
mod replies;
mod ring;
mod ring_loom;
mod serve;
mod serve_lane;
mod settings;
mod stamp;
mod target;
#[cfg(all(test, not(pipeline_loom)))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
mod throttle;
mod transport;
mod waking;
pub mod wire;

pub use find::MEMORY;
pub use settings::{Metadata, P2P, Settings, is_every_address};
pub use transport::{KIND, MooncakeTcp};

/// Bytes that one system call moves at most: a slice of the usual size goes with its header, and with some that are small.
const MOVE_BYTES: usize = (1 << 20) + (64 << 10);
