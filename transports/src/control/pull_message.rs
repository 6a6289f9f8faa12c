//! The messages by which one node fetches bytes of a file from another node that has just received them.
//! Deliberately with a token instead of a place: who asks for a pull must have been given something there, so that no
//! node can be made to read for others what they could not read themselves.

use std::fmt;

use crate::control::WireError;
use crate::control::fields::{Fields, Put};

/// Longest name or address of the node that is pulled from, bytes.
pub const PEER_MAX: usize = 320;

/// Stands for a lease: whoever shows it may learn where the lease is. Unguessable; ends with the lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; 16]);

/// A secret is not for logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// "Fetch these bytes from that node into my upload."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The upload they belong to.
    pub upload: u32,
    /// Where in its file.
    pub file_offset: u64,
    /// Where in the upload's lease they may pass through.
    pub lease_offset: u64,
    /// How many.
    pub len: u64,
    /// What they must be.
    pub crc32c: u32,
    /// The node that has them: a name of the receiver's `[peers]`, or an address.
    pub peer: String,
    /// Of the lease there in which they lie.
    pub token: Token,
    /// Where in that lease.
    pub token_offset: u64,
    /// How long it may take, milliseconds.
    pub within_ms: u32,
}

impl Pull {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.upload);
        out.put_u64(self.file_offset);
        out.put_u64(self.lease_offset);
        out.put_u64(self.len);
        out.put_u32(self.crc32c);
        out.put_bytes(self.peer.as_bytes());
        out.extend_from_slice(&self.token.0);
        out.put_u64(self.token_offset);
        out.put_u32(self.within_ms);
    }

    pub(crate) fn take(f: &mut Fields<'_>) -> Result<Self, WireError> {
        Ok(Self {
            upload: f.u32()?,
            file_offset: f.u64()?,
            lease_offset: f.u64()?,
            len: f.u64()?,
            crc32c: f.u32()?,
            peer: f.text(PEER_MAX)?,
            token: Token(f.array()?),
            token_offset: f.u64()?,
            within_ms: f.u32()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{FileAnswer, FileRequest, Message};

    /// The messages of a pull have the bytes that docs/wire.md shows, and no prefix of them is taken for one.
    #[test]
    fn golden_bytes() {
        let token = Token(*b"0123456789abcdef");
        let pull = Pull {
            upload: 5,
            file_offset: 1 << 20,
            lease_offset: 2 << 20,
            len: 4096,
            crc32c: 0x0102_0304,
            peer: "n1:7001".into(),
            token,
            token_offset: 3 << 20,
            within_ms: 5000,
        };
        let cases = [
            (Message::File(FileRequest::Share { lease: 3 }), 44, "03000000"),
            (Message::File(FileRequest::Redeem { token }), 45, "30313233343536373839616263646566"),
            (
                Message::File(FileRequest::Pull(pull)),
                46,
                "05000000 0000100000000000 0000200000000000 0010000000000000 04030201 07000000 6e313a37303031 \
                 30313233343536373839616263646566 0000300000000000 88130000",
            ),
            (
                Message::File(FileRequest::ReadUpload {
                    upload: 5,
                    path: "a".into(),
                    lease: 3,
                    file_offset: 1 << 20,
                    lease_offset: 3 << 20,
                    len: 4096,
                }),
                47,
                "05000000 01000000 61 03000000 0000100000000000 0000300000000000 0010000000000000",
            ),
            (Message::Filed(FileAnswer::Shared { token }), 54, "30313233343536373839616263646566"),
            (
                Message::Filed(FileAnswer::Place { segment: "files".into(), start: 4096, len: 8192 }),
                55,
                "05000000 66696c6573 0010000000000000 0020000000000000",
            ),
        ];
        for (message, kind, golden) in cases {
            let mut body = Vec::new();
            message.put(&mut body);
            let hex: String = body.iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!((message.kind(), hex), (kind, golden.replace(' ', "")));
            assert_eq!(Message::decode(kind, &body).unwrap().as_ref(), Some(&message));
            for cut in 0..body.len() {
                assert!(Message::decode(kind, &body[..cut]).is_err(), "{message:?} at {cut}");
            }
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
