//! The codec of a lane: request frames one way, answer frames the other. Little-endian, fixed layout.
//! Deliberately pure: no sockets, no memory, no allocation; a frame is judged before anything acts on it.
//!
//! ```text
//! frame    0  2 magic "PN"      2  1 kind (1 request, 2 answer)   3  1 count 1-64   4  4 zero
//! request  count x 40: tag u32, sequence u32, region u64, offset u64, length u64, op u8, 7 zero
//!          then the payloads of the WRITEs, in order
//! answer   count x 24: tag u32, sequence u32, length u64, status u8, 7 zero
//!          then the payloads of the READs (length bytes each), in order
//! ```

use crate::memory::RegionId;
use crate::wr::{Op, Refusal};

/// First two bytes of every frame.
pub const MAGIC: [u8; 2] = *b"PN";
/// Bytes before the first descriptor or answer.
pub const HEAD_BYTES: usize = 8;
/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 40;
/// Bytes of an answer.
pub const ANSWER_BYTES: usize = 24;
/// The most descriptors or answers a frame carries.
pub const COUNT_MAX: usize = 64;
/// The longest head of a request frame with its descriptors.
pub const REQUEST_BYTES_MAX: usize = HEAD_BYTES + COUNT_MAX * DESCRIPTOR_BYTES;
/// The longest head of an answer frame with its answers.
pub const ANSWERS_BYTES_MAX: usize = HEAD_BYTES + COUNT_MAX * ANSWER_BYTES;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Dialler to acceptor.
    Request = 1,
    /// Acceptor to dialler.
    Answer = 2,
}

/// Names a work request on its lane: a slot of the dialler, and how often that slot has been used. The
/// acceptor only echoes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Slot index.
    pub slot: u32,
    /// Use of that slot; wraps.
    pub sequence: u32,
}

/// One work request on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The dialler's name for it.
    pub tag: Tag,
    /// Direction.
    pub op: Op,
    /// Region of the acceptor.
    pub region: RegionId,
    /// First byte in that region.
    pub offset: u64,
    /// Bytes. The codec lets any number pass; limits are the reader's.
    pub length: u64,
}

impl Default for Descriptor {
    fn default() -> Self {
        Self { tag: Tag::default(), op: Op::Read, region: RegionId(0), offset: 0, length: 0 }
    }
}

/// One answer on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Echo of the descriptor's tag.
    pub tag: Tag,
    /// Why it was refused; `None`: applied (WRITE), or the payload follows (READ).
    pub refusal: Option<Refusal>,
    /// Payload bytes in this frame: a granted READ's length, 0 for everything else.
    pub length: u64,
}

/// What a peer did wrong. The lane is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Wrong magic, kind or reserved bytes.
    #[error("not a frame of this lane")]
    NotAFrame,
    /// Count 0, or above the agreed maximum.
    #[error("a frame of {0} entries")]
    Count(u8),
    /// Neither READ nor WRITE.
    #[error("unknown operation {0}")]
    Op(u8),
    /// Neither done nor a known refusal.
    #[error("unknown status {0}")]
    Status(u8),
    /// A WRITE longer than agreed: its payload cannot be skipped in bounded time.
    #[error("a write of {0} bytes, more than agreed")]
    Length(u64),
    /// An answer to a slot that waits for none, or of another sequence.
    #[error("an answer that nobody waits for (slot {0})")]
    Unexpected(u32),
    /// An answer whose length is not what was asked for.
    #[error("an answer of {0} bytes, not what was asked for")]
    Mismatch(u64),
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from(u32_at(b, at)) | u64::from(u32_at(b, at + 4)) << 32
}

/// Writes the head of a frame of `count` entries.
pub fn put_head(b: &mut [u8], kind: Kind, count: usize) {
    debug_assert!((1..=COUNT_MAX).contains(&count));
    b[..HEAD_BYTES].copy_from_slice(&[MAGIC[0], MAGIC[1], kind as u8, count as u8, 0, 0, 0, 0]);
}

/// Judges the head of a frame of `kind` and answers how many entries follow, at most `max`.
///
/// # Errors
/// [`Violation`]; `b` holds at least [`HEAD_BYTES`].
pub fn head(b: &[u8], kind: Kind, max: usize) -> Result<usize, Violation> {
    if b[..2] != MAGIC || b[2] != kind as u8 || b[4..HEAD_BYTES] != [0; 4] {
        return Err(Violation::NotAFrame);
    }
    let count = usize::from(b[3]);
    if count == 0 || count > max { Err(Violation::Count(b[3])) } else { Ok(count) }
}

