//! The data connection of Mooncake's TCP protocol, byte for byte: a header of 24 bytes, in the second version of the
//! protocol a status of 8, and payload between them that has no frame of its own.
//! Deliberately blind to addresses: whether one is good, its owner says.

use crate::wr::Op;

/// Bytes of a request's header.
pub const HEADER_BYTES: usize = 24;
/// Bytes of a status.
pub const STATUS_BYTES: usize = 8;

/// `MCTV`: the high half of every status.
const STATUS_MAGIC: u64 = 0x4D43_5456;
/// The bit of the operation that says [`Framing::V2`].
const ACKNOWLEDGED: u8 = 0x80;
const WRITE: u8 = 0x01;

/// Which version of the protocol a request speaks; each says it itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Framing {
    /// No status: a WRITE is never answered, a refusal is the end of the connection.
    V1,
    /// Each request is answered by a status; a WRITE's comes when its last byte is in memory.
    #[default]
    V2,
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Payload bytes. Never 0 in a request that makes sense.
    pub size: u64,
    /// Address of the first byte in the target's process.
    pub addr: u64,
    /// Direction, seen from the initiator.
    pub op: Op,
    /// Whether a status is wanted.
    pub framing: Framing,
}

impl Header {
    /// As it is sent; the padding is zero.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.addr.to_le_bytes());
        let op = if self.op == Op::Write { WRITE } else { 0 };
        bytes[16] = if self.framing == Framing::V2 { op | ACKNOWLEDGED } else { op };
        bytes
    }

    /// Reads one. Every 24 bytes are one: what is no WRITE is a READ, and the padding may be anything.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let op = if bytes[16] & !ACKNOWLEDGED == WRITE { Op::Write } else { Op::Read };
        let framing = if bytes[16] & ACKNOWLEDGED == 0 { Framing::V1 } else { Framing::V2 };
        Self { size: word(0), addr: word(8), op, framing }
    }
}

/// How a request of [`Framing::V2`] went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done; of a READ, the payload follows.
    Done,
    /// Its range is not in one registered buffer, or may not be touched so. The connection ends behind it.
    Rejected,
    /// A code that this version does not know: not done.
    Unknown(u32),
}

impl Status {
    /// As it is sent.
    pub fn encode(self) -> [u8; STATUS_BYTES] {
        let code = match self {
            Self::Done => 0,
            Self::Rejected => 1,
            Self::Unknown(code) => code,
        };
        (STATUS_MAGIC << 32 | u64::from(code)).to_le_bytes()
    }

    /// Reads one; `None` if it is none at all.
    pub fn decode(bytes: &[u8; STATUS_BYTES]) -> Option<Self> {
        let word = u64::from_le_bytes(*bytes);
        (word >> 32 == STATUS_MAGIC).then_some(match word as u32 {
            0 => Self::Done,
            1 => Self::Rejected,
            code => Self::Unknown(code),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes are those that were captured: a WRITE of 4 bytes in the second version, and both answers to it.
    #[test]
    fn captured_bytes() {
        let header = Header { size: 4, addr: 0x7f00_0000_0000, op: Op::Write, framing: Framing::V2 };
        let bytes = [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0x81, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(header.encode(), bytes);
        assert_eq!(Header::decode(&bytes), header);
        assert_eq!(Status::Done.encode(), [0, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d]);
        assert_eq!(Status::Rejected.encode(), [1, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d]);
    }

    /// Operations that nobody has defined are READs, in both versions, as Mooncake takes them.
    #[test]
    fn what_is_no_write_is_a_read() {
        let mut bytes = [0xff; HEADER_BYTES];
        for op in 0..=255u8 {
            bytes[16] = op;
            let header = Header::decode(&bytes);
            assert_eq!(header.op == Op::Write, op == 0x01 || op == 0x81, "{op:#x}");
            assert_eq!(header.framing == Framing::V2, op >= 0x80, "{op:#x}");
        }
    }

    /// Bytes without the magic are no status, whatever their code.
    #[test]
    fn a_status_has_its_magic() {
        assert_eq!(Status::decode(&[0; 8]), None);
        assert_eq!(Status::decode(&[0, 0, 0, 0, 0x56, 0x54, 0x43, 0x4c]), None);
    }

    proptest! {
        /// What is encoded reads back as it was, and the padding of others is nothing to us.
        #[test]
        fn round_trips(size: u64, addr: u64, write: bool, v2: bool, padding: [u8; 7], code: u32) {
            let op = if write { Op::Write } else { Op::Read };
            let framing = if v2 { Framing::V2 } else { Framing::V1 };
            let header = Header { size, addr, op, framing };
            let mut bytes = header.encode();
            prop_assert_eq!(&bytes[17..], &[0; 7]);
            bytes[17..].copy_from_slice(&padding);
            prop_assert_eq!(Header::decode(&bytes), header);
            let status = Status::decode(&Status::Unknown(code).encode()).unwrap();
            prop_assert_eq!(status.encode(), Status::Unknown(code).encode());
        }
    }
}
