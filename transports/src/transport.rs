//! The one trait behind every way of moving bytes.
//! Deliberately split in two: `dial`, `accept` and `offer` run in the control pool and may await; what
//! `attach` makes runs on data-path workers and never blocks.

use std::future::Future;
use std::pin::Pin;

use crate::caps::Caps;
use crate::clock::Nanos;
use crate::control::Control;
use crate::error::Error;
use crate::foreign::Foreign;
use crate::link::{Halves, Link, LinkId, Waker, Wakes};
use crate::memory::{Access, Memory, RegionId};
use crate::spread::Spread;

/// A boxed future that the control pool drives.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Index of a NIC within its transport. A transport that names no NICs has one, of its own name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NicId(pub u16);

/// Index of a worker pair on a NIC: the i-th post worker with the i-th reap and serve worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PairId(pub u16);

/// What one side tells the other about a transport, carried by the control connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Type of the transport: `"tcp"`.
    pub kind: String,
    /// The name it has in the file of that side.
    pub name: String,
    /// The transport's own bytes, bounded by the control codec (keys, QP ends, sizes).
    pub body: Vec<u8>,
}

/// The way a link shall take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Name the link shall have on this side.
    pub link: LinkId,
    /// Local NIC.
    pub nic: NicId,
    /// Local worker pair.
    pub pair: PairId,
    /// Number of the lane among those of this path.
    pub lane: u16,
    /// Peer, for messages.
    pub peer: String,
    /// Where the peer's control listener was reached.
    pub address: std::net::SocketAddr,
    /// All addresses of that listener that are known, in the order of its NICs as far as somebody said one; none where only
    /// [`Self::address`] is known.
    pub addresses: std::sync::Arc<[std::net::SocketAddr]>,
    /// Names the control session to the acceptor: the first bytes of a data connection carry it.
    pub session: SessionId,
    /// The start of the peer that the session leads to: what [`Transport::learn`] was told of it holds for this link.
    pub incarnation: u64,
    /// NICs of the peer's transport to which the way from this NIC rests after a failure: another one is to be preferred,
    /// if there is any.
    pub avoid: Vec<u16>,
}

/// Who asks in [`Transport::answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Peer, for messages.
    pub peer: String,
    /// The control session it asks on.
    pub session: SessionId,
    /// Which start of that peer it is.
    pub incarnation: u64,
}

/// Secret name of a control session: 16 random bytes made by its acceptor, so that a data connection can
/// only be opened by whoever passed the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

impl std::fmt::Debug for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionId(secret)")
    }
}

/// A data connection that reached the node's listener and named a valid session.
pub struct Incoming {
    /// Name the link shall have on this side.
    pub link: LinkId,
    /// Peer, for messages.
    pub peer: String,
    /// The connection, non-blocking; what follows the lane hello has not been read.
    pub stream: std::net::TcpStream,
    /// The transport-specific part of the lane hello.
    pub hello: Vec<u8>,
    /// NIC and pair that shall serve it.
    pub nic: NicId,
    /// Worker pair that shall serve it.
    pub pair: PairId,
}

/// Most bytes of [`Registered::keys`].
pub const KEYS_MAX: usize = 1024;

/// Proof that a transport knows a region; dropping it deregisters.
pub trait Registered: Send + Sync {
    /// What the same transport of a peer must know to reach the region ([`Transport::learn`]), in the transport's own
    /// words: at most [`KEYS_MAX`] bytes, and none where nothing is needed.
    fn keys(&self) -> Vec<u8> {
        Vec::new()
    }
    /// The region has this name now, by which work requests will call it. Said once, before the first of them.
    fn bind(&self, _region: RegionId) {}
    /// The region is part of this segment from now on: peers may be told of it, where the transport tells them by itself
    /// ([`crate::foreign`]). Said after [`Self::bind`]; what is never said so is for nobody else.
    fn publish(&self, _segment: &str) {}
}

/// See [`Registered`].
pub type Registration = Box<dyn Registered>;

/// Copies that a transport has made through staging buffers in user space so far. Nothing on a direct path
/// ([`crate::Caps::direct`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staged {
    /// Work requests of which bytes were copied so.
    pub copies: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What is known of one NIC of a transport, for choosing and for explaining.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicFacts {
    /// Why no link should be opened or chosen on it now (its port is down, it rests after a failure); `None`: it is well.
    pub resting: Option<String>,
    /// Bits per second of its port; 0 where nobody knows.
    pub bits_per_s: u64,
    /// NUMA node, where the system knows.
    pub numa: Option<u16>,
    /// Address that it is used by: an IP address, a GID; empty where there is none.
    pub address: String,
}