/// Writes the `i`-th descriptor of a request frame.
pub fn put_descriptor(frame: &mut [u8], i: usize, d: &Descriptor) {
    let b = &mut frame[HEAD_BYTES + i * DESCRIPTOR_BYTES..][..DESCRIPTOR_BYTES];
    b[..4].copy_from_slice(&d.tag.slot.to_le_bytes());
    b[4..8].copy_from_slice(&d.tag.sequence.to_le_bytes());
    b[8..16].copy_from_slice(&d.region.0.to_le_bytes());
    b[16..24].copy_from_slice(&d.offset.to_le_bytes());
    b[24..32].copy_from_slice(&d.length.to_le_bytes());
    b[32..].copy_from_slice(&[op_code(d.op), 0, 0, 0, 0, 0, 0, 0]);
}

/// Reads the `i`-th descriptor of a request frame.
///
/// # Errors
/// [`Violation::Op`], [`Violation::NotAFrame`] for reserved bytes that are set.
pub fn descriptor(frame: &[u8], i: usize) -> Result<Descriptor, Violation> {
    let b = &frame[HEAD_BYTES + i * DESCRIPTOR_BYTES..][..DESCRIPTOR_BYTES];
    let op = match b[32] {
        1 => Op::Read,
        2 => Op::Write,
        other => return Err(Violation::Op(other)),
    };
    if b[33..] != [0; 7] {
        return Err(Violation::NotAFrame);
    }
    Ok(Descriptor {
        tag: Tag { slot: u32_at(b, 0), sequence: u32_at(b, 4) },
        op,
        region: RegionId(u64_at(b, 8)),
        offset: u64_at(b, 16),
        length: u64_at(b, 24),
    })
}

/// Writes the `i`-th answer of an answer frame.
pub fn put_answer(frame: &mut [u8], i: usize, a: &Answer) {
    let b = &mut frame[HEAD_BYTES + i * ANSWER_BYTES..][..ANSWER_BYTES];
    b[..4].copy_from_slice(&a.tag.slot.to_le_bytes());
    b[4..8].copy_from_slice(&a.tag.sequence.to_le_bytes());
    b[8..16].copy_from_slice(&a.length.to_le_bytes());
    b[16..].copy_from_slice(&[a.refusal.map_or(0, |r| r as u8), 0, 0, 0, 0, 0, 0, 0]);
}

/// Reads the `i`-th answer of an answer frame.
///
/// # Errors
/// [`Violation::Status`], [`Violation::NotAFrame`] for reserved bytes that are set,
/// [`Violation::Mismatch`] for a refusal with payload.
pub fn answer(frame: &[u8], i: usize) -> Result<Answer, Violation> {
    let b = &frame[HEAD_BYTES + i * ANSWER_BYTES..][..ANSWER_BYTES];
    let refusal = match b[16] {
        0 => None,
        code => Some(Refusal::from_wire(code).ok_or(Violation::Status(code))?),
    };
    if b[17..] != [0; 7] {
        return Err(Violation::NotAFrame);
    }
    let length = u64_at(b, 8);
    if refusal.is_some() && length != 0 {
        return Err(Violation::Mismatch(length));
    }
    Ok(Answer { tag: Tag { slot: u32_at(b, 0), sequence: u32_at(b, 4) }, refusal, length })
}

