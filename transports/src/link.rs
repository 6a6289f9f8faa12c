//! Links, and the halves of a transport that work on them: post, reap, serve.
//! Deliberately single-threaded objects: a half belongs to one worker, takes `&mut self` and never blocks.

use std::any::Any;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::clock::Nanos;
use crate::wr::{Completions, WorkRequest, WrId};

/// Names a link for its life. Unique in the process, never reused. Chosen by the control code that dials
/// or accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// One end of a link, on its way to the half that will own it: opaque to everybody else.
pub struct LinkEnd {
    /// Which link.
    pub id: LinkId,
    /// The transport's own part.
    pub body: Box<dyn Any + Send>,
}

/// A ready connection: ends for the halves of this side. A dialler has `post` and `reap`; the acceptor of a
/// two-sided transport has `serve`.
pub struct Link {
    /// Its name.
    pub id: LinkId,
    /// For the post half.
    pub post: Option<LinkEnd>,
    /// For the reap half.
    pub reap: Option<LinkEnd>,
    /// For the serve half.
    pub serve: Option<LinkEnd>,
    /// Which NIC of the peer's transport it leads to; 0 where the transport does not know or has one.
    pub remote_nic: u16,
}

/// Rings the bell of the worker that owns a half. Any thread, idempotent, never blocks.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// From a function.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(ring))
    }

    /// A waker that does nothing: for tests that poll.
    pub fn none() -> Self {
        Self::new(|| {})
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        (self.0)();
    }
}

/// The wakers of the workers that own the three halves: rung for freed room, `dead` marks and completions
/// that no descriptor announces. Mailed links ring through the stages.
#[derive(Clone)]
pub struct Wakes {
    /// Owner of the post half.
    pub post: Waker,
    /// Owner of the reap half.
    pub reap: Waker,
    /// Owner of the serve half.
    pub serve: Waker,
}

/// What [`crate::Transport::attach`] makes for the i-th workers of a NIC: they may sit in three different
/// threads, or all in one.
pub struct Halves {
    /// Posts work requests.
    pub post: Box<dyn Post>,
    /// Reaps completions.
    pub reap: Box<dyn Reap>,
    /// Answers peers; only for two-sided transports.
    pub serve: Option<Box<dyn Serve>>,
}

/// What a sleeping worker waits for. A twin of the trait in `pipeline-graph`; stages adapt.
pub trait Arming {
    /// Wake when readable. One epoll set or completion channel per half, not one descriptor a connection.
    fn fd(&mut self, fd: RawFd);
    /// Wake no later than this.
    fn deadline(&mut self, at: Nanos);
    /// Do not sleep this time: something came between the poll and the arming.
    fn busy(&mut self);
}

/// What [`Post::post`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// How many of the given work requests were taken, from the front. Each taken one gets exactly one
    /// completion from the reap half, also when the link is dead already.
    pub taken: usize,
}

/// What [`Post::flush`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// All that was posted has been handed to the wire.
    All,
    /// Bytes have been handed over; the rest waits for the next flush, or for room on the wire.
    Partly,
    /// Nothing has been handed over: all waits for room on the wire, and [`Post::arm`] will name the descriptor.
    Stuck,
}

/// The half that posts.
pub trait Post: Send {
    /// Takes over its end of a link.
    fn adopt(&mut self, end: LinkEnd);
    /// How many work requests the link takes now; 0 for unknown and dead links.
    fn room(&self, link: LinkId) -> usize;
    /// Posts from the front of `work`, as many as there is room for. May coalesce; `flush` sends.
    fn post(&mut self, now: Nanos, link: LinkId, work: &[WorkRequest]) -> Posted;
    /// Hands to the wire what was posted and what an earlier flush had to leave. Never blocks.
    fn flush(&mut self, now: Nanos) -> Flushed;
    /// Names what a sleep must wait for (room on a wire).
    fn arm(&mut self, on: &mut dyn Arming);
}

/// What became of a work request that should be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It had not begun and will not: its completion ([`crate::Outcome::NotBegun`]) comes by the next reap.
    Dropped,
    /// A READ whose bytes will be thrown away: the buffer is free now; no completion follows.
    Discarding,
    /// It has begun: only aborting the link takes it back.
    MustAbort,
    /// The link does not know it (completed, or of another link).
    NotHere,
}

/// The half that reaps. Only this half completes work requests. One that is dropped leaves no request with access to
/// local memory: see [`crate::Transport::attach`].
pub trait Reap: Send {
    /// Takes over its end of a link.
    fn adopt(&mut self, end: LinkEnd);
    /// Collects completions while `out` has room, and notes there when bytes of unfinished ones came. Answers how many
    /// it added. Never blocks.
    fn reap(&mut self, now: Nanos, out: &mut Completions) -> usize;
    /// Takes one work request back.
    fn cancel(&mut self, link: LinkId, id: WrId) -> Cancelled;
    /// Kills a link: all of its work requests complete by the next reaps, then it is reported closed.
    fn abort(&mut self, link: LinkId);
    /// Work requests posted and not completed, over all links of this half.
    fn outstanding(&self) -> usize;
    /// Names what a sleep must wait for.
    fn arm(&mut self, on: &mut dyn Arming);
}

/// What [`Serve::step`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Work requests answered.
    pub answered: usize,
    /// Bytes moved, those of work requests included that are not answered yet.
    pub bytes: u64,
    /// Payload of WRITEs that was put in its place, those included that are not answered yet.
    pub bytes_in: u64,
    /// Payload of READs that were answered.
    pub bytes_out: u64,
    /// Whether it would have gone on with a larger budget.
    pub more: bool,
}

/// The acceptor's half of a two-sided transport.
pub trait Serve: Send {
    /// Takes over its end of a link.
    fn adopt(&mut self, end: LinkEnd);
    /// Answers peers, about `budget` work requests. Never blocks.
    fn step(&mut self, now: Nanos, budget: usize) -> Served;
    /// Drops a link so that nothing of it touches memory any more, also in the middle of a frame.
    fn fence(&mut self, link: LinkId);
    /// A link of which nothing touches memory any more: its peer closed it, it broke the protocol, it was fenced, or
    /// it could not be taken over. Each adopted link is named once; ask until `None`.
    fn closed(&mut self) -> Option<LinkId>;
    /// Whether there are peers whose connections nobody handed to it by [`Self::adopt`]: they came to a listener of its
    /// transport's own.
    fn has_guests(&self) -> bool {
        false
    }
    /// Work requests that have begun here and are not answered yet, over all links: what a node that leaves waits for.
    fn under_way(&self) -> usize;
    /// Names what a sleep must wait for.
    fn arm(&mut self, on: &mut dyn Arming);
}
