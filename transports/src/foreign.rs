//! Peers that run another engine and speak its protocol: no control session, no hello, no fence.
//! A transport of such a protocol finds them by their own names, tells what they have as any peer's view tells it, and
//! carries their notices. What it is told by the other side it hears at listeners of its own, which
//! [`Transport::tend`](crate::Transport::tend) drives.
//!
//! Deliberately small: links, work requests and completions are those of every transport.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::clock::Nanos;
use crate::error::Error;
use crate::memory::{Access, RegionId};
use crate::transport::{BoxFuture, Offer};

/// What a foreign peer has, as it was told last.
#[derive(Clone, Debug)]
pub struct Found {
    /// Name that it gives itself.
    pub name: String,
    /// Changes when it is another process that listens there: made of what it told, because these protocols have no such
    /// number. Never 0.
    pub incarnation: u64,
    /// Where its data listener is reached; links are dialled there.
    pub addresses: Arc<[SocketAddr]>,
    /// Of the same type as the transport that found it; the body is the transport's own.
    pub offer: Offer,
    /// Its memory.
    pub segments: Vec<FoundSegment>,
}

/// A segment: regions by ascending start, without overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSegment {
    /// Its name here.
    pub name: String,
    /// `"dram"` …
    pub kind: String,
    /// Its regions.
    pub regions: Vec<FoundRegion>,
}

/// One region of a foreign peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRegion {
    /// The name that the transport gave it: within one incarnation it never means other bytes.
    pub id: RegionId,
    /// First offset of it in the segment. A segment whose offsets are the peer's addresses has gaps between regions.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// What may be done, as far as the protocol says.
    pub access: Access,
    /// For [`Transport::learn`](crate::Transport::learn).
    pub keys: Vec<u8>,
}

/// A notice to or from a foreign peer: two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignNotice {
    /// Who says it: for what is sent, the name of this node.
    pub name: String,
    /// What is said. Text, where the protocol allows no other bytes.
    pub body: Vec<u8>,
}

/// Takes a notice; `false` if nobody listens or there is no room, which the other side is told where its protocol can
/// say so. Any thread, never blocks.
pub type Hear = Arc<dyn Fn(ForeignNotice) -> bool + Send + Sync>;

/// What a transport of another engine's protocol can do besides moving bytes. All of it runs in the control pool and ends by
/// `by`.
pub trait Foreign: Send + Sync {
    /// Binds its listeners, for a node of this name: once, before [`Transport::tend`](crate::Transport::tend), which serves
    /// them. A node whose listener cannot be bound does not start.
    ///
    /// # Errors
    /// [`Error::Io`] with the address.
    fn bind<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<(), Error>>;
    /// The node ends: takes back what a directory was told of it. At the end, once; what fails is only logged.
    fn unbind<'a>(&'a self, _by: Nanos) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
    /// What others call this node in that protocol; `None` until its listener is bound.
    fn own_name(&self) -> Option<String>;
    /// What is spoken with a peer that was found with this offer, for explanations: `Mooncake TCP, version 2`.
    fn protocol(&self, _offer: &Offer) -> String {
        String::new()
    }
    /// Whether a peer can have this name, as far as that is known without asking anybody.
    ///
    /// # Errors
    /// What is wrong with it, and what to write.
    fn judge(&self, _name: &str) -> Result<(), String> {
        Ok(())
    }
    /// Finds a peer by the name it has in that protocol, and what it has now. Asked again after its links died and when a name
    /// or an offset is not in the view; nothing is remembered of an answer but the names of regions.
    ///
    /// # Errors
    /// [`Error::UnknownName`] where a directory does not know it, [`Error::Directory`] where the directory does not
    /// answer, [`Error::Unreachable`], [`Error::Protocol`], [`Error::Deadline`].
    fn find<'a>(&'a self, name: &'a str, by: Nanos) -> BoxFuture<'a, Result<Found, Error>>;
    /// Whether it lives: asks its process, not the machine.
    ///
    /// # Errors
    /// As [`Self::find`].
    fn probe<'a>(&'a self, name: &'a str, by: Nanos) -> BoxFuture<'a, Result<(), Error>>;
    /// Gives it a notice; it has taken it when this answers.
    ///
    /// # Errors
    /// As [`Self::find`]; [`Error::Refused`]; [`Error::BadArgument`] for bytes that its protocol cannot carry.
    fn notify<'a>(
        &'a self,
        name: &'a str,
        notice: &'a ForeignNotice,
        by: Nanos,
    ) -> BoxFuture<'a, Result<(), Error>>;
    /// Where notices of such peers go. Called once, before [`Transport::tend`](crate::Transport::tend) runs.
    fn hear(&self, by: Hear);
}