fn op_code(op: Op) -> u8 {
    match op {
        Op::Read => 1,
        Op::Write => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The golden bytes of `docs/wire.md`, request: a second implementation may rely on them.
    #[test]
    fn golden_request_frame() {
        let mut b = [0xee; HEAD_BYTES + 2 * DESCRIPTOR_BYTES];
        put_head(&mut b, Kind::Request, 2);
        let write = Descriptor {
            tag: Tag { slot: 5, sequence: 0x0102_0304 },
            op: Op::Write,
            region: RegionId(0x0000_0002_0000_0007),
            offset: 0x1000,
            length: 3,
        };
        let read = Descriptor {
            tag: Tag { slot: 6, sequence: 1 },
            op: Op::Read,
            region: RegionId(9),
            offset: 0,
            length: 0x1_4000_0000,
        };
        put_descriptor(&mut b, 0, &write);
        put_descriptor(&mut b, 1, &read);
        #[rustfmt::skip]
        let want = [
            0x50, 0x4e, 0x01, 0x02, 0, 0, 0, 0,
            5, 0, 0, 0, 4, 3, 2, 1, 7, 0, 0, 0, 2, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 0, 0, 0, 0, 0, 0,
            6, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0, 0,
            1, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(b, want);
        assert_eq!(head(&b, Kind::Request, 64), Ok(2));
        assert_eq!((descriptor(&b, 0), descriptor(&b, 1)), (Ok(write), Ok(read)));
    }

    /// The golden bytes of `docs/wire.md`, answer.
    #[test]
    fn golden_answer_frame() {
        let mut b = [0xee; HEAD_BYTES + 2 * ANSWER_BYTES];
        put_head(&mut b, Kind::Answer, 2);
        let done = Answer { tag: Tag { slot: 6, sequence: 1 }, refusal: None, length: 0x1_4000_0000 };
        let refused = Answer {
            tag: Tag { slot: 5, sequence: 0x0102_0304 },
            refusal: Some(Refusal::OutOfBounds),
            length: 0,
        };
        put_answer(&mut b, 0, &done);
        put_answer(&mut b, 1, &refused);
        #[rustfmt::skip]
        let want = [
            0x50, 0x4e, 0x02, 0x02, 0, 0, 0, 0,
            6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            5, 0, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(b, want);
        assert_eq!(head(&b, Kind::Answer, 64), Ok(2));
        assert_eq!((answer(&b, 0), answer(&b, 1)), (Ok(done), Ok(refused)));
    }

    /// Wrong magic, kind, count, reserved bytes, operation and status are each refused with their own reason.
    #[test]
    fn refuses_malformed_frames() {
        let mut b = [0; REQUEST_BYTES_MAX];
        put_head(&mut b, Kind::Request, 64);
        assert_eq!(head(&b, Kind::Request, 64), Ok(64));
        assert_eq!(head(&b, Kind::Request, 16), Err(Violation::Count(64)));
        assert_eq!(head(&b, Kind::Answer, 64), Err(Violation::NotAFrame));
        for (at, value, want) in [
            (0, 0, Violation::NotAFrame),
            (2, 3, Violation::NotAFrame),
            (3, 0, Violation::Count(0)),
            (3, 65, Violation::Count(65)),
            (7, 1, Violation::NotAFrame),
        ] {
            let mut bad = b;
            bad[at] = value;
            assert_eq!(head(&bad, Kind::Request, 64), Err(want), "byte {at}");
        }
        assert_eq!(descriptor(&b, 63), Err(Violation::Op(0)));
        put_descriptor(&mut b, 63, &Descriptor::default());
        b[REQUEST_BYTES_MAX - 1] = 1;
        assert_eq!(descriptor(&b, 63), Err(Violation::NotAFrame));
        let mut a = [0; ANSWERS_BYTES_MAX];
        a[HEAD_BYTES + 16] = 77;
        assert_eq!(answer(&a, 0), Err(Violation::Status(77)));
        a[HEAD_BYTES + 16] = 1;
        a[HEAD_BYTES + 8] = 9;
        assert_eq!(answer(&a, 0), Err(Violation::Mismatch(9)));
    }

    proptest::proptest! {
        /// Any bytes decode without panic, and what decodes encodes to the same bytes.
        #[test]
        fn any_bytes_are_judged(bytes in proptest::array::uniform32(proptest::num::u8::ANY), op in 0u8..4) {
            let mut b = [0u8; HEAD_BYTES + DESCRIPTOR_BYTES];
            b[HEAD_BYTES..][..32].copy_from_slice(&bytes);
            b[HEAD_BYTES + 32] = op;
            let _ = head(&bytes, Kind::Request, 64);
            let _ = answer(&bytes, 0);
            if let Ok(d) = descriptor(&b, 0) {
                let mut again = [0u8; HEAD_BYTES + DESCRIPTOR_BYTES];
                put_descriptor(&mut again, 0, &d);
                proptest::prop_assert_eq!(&again[HEAD_BYTES..], &b[HEAD_BYTES..]);
            }
        }
    }
}
