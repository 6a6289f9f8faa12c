//! The front door: takes a batch whole or not at all, and tells why.
//! Deliberately linear and without system calls: a few dozen nanoseconds a request, on the caller's thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pipeline_graph::{Full, Nanos, Waker};
use pipeline_transports::{Error, RegionId, Span, clock};

use crate::batch::Batch;
use crate::key::Key;
use crate::ledger::{Birth, NIL, Parcel, Phase, Place, Told};
use crate::peer::{PeerId, PeerState, PeerView};
use crate::reason::{Code, Reason, SUBMIT_STAGE};
use crate::request::{NOTICE_MAX, Options, Remote, Request};
use crate::world::World;

/// Why nothing was submitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A table or the first edge is full.
    #[error(
        "busy: {asked} wanted of {what}, {free} free now; free finished batches or submit again later \
         (`submit_wait` waits)"
    )]
    Busy {
        /// What is full: a key under `[limits]`, or the edge from `submit`.
        what: &'static str,
        /// How many of it the batch needs.
        asked: u64,
        /// How many there were.
        free: u64,
    },
    /// It could never fit.
    #[error(
        "too large: {asked} requests in one batch, `limits.requests` is {limit}; split it or raise the limit"
    )]
    TooLarge {
        /// Requests in the batch.
        asked: u64,
        /// `limits.requests`.
        limit: u64,
    },
    /// No requests.
    #[error("a batch without requests; submit at least one")]
    Empty,
    /// A request makes no sense, whatever the memory. Nothing was submitted.
    #[error("bad argument: request {index}: {what}; correct it and submit again")]
    BadRequest {
        /// Which.
        index: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It was busy, and `submit_wait` was called on a thread of an engine, which would wait for itself.
    #[error("waiting for room here would deadlock: this thread runs the engine's stages; use `submit`")]
    WouldDeadlock,
    /// A notice that is too long.
    #[error("bad argument: a notice of {len} bytes, at most {limit} are allowed; put the rest into memory")]
    NoticeTooLong {
        /// Its bytes.
        len: usize,
        /// [`crate::request::NOTICE_MAX`].
        limit: usize,
    },
    /// The engine drains or has stopped.
    #[error("the engine takes no more work: it drains or has stopped; start it again")]
    Stopped,
    /// This process was forked from the one whose engine it is.
    #[error(
        "not usable after fork: the engine's threads stayed in the parent; start a new engine in the child"
    )]
    Forked,
}

impl From<Full> for SubmitError {
    fn from(full: Full) -> Self {
        match full {
            Full::NoRoom { asked, free } => {
                Self::Busy { what: "the edge from `submit`", asked: asked as u64, free: free as u64 }
            }
            Full::Closed => Self::Stopped,
        }
    }
}

/// The way into the graph. Implemented for the engine's inlet; a test may have its own.
pub trait Inlet: Send + Sync {
    /// Workers of the first stage.
    fn workers(&self) -> usize;
    /// The worker that an item goes to.
    fn worker_of(&self, key: Key) -> usize;
    /// Pushes all or none, one entry an item.
    ///
    /// # Errors
    /// [`SubmitError::Busy`] or [`SubmitError::Stopped`].
    fn push_all(&self, keys: &[Key]) -> Result<(), SubmitError>;
    /// Whether it will never take anything any more.
    fn is_closed(&self) -> bool;
    /// Says whom to ring when there is room again after a push found none, or it was closed.
    fn ring_for_room(&self, waker: &Waker);
}

impl Inlet for pipeline_graph::Inlet<Key> {
    fn workers(&self) -> usize {
        pipeline_graph::Inlet::workers(self)
    }

    fn worker_of(&self, key: Key) -> usize {
        pipeline_graph::Inlet::worker_of(self, key)
    }

    fn push_all(&self, keys: &[Key]) -> Result<(), SubmitError> {
        Ok(pipeline_graph::Inlet::push_all(self, keys)?)
    }

    fn is_closed(&self) -> bool {
        pipeline_graph::Inlet::is_closed(self)
    }

    fn ring_for_room(&self, waker: &Waker) {
        pipeline_graph::Inlet::ring_for_room(self, waker);
    }
}

/// Submits batches. Any thread; share it by `Arc` or clone it.
#[derive(Clone)]
pub struct Client {
    world: Arc<World>,
    inlet: Arc<dyn Inlet>,
    deadline: Duration,
}

