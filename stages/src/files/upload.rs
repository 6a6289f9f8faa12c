//! A file that a peer sends: its bytes come through the bounce region and go into a [`Part`].

use std::sync::Arc;

use pipeline_transports::control::FileAnswer;
use pipeline_transports::{Op, Regions};

use super::error::FileError;
use super::part::Part;
use super::root::Lease;

/// See the module.
pub(super) struct Upload {
    pub(super) lease: Arc<Lease>,
    pub(super) part: Part,
}

impl Upload {
    /// Copies `len` bytes at `from` of the bounce region to `at` in the file.
    pub(super) fn chunk(
        &self,
        regions: &Regions,
        from: u64,
        at: u64,
        len: u64,
        scratch: &mut [u8],
    ) -> Result<(), FileError> {
        let crc = self.copy(regions, from, at, len, scratch)?;
        self.part.came(at, len, crc)
    }

    /// As [`Self::chunk`], for bytes that must have the CRC32C `wanted`; `false` when they have another: then they do
    /// not count and may come again.
    pub(super) fn checked_chunk(
        &self,
        regions: &Regions,
        from: u64,
        (at, len, wanted): (u64, u64, u32),
        scratch: &mut [u8],
    ) -> Result<bool, FileError> {
        if self.copy(regions, from, at, len, scratch)? != wanted {
            return Ok(false);
        }
        self.part.came(at, len, wanted).map(|()| true)
    }

    /// Copies bytes that have come to `into` of the bounce region, for another node to pull.
    pub(super) fn reread(
        &self,
        regions: &Regions,
        lease: &Lease,
        (at, len): (u64, u64),
        into: u64,
        scratch: &mut [u8],
    ) -> Result<FileAnswer, FileError> {
        lease.root.allow(self.part.path(), Op::Read)?;
        let (mut done, mut crc) = (0, 0);
        while done < len {
            let n = (len - done).min(scratch.len() as u64);
            let bytes = &mut scratch[..n as usize];
            if !self.part.read(at.saturating_add(done), bytes)? {
                return Err(FileError::Busy("these bytes of the upload have not come yet"));
            }
            crc = crc32c::crc32c_append(crc, bytes);
            regions.write_shared(lease.root.region, into + done, bytes)?;
            done += n;
        }
        // No other bytes can take their place: an upload is written once.
        Ok(FileAnswer::Filled { len, crc32c: crc, file_len: self.part.len(), stamp: 0 })
    }

    /// Writes bytes into the file; answers their CRC32C.
    fn copy(
        &self,
        regions: &Regions,
        from: u64,
        at: u64,
        len: u64,
        scratch: &mut [u8],
    ) -> Result<u32, FileError> {
        self.part.awaits(at, len)?;
        let (mut done, mut crc) = (0, 0);
        while done < len {
            let n = (len - done).min(scratch.len() as u64);
            let bytes = &mut scratch[..n as usize];
            regions.read_shared(self.lease.root.region, from + done, bytes)?;
            crc = crc32c::crc32c_append(crc, bytes);
            self.part.write(at + done, bytes)?;
            done += n;
        }
        Ok(crc)
    }
}
