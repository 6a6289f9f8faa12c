//! A lease at one destination out of which another one pulls: bytes are put there by us, from an upload or a file that
//! the first one has. Deliberately one for each pair, so that nobody waits for the pulls of others.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use pipeline_node::{Error, ErrorCode, FileAnswer, FileRequest, Peer, Token};

use super::board::{PATIENCE, Source};
use crate::cli::copy::carry::Placed;

/// Slots of an export, at most: as many as a session has workers.
const SLOTS: u64 = 8;

/// How long a node may take to take a lease back.
const FAREWELL: Duration = Duration::from_secs(1);

/// See the file's head.
pub struct Export {
    peer: Peer,
    lease: u32,
    /// Stands for the lease.
    pub token: Token,
    free: (Sender<u64>, Receiver<u64>),
}

/// A part of an export that is one worker's until it is dropped.
pub struct Slot<'a> {
    export: &'a Export,
    /// Where it starts in the lease.
    pub offset: u64,
}

impl Export {
    /// Leases room for extents of `chunk` bytes in a segment; `None` when there is not enough for one.
    ///
    /// # Errors
    /// The peer's reason.
    pub fn open(peer: &Peer, segment: &str, chunk: u64) -> Result<Option<Self>, Error> {
        let attach = FileRequest::Attach { segment: segment.to_owned(), bytes: chunk * SLOTS };
        let FileAnswer::Attached { lease, len, .. } = peer.files_within(attach, PATIENCE)? else {
            return Ok(None);
        };
        let free = bounded(SLOTS as usize);
        let slots = (len / chunk).min(SLOTS);
        // There is room for all of them.
        (0..slots).for_each(|i| _ = free.0.try_send(i * chunk));
        let detach = || _ = peer.files_within(FileRequest::Detach { lease }, PATIENCE);
        match peer.files_within(FileRequest::Share { lease }, PATIENCE) {
            Ok(FileAnswer::Shared { token }) if slots > 0 => {
                Ok(Some(Self { peer: peer.clone(), lease, token, free }))
            }
            Ok(_) => {
                detach();
                Ok(None)
            }
            Err(error) => {
                detach();
                Err(error)
            }
        }
    }

    /// A free slot; waits for one. Whoever has one gives it back within the time of a question and a pull.
    pub fn slot(&self) -> Option<Slot<'_>> {
        self.free.1.recv().ok().map(|offset| Slot { export: self, offset })
    }
}

impl Slot<'_> {
    /// Has the peer put an extent into the slot; `false` when it has other bytes there than `crc`.
    ///
    /// # Errors
    /// The peer's reason.
    pub fn fill(&self, source: &Source, (offset, len): (u64, u64), crc: u32) -> Result<bool, Error> {
        let (lease, file_offset, lease_offset) = (self.export.lease, offset, self.offset);
        let ask = |request| self.export.peer.files_within(request, PATIENCE);
        let unpublished = |upload: u32, path: &str| {
            let path = path.to_owned();
            ask(FileRequest::ReadUpload { upload, path, lease, file_offset, lease_offset, len })
        };
        let read = |path: &str| {
            ask(FileRequest::Read { lease, path: path.to_owned(), file_offset, lease_offset, len })
        };
        let filled = match source {
            Source::Upload(_, upload) => unpublished(*upload, "")?,
            Source::File(_, Placed { path, staged: None }) => read(path)?,
            Source::File(_, Placed { path, staged: Some((generation, staged)) }) => {
                match unpublished(*generation, staged) {
                    // It has been published.
                    Err(error) if error.code() == Some(ErrorCode::NO_UPLOAD) => read(path)?,
                    other => other?,
                }
            }
        };
        Ok(matches!(filled, FileAnswer::Filled { len: got, crc32c, .. } if (got, crc32c) == (len, crc)))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let _ = self.export.free.0.try_send(self.offset);
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // If it does not answer, the end of the control session gives it back.
        let _ = self.peer.files_within(FileRequest::Detach { lease: self.lease }, FAREWELL);
    }
}
