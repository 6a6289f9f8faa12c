//! Files of a peer's `dir` segment, from the side that asks: blocking calls, one for each message. Bytes travel
//! between them, as READs and WRITEs to the leased range.

use pipeline_transports::Nanos;
use pipeline_transports::control::{Compared, FileAnswer, FileEntry, FileKind, FileRequest, How, Message};

use crate::control::{Control, Error};
use crate::peer::PeerId;

/// One segment of one peer. Cheap; may be used from several threads.
#[derive(Clone, Copy)]
pub struct FileClient<'a> {
    control: &'a Control,
    peer: PeerId,
    segment: &'a str,
}

/// A range of the segment's bounce region that is ours until the session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRef {
    /// Its number.
    pub id: u32,
    /// Its first offset in the segment.
    pub start: u64,
    /// Its bytes.
    pub len: u64,
}

/// A page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What the listed path is.
    pub kind: FileKind,
    /// Entries, by name; for a file, itself.
    pub entries: Vec<FileEntry>,
    /// Whether more follow after the last one's name.
    pub more: bool,
}

/// What a read put into the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Bytes; fewer than asked only at the end of the file.
    pub len: u64,
    /// Their CRC32C.
    pub crc32c: u32,
    /// Length of the file when they were read.
    pub file_len: u64,
    /// Two reads with different stamps are of different files.
    pub stamp: u64,
}

impl<'a> FileClient<'a> {
    /// Segment `segment` of an opened peer.
    pub fn new(control: &'a Control, peer: PeerId, segment: &'a str) -> Self {
        Self { control, peer, segment }
    }

    /// Leases up to `bytes` of the bounce region; ask for the most you can use, the node gives what is fair.
    ///
    /// # Errors
    /// As all methods here: [`Error::Remote`] with the node's reason, [`Error::Gone`], [`Error::Deadline`].
    pub fn attach(&self, bytes: u64, by: Nanos) -> Result<LeaseRef, Error> {
        match self.ask(FileRequest::Attach { segment: self.segment.to_owned(), bytes }, by)? {
            FileAnswer::Attached { lease, start, len } => Ok(LeaseRef { id: lease, start, len }),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Gives a lease back.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn detach(&self, lease: LeaseRef, by: Nanos) -> Result<(), Error> {
        self.done(FileRequest::Detach { lease: lease.id }, by)
    }

    /// A page of the directory `path` (empty: the root), with names after `after` (empty: from the start).
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn list(&self, path: &str, after: &str, by: Nanos) -> Result<Page, Error> {
        let (segment, path, after) = (self.segment.to_owned(), path.to_owned(), after.to_owned());
        match self.ask(FileRequest::List { segment, path, after }, by)? {
            FileAnswer::Listing { kind, entries, more } => Ok(Page { kind, entries, more }),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Makes a directory and those above it, in a generation or (0) the segment's tree. Made under a lease they go as far as
    /// they are empty, should the session end before the lease is given back.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn make_directory(&self, path: &str, generation: u32, by: Nanos) -> Result<(), Error> {
        let (segment, path) = (self.segment.to_owned(), path.to_owned());
        self.done(FileRequest::MakeDirectory { segment, path, generation }, by)
    }

    /// Begins an upload whose chunks will come from `lease`, in a generation or (0) the segment's tree; answers its
    /// number, and whether bytes of an earlier one are there.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn begin(
        &self,
        lease: LeaseRef,
        (path, generation): (&str, u32),
        len: u64,
        how: How,
        by: Nanos,
    ) -> Result<(u32, bool), Error> {
        let (lease, path) = (lease.id, path.to_owned());
        match self.ask(FileRequest::Begin { lease, path, len, how, generation }, by)? {
            FileAnswer::Begun { id, held } => Ok((id, held)),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Links a file of the published tree into a generation, if it still has this stamp.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn link(
        &self,
        lease: LeaseRef,
        (path, generation): (&str, u32),
        len: u64,
        stamp: u64,
        by: Nanos,
    ) -> Result<(), Error> {
        let (lease, path) = (lease.id, path.to_owned());
        let how = How { link: Some(stamp), ..How::default() };
        self.done(FileRequest::Begin { lease, path, len, how, generation }, by)
    }

    /// Whether `len` bytes at `offset` of a file or an upload have this SHA-256, and the file's stamp.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn compare(
        &self,
        of: Compared,
        (offset, len): (u64, u64),
        digest: [u8; 32],
        by: Nanos,
    ) -> Result<(bool, u64), Error> {
        match self.ask(FileRequest::Compare { of, offset, len, digest }, by)? {
            FileAnswer::Same { same, stamp } => Ok((same, stamp)),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Begins a tree that will take the place of the directory `path`.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn stage(&self, path: &str, by: Nanos) -> Result<u32, Error> {
        let (segment, path) = (self.segment.to_owned(), path.to_owned());
        match self.ask(FileRequest::Stage { segment, path }, by)? {
            FileAnswer::Begun { id, .. } => Ok(id),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Puts a generation in its place.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn publish(&self, generation: u32, sync: bool, by: Nanos) -> Result<(), Error> {
        self.done(FileRequest::Publish { generation, sync }, by)
    }

    /// Has `len` bytes at `lease_offset` of the upload's lease copied to `file_offset` of the file. They must
    /// have been written there before; the range may be used again when this returns.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn chunk(
        &self,
        upload: u32,
        file_offset: u64,
        lease_offset: u64,
        len: u64,
        by: Nanos,
    ) -> Result<(), Error> {
        self.done(FileRequest::Chunk { upload, file_offset, lease_offset, len }, by)
    }

    /// Has the file put in its place, if its bytes are all there and have this CRC32C. The upload is over in
    /// any case.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn commit(&self, upload: u32, crc32c: u32, by: Nanos) -> Result<(), Error> {
        self.done(FileRequest::Commit { upload, crc32c }, by)
    }

    /// Forgets an upload or a generation, and what was written of it.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn abort(&self, upload: u32, by: Nanos) -> Result<(), Error> {
        self.done(FileRequest::Abort { upload }, by)
    }

    /// Has up to `len` bytes at `file_offset` of a file copied to `lease_offset` of the lease.
    ///
    /// # Errors
    /// See [`Self::attach`].
    pub fn read(
        &self,
        lease: LeaseRef,
        path: &str,
        file_offset: u64,
        (lease_offset, len): (u64, u64),
        by: Nanos,
    ) -> Result<Filled, Error> {
        let path = path.to_owned();
        match self.ask(FileRequest::Read { lease: lease.id, path, file_offset, lease_offset, len }, by)? {
            FileAnswer::Filled { len, crc32c, file_len, stamp } => {
                Ok(Filled { len, crc32c, file_len, stamp })
            }
            other => Err(self.unexpected(&other)),
        }
    }

    fn done(&self, request: FileRequest, by: Nanos) -> Result<(), Error> {
        match self.ask(request, by)? {
            FileAnswer::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn ask(&self, request: FileRequest, by: Nanos) -> Result<FileAnswer, Error> {
        match self.control.request(self.peer, Message::File(request), by)? {
            Message::Filed(answer) => Ok(answer),
            other => Err(self.protocol(format!("answered a file request with type {}", other.kind()))),
        }
    }

    fn unexpected(&self, answer: &FileAnswer) -> Error {
        self.protocol(format!("answered something else than was asked: {answer:?}"))
    }

    fn protocol(&self, reason: String) -> Error {
        Error::Protocol { peer: self.control.label(self.peer), reason }
    }
}
