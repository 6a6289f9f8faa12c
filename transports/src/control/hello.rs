//! What two nodes tell each other before the first message, and the fixed framing of the handshake.
//! Deliberately readable by every version: a node always understands that, and why, it was refused.
//!
//! Each step after the preamble is `magic (4), version (u16), step (u8), zero (u8), length (u32)`, then the
//! body, at most 1024 bytes.

use std::fmt;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::control::WireError;
use crate::control::fields::{Fields, Put};
use crate::control::preamble::{HELLO_MAX, MAGIC, VERSION};
use crate::transport::SessionId;

/// Longest name of a node, bytes.
pub const NODE_NAME_MAX: usize = 128;
/// The smallest `message_max` a node may announce: what a page or an error needs.
pub const MESSAGE_MIN: u32 = 64 * 1024;

/// What one side tells of itself. Both hellos, nonces included, are what a shared key signs.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// Random, new with every start of the node.
    pub incarnation: u64,
    /// Optional abilities, one bit each; unknown bits are ignored. None is defined yet.
    pub features: u64,
    /// Largest message it takes, bytes; at least [`MESSAGE_MIN`].
    pub message_max: u32,
    /// Requests it serves at a time on one connection; at least 1.
    pub requests_max: u32,
    /// Silence after which it ends the session, milliseconds. The smaller of both sides' counts.
    pub idle_ms: u32,
    /// Whether it has a shared key and demands that the other side prove the same.
    pub keyed: bool,
    /// Fresh random bytes.
    pub nonce: [u8; 32],
    /// `[node] name`.
    pub name: String,
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hello({} {:016x}, keyed: {})", self.name, self.incarnation, self.keyed)
    }
}

impl Hello {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(72 + self.name.len());
        out.put_u64(self.incarnation);
        out.put_u64(self.features);
        out.put_u32(self.message_max);
        out.put_u32(self.requests_max);
        out.put_u32(self.idle_ms);
        out.put_u8(u8::from(self.keyed));
        out.extend_from_slice(&self.nonce);
        out.put_bytes(self.name.as_bytes());
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`WireError::Malformed`], also for sizes no session could work with.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut f = Fields::new(bytes, "hello");
        let hello = Self {
            incarnation: f.u64()?,
            features: f.u64()?,
            message_max: f.u32()?,
            requests_max: f.u32()?,
            idle_ms: f.u32()?,
            keyed: match f.u8()? {
                0 => false,
                1 => true,
                _ => return Err(WireError::Malformed("hello")),
            },
            nonce: f.array()?,
            name: f.text(NODE_NAME_MAX)?,
        };
        f.end()?;
        let usable = hello.message_max >= MESSAGE_MIN && hello.requests_max >= 1 && hello.idle_ms >= 1;
        if usable { Ok(hello) } else { Err(WireError::Malformed("hello")) }
    }
}

/// Why an acceptor turns a dialler away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RefusalCode {
    /// Another protocol version; the step's header says which.
    Version = 1,
    /// The acceptor has a key and the dialler has none.
    KeyRequired = 2,
    /// The dialler has a key and the acceptor has none.
    KeyUnknown = 3,
    /// The proof does not match: the keys differ.
    WrongKey = 4,
    /// Too many sessions or handshakes.
    Busy = 5,
    /// The hello made no sense.
    Malformed = 6,
    /// The acceptor is about to stop.
    Leaving = 7,
}

impl RefusalCode {
    fn from_wire(code: u16) -> Option<Self> {
        use RefusalCode::{Busy, KeyRequired, KeyUnknown, Leaving, Malformed, Version, WrongKey};
        let all = [Version, KeyRequired, KeyUnknown, WrongKey, Busy, Malformed, Leaving];
        all.into_iter().find(|c| *c as u16 == code)
    }

    /// What it means and what to do, as the dialler's user should read it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Version => "it speaks another protocol version; run the same release on both sides",
            Self::KeyRequired => "it demands a shared key; set `[auth] key_file` here too",
            Self::KeyUnknown => "it has no shared key; set `[auth] key_file` there too",
            Self::WrongKey => "the shared keys differ; use the same `[auth] key_file` on both sides",
            Self::Busy => "it has no room for another session; raise its `limits.peers` or try later",
            Self::Malformed => "it did not understand our hello",
            Self::Leaving => "it is leaving; use another, or try again when it is back",
        }
    }
}

