//! Typed errors of this crate. Each names the peer or the region and says what to do next.

use crate::memory::RegionId;

/// What can go wrong outside the data path. (On it, a completion carries an [`crate::wr::Outcome`].)
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A length of zero, a wrap-around, an impossible alignment.
    #[error("bad argument: {0}")]
    BadArgument(String),
    /// A table is full.
    #[error("limit reached: {what} allows {limit}; raise `limits.{what}` or give some back")]
    Limit {
        /// Key under `[limits]`.
        what: &'static str,
        /// Its value.
        limit: u64,
    },
    /// The new region overlaps a live one.
    #[error("memory overlaps region {0:?}; unregister that one first")]
    Overlap(RegionId),
    /// No such region, or an old generation of it.
    #[error("region {0:?} is not registered (any more)")]
    NotRegistered(RegionId),
    /// In use: transfers are in flight or a peer is accessing it.
    #[error("region {0:?} is busy: {1}; wait for the transfers to end and try again")]
    Busy(RegionId, &'static str),
    /// The peer cannot be reached.
    #[error("peer {peer} cannot be reached: {reason}")]
    Unreachable {
        /// Name or address.
        peer: String,
        /// The last reason.
        reason: String,
    },
    /// This process or this machine has no more of what a connection needs. Says nothing about the peer.
    #[error("cannot connect to {peer}: {what} ({source}); {help}")]
    Exhausted {
        /// Name or address.
        peer: String,
        /// What is short.
        what: &'static str,
        /// How to get more of it.
        help: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A NIC of this side cannot be used now. Says nothing about the peer.
    #[error("NIC {nic} cannot be used: {reason}")]
    LocalNic {
        /// Its name.
        nic: String,
        /// Its port is down, it has no address, its device refused …, and what to do.
        reason: String,
    },
    /// Something that a transport stands on is not on this machine.
    #[error("transport `{transport}` cannot work here: {what}")]
    Missing {
        /// Its type.
        transport: &'static str,
        /// What is missing, and how to get it.
        what: String,
    },
    /// A device would not take memory. Nothing of the region stays registered, with no device.
    #[error("NIC {nic} would not register {len} bytes of a region of {region_len} bytes: {source}; {help}")]
    NotRegisterable {
        /// Name of the NIC.
        nic: String,
        /// Bytes of the registration that was refused: a region longer than the device's limit is registered in pieces.
        len: u64,
        /// Bytes of the region.
        region_len: u64,
        /// What to do.
        help: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A NIC does not reach the memory of a GPU.
    #[error(
        "NIC {nic} does not reach memory of cuda:{gpu} ({why}); load the GPU driver's peer memory (modprobe nvidia_peermem), or use a kernel (5.12 or later) and drivers that share it as a dmabuf"
    )]
    GpuUnreachable {
        /// Name of the NIC.
        nic: String,
        /// Number of the GPU.
        gpu: u16,
        /// What was tried, and why it did not work.
        why: String,
    },
    /// A directory does not know a name. Nothing says that there is such a node; it may come yet.
    #[error("{place} knows no `{name}`; check the name, and whether that node runs and publishes there")]
    UnknownName {
        /// What was asked for.
        name: String,
        /// Which directory.
        place: String,
    },
    /// A directory does not answer, or not as it should. Says nothing about the peers in it.
    #[error(
        "{place} does not answer as it should: {reason}; peers that are known go on, others are found when it does"
    )]
    Directory {
        /// Which one, and where.
        place: String,
        /// The last reason.
        reason: String,
    },
    /// The peer refused us, or we it.
    #[error("peer {peer} refused: {reason}")]
    Refused {
        /// Name or address.
        peer: String,
        /// Wrong key, wrong version, wrong incarnation …
        reason: String,
    },
    /// The peer broke the protocol.
    #[error("peer {peer} broke the protocol: {reason}")]
    Protocol {
        /// Name or address.
        peer: String,
        /// What was wrong.
        reason: String,
    },
    /// The time given ran out.
    #[error("{what} with {peer} took longer than allowed")]
    Deadline {
        /// What was being done.
        what: &'static str,
        /// Name or address.
        peer: String,
    },
    /// The operating system said no.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with its object.
        what: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// This process was forked from the one whose engine this is.
    #[error(
        "not usable after fork: the engine's threads stayed in the parent; start a new engine in the child"
    )]
    Forked,
    /// This transport cannot do it.
    #[error("transport `{transport}` cannot {what}")]
    Unsupported {
        /// Its type.
        transport: &'static str,
        /// What was asked.
        what: &'static str,
    },
}
