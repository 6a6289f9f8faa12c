//! The control connection: one a peer, typed, versioned, length-bounded. Offers, region pages, files and
//! (with later releases) fences and notices travel on it. Deliberately no payload and no data-path work,
//! and no sessions: this is what the bytes mean; who sends them when is for the stages' control pool.

pub mod address;
pub mod auth;
pub mod codec;
pub(crate) mod fields;
mod file_codec;
pub mod file_message;
pub mod handshake;
pub mod hello;
pub mod message;
pub mod page;
pub mod preamble;
pub mod pull_message;
mod wire_error;

pub use address::{Address, AddressError};
pub use auth::SharedKey;
pub use codec::{Frame, FrameReader, Received};
pub use file_message::{Compared, FileAnswer, FileEntry, FileKind, FileRequest, How};
pub use handshake::{Established, Identity};
pub use hello::{Hello, RefusalCode};
pub use message::{ErrorCode, Message};
pub use page::{RegionEntry, SegmentPage, SegmentPart, TransportKeys};
pub use preamble::Preamble;
pub use pull_message::{Pull, Token};
pub use wire_error::WireError;

use crate::clock::Nanos;
use crate::error::Error;
use crate::transport::BoxFuture;

/// What a transport may ask of the control connection while it dials or accepts.
pub trait Control: Send {
    /// Sends the transport's own bytes to the same transport of the peer and awaits its answer.
    fn exchange<'a>(&'a mut self, body: &'a [u8], by: Nanos) -> BoxFuture<'a, Result<Vec<u8>, Error>>;
}