/// A step of the handshake after the preamble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The acceptor's hello.
    Hello(Vec<u8>),
    /// The acceptor turns the dialler away; `None` is a code of a later release.
    Refused(Option<RefusalCode>),
    /// The dialler's proof.
    Proof([u8; 32]),
    /// The session stands; the acceptor's proof, zero without key.
    Welcome {
        /// The secret name of the session, quoted by lanes.
        session: SessionId,
        /// The acceptor's proof.
        proof: [u8; 32],
    },
}

impl Step {
    /// As bytes, header included.
    pub fn encode(&self) -> Vec<u8> {
        let (step, body) = match self {
            Self::Hello(hello) => (1, hello.clone()),
            Self::Refused(code) => (2, code.map_or(0, |c| c as u16).to_le_bytes().to_vec()),
            Self::Proof(proof) => (3, proof.to_vec()),
            Self::Welcome { session, proof } => (4, [&session.0[..], proof].concat()),
        };
        let mut out = Vec::with_capacity(12 + body.len());
        out.extend_from_slice(&MAGIC);
        out.put_u16(VERSION);
        out.put_u8(step);
        out.put_u8(0);
        out.put_bytes(&body);
        out
    }

    /// Reads one step and not one byte more.
    ///
    /// # Errors
    /// [`WireError`]; another version's step is [`WireError::Version`] whatever its body.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Self, WireError> {
        let mut header = [0; 12];
        from.read_exact(&mut header).await?;
        let mut f = Fields::new(&header, "handshake");
        let magic = f.array()?;
        if magic != MAGIC {
            return Err(WireError::Magic(magic));
        }
        let theirs = f.u16()?;
        if theirs != VERSION {
            return Err(WireError::Version { ours: VERSION, theirs });
        }
        let (step, len) = (f.u16()?, f.u32()? as usize);
        if len > HELLO_MAX {
            return Err(WireError::TooLong { what: "handshake", got: len as u64, limit: HELLO_MAX as u64 });
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body).await?;
        let mut f = Fields::new(&body, "handshake");
        let read = match step {
            1 => Self::Hello(f.take(len)?.to_vec()),
            2 => Self::Refused(RefusalCode::from_wire(f.u16()?)),
            3 => Self::Proof(f.array()?),
            4 => Self::Welcome { session: SessionId(f.array()?), proof: f.array()? },
            _ => return Err(WireError::Malformed("handshake")),
        };
        f.end()?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            incarnation: 0x1122_3344_5566_7788,
            features: 0,
            message_max: 262_144,
            requests_max: 64,
            idle_ms: 10_000,
            keyed: true,
            nonce: [0xab; 32],
            name: "decode-0".into(),
        }
    }

    /// The golden bytes of docs/wire.md, and every cut of them refused.
    #[test]
    fn golden_bytes_of_hello() {
        let golden = [
            &[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11][..],
            &[0; 8],
            &[0, 0, 4, 0],
            &[64, 0, 0, 0],
            &[0x10, 0x27, 0, 0],
            &[1],
            &[0xab; 32],
            &[8, 0, 0, 0],
            b"decode-0",
        ]
        .concat();
        assert_eq!(hello().encode(), golden);
        assert_eq!(Hello::decode(&golden).unwrap(), hello());
        for cut in 0..golden.len() {
            assert!(Hello::decode(&golden[..cut]).is_err());
        }
        let tiny = Hello { message_max: 1, ..hello() };
        assert!(Hello::decode(&tiny.encode()).is_err());
    }

    /// Steps survive the wire; another version's step is told as such, and no length is believed.
    #[test]
    fn steps_round_trip() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = |bytes: Vec<u8>| runtime.block_on(async { Step::read(&mut &bytes[..]).await });
        for step in [
            Step::Hello(hello().encode()),
            Step::Refused(Some(RefusalCode::WrongKey)),
            Step::Proof([7; 32]),
            Step::Welcome { session: SessionId([5; 16]), proof: [6; 32] },
        ] {
            assert_eq!(read(step.encode()).unwrap(), step);
        }
        let mut newer = Step::Proof([7; 32]).encode();
        newer[4] = 3;
        assert!(matches!(read(newer), Err(WireError::Version { ours: 2, theirs: 3 })));
        let mut huge = Step::Proof([7; 32]).encode();
        huge[11] = 0x7f;
        assert!(matches!(read(huge), Err(WireError::TooLong { .. })));
    }
}
