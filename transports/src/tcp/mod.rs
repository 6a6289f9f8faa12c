//! Transfers over TCP: one-way lanes that carry frames of up to 64 descriptors, bytes straight between socket
//! and registered memory. `docs/wire.md` is the specification.
//!
//! Deliberately no connection pool, no deadlines and no retry: lanes are opened by control, deadlines and
//! retries belong to the stages. A lane only watches that it moves at all.

mod answers;
pub mod ceiling;
mod counters;
mod dial;
pub(crate) mod epoll;
pub mod frame;
pub(crate) mod halves;
pub mod hello;
pub(crate) mod inbox;
mod lane;
mod lane_loom;
mod nics;
mod post;
mod reap;
mod ring;
mod serve;
mod settings;
mod slots;
pub(crate) mod socket;
mod source;
mod transport;
pub(crate) mod vector;

pub use counters::Counters;
pub use settings::{Nic, Settings};
pub use source::{illness, stray};
pub use transport::{KIND, TcpTransport};

/// Bytes of the buffer that takes payload nobody wants; its content is never looked at.
pub(crate) const SCRATCH_BYTES: usize = 64 << 10;
/// Bytes that one system call moves, and that a lane may move in a row before the next one's turn: little enough that a
/// short message on another lane waits a fraction of a millisecond for it, and for what was copied in to be still in the
/// cache when the other side copies it out.
pub(crate) const TURN_BYTES: usize = 1 << 20;
/// Bytes a `sendmsg` of the bare loop is given: it has nobody to be fair to.
const SEND_BYTES: usize = 2 << 20;