/// Chains are built on the stack up to this many workers of the first stage.
const WORKERS: usize = 64;

/// Requests of one destination worker, linked through their cover slices.
#[derive(Clone, Copy)]
struct Chain {
    first: u32,
    last: u32,
}

const NO_CHAIN: Chain = Chain { first: NIL, last: NIL };

impl Client {
    /// `deadline` is that of requests that name none.
    pub fn new(world: Arc<World>, inlet: Arc<dyn Inlet>, deadline: Duration) -> Self {
        let ledger = world.ledger.clone();
        inlet.ring_for_room(&Waker::new(move || ledger.line.tell()));
        Self { world, inlet, deadline }
    }

    /// Submits a batch: all of it, or nothing.
    ///
    /// A request whose *memory* is wrong (region not registered, range past its end, access denied, peer
    /// restarted or gone) does not keep the others from being carried out: the batch is accepted, that
    /// request has failed at once, and the batch's summary and results say so.
    ///
    /// # Errors
    /// See [`SubmitError`]; nothing was submitted then.
    pub fn submit(&self, requests: &[Request], options: Options) -> Result<Batch, SubmitError> {
        self.try_submit(requests, &options, None)
    }

    /// As [`Self::submit`], and control rings `done` when the requests have ended: for what control itself submits, which
    /// must not wait. The requests name one peer, and the options no notice.
    pub(crate) fn submit_telling(
        &self,
        requests: &[Request],
        options: &Options,
        done: &Waker,
    ) -> Result<Batch, SubmitError> {
        self.try_submit(requests, options, Some(done))
    }

    fn try_submit(
        &self,
        requests: &[Request],
        options: &Options,
        done: Option<&Waker>,
    ) -> Result<Batch, SubmitError> {
        if !self.is_here() {
            return Err(SubmitError::Forked);
        }
        let ledger = &self.world.ledger;
        let (asked, limit) = (requests.len() as u64, u64::from(ledger.requests_limit()));
        if asked > limit {
            return Err(SubmitError::TooLarge { asked, limit });
        }
        let len = requests.len() as u32;
        if len == 0 {
            return Err(SubmitError::Empty);
        }
        let nonsense = requests.iter().enumerate().find_map(|(i, r)| Some((i, r.nonsense()?)));
        if let Some((index, what)) = nonsense {
            return Err(SubmitError::BadRequest { index, what });
        }
        if let Some(body) = &options.notice {
            judge_notice(requests, body)?;
        }
        let busy = |what, asked, free: u32| match self.inlet.is_closed() {
            true => SubmitError::Stopped,
            false => SubmitError::Busy { what, asked, free: u64::from(free) },
        };
        let batch = ledger.batches.take().ok_or_else(|| busy("limits.batches", 1, 0))?;
        let deadline =
            u64::try_from(options.deadline.unwrap_or(self.deadline).as_nanos()).unwrap_or(u64::MAX);
        let deadline = self.world.time.now().saturating_add(deadline);
        let told = match (&options.notice, done) {
            (Some(body), _) => Some(Told::Peer(body.clone())),
            (None, done) => done.cloned().map(Told::Here),
        };
        let is_told = told.is_some();
        if let Some(to) = told {
            let Remote { peer, incarnation, .. } = requests[0].remote;
            if !ledger.outbox.put(batch, Parcel { peer, incarnation, deadline, to }) {
                ledger.batches.give(batch);
                return Err(busy("limits.notices", 1, 0));
            }
        }
        if !ledger.reserve_requests(len) {
            if is_told {
                ledger.outbox.remove(batch);
            }
            ledger.batches.give(batch);
            return Err(busy("limits.requests", asked, ledger.free_requests()));
        }
        self.enter(requests, batch, deadline, is_told)?;
        Ok(Batch::new(self.world.clone(), batch, len))
    }

