//! Bytes to a peer, and where peers are found.
//!
//! It knows registered memory, work requests, links and wires. It deliberately does not know graphs,
//! stages, pools or TOML; the word "slice" does not occur: a work request carries an opaque [`wr::WrId`].

pub mod caps;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod control;
mod deadline;
pub mod directory;
pub mod error;
pub mod exhausted;
mod fault;
#[cfg(feature = "faults")]
pub mod faults;
pub mod foreign;
mod inproc;
pub mod interfaces;
mod life;
pub mod link;
pub mod loopback;
pub mod memory;
pub mod mooncake;
#[cfg(feature = "rdma")]
pub mod rdma;
mod resting;
pub mod sim;
pub mod spread;
mod stall;
mod sync;
pub mod tcp;
pub mod transport;
pub mod wr;

pub use caps::{Caps, Mover};
pub use clock::Nanos;
pub use error::Error;
pub use link::{
    Arming, Cancelled, Flushed, Halves, Link, LinkEnd, LinkId, Post, Posted, Reap, Serve, Served, Waker,
    Wakes,
};
pub use memory::{Access, Memory, Region, RegionId, Regions};
pub use spread::{InTurn, Spread};
pub use transport::{Asking, Incoming, NicFacts, NicId, Offer, PairId, Path, Staged, Transport};
pub use wr::{Blame, Completion, Completions, Op, Outcome, Refusal, Span, WorkRequest, WrId};
