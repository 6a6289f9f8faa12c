//! Transfers over RDMA verbs: the NIC moves the bytes, and the CPU of the target takes no part. `docs/rdma.md` says how to
//! run it.
//!
//! Deliberately no thread of its own and no library to start with: libibverbs is looked up when a file asks for this
//! transport, and what is missing then is said with what to install.

mod batch;
pub mod ceiling;
mod completion;
mod completion_queue;
mod connect;
mod device;
mod domain;
mod endpoint;
mod events;
pub(crate) mod foreign;
mod gid;
mod gpu;
mod graveyard;
mod health;
mod library;
mod link;
mod local_keys;
mod lookup;
mod missing;
mod nic_facts;
mod offer;
pub(crate) mod opening;
mod pieces;
mod places;
mod port;
mod post;
mod reap;
mod reaped;
mod region_keys;
mod registration;
mod remote_keys;
mod ring;
mod ring_loom;
mod settings;
mod sieve;
mod survey;
#[cfg(test)]
mod tests;
mod transport;

pub use gid::GidChoice;
pub use gpu::Reach;
pub use missing::Missing;
pub use settings::{Addresses, GpuMemory, Rails, RdmaNic, RdmaSettings, STALL_MIN};
pub use survey::{NicSeen, survey};
pub use transport::{KIND, RdmaTransport};
