//! Notices: what the initiator of a batch wants the target's program to know once all of the batch has ended.
//!
//! A batch with a notice ([`crate::Options::notice`]) is done when all of its requests have ended *and* the peer has put
//! the notice into its queue, where [`Notices`] finds it. The notice is sent only after the last request has ended, and
//! done means applied: so whoever reads a notice of a batch whose requests were all done finds all of its bytes in
//! place. If some failed it says how many, and the batch has failed anyway. A notice that could not be delivered by the
//! batch's deadline makes the batch fail, with a reason of its own ([`crate::Batch::notice`]). Between notices of two
//! batches no order is promised.
//!
//! # Exactly once, or the batch has failed
//!
//! Every notice has a name: the sender's start (its incarnation), the sender's way to this peer (a *channel*: a peer may
//! be opened under two names), and a number that counts up on that channel. The sender sends a notice again, under the
//! same number, only after the session that carried it has ended without an answer. It says in each message below which
//! number all are *settled*, that is answered for good or given up; it never has numbers open that are
//! [`WINDOW`](window) or more apart. So the receiver needs to remember, for each channel, the settled number and one
//! bit for each of the next 1024: what lies below is settled, what lies within is known bit by bit, and what lies beyond
//! is turned away as busy. A late copy of an old session, read long after its number was settled, is below and changes
//! nothing.
//!
//! *The sender restarts:* it has another incarnation; numbers of the two never meet. *The receiver restarts:* it has
//! another incarnation, the memory that the notice speaks of is gone, and the notice fails as `StalePeer` unsent. *The
//! receiver forgets a sender,* because very many others came since its last session: then it has another *epoch* for it,
//! which a sender asks for at the start of every session. A notice that was sent under another epoch is not sent again:
//! it fails as unanswered. A sender with a session is never forgotten, so the epoch it asked for holds for what it sends
//! on that session. Memory: one window for each of at most twice `limits.peers` channels, `limits.notices` notices in
//! the queue, and as many on the sender's side, each of at most 4 KiB.
//!
//! Deliberately trusting in one thing: that a session's other side is the node it says it is. Who has the shared key may
//! claim another's incarnation, and then use up its numbers.

mod inbox;
mod window;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use inbox::Desk;
pub use inbox::Inbox;
pub(crate) use window::WINDOW;

use crate::feed::{Feed, ListenError};

/// What a peer wants this program to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The name that the peer gave itself.
    pub peer: Arc<str>,
    /// The peer's start: changes when it restarts. 0 of one that runs another engine, which says nothing but the body.
    pub incarnation: u64,
    /// Requests of the batch it speaks of; 0 of one that runs another engine.
    pub requests: u32,
    /// Those of them that did not end well: what they should have moved is not, or not wholly, in place.
    pub failed: u32,
    /// The peer's own bytes.
    pub body: Box<[u8]>,
}

impl Notice {
    /// Whether every request of the batch was done: all of its bytes are in place.
    pub fn is_done(&self) -> bool {
        self.failed == 0
    }
}

/// The notices of a node, in the order in which they came. While one of these lives somebody listens, and notices are
/// taken; without, peers are told that nobody does. Several share the notices: each is given out once. What has been
/// taken and not read is kept for the next one.
pub struct Notices {
    feed: Arc<Feed<Notice>>,
}

impl Notices {
    fn new(feed: Arc<Feed<Notice>>) -> Self {
        feed.enter();
        Self { feed }
    }

    /// The next one, if it is there.
    pub fn try_next(&self) -> Option<Notice> {
        self.feed.try_next()
    }

    /// The next one; waits for it up to `timeout`.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn next(&self, timeout: Duration) -> Result<Notice, ListenError> {
        self.feed.next(timeout)
    }

    /// A descriptor that is readable while there is a notice, and once the engine was stopped: to wait for it together
    /// with others. Only to be polled; [`Self::try_next`] reads.
    ///
    /// # Errors
    /// The system's reason: no more descriptors.
    pub fn fd(&self) -> std::io::Result<Arc<OwnedFd>> {
        self.feed.fd()
    }
}

impl Clone for Notices {
    fn clone(&self) -> Self {
        Self::new(self.feed.clone())
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.feed.leave();
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}
