//! Messages about the files of a `dir` segment. Bytes of files are not in them: they pass through the
//! segment's bounce region, by READ and WRITE over a transport, between these messages.

use crate::control::WireError;
use crate::control::fields::{Fields, Put};
use crate::control::message::NAME_MAX;
use crate::control::pull_message::{Pull, Token};

/// Longest path, bytes.
pub const PATH_MAX: usize = 4096;
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
        /// Whether it may be executed.
        executable: bool,
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
    /// Forgets an upload.
    Abort {
        /// The upload.
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
        /// The upload.
        upload: u32,
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
    /// To [`FileRequest::Begin`].
    Begun {
        /// The upload.
        upload: u32,
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
        )
    }

    pub(crate) fn kind(&self) -> u16 {
        match self {
            Self::Attach { .. } => 32,
            Self::Detach { .. } => 33,
            Self::List { .. } => 34,
            Self::Begin { .. } => 35,
            Self::Chunk { .. } => 36,
            Self::Commit { .. } => 37,
            Self::Abort { .. } => 38,
            Self::Read { .. } => 39,
            Self::MakeDirectory { .. } => 40,
            Self::Share { .. } => 44,
            Self::Redeem { .. } => 45,
            Self::Pull(_) => 46,
            Self::ReadUpload { .. } => 47,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Attach { segment, bytes } => {
                out.put_bytes(segment.as_bytes());
                out.put_u64(*bytes);
            }
            Self::Detach { lease: id } | Self::Abort { upload: id } | Self::Share { lease: id } => {
                out.put_u32(*id);
            }
            Self::Redeem { token } => out.extend_from_slice(&token.0),
            Self::Pull(pull) => pull.put(out),
            Self::ReadUpload { upload, lease, file_offset, lease_offset, len } => {
                out.put_u32(*upload);
                out.put_u32(*lease);
                out.put_u64(*file_offset);
                out.put_u64(*lease_offset);
                out.put_u64(*len);
            }
            Self::List { segment, path, after } => {
                out.put_bytes(segment.as_bytes());
                out.put_bytes(path.as_bytes());
                out.put_bytes(after.as_bytes());
            }
            Self::Begin { lease, path, len, executable } => {
                out.put_u32(*lease);
                out.put_bytes(path.as_bytes());
                out.put_u64(*len);
                out.put_u8(u8::from(*executable));
            }
            Self::Chunk { upload, file_offset, lease_offset, len } => {
                out.put_u32(*upload);
                out.put_u64(*file_offset);
                out.put_u64(*lease_offset);
                out.put_u64(*len);
            }
            Self::Commit { upload, crc32c } => {
                out.put_u32(*upload);
                out.put_u32(*crc32c);
            }
            Self::Read { lease, path, file_offset, lease_offset, len } => {
                out.put_u32(*lease);
                out.put_bytes(path.as_bytes());
                out.put_u64(*file_offset);
                out.put_u64(*lease_offset);
                out.put_u64(*len);
            }
            Self::MakeDirectory { segment, path } => {
                out.put_bytes(segment.as_bytes());
                out.put_bytes(path.as_bytes());
            }
        }
    }

    pub(crate) fn take(kind: u16, f: &mut Fields<'_>) -> Result<Option<Self>, WireError> {
        Ok(Some(match kind {
            32 => Self::Attach { segment: f.text(NAME_MAX)?, bytes: f.u64()? },
            33 => Self::Detach { lease: f.u32()? },
            34 => {
                Self::List { segment: f.text(NAME_MAX)?, path: f.text(PATH_MAX)?, after: f.text(PATH_MAX)? }
            }
            35 => Self::Begin {
                lease: f.u32()?,
                path: f.text(PATH_MAX)?,
                len: f.u64()?,
                executable: f.u8()? & 1 == 1,
            },
            36 => {
                Self::Chunk { upload: f.u32()?, file_offset: f.u64()?, lease_offset: f.u64()?, len: f.u64()? }
            }
            37 => Self::Commit { upload: f.u32()?, crc32c: f.u32()? },
            38 => Self::Abort { upload: f.u32()? },
            39 => Self::Read {
                lease: f.u32()?,
                path: f.text(PATH_MAX)?,
                file_offset: f.u64()?,
                lease_offset: f.u64()?,
                len: f.u64()?,
            },
            40 => Self::MakeDirectory { segment: f.text(NAME_MAX)?, path: f.text(PATH_MAX)? },
            44 => Self::Share { lease: f.u32()? },
            45 => Self::Redeem { token: Token(f.array()?) },
            46 => Self::Pull(Pull::take(f)?),
            47 => Self::ReadUpload {
                upload: f.u32()?,
                lease: f.u32()?,
                file_offset: f.u64()?,
                lease_offset: f.u64()?,
                len: f.u64()?,
            },
            _ => return Ok(None),
        }))
    }
}

