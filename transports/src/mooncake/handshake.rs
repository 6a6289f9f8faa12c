//! Messages of Mooncake's handshake port: eight bytes of length, a type, a text. One request and one answer a connection.
//!
//! Deliberately stingy: an announced length is a claim, so room grows only as bytes come, and never past what was allowed.
//! What the texts mean is in [`super::bodies`] and [`super::descriptor`].

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of the length in front.
const LENGTH_BYTES: usize = 8;
/// The most that is made room for at once.
const STEP_BYTES: u64 = 64 << 10;
/// Longest message that Mooncake reads by default (`MC_HANDSHAKE_MAX_LENGTH`), bytes.
pub const LENGTH_MAX_USUAL: u64 = 1 << 20;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Two queue pairs are to be connected.
    Connection,
    /// What do you have?
    Metadata,
    /// A notice.
    Notify,
    /// Are you there?
    Probe,
    /// From before there were types: a [`Kind::Connection`] without a type, answered without one.
    Untyped,
}

impl Kind {
    fn code(self) -> Option<u8> {
        match self {
            Self::Connection => Some(0),
            Self::Metadata => Some(1),
            Self::Notify => Some(2),
            Self::Probe => Some(3),
            Self::Untyped => None,
        }
    }

    fn from_first(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Connection),
            1 => Some(Self::Metadata),
            2 => Some(Self::Notify),
            3 => Some(Self::Probe),
            b'{' => Some(Self::Untyped),
            _ => None,
        }
    }
}

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// The length in front is 0.
    #[error("a message of 0 bytes")]
    Empty,
    /// More than is read here.
    #[error("a message of {length} bytes, and {max} are read at most")]
    TooLong {
        /// What was announced.
        length: u64,
        /// What is allowed.
        max: u64,
    },
    /// The first byte is no type and no `{`.
    #[error("a message of unknown type {0}")]
    UnknownType(u8),
    /// The connection ended before the message did.
    #[error("the connection ended after {0} bytes of a message")]
    Short(u64),
    /// The connection broke.
    #[error("{0}")]
    Broken(#[from] std::io::Error),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Its text; JSON, and not yet looked at.
    pub body: Vec<u8>,
}

impl Message {
    /// With a text.
    pub fn new(kind: Kind, body: impl Into<Vec<u8>>) -> Self {
        Self { kind, body: body.into() }
    }

    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        let typed = self.kind.code();
        let length = self.body.len() as u64 + u64::from(typed.is_some());
        let mut bytes = Vec::with_capacity(LENGTH_BYTES + length as usize);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend(typed);
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Reads one of at most `max` bytes, type and text together. Whoever awaits it sets the time: this has none.
    ///
    /// # Errors
    /// See [`Malformed`]; nothing more of the stream is of use then.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin), max: u64) -> Result<Self, Malformed> {
        let mut head = Vec::with_capacity(LENGTH_BYTES + 1);
        fill(stream, &mut head, (LENGTH_BYTES + 1) as u64).await?;
        let (length, first) = head.split_at(LENGTH_BYTES);
        let length = length.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        check_length(length, max)?;
        let first = first[0];
        let kind = Kind::from_first(first).ok_or(Malformed::UnknownType(first))?;
        let mut body = Vec::new();
        body.extend((kind == Kind::Untyped).then_some(first));
        let left = length - 1;
        fill(stream, &mut body, left).await.map_err(|error| match error {
            Malformed::Short(got) => Malformed::Short(got + (LENGTH_BYTES + 1) as u64),
            other => other,
        })?;
        Ok(Self { kind, body })
    }
}

fn check_length(length: u64, max: u64) -> Result<(), Malformed> {
    match length {
        0 => Err(Malformed::Empty),
        _ if length > max => Err(Malformed::TooLong { length, max }),
        _ => Ok(()),
    }
}

