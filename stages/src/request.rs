//! What a caller asks for: bytes between a local region and a peer's segment.
//! Deliberately by name and offset, never by address: a wrong number is refused, not followed.

use std::sync::Arc;
use std::time::Duration;

use pipeline_transports::{Op, RegionId};

pub use pipeline_transports::control::message::NOTICE_MAX;

use crate::peer::PeerId;

/// A place in a peer's segment, as [`crate::World`]'s peers describe it after they were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The peer.
    pub peer: PeerId,
    /// Its start that was opened: a restarted peer has other memory, and such requests fail `StalePeer`.
    pub incarnation: u64,
    /// Index of the segment in the peer's list.
    pub segment: u32,
    /// First byte, from the segment's start.
    pub offset: u64,
}

/// One request: moves `len` bytes in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Direction.
    pub op: Op,
    /// The local region. It stays pinned until the request has ended.
    pub local: RegionId,
    /// First byte in it.
    pub local_offset: u64,
    /// The remote place.
    pub remote: Remote,
    /// Bytes; 0 is refused.
    pub len: u64,
}

impl Request {
    /// Remote bytes into a local region.
    pub fn read(local: impl Into<RegionId>, local_offset: u64, remote: Remote, len: u64) -> Self {
        Self { op: Op::Read, local: local.into(), local_offset, remote, len }
    }

    /// Local bytes to a peer.
    pub fn write(local: impl Into<RegionId>, local_offset: u64, remote: Remote, len: u64) -> Self {
        Self { op: Op::Write, local: local.into(), local_offset, remote, len }
    }

    /// What is wrong with its numbers, whatever the memory: such a request is a bug of the caller.
    pub(crate) fn nonsense(&self) -> Option<&'static str> {
        if self.len == 0 {
            return Some("its length is 0");
        }
        if self.local_offset.checked_add(self.len).is_none() {
            return Some("local offset and length wrap around");
        }
        let wraps = self.remote.offset.checked_add(self.len).is_none();
        wraps.then_some("remote offset and length wrap around")
    }
}

/// How a batch is to be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Each of its requests ends within this time; `None`: `limits.deadline`.
    pub deadline: Option<Duration>,
    /// What the application of the peer shall be told when all of its requests have ended: at most [`NOTICE_MAX`]
    /// bytes, which may be none. All requests must name the same peer. See [`crate::notices`].
    pub notice: Option<Arc<[u8]>>,
}
