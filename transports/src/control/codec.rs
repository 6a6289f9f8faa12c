//! Frames of control messages on a byte stream: `type (u16), flags (u16), request (u32), length (u32)`, then
//! the body. Deliberately bounded both ways, and safe to cancel: a reader dropped in the middle of a frame
//! loses nothing.

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::control::WireError;
use crate::control::fields::{Fields, Put};
use crate::control::message::Message;

/// Bytes before the body.
pub const FRAME_HEADER: usize = 12;
/// The largest message this release takes, header not counted.
pub const MESSAGE_MAX: usize = 256 * 1024;

const ANSWER: u16 = 1;

/// A message with its place in the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Whether it answers a request of the receiver.
    pub answer: bool,
    /// Chosen by who asks, repeated by who answers; 0 asks for no answer.
    pub request: u32,
    /// What is said.
    pub body: Received,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message(Message),
    /// A type this release does not know; its body was skipped.
    Unknown(u16),
}

/// The bytes of a frame.
///
/// # Errors
/// [`WireError::TooLong`] when the other side would not take it (`message_max` of its hello).
pub fn encode(
    answer: bool,
    request: u32,
    message: &Message,
    message_max: usize,
) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::with_capacity(64);
    out.put_u16(message.kind());
    out.put_u16(if answer { ANSWER } else { 0 });
    out.put_u32(request);
    out.put_u32(0);
    message.put(&mut out);
    let len = out.len() - FRAME_HEADER;
    if len > message_max {
        return Err(WireError::TooLong {
            what: "control message",
            got: len as u64,
            limit: message_max as u64,
        });
    }
    out[8..12].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(out)
}

/// Reads frames. Holds at most one message's bytes and what arrived with them.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
}

impl FrameReader {
    /// A reader with nothing read.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next frame; `None` when the stream ended between two frames. Cancel-safe.
    ///
    /// # Errors
    /// [`WireError`]; the stream is of no use after it.
    pub async fn next(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Result<Option<Frame>, WireError> {
        loop {
            if let Some(frame) = self.parse()? {
                return Ok(Some(frame));
            }
            // Bounded: `parse` has refused lengths above the limit before more is read.
            if from.read_buf(&mut self.bytes).await? == 0 {
                return match self.bytes.is_empty() {
                    true => Ok(None),
                    false => Err(WireError::Io(std::io::ErrorKind::UnexpectedEof.into())),
                };
            }
        }
    }

    fn parse(&mut self) -> Result<Option<Frame>, WireError> {
        let Some(header) = self.bytes.get(..FRAME_HEADER) else { return Ok(None) };
        let mut f = Fields::new(header, "control frame");
        let (kind, flags, request, len) = (f.u16()?, f.u16()?, f.u32()?, f.u32()? as usize);
        if len > MESSAGE_MAX {
            let (got, limit) = (len as u64, MESSAGE_MAX as u64);
            return Err(WireError::TooLong { what: "control message", got, limit });
        }
        let Some(body) = self.bytes.get(FRAME_HEADER..FRAME_HEADER + len) else {
            self.bytes.reserve(FRAME_HEADER + len - self.bytes.len());
            return Ok(None);
        };
        let body = Message::decode(kind, body)?.map_or(Received::Unknown(kind), Received::Message);
        self.bytes.drain(..FRAME_HEADER + len);
        Ok(Some(Frame { answer: flags & ANSWER != 0, request, body }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkId;
    use crate::transport::SessionId;

    fn frames(bytes: &[u8], chunk: usize) -> Result<Vec<Frame>, WireError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            // A duplex of `chunk` bytes hands the stream over in pieces of that size.
            let (mut near, mut far) = tokio::io::duplex(chunk);
            let send = async move {
                let _ = tokio::io::AsyncWriteExt::write_all(&mut near, bytes).await;
            };
            let read = async move {
                let (mut reader, mut out) = (FrameReader::new(), Vec::new());
                while let Some(frame) = reader.next(&mut far).await? {
                    out.push(frame);
                }
                Ok(out)
            };
            tokio::join!(send, read).1
        })
    }

    /// The golden bytes of docs/wire.md.
    #[test]
    fn golden_bytes_of_a_frame() {
        let message = Message::GetSegments { segment: 1, region: 1024 };
        let golden = [5, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 4, 0, 0];
        assert_eq!(encode(false, 9, &message, MESSAGE_MAX).unwrap(), golden);
        let message = Message::Fence { session: SessionId([0; 16]), link: LinkId(258) };
        let golden =
            [&[13, 0, 0, 0, 9, 0, 0, 0, 24, 0, 0, 0][..], &[0; 16], &[2, 1, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(encode(false, 9, &message, MESSAGE_MAX).unwrap(), golden);
    }

    /// However a stream is cut, the same frames come out; an unknown type is skipped whole.
    #[test]
    fn frames_survive_any_cut() {
        let mut stream = encode(false, 1, &Message::Ping, MESSAGE_MAX).unwrap();
        stream.extend([0xe7, 3, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 9, 9, 9]);
        stream.extend(encode(true, 3, &Message::Exchanged(vec![5; 300]), MESSAGE_MAX).unwrap());
        let whole = frames(&stream, stream.len()).unwrap();
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[1], Frame { answer: true, request: 2, body: Received::Unknown(999) });
        for chunk in 1..40 {
            assert_eq!(frames(&stream, chunk).unwrap(), whole);
        }
        assert!(matches!(frames(&stream[..stream.len() - 1], 64), Err(WireError::Io(_))));
    }

    /// Field case B40: a message announced with 2 GiB is refused from its header alone.
    #[test]
    fn huge_announcement_is_refused() {
        let mut reader = FrameReader::new();
        reader.bytes.extend([6, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0x80]);
        let before = reader.bytes.capacity();
        assert!(matches!(reader.parse(), Err(WireError::TooLong { got: 0x8000_0000, .. })));
        assert_eq!(reader.bytes.capacity(), before, "memory was reserved for it");
        let long = Message::Exchanged(vec![0; 100]);
        assert!(matches!(encode(true, 1, &long, 50), Err(WireError::TooLong { got: 104, limit: 50, .. })));
    }
}
