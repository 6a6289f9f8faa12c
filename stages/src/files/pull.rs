//! Where bytes that this node fetches from another one pass through, and how they get into their file: into the range of
//! the asker's own lease that the asker names, so that pulls need no memory of their own.
//! Deliberately without the fetching: control does that, through the pipeline.

use std::sync::Arc;

use pipeline_configs::PullFrom;
use pipeline_transports::control::{FileAnswer, Pull};
use pipeline_transports::{RegionId, Regions};

use super::error::FileError;
use super::upload::Upload;

/// The place of one pull. It keeps the lease, so that a transfer which outlives its asker never writes into the lease of
/// somebody else.
pub(crate) struct Landing {
    upload: Arc<Upload>,
    /// First byte in the bounce region.
    at: u64,
    file_offset: u64,
    len: u64,
    crc: u32,
    peer: String,
}

impl Landing {
    pub(super) fn new(upload: Arc<Upload>, pull: &Pull) -> Result<Self, FileError> {
        let at = upload.lease.at(pull.lease_offset, pull.len)?;
        let (file_offset, len, crc) = (pull.file_offset, pull.len, pull.crc32c);
        Ok(Self { upload, at, file_offset, len, crc, peer: pull.peer.clone() })
    }

    /// The bounce region, and where in it.
    pub(crate) fn place(&self) -> (RegionId, u64) {
        (self.upload.lease.root.region, self.at)
    }

    /// Whether its segment may pull from a node: `named` under `[peers]`, or one that has to prove that it knows our
    /// key (`keyed`).
    pub(crate) fn allow(&self, named: bool, keyed: bool) -> Result<(), FileError> {
        let root = &self.upload.lease.root;
        let reason = match root.pull {
            PullFrom::Any => return Ok(()),
            PullFrom::Known if named || keyed => return Ok(()),
            PullFrom::Known => "it is not under [peers] of that node, and there is no key",
            PullFrom::Off => "its `pull` is \"off\"",
        };
        Err(FileError::PullDenied { segment: root.name.clone(), peer: self.peer.clone(), reason })
    }

    /// The error when the other node did not give the bytes.
    pub(crate) fn upstream(&self, reason: impl ToString) -> FileError {
        FileError::Upstream { peer: self.peer.clone(), reason: reason.to_string() }
    }

    pub(super) fn land(&self, regions: &Regions, scratch: &mut [u8]) -> Result<FileAnswer, FileError> {
        let range = (self.file_offset, self.len, self.crc);
        if self.upload.checked_chunk(regions, self.at, range, scratch)? {
            return Ok(FileAnswer::Done);
        }
        Err(self.upstream(format!("{} bytes came with another CRC32C than {:08x}", self.len, self.crc)))
    }
}
