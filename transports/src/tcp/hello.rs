//! What both ends of a lane tell each other before the first frame: their sizes. What they then use is the
//! lesser of each. Deliberately no identity and no secret: the preamble's session carries those.
//!
//! ```text
//! hello   0  2 version (1)   2  2 descriptors   4  4 depth   8  8 longest work request   16 8 payload of a frame
//! answer  0  1 status (0 accepted, 1 refused)   1  7 zero    8 24 the acceptor's hello
//! ```

use super::frame::COUNT_MAX;

/// Version of the lane protocol.
pub const VERSION: u16 = 1;
/// Bytes of a hello.
pub const HELLO_BYTES: usize = 24;
/// Bytes of the answer to it.
pub const ANSWER_BYTES: usize = 8 + HELLO_BYTES;

/// One side's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The most descriptors or answers it takes in a frame, 1–64.
    pub descriptors: u16,
    /// Slots of the lane: the most work requests outstanding.
    pub depth: u32,
    /// The longest work request, bytes.
    pub max_bytes: u64,
    /// Payload bytes after which a frame is closed (a single longer work request still makes one).
    pub frame_bytes: u64,
}

/// Why a hello is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Not as long as a hello.
    #[error("a lane hello of {0} bytes, expected {HELLO_BYTES}")]
    Size(usize),
    /// A version we do not speak.
    #[error("lane version {0}, this node speaks {VERSION}; run the same release on both sides")]
    Version(u16),
    /// A size of zero, or above what the protocol allows.
    #[error("a lane hello with impossible sizes")]
    Sizes,
    /// The acceptor said no.
    #[error("the lane was refused; see the log of the peer")]
    Refused,
}

impl Hello {
    /// To bytes.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut b = [0; HELLO_BYTES];
        b[..2].copy_from_slice(&VERSION.to_le_bytes());
        b[2..4].copy_from_slice(&self.descriptors.to_le_bytes());
        b[4..8].copy_from_slice(&self.depth.to_le_bytes());
        b[8..16].copy_from_slice(&self.max_bytes.to_le_bytes());
        b[16..].copy_from_slice(&self.frame_bytes.to_le_bytes());
        b
    }

    /// From bytes.
    ///
    /// # Errors
    /// See [`HelloError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, HelloError> {
        let b: &[u8; HELLO_BYTES] = bytes.try_into().map_err(|_| HelloError::Size(bytes.len()))?;
        let version = u16::from_le_bytes([b[0], b[1]]);
        if version != VERSION {
            return Err(HelloError::Version(version));
        }
        let u64_at = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&b[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let hello = Self {
            descriptors: u16::from_le_bytes([b[2], b[3]]),
            depth: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
            max_bytes: u64_at(8),
            frame_bytes: u64_at(16),
        };
        let known = (1..=COUNT_MAX as u16).contains(&hello.descriptors);
        if !known || hello.depth == 0 || hello.max_bytes == 0 || hello.frame_bytes == 0 {
            return Err(HelloError::Sizes);
        }
        Ok(hello)
    }

    /// What two sides use: the lesser of each size.
    pub fn agree(&self, other: &Self) -> Self {
        Self {
            descriptors: self.descriptors.min(other.descriptors),
            depth: self.depth.min(other.depth),
            max_bytes: self.max_bytes.min(other.max_bytes),
            frame_bytes: self.frame_bytes.min(other.frame_bytes),
        }
    }

    /// The acceptor's answer: its own sizes, or none when it refuses.
    pub fn answer(own: Option<&Self>) -> [u8; ANSWER_BYTES] {
        let mut b = [0; ANSWER_BYTES];
        match own {
            Some(own) => b[8..].copy_from_slice(&own.encode()),
            None => b[0] = 1,
        }
        b
    }

    /// Reads the acceptor's answer.
    ///
    /// # Errors
    /// [`HelloError::Refused`], or what is wrong with its sizes.
    pub fn decode_answer(b: &[u8; ANSWER_BYTES]) -> Result<Self, HelloError> {
        match b[0] {
            0 => Self::decode(&b[8..]),
            _ => Err(HelloError::Refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Hello = Hello { descriptors: 64, depth: 1024, max_bytes: 1 << 36, frame_bytes: 64 << 20 };

    /// The golden bytes of `docs/wire.md`, hello and answer.
    #[test]
    fn golden_hello() {
        let b = OURS.encode();
        assert_eq!(b, [1, 0, 64, 0, 0, 4, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
        assert_eq!(Hello::decode(&b), Ok(OURS));
        let answer = Hello::answer(Some(&OURS));
        assert_eq!((&answer[..8], &answer[8..]), (&[0; 8][..], &b[..]));
        assert_eq!(Hello::decode_answer(&answer), Ok(OURS));
        assert_eq!(Hello::decode_answer(&Hello::answer(None)), Err(HelloError::Refused));
    }

    /// Other versions, other lengths and impossible sizes are refused; two sides meet at the lesser.
    #[test]
    fn judges_sizes() {
        let mut b = OURS.encode();
        b[0] = 2;
        assert_eq!(Hello::decode(&b), Err(HelloError::Version(2)));
        assert_eq!(Hello::decode(&b[1..]), Err(HelloError::Size(23)));
        for bad in [
            Hello { descriptors: 0, ..OURS },
            Hello { descriptors: 65, ..OURS },
            Hello { depth: 0, ..OURS },
            Hello { max_bytes: 0, ..OURS },
            Hello { frame_bytes: 0, ..OURS },
        ] {
            assert_eq!(Hello::decode(&bad.encode()), Err(HelloError::Sizes));
        }
        let small = Hello { descriptors: 8, depth: 4096, max_bytes: 10, frame_bytes: 1 };
        let want = Hello { descriptors: 8, depth: 1024, max_bytes: 10, frame_bytes: 1 };
        assert_eq!(OURS.agree(&small), want);
        assert_eq!(small.agree(&OURS), want);
    }
}