/// A way of moving bytes.
pub trait Transport: Send + Sync {
    /// What it can do.
    fn caps(&self) -> &Caps;
    /// Its NICs, by name; at least one.
    fn nics(&self) -> &[String];
    /// Makes memory known to its devices. Most transports need nothing.
    ///
    /// # Errors
    /// The system's reason, with the region's length.
    fn register(&self, memory: &Memory, access: Access) -> Result<Registration, Error>;
    /// As [`Self::register`], where several threads can take part: for transports that have much to do for one region, with
    /// several devices or in several pieces.
    ///
    /// # Errors
    /// As there.
    fn register_on(
        &self,
        memory: &Memory,
        access: Access,
        _threads: &dyn Spread,
    ) -> Result<Registration, Error> {
        self.register(memory, access)
    }
    /// What a peer must know to dial it.
    fn offer(&self) -> Offer;
    /// How many links a path shall have (`lanes`).
    fn lanes(&self) -> u16;
    /// Opens a link. Control pool only; ends by `by`.
    fn dial<'a>(
        &'a self,
        path: &'a Path,
        peer: &'a Offer,
        via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>>;
    /// Takes an incoming link. Control pool only; ends by `by`.
    fn accept<'a>(
        &'a self,
        from: Incoming,
        via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>>;
    /// What a peer has told of a region of its own ([`Registered::keys`] there): links to this start of the peer may name
    /// it from now on. Told again after every change of the peer's table; the name of a region never means another one. A
    /// region of the same index (low half) as an earlier one has taken its place.
    /// Control pool only.
    ///
    /// # Errors
    /// [`Error::Protocol`] for bytes that make no sense; the region cannot be reached then.
    fn learn(&self, _incarnation: u64, _region: RegionId, _len: u64, _keys: &[u8]) -> Result<(), Error> {
        Ok(())
    }
    /// No session to this start of a peer is left: what was learnt of it is of no use any more. Control pool only.
    fn forget(&self, _incarnation: u64) {}
    /// Answers what the same transport of a peer sent by [`Control::exchange`]. Control pool only; ends by `by`.
    ///
    /// # Errors
    /// Goes to the peer as a refusal, with its text.
    fn answer<'a>(
        &'a self,
        _from: Asking,
        _body: &'a [u8],
        _by: Nanos,
    ) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        let what = "answer an exchange: its links need none";
        Box::pin(std::future::ready(Err(Error::Unsupported { transport: "of this kind", what })))
    }
    /// The acceptor's side of links without a serve half: lets go of the link that the peer calls `only`, or of all that
    /// came on its session. Once it has answered nothing of them touches memory here any more (the *fence*); links that
    /// it does not know it has let go of before. Control pool only.
    fn let_go<'a>(&'a self, _session: SessionId, _only: Option<LinkId>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
    /// What it must look after beside the data path (events of devices), for as long as the node runs: driven by the
    /// control pool, never blocks it.
    fn tend<'a>(&'a self) -> BoxFuture<'a, std::convert::Infallible> {
        Box::pin(std::future::pending())
    }
    /// What is known of a NIC now. Any thread, cheap enough to ask a few times a second.
    fn nic_facts(&self, _nic: NicId) -> NicFacts {
        NicFacts::default()
    }
    /// Rings `changed` whenever [`Self::nic_facts`] of one of its NICs may say something else. Once, before any link.
    fn on_nic_change(&self, _changed: Waker) {}
    /// Whether it closes idle links of its own accord when it has more than it may: reported closed with nobody to blame,
    /// and dialled again when somebody wants it, not before.
    fn evicts(&self) -> bool {
        false
    }
    /// What it has copied through staging buffers, counted where the copies are made. Transports without such buffers
    /// say nothing.
    fn staged(&self) -> Staged {
        Staged::default()
    }
    /// What it does for peers that run another engine, if that is whom it speaks to.
    fn foreign(&self) -> Option<&dyn Foreign> {
        None
    }
    /// Makes the halves for worker pair `pair` of `nic`: before any link, and again whenever a half of the pair was
    /// lost (its worker panicked). The new half works for links dialled or accepted from then on, beside those of the
    /// first that survive; the wakers must reach the same workers. Halves that are not needed are simply dropped.
    ///
    /// What a half leaves behind when it is dropped: its links are dead, and the halves that remain say so as of any
    /// dead link. Once the drop of a reap half has returned, nothing of this side touches local memory of the requests
    /// that it had not completed; no other half will complete them.
    fn attach(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Halves, Error>;
}