/// Appends exactly `wanted` bytes, with room for what has come and a step more.
async fn fill(
    stream: &mut (impl AsyncRead + Unpin),
    into: &mut Vec<u8>,
    wanted: u64,
) -> Result<(), Malformed> {
    let mut got = 0;
    while got < wanted {
        let step = (wanted - got).min(STEP_BYTES);
        into.reserve(step as usize);
        match (&mut *stream).take(step).read_buf(into).await? {
            0 => return Err(Malformed::Short(got)),
            n => got += n as u64,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads from bytes that come `at_once` at a time.
    fn read_in_pieces(bytes: &[u8], at_once: usize, max: u64) -> Result<Message, Malformed> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut far, mut near) = tokio::io::duplex(at_once);
            let send = async {
                // A reader that refuses hangs up on us: then there is nothing left to send.
                let _ = tokio::io::AsyncWriteExt::write_all(&mut far, bytes).await;
                drop(far);
            };
            let receive = async {
                let got = Message::read(&mut near, max).await;
                drop(near);
                got
            };
            tokio::join!(send, receive).1
        })
    }

    /// The answers are those that were captured from Mooncake.
    #[test]
    fn captured_bytes() {
        let null = Message::new(Kind::Metadata, "null\n");
        assert_eq!(null.encode(), [6, 0, 0, 0, 0, 0, 0, 0, 1, 0x6e, 0x75, 0x6c, 0x6c, 0x0a]);
        let alive = Message::new(Kind::Probe, "{\"status\":\"success\"}\n").encode();
        assert_eq!(&alive[..9], [0x16, 0, 0, 0, 0, 0, 0, 0, 3]);
        let empty = "{\"local_gid\":\"\",\"local_lid\":0,\"local_nic_path\":\"\",\"payload\":\"\",\"peer_nic_path\":\"\",\"qp_num\":[],\"reply_msg\":\"\"}\n";
        assert_eq!(Message::new(Kind::Connection, empty).encode()[0], 0x6f);
        assert_eq!(Message::new(Kind::Untyped, empty).encode()[0], 0x6e);
        assert_eq!(Message::new(Kind::Untyped, empty).encode()[8], b'{');
    }

    /// A length of 0, one beyond the bound, an unknown type and an end in the middle are each told for what they are.
    #[test]
    fn malformed_messages_are_told_apart() {
        let of = |bytes: &[u8]| read_in_pieces(bytes, 64, 100);
        assert!(matches!(of(&[0; 9]), Err(Malformed::Empty)));
        let mut long = [0xff; 9];
        assert!(matches!(of(&long), Err(Malformed::TooLong { length: u64::MAX, max: 100 })));
        long[..8].copy_from_slice(&101u64.to_le_bytes());
        assert!(matches!(of(&long), Err(Malformed::TooLong { length: 101, .. })));
        let mut typed = Message::new(Kind::Probe, "{}").encode();
        typed[8] = 4;
        assert!(matches!(of(&typed), Err(Malformed::UnknownType(4))));
        let whole = Message::new(Kind::Probe, "{}").encode();
        for cut in 0..whole.len() {
            assert!(matches!(of(&whole[..cut]), Err(Malformed::Short(n)) if n == cut as u64), "{cut}");
        }
    }

    /// Who announces a gibibyte and sends a few bytes has not made us make room for it.
    #[test]
    fn announcing_costs_nothing() {
        let mut bytes = (1u64 << 30).to_le_bytes().to_vec();
        bytes.extend([1, b'{', b'}']);
        let mut body = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let filled = runtime.block_on(fill(&mut &bytes[9..], &mut body, (1 << 30) - 1));
        assert!(matches!(filled, Err(Malformed::Short(2))));
        assert!(body.capacity() as u64 <= 2 * STEP_BYTES, "{}", body.capacity());
        assert!(matches!(read_in_pieces(&bytes, 64, 1 << 31), Err(Malformed::Short(11))));
    }

    proptest! {
        /// However its bytes are cut, a message reads back as it was sent.
        #[test]
        fn round_trips_in_any_pieces(kind in 0..5usize, body: Vec<u8>, at_once in 1..50usize) {
            let kind = [Kind::Connection, Kind::Metadata, Kind::Notify, Kind::Probe, Kind::Untyped][kind];
            let body = if kind == Kind::Untyped { [b"{".to_vec(), body].concat() } else { body };
            let sent = Message::new(kind, body);
            prop_assert_eq!(read_in_pieces(&sent.encode(), at_once, 1 << 20).unwrap(), sent);
        }
    }
}
