//! The first bytes of every connection to a node's listener: who speaks, which version, and whether this
//! is a control connection or a lane of a control session. Deliberately small, and fixed in its first
//! eight bytes for all versions, so that any two releases can tell each other why they do not match.
//!
//! ```text
//!  0  4  magic 89 50 4c 4e            8  16  session id (zero for a control connection)
//!  4  2  version (u16)               24   2  length of the transport name, at most 64
//!  6  1  kind: 1 control, 2 lane     26   2  length of the hello, at most 1024
//!  7  1  zero                        28   8  the dialler's name of the lane (zero for a control connection)
//!                                    36   .  transport name (UTF-8), then hello
//! ```

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::control::WireError;
use crate::control::fields::{Fields, Put};
use crate::link::LinkId;
use crate::transport::SessionId;

/// Starts every connection. The first byte is not ASCII, so no text protocol is mistaken for ours.
pub const MAGIC: [u8; 4] = [0x89, b'P', b'L', b'N'];
/// Version of the control protocol and of the preamble.
pub const VERSION: u16 = 2;
/// Bytes before the name.
pub const HEADER: usize = 36;
/// Longest transport name, bytes.
pub const NAME_MAX: usize = 64;
/// Longest hello, bytes.
pub const HELLO_MAX: usize = 1024;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A control connection; its hello is a `Hello`.
    Control,
    /// A data connection of a transport; its hello is the transport's own.
    Lane,
}

/// The first bytes of a connection, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// What the connection is for.
    pub kind: Kind,
    /// Which control session a lane belongs to; zero for a control connection.
    pub session: SessionId,
    /// The dialler's name of a lane: what a fence names; zero for a control connection.
    pub link: LinkId,
    /// The acceptor's name of the transport (its offer's `name`); empty for a control connection.
    pub transport: String,
    /// What follows, by kind.
    pub hello: Vec<u8>,
}

impl Preamble {
    /// The start of a control connection.
    pub fn control(hello: Vec<u8>) -> Self {
        let session = SessionId([0; 16]);
        Self { kind: Kind::Control, session, link: LinkId(0), transport: String::new(), hello }
    }

    /// The start of a lane: `session` and `link` from [`crate::transport::Path`], `transport` from the
    /// acceptor's [`crate::transport::Offer::name`].
    pub fn lane(session: SessionId, link: LinkId, transport: &str, hello: Vec<u8>) -> Self {
        Self { kind: Kind::Lane, session, link, transport: transport.to_owned(), hello }
    }

    /// The bytes to send first.
    ///
    /// # Errors
    /// [`WireError::TooLong`] when name or hello pass their bounds.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        check("transport name", self.transport.len(), NAME_MAX)?;
        check("hello", self.hello.len(), HELLO_MAX)?;
        let mut out = Vec::with_capacity(HEADER + self.transport.len() + self.hello.len());
        out.extend_from_slice(&MAGIC);
        out.put_u16(VERSION);
        out.put_u8(match self.kind {
            Kind::Control => 1,
            Kind::Lane => 2,
        });
        out.put_u8(0);
        out.extend_from_slice(&self.session.0);
        out.put_u16(self.transport.len() as u16);
        out.put_u16(self.hello.len() as u16);
        out.put_u64(self.link.0);
        out.extend_from_slice(self.transport.as_bytes());
        out.extend_from_slice(&self.hello);
        Ok(out)
    }

    /// Reads a preamble and not one byte more.
    ///
    /// # Errors
    /// [`WireError`]; the caller sets the deadline.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Self, WireError> {
        // The magic alone first: garbage shorter than a header must not hold the connection open.
        let mut header = [0; HEADER];
        from.read_exact(&mut header[..8]).await?;
        let kind = start(&header)?;
        from.read_exact(&mut header[8..]).await?;
        let mut fields = Fields::new(&header[8..], "preamble");
        let session = SessionId(fields.array()?);
        let (name_len, hello_len) = (usize::from(fields.u16()?), usize::from(fields.u16()?));
        let link = LinkId(fields.u64()?);
        check("transport name", name_len, NAME_MAX)?;
        check("hello", hello_len, HELLO_MAX)?;
        let mut name = vec![0; name_len];
        from.read_exact(&mut name).await?;
        let mut hello = vec![0; hello_len];
        from.read_exact(&mut hello).await?;
        let transport = String::from_utf8(name).map_err(|_| WireError::Malformed("transport name"))?;
        Ok(Self { kind, session, link, transport, hello })
    }
}

/// Judges the eight bytes that never change.
fn start(header: &[u8; HEADER]) -> Result<Kind, WireError> {
    let mut fields = Fields::new(&header[..8], "preamble");
    let magic: [u8; 4] = fields.array()?;
    if magic != MAGIC {
        return Err(WireError::Magic(magic));
    }
    let theirs = fields.u16()?;
    if theirs != VERSION {
        return Err(WireError::Version { ours: VERSION, theirs });
    }
    match (fields.u8()?, fields.u8()?) {
        (1, 0) => Ok(Kind::Control),
        (2, 0) => Ok(Kind::Lane),
        _ => Err(WireError::Malformed("preamble")),
    }
}

fn check(what: &'static str, got: usize, limit: usize) -> Result<(), WireError> {
    if got > limit {
        return Err(WireError::TooLong { what, got: got as u64, limit: limit as u64 });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> Result<Preamble, WireError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let preamble = runtime.block_on(Preamble::read(&mut bytes))?;
        assert!(bytes.is_empty(), "{} bytes were left", bytes.len());
        Ok(preamble)
    }

    /// The golden bytes of docs/wire.md: a second implementation may rely on them.
    #[test]
    fn golden_bytes() {
        let lane = Preamble::lane(SessionId(*b"0123456789abcdef"), LinkId(7), "tcp", vec![0xaa, 0xbb]);
        let bytes = lane.encode().unwrap();
        let golden = [
            &[0x89, 0x50, 0x4c, 0x4e, 2, 0, 2, 0][..],
            b"0123456789abcdef",
            &[3, 0, 2, 0],
            &[7, 0, 0, 0, 0, 0, 0, 0],
            b"tcp",
            &[0xaa, 0xbb],
        ]
        .concat();
        assert_eq!(bytes, golden);
        assert_eq!(read(&bytes).unwrap(), lane);
        let control = Preamble::control(vec![7; HELLO_MAX]);
        assert_eq!(read(&control.encode().unwrap()).unwrap(), control);
    }

    /// Garbage, another version, unknown kinds and announced lengths above the bounds are told apart.
    #[test]
    fn refusals_are_typed() {
        assert!(matches!(read(b"GET / HTTP/1.1\r\n"), Err(WireError::Magic(_))));
        let good = Preamble::lane(SessionId([1; 16]), LinkId(1), "t", Vec::new()).encode().unwrap();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        assert!(matches!(read(&with(4, 9)), Err(WireError::Version { ours: 2, theirs: 9 })));
        assert!(matches!(read(&with(6, 3)), Err(WireError::Malformed(_))));
        assert!(matches!(read(&with(25, 1)), Err(WireError::TooLong { got: 257, limit: 64, .. })));
        assert!(matches!(read(&with(27, 0xff)), Err(WireError::TooLong { limit: 1024, .. })));
        assert!(matches!(read(&with(36, 0xff)), Err(WireError::Malformed("transport name"))));
        assert!(matches!(read(&good[..20]), Err(WireError::Io(_))));
        assert!(Preamble::lane(SessionId([0; 16]), LinkId(1), &"n".repeat(65), Vec::new()).encode().is_err());
    }
}
