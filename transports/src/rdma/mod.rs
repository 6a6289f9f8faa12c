//! Transfers over RDMA verbs: the NIC moves the bytes, and the CPU of the target takes no part. `docs/rdma.md` says how to
//! run it.
//!
//! Deliberately no thread of its own and no library to start with: libibverbs is looked up when a file asks for this
//! transport, and what is missing then is said with what to install.

// Until its transport lies on top.
#![allow(dead_code, reason = "parts that the transport, which comes next, is made of")]

mod device;
mod domain;
mod events;
mod gid;
mod library;
mod local_keys;
mod missing;
mod pieces;
mod port;
mod region_keys;
mod registration;
mod remote_keys;
mod settings;
#[cfg(test)]
mod tests;

pub use gid::GidChoice;
pub use missing::Missing;
pub use settings::{GpuMemory, Rails, RdmaNic, RdmaSettings, STALL_MIN};