    /// As [`Self::submit`], but waits up to `timeout` while it is busy. On a thread of an engine, where waiting would
    /// be for ever, it answers [`SubmitError::WouldDeadlock`] instead.
    ///
    /// Those who wait are served in the order in which they came; each freed batch and each free place on the first
    /// edge wakes the first of them only. Others may find room before it for a millisecond, and with
    /// [`Self::submit`], which never waits, at any time.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_wait(
        &self,
        requests: &[Request],
        options: Options,
        timeout: Duration,
    ) -> Result<Batch, SubmitError> {
        if !self.is_here() {
            return Err(SubmitError::Forked);
        }
        let by = clock::now().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let line = &self.world.ledger.line;
        let mut busy = None;
        if timeout.is_zero() || !line.is_due() || pipeline_graph::on_engine_thread() {
            match self.try_submit(requests, &options, None) {
                Err(error @ SubmitError::Busy { .. }) => busy = Some(error),
                end => return end,
            }
        }
        if pipeline_graph::on_engine_thread() {
            return Err(SubmitError::WouldDeadlock);
        }
        let place = line.stand();
        loop {
            if place.may_try() || busy.is_none() && clock::now() >= by {
                match self.try_submit(requests, &options, None) {
                    Err(error @ SubmitError::Busy { .. }) => busy = Some(error),
                    end => return end,
                }
            }
            let left = clock::until(by);
            if left.is_zero()
                && let Some(error) = busy.take()
            {
                return Err(error);
            }
            self.pause(&place, left);
        }
    }

    /// Sleeps until there may be room, at most `left`. With `caller` pools nothing is freed unless somebody steps: the
    /// thread leads if nobody else does, and looks every millisecond, because the line cannot rouse who leads.
    fn pause(&self, place: &Place<'_>, left: Duration) {
        let Some(callers) = self.world.callers.get() else { return place.sleep(left) };
        let nap = left.min(Duration::from_millis(1));
        match callers.lead() {
            Some(mut lead) => {
                lead.step(clock::now() + nap.as_nanos() as u64, || false);
            }
            None => place.sleep(nap),
        }
        if !callers.is_led() {
            self.world.ledger.batches.crowd.pass_on();
        }
    }

    /// Whether this is the process of the engine, not a child forked from it.
    fn is_here(&self) -> bool {
        self.world.regions.origin().is_here()
    }

    /// Fills the tables, and pushes.
    fn enter(
        &self,
        requests: &[Request],
        batch: u32,
        deadline: Nanos,
        notice: bool,
    ) -> Result<(), SubmitError> {
        let mut on_stack = [NO_CHAIN; WORKERS];
        let mut on_heap = Vec::new();
        let workers = self.inlet.workers().max(1);
        let chains = if workers <= WORKERS {
            &mut on_stack[..workers]
        } else {
            on_heap.resize(workers, NO_CHAIN);
            &mut on_heap[..]
        };
        let mut entry = Entry {
            client: self,
            batch,
            deadline,
            notice,
            chains,
            view: None,
            all: NO_CHAIN,
            refused: 0,
            len: 0,
        };
        for chunk in requests.chunks(64) {
            let mut slots = [NIL; 64];
            self.world.ledger.take_requests(&mut slots[..chunk.len()]);
            for (request, slot) in chunk.iter().zip(slots) {
                entry.add(request, slot);
            }
        }
        entry.push()
    }
}

/// A submission on its way in.
struct Entry<'a> {
    client: &'a Client,
    batch: u32,
    deadline: Nanos,
    notice: bool,
    chains: &'a mut [Chain],
    /// The last peer looked at: most batches go to one.
    view: Option<(PeerId, Arc<PeerView>)>,
    all: Chain,
    refused: u32,
    len: u32,
}

