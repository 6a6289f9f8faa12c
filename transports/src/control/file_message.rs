//! Messages about the files of a `dir` segment. Bytes of files are not in them: they pass through the
//! segment's bounce region, by READ and WRITE over a transport, between these messages. Their bytes: `file_codec.rs`.

use crate::control::pull_message::{Pull, Token};

/// Longest path, bytes.
pub const PATH_MAX: usize = 4096;
/// Most bytes that one [`FileRequest::Compare`] is about: a node reads and digests them before it answers.
pub const COMPARE_MAX: u64 = 16 << 20;
/// Most entries in one listing.
pub const ENTRIES_MAX: usize = 1024;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRequest {
    /// Leases a range of the segment's bounce region to this session, until the session ends.
    Attach {
        /// Name of the segment.
        segment: String,
        /// Bytes wanted; less may be given.
        bytes: u64,
    },
    /// Gives a lease back.
    Detach {
        /// The lease.
        lease: u32,
    },
    /// Lists a directory, or one file: names after `after`, in byte order.
    List {
        /// Name of the segment.
        segment: String,
        /// Path in it; empty for its root.
        path: String,
        /// The last name of the page before; empty for the first page.
        after: String,
    },
    /// Begins to write a file beside its place. Makes missing directories.
    Begin {
        /// The lease whose bytes its chunks come from; names the segment as well.
        lease: u32,
        /// Path in the segment.
        path: String,
        /// Length it will have, bytes.
        len: u64,
        /// What becomes of it.
        how: How,
        /// The generation it is part of; 0: the segment's tree itself.
        generation: u32,
    },
    /// Copies bytes from the lease into the file.
    Chunk {
        /// The upload.
        upload: u32,
        /// Where in the file.
        file_offset: u64,
        /// Where in the lease.
        lease_offset: u64,
        /// How many.
        len: u64,
    },
    /// Checks length and CRC32C, and puts the file in its place.
    Commit {
        /// The upload.
        upload: u32,
        /// CRC32C of the whole file.
        crc32c: u32,
    },
    /// Ends an upload or a generation without putting it in its place; an upload that is to be kept stays for a later one.
    Abort {
        /// The upload or the generation.
        upload: u32,
    },
    /// Copies bytes of a file into the lease.
    Read {
        /// The lease.
        lease: u32,
        /// Path in the segment.
        path: String,
        /// Where in the file.
        file_offset: u64,
        /// Where in the lease.
        lease_offset: u64,
        /// How many; fewer come at the end of the file.
        len: u64,
    },
    /// Makes a directory and those above it; one that exists is fine.
    MakeDirectory {
        /// Name of the segment.
        segment: String,
        /// Path in it.
        path: String,
        /// The generation it is part of; 0: the segment's tree itself.
        generation: u32,
    },
    /// Asks whether bytes there are the same as here.
    Compare {
        /// Which file.
        of: Compared,
        /// Where in the file.
        offset: u64,
        /// How many bytes, at most [`COMPARE_MAX`].
        len: u64,
        /// SHA-256 of these bytes as the asker has them.
        digest: [u8; 32],
    },
    /// Begins a new tree that will take the place of the directory `path`, whole and at one moment.
    Stage {
        /// Name of the segment.
        segment: String,
        /// Path of the directory, which need not exist.
        path: String,
    },
    /// Puts a generation in its place, and removes what stood there.
    Publish {
        /// The generation.
        generation: u32,
        /// Whether it must be on the disk before it is seen.
        sync: bool,
    },
    /// Asks for a token of a lease, with which another node may read what lies in it.
    Share {
        /// The lease.
        lease: u32,
    },
    /// Asks where the lease is that a token stands for.
    Redeem {
        /// As it was given to whoever has the lease.
        token: Token,
    },
    /// Has the node fetch bytes from another one into an upload.
    Pull(Pull),
    /// Copies bytes that have come of an upload into the lease.
    ReadUpload {
        /// The upload; or a generation.
        upload: u32,
        /// Empty: the upload's own bytes; else a file that is in its place in that generation.
        path: String,
        /// The lease.
        lease: u32,
        /// Where in the file.
        file_offset: u64,
        /// Where in the lease.
        lease_offset: u64,
        /// How many.
        len: u64,
    },
}

/// What becomes of a file that is begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// It may be executed.
    pub executable: bool,
    /// What has come of it when its session ends is kept for a later upload of the same path.
    pub keep: bool,
    /// It must be on the disk before it is seen under its name.
    pub sync: bool,
    /// Nothing will be sent: the published file of the same path, if it still has this stamp and length, is linked
    /// into the generation. Answered by `Done`; there is no upload.
    pub link: Option<u64>,
}

/// What a [`FileRequest::Compare`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// What an upload holds. Bytes that are the same count as come.
    Upload(u32),
    /// A file of a segment, which is not the same if its length or executable bit is another one.
    File {
        /// Name of the segment.
        segment: String,
        /// Path in it.
        path: String,
        /// Its length at the asker, bytes.
        file_len: u64,
        /// Whether it may be executed at the asker.
        executable: bool,
    },
}

/// What the node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAnswer {
    /// To [`FileRequest::Attach`].
    Attached {
        /// The lease.
        lease: u32,
        /// Where it starts in the segment's offset space.
        start: u64,
        /// Its bytes.
        len: u64,
    },
    /// To [`FileRequest::List`].
    Listing {
        /// What the listed path is.
        kind: FileKind,
        /// Entries, by name. For a file: itself.
        entries: Vec<FileEntry>,
        /// Whether names follow after the last one.
        more: bool,
    },
    /// To [`FileRequest::Begin`] and [`FileRequest::Stage`].
    Begun {
        /// The upload or the generation.
        id: u32,
        /// Whether bytes of an earlier upload are there, which [`FileRequest::Compare`] can confirm.
        held: bool,
    },
    /// To [`FileRequest::Compare`].
    Same {
        /// Whether they are.
        same: bool,
        /// The stamp of the file; 0 for an upload, and where there is no such file.
        stamp: u64,
    },
    /// To [`FileRequest::Read`] and [`FileRequest::ReadUpload`].
    Filled {
        /// Bytes copied.
        len: u64,
        /// Their CRC32C.
        crc32c: u32,
        /// Length of the file now.
        file_len: u64,
        /// Changes whenever the file does: chunks with different stamps are of different files.
        stamp: u64,
    },
    /// To [`FileRequest::Share`].
    Shared {
        /// Stands for the lease until that ends.
        token: Token,
    },
    /// To [`FileRequest::Redeem`].
    Place {
        /// Name of the segment.
        segment: String,
        /// Where the lease starts in its offset space.
        start: u64,
        /// Bytes of the lease.
        len: u64,
    },
    /// To everything else.
    Done,
}

/// What stands in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Bytes, of a file.
    pub len: u64,
    /// Whether its owner may execute it.
    pub executable: bool,
}

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; never followed.
    Symlink,
    /// A device, a socket, a pipe, or a name that is not UTF-8 (then lossy).
    Other,
}

impl FileRequest {
    /// Whether it begins something new, which a node that leaves refuses; all others end what has begun.
    pub fn begins(&self) -> bool {
        matches!(
            self,
            Self::Attach { .. }
                | Self::List { .. }
                | Self::Begin { .. }
                | Self::Read { .. }
                | Self::MakeDirectory { .. }
                | Self::Compare { of: Compared::File { .. }, .. }
                | Self::Stage { .. }
        )
    }
}
