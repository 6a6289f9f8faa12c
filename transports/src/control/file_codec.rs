//! The bytes of file messages; what they mean is in `file_message.rs` and docs/wire.md.

use crate::control::WireError;
use crate::control::fields::{Fields, Put};
use crate::control::file_message::{
    Compared, ENTRIES_MAX, FileAnswer, FileEntry, FileKind, FileRequest, How, PATH_MAX,
};
use crate::control::message::NAME_MAX;
use crate::control::pull_message::{Pull, Token};

impl FileRequest {
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
            Self::Compare { .. } => 41,
            Self::Stage { .. } => 42,
            Self::Publish { .. } => 43,
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
            Self::ReadUpload { upload, path, lease, file_offset, lease_offset, len } => {
                out.put_u32(*upload);
                out.put_bytes(path.as_bytes());
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
            Self::Begin { lease, path, len, how, generation } => {
                out.put_u32(*lease);
                out.put_bytes(path.as_bytes());
                out.put_u64(*len);
                how.put(out);
                out.put_u32(*generation);
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
            Self::MakeDirectory { segment, path, generation } => {
                out.put_bytes(segment.as_bytes());
                out.put_bytes(path.as_bytes());
                out.put_u32(*generation);
            }
            Self::Compare { of, offset, len, digest } => {
                of.put(out);
                out.put_u64(*offset);
                out.put_u64(*len);
                out.extend_from_slice(digest);
            }
            Self::Stage { segment, path } => {
                out.put_bytes(segment.as_bytes());
                out.put_bytes(path.as_bytes());
            }
            Self::Publish { generation, sync } => {
                out.put_u32(*generation);
                out.put_u8(u8::from(*sync));
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
                how: How::take(f)?,
                generation: f.u32()?,
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
            40 => Self::MakeDirectory {
                segment: f.text(NAME_MAX)?,
                path: f.text(PATH_MAX)?,
                generation: f.u32()?,
            },
            41 => {
                Self::Compare { of: Compared::take(f)?, offset: f.u64()?, len: f.u64()?, digest: f.array()? }
            }
            42 => Self::Stage { segment: f.text(NAME_MAX)?, path: f.text(PATH_MAX)? },
            43 => Self::Publish { generation: f.u32()?, sync: f.u8()? & 1 == 1 },
            44 => Self::Share { lease: f.u32()? },
            45 => Self::Redeem { token: Token(f.array()?) },
            46 => Self::Pull(Pull::take(f)?),
            47 => Self::ReadUpload {
                upload: f.u32()?,
                path: f.text(PATH_MAX)?,
                lease: f.u32()?,
                file_offset: f.u64()?,
                lease_offset: f.u64()?,
                len: f.u64()?,
            },
            _ => return Ok(None),
        }))
    }
}

impl How {
    fn put(self, out: &mut Vec<u8>) {
        let flags = [self.executable, self.keep, self.sync, self.link.is_some()];
        let bits = flags.iter().enumerate().map(|(i, on)| u8::from(*on) << i);
        out.put_u8(bits.sum());
        out.put_u64(self.link.unwrap_or(0));
    }

    fn take(f: &mut Fields<'_>) -> Result<Self, WireError> {
        let (flags, stamp) = (f.u8()?, f.u64()?);
        let on = |bit: u8| flags >> bit & 1 == 1;
        Ok(Self { executable: on(0), keep: on(1), sync: on(2), link: on(3).then_some(stamp) })
    }
}