impl Entry<'_> {
    fn add(&mut self, request: &Request, index: u32) {
        let ledger = &*self.client.world.ledger;
        let (slot, cover) = (ledger.request(index), ledger.cover_of(index));
        slot.open(request.remote.segment, request.remote.incarnation);
        cover.bear(&Birth {
            request: index,
            batch: self.batch,
            peer: request.remote.peer,
            op: request.op,
            local: Span { region: request.local, offset: request.local_offset, key: 0 },
            remote: Span { region: RegionId(0), offset: request.remote.offset, key: 0 },
            len: request.len,
            deadline: self.deadline,
            transport: None,
        });
        let position = ledger.position(Key::cover(index, cover.generation()));
        self.len += 1;
        match self.all.last {
            NIL => self.all.first = index,
            last => ledger.request(last).chain.store(index, Relaxed),
        }
        self.all.last = index;
        if let Err(reason) = self.admit(request) {
            cover.step_on(cover.generation(), Phase::Live, Phase::Free);
            slot.refuse(Code::new(reason, SUBMIT_STAGE));
            self.refused += 1;
            return;
        }
        let worker = self.client.inlet.worker_of(ledger.key_at(position)).min(self.chains.len() - 1);
        let chain = &mut self.chains[worker];
        match chain.last {
            NIL => chain.first = position,
            last => ledger.at(last).next.store(position, Relaxed),
        }
        chain.last = position;
    }

    /// Judges a request's memory, and pins it.
    fn admit(&mut self, request: &Request) -> Result<(), Reason> {
        self.judge_remote(request)?;
        let regions = &self.client.world.regions;
        regions.pin(request.local).map_err(|_| Reason::NotRegistered)?;
        match regions.local(request.local, request.local_offset, request.len) {
            Ok(_) => Ok(()),
            Err(error) => {
                regions.unpin(request.local);
                Err(match error {
                    Error::NotRegistered(_) => Reason::NotRegistered,
                    _ => Reason::LocalBounds,
                })
            }
        }
    }

    fn judge_remote(&mut self, request: &Request) -> Result<(), Reason> {
        let remote = &request.remote;
        if self.view.as_ref().is_none_or(|(peer, _)| *peer != remote.peer) {
            let peer = self.client.world.peers.get(remote.peer).ok_or(Reason::PeerGone)?;
            // Looked at once for all that follow for it: a peer that leaves waits for whoever was on the way in.
            if peer.state() == PeerState::Leaving {
                return Err(Reason::PeerLeaving);
            }
            self.view = Some((remote.peer, peer.view.load_full()));
        }
        let Some((_, view)) = &self.view else { return Err(Reason::PeerGone) };
        if view.incarnation != remote.incarnation {
            return Err(Reason::StalePeer);
        }
        let segment = view.segments.get(remote.segment as usize).ok_or(Reason::UnknownSegment)?;
        // `nonsense` has ruled out that this wraps.
        if remote.offset + request.len > segment.len {
            return Err(Reason::RemoteBounds);
        }
        let first = segment.region_at(remote.offset).ok_or(Reason::UnknownSegment)?;
        if first.access.allows(request.op) { Ok(()) } else { Err(Reason::Denied) }
    }

    fn push(self) -> Result<(), SubmitError> {
        let ledger = &*self.client.world.ledger;
        ledger.batches.open(self.batch, self.len, self.all.first, self.all.last, self.refused, self.notice);
        let mut on_stack = [Key::default(); WORKERS];
        let mut on_heap = Vec::new();
        let heads = if self.chains.len() <= WORKERS {
            &mut on_stack[..]
        } else {
            on_heap.resize(self.chains.len(), Key::default());
            &mut on_heap[..]
        };
        let mut n = 0;
        for chain in self.chains.iter().filter(|c| c.first != NIL) {
            heads[n] = ledger.key_at(chain.first);
            n += 1;
        }
        if n == 0 {
            if self.notice {
                // Nobody will count it down.
                ledger.outbox.tell_due(self.batch);
            }
            return Ok(());
        }
        self.client.inlet.push_all(&heads[..n]).inspect_err(|_| self.roll_back())
    }

    /// Nothing has been pushed: everything goes back.
    fn roll_back(&self) {
        let ledger = &*self.client.world.ledger;
        for chain in self.chains.iter() {
            let mut at = chain.first;
            while at != NIL {
                let cover = ledger.at(at);
                if cover.step_on(cover.generation(), Phase::Live, Phase::Free) {
                    self.client.world.regions.unpin(cover.local().region);
                }
                at = cover.next.load(Relaxed);
            }
        }
        if self.notice {
            ledger.outbox.remove(self.batch);
        }
        ledger.free_batch(self.batch);
    }
}

/// A notice goes to one peer, and says something of one start of it.
fn judge_notice(requests: &[Request], body: &[u8]) -> Result<(), SubmitError> {
    if body.len() > NOTICE_MAX {
        return Err(SubmitError::NoticeTooLong { len: body.len(), limit: NOTICE_MAX });
    }
    let to = |request: &Request| (request.remote.peer, request.remote.incarnation);
    let other = requests.iter().position(|request| to(request) != to(&requests[0]));
    other.map_or(Ok(()), |index| {
        let what =
            "it names another peer than the first one, or another start of it, and a batch has one notice";
        Err(SubmitError::BadRequest { index, what })
    })
}
