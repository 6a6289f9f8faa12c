//! What can go wrong between `open` and a peer. Each error names the peer and says what to do next.

use std::sync::Arc;

use pipeline_transports::control::{AddressError, ErrorCode};

/// Why control could not do what it was asked. Cheap to clone: many callers may wait for one attempt.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The listener cannot be had.
    #[error("cannot listen on {address}: {reason}")]
    Bind {
        /// `[node] listen`.
        address: String,
        /// The system's reason, and what to do.
        reason: String,
    },
    /// A listener of a transport that speaks to another engine cannot be had.
    #[error("transport `{transport}` cannot listen: {reason}")]
    Listen {
        /// Its name in the file.
        transport: String,
        /// What it said, with the address.
        reason: String,
    },
    /// The thread or its runtime cannot be had.
    #[error("the control thread cannot start: {0}")]
    Start(String),
    /// Not an address, and not a name under `[peers]`.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Names a peer that runs another engine, and no transport here speaks to it.
    #[error("`{label}` names no peer: {help}")]
    NoName {
        /// What was asked for.
        label: String,
        /// What is wrong with it, and what to write.
        help: String,
    },
    /// The peer runs another engine, which knows no such thing.
    #[error("peer {peer} runs another engine: it has no {what}")]
    Foreign {
        /// Name or address.
        peer: String,
        /// What was asked of it.
        what: &'static str,
    },
    /// The peer cannot be reached, or refused us: what the transports crate says.
    #[error(transparent)]
    Peer(Arc<pipeline_transports::Error>),
    /// The session with the peer ended while something waited for it.
    #[error("peer {peer} is gone: {reason}; open it again when it is back")]
    Gone {
        /// Name or address.
        peer: String,
        /// Why the session ended.
        reason: String,
    },
    /// The peer is there, and takes nothing new because it is about to stop.
    #[error("peer {peer} is leaving and takes nothing new; use another, or open it again when it is back")]
    Leaving {
        /// Name or address.
        peer: String,
    },
    /// The time given ran out.
    #[error("{what} peer {peer} took longer than allowed")]
    Deadline {
        /// What was being done.
        what: &'static str,
        /// Name or address.
        peer: String,
    },
    /// The two nodes have no transport in common, or ours has no `wr_post` stage.
    #[error(
        "no transport in common with peer {peer}: here {ours:?}, there {theirs:?}; declare one on both sides"
    )]
    NoTransport {
        /// Name or address.
        peer: String,
        /// Kinds of transports with a `wr_post` worker here.
        ours: Vec<String>,
        /// Kinds the peer offers.
        theirs: Vec<String>,
    },
    /// A table is full.
    #[error("limit reached: {what} allows {limit}; raise `limits.{what}`")]
    Limit {
        /// Key under `[limits]`.
        what: &'static str,
        /// Its value.
        limit: u64,
    },
    /// The peer answered with an error.
    #[error("peer {peer}: {text}")]
    Remote {
        /// Name or address.
        peer: String,
        /// What kind of error.
        code: ErrorCode,
        /// What it said.
        text: String,
    },
    /// The peer answered something else than was asked.
    #[error("peer {peer} broke the protocol: {reason}")]
    Protocol {
        /// Name or address.
        peer: String,
        /// What was wrong.
        reason: String,
    },
    /// Nobody knows this peer.
    #[error("no such peer; open it first")]
    UnknownPeer,
    /// The node stops.
    #[error("the node is stopping")]
    Closed,
}

impl Error {
    /// Whether this process or machine had no more of something (ports, descriptors), or its NIC cannot be used: it says
    /// nothing about the peer.
    pub fn is_local(&self) -> bool {
        use pipeline_transports::Error::Exhausted;
        self.is_of_nic() || matches!(self, Self::Peer(error) if matches!(**error, Exhausted { .. }))
    }

    /// Whether a NIC of this side is to blame.
    pub(super) fn is_of_nic(&self) -> bool {
        matches!(self, Self::Peer(error) if matches!(**error, pipeline_transports::Error::LocalNic { .. }))
    }
}

impl From<pipeline_transports::Error> for Error {
    fn from(error: pipeline_transports::Error) -> Self {
        Self::Peer(Arc::new(error))
    }
}