impl Compared {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Upload(id) => {
                out.put_u8(1);
                out.put_u32(*id);
            }
            Self::File { segment, path, file_len, executable } => {
                out.put_u8(2);
                out.put_bytes(segment.as_bytes());
                out.put_bytes(path.as_bytes());
                out.put_u64(*file_len);
                out.put_u8(u8::from(*executable));
            }
        }
    }

    fn take(f: &mut Fields<'_>) -> Result<Self, WireError> {
        Ok(match f.u8()? {
            1 => Self::Upload(f.u32()?),
            2 => Self::File {
                segment: f.text(NAME_MAX)?,
                path: f.text(PATH_MAX)?,
                file_len: f.u64()?,
                executable: f.u8()? & 1 == 1,
            },
            _ => return Err(WireError::Malformed("file message")),
        })
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
            Self::Same { .. } => 53,
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
            Self::Begun { id, held } => {
                out.put_u32(*id);
                out.put_u8(u8::from(*held));
            }
            Self::Same { same, stamp } => {
                out.put_u8(u8::from(*same));
                out.put_u64(*stamp);
            }
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
            50 => Self::Begun { id: f.u32()?, held: f.u8()? & 1 == 1 },
            51 => Self::Filled { len: f.u64()?, crc32c: f.u32()?, file_len: f.u64()?, stamp: f.u64()? },
            52 => Self::Done,
            53 => Self::Same { same: f.u8()? & 1 == 1, stamp: f.u64()? },
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
        let how = How { executable: true, keep: true, sync: true, link: Some(u64::MAX) };
        let of =
            Compared::File { segment: segment.clone(), path: path.clone(), file_len: 5, executable: true };
        let requests = [
            FileRequest::Attach { segment: segment.clone(), bytes: 1 << 20 },
            FileRequest::Detach { lease: 3 },
            FileRequest::List { segment: segment.clone(), path: path.clone(), after: "x".into() },
            FileRequest::Begin { lease: 1, path: path.clone(), len: 9, how: How::default(), generation: 0 },
            FileRequest::Begin { lease: 1, path: path.clone(), len: 9, how, generation: 7 },
            FileRequest::Compare { of: Compared::Upload(3), offset: 1, len: 2, digest: [9; 32] },
            FileRequest::Compare { of, offset: 1, len: 2, digest: [9; 32] },
            FileRequest::Stage { segment: segment.clone(), path: path.clone() },
            FileRequest::Publish { generation: 7, sync: true },
            FileRequest::Chunk { upload: 1, file_offset: 2, lease_offset: 3, len: 4 },
            FileRequest::Commit { upload: 1, crc32c: 2 },
            FileRequest::Abort { upload: 1 },
            FileRequest::Read { lease: 1, path: path.clone(), file_offset: 2, lease_offset: 3, len: 4 },
            FileRequest::MakeDirectory { segment, path, generation: 7 },
        ];
        let entry = FileEntry { name: "é".into(), kind: FileKind::Symlink, len: 5, executable: false };
        let answers = [
            FileAnswer::Attached { lease: 1, start: 2, len: 3 },
            FileAnswer::Listing {
                kind: FileKind::Directory,
                entries: vec![entry.clone(), entry],
                more: true,
            },
            FileAnswer::Begun { id: 5, held: true },
            FileAnswer::Same { same: true, stamp: 6 },
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

    /// The bytes of docs/wire.md for a file that is begun in a generation and for a question about an upload.
    #[test]
    fn golden_bytes() {
        let how = How { executable: true, sync: true, ..How::default() };
        let begin = FileRequest::Begin { lease: 1, path: "a".into(), len: 9, how, generation: 7 };
        let mut body = Vec::new();
        begin.put(&mut body);
        let flags_and_stamp = [5, 0, 0, 0, 0, 0, 0, 0, 0];
        let golden =
            [&[1, 0, 0, 0, 1, 0, 0, 0, b'a', 9, 0, 0, 0, 0, 0, 0, 0][..], &flags_and_stamp, &[7, 0, 0, 0]]
                .concat();
        assert_eq!(body, golden);
        let ask = FileRequest::Compare { of: Compared::Upload(3), offset: 1, len: 2, digest: [9; 32] };
        body.clear();
        ask.put(&mut body);
        let range = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(body, [&[1, 3, 0, 0, 0][..], &range, &[9; 32]].concat());
    }
}