impl FileAnswer {
    pub(crate) fn kind(&self) -> u16 {
        match self {
            Self::Attached { .. } => 48,
            Self::Listing { .. } => 49,
            Self::Begun { .. } => 50,
            Self::Filled { .. } => 51,
            Self::Done => 52,
            Self::Shared { .. } => 54,
            Self::Place { .. } => 55,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Attached { lease, start, len } => {
                out.put_u32(*lease);
                out.put_u64(*start);
                out.put_u64(*len);
            }
            Self::Listing { kind, entries, more } => {
                out.put_u8(kind.code());
                out.put_u8(u8::from(*more));
                out.put_u32(entries.len() as u32);
                for entry in entries {
                    out.put_bytes(entry.name.as_bytes());
                    out.put_u8(entry.kind.code());
                    out.put_u8(u8::from(entry.executable));
                    out.put_u64(entry.len);
                }
            }
            Self::Begun { upload } => out.put_u32(*upload),
            Self::Filled { len, crc32c, file_len, stamp } => {
                out.put_u64(*len);
                out.put_u32(*crc32c);
                out.put_u64(*file_len);
                out.put_u64(*stamp);
            }
            Self::Shared { token } => out.extend_from_slice(&token.0),
            Self::Place { segment, start, len } => {
                out.put_bytes(segment.as_bytes());
                out.put_u64(*start);
                out.put_u64(*len);
            }
            Self::Done => {}
        }
    }

    pub(crate) fn take(kind: u16, f: &mut Fields<'_>) -> Result<Option<Self>, WireError> {
        Ok(Some(match kind {
            48 => Self::Attached { lease: f.u32()?, start: f.u64()?, len: f.u64()? },
            49 => {
                let (kind, more) = (FileKind::from_code(f.u8()?)?, f.u8()? & 1 == 1);
                let count = f.count(14)?;
                let mut entries = Vec::with_capacity(count.min(ENTRIES_MAX));
                for _ in 0..count {
                    let (name, kind) = (f.text(PATH_MAX)?, FileKind::from_code(f.u8()?)?);
                    entries.push(FileEntry { name, kind, executable: f.u8()? & 1 == 1, len: f.u64()? });
                }
                Self::Listing { kind, entries, more }
            }
            50 => Self::Begun { upload: f.u32()? },
            51 => Self::Filled { len: f.u64()?, crc32c: f.u32()?, file_len: f.u64()?, stamp: f.u64()? },
            52 => Self::Done,
            54 => Self::Shared { token: Token(f.array()?) },
            55 => Self::Place { segment: f.text(NAME_MAX)?, start: f.u64()?, len: f.u64()? },
            _ => return Ok(None),
        }))
    }
}

impl FileKind {
    fn code(self) -> u8 {
        match self {
            Self::File => 1,
            Self::Directory => 2,
            Self::Symlink => 3,
            Self::Other => 4,
        }
    }

    fn from_code(code: u8) -> Result<Self, WireError> {
        Ok(match code {
            1 => Self::File,
            2 => Self::Directory,
            3 => Self::Symlink,
            4 => Self::Other,
            _ => return Err(WireError::Malformed("file message")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::message::Message;

    /// Every file message survives its own bytes, and no prefix of them is taken for it.
    #[test]
    fn file_messages_round_trip() {
        let (segment, path) = ("data".to_owned(), "a/b".to_owned());
        let requests = [
            FileRequest::Attach { segment: segment.clone(), bytes: 1 << 20 },
            FileRequest::Detach { lease: 3 },
            FileRequest::List { segment: segment.clone(), path: path.clone(), after: "x".into() },
            FileRequest::Begin { lease: 1, path: path.clone(), len: 9, executable: true },
            FileRequest::Chunk { upload: 1, file_offset: 2, lease_offset: 3, len: 4 },
            FileRequest::Commit { upload: 1, crc32c: 2 },
            FileRequest::Abort { upload: 1 },
            FileRequest::Read { lease: 1, path: path.clone(), file_offset: 2, lease_offset: 3, len: 4 },
            FileRequest::MakeDirectory { segment, path },
        ];
        let entry = FileEntry { name: "é".into(), kind: FileKind::Symlink, len: 5, executable: false };
        let answers = [
            FileAnswer::Attached { lease: 1, start: 2, len: 3 },
            FileAnswer::Listing {
                kind: FileKind::Directory,
                entries: vec![entry.clone(), entry],
                more: true,
            },
            FileAnswer::Begun { upload: 5 },
            FileAnswer::Filled { len: 1, crc32c: 2, file_len: 3, stamp: 4 },
            FileAnswer::Done,
        ];
        for message in requests.map(Message::File).into_iter().chain(answers.map(Message::Filed)) {
            let mut body = Vec::new();
            message.put(&mut body);
            assert_eq!(Message::decode(message.kind(), &body).unwrap().as_ref(), Some(&message));
            for cut in 0..body.len() {
                assert!(Message::decode(message.kind(), &body[..cut]).is_err(), "{message:?} at {cut}");
            }
        }
    }
}
