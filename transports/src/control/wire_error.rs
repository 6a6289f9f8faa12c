//! What can be wrong with control bytes. Deliberately without the peer's name: the caller knows it.

use crate::error::Error;

/// Why bytes were not accepted, or not sent.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Not our protocol.
    #[error("the first bytes are {0:02x?}, not those of pipeline-node; check address and port")]
    Magic([u8; 4]),
    /// Another version of it.
    #[error("protocol version {theirs} there, {ours} here; run releases of the same version on both sides")]
    Version {
        /// This side.
        ours: u16,
        /// The other side.
        theirs: u16,
    },
    /// Larger than the protocol allows; refused before anything was allocated for it.
    #[error("{what} of {got} bytes announced; at most {limit} are allowed")]
    TooLong {
        /// The thing.
        what: &'static str,
        /// Its length.
        got: u64,
        /// The bound.
        limit: u64,
    },
    /// Cut short, too long, or with impossible values.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// The connection failed or ended.
    #[error("connection: {0}")]
    Io(#[from] std::io::Error),
}

impl WireError {
    /// As an error about `peer`.
    pub fn of(self, peer: &str) -> Error {
        let peer = peer.to_owned();
        let reason = self.to_string();
        match self {
            Self::Io(_) => Error::Unreachable { peer, reason },
            Self::Version { .. } => Error::Refused { peer, reason },
            Self::Magic(_) | Self::TooLong { .. } | Self::Malformed(_) => Error::Protocol { peer, reason },
        }
    }
}
