//! A node of the transport under test, driven by hand, and lanes to whoever listens.

#![allow(dead_code, reason = "shared by several targets, each of which uses a part")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline_transports::control::Control;
use pipeline_transports::mooncake::wire::Framing;
use pipeline_transports::mooncake::{KIND, MooncakeTcp, Settings};
use pipeline_transports::transport::{BoxFuture, SessionId};
use pipeline_transports::wr::{Outcome, Span};
use pipeline_transports::{
    Access, Blame, Completions, Error, Halves, LinkId, Memory, Nanos, NicId, Offer, Op, PairId, Path,
    RegionId, Regions, Transport, Waker, Wakes, WorkRequest, WrId,
};

/// The control connection that foreign peers do not have.
pub struct NoControl;

impl Control for NoControl {
    fn exchange<'a>(&'a mut self, _body: &'a [u8], _by: Nanos) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        unreachable!("a Mooncake peer has no control connection")
    }
}

/// The start that all targets of these tests have.
pub const START: u64 = 77;
/// The name under which their memory is known.
pub const REMOTE: RegionId = RegionId(1 << 32);
/// Where it lies, as they are told: nobody here looks there.
pub const BASE: u64 = 0x7f00_0000_0000;
/// How much there is.
pub const REMOTE_LEN: u64 = 64 << 20;

/// The initiator.
pub struct Side {
    pub regions: Arc<Regions>,
    pub transport: MooncakeTcp,
    pub halves: Halves,
    pub out: Completions,
    pub ended: Vec<(u64, Outcome)>,
    pub closed: Vec<(LinkId, Blame)>,
}

pub fn no_wakes() -> Wakes {
    Wakes { post: Waker::none(), reap: Waker::none(), serve: Waker::none() }
}

impl Side {
    pub fn new(settings: &Settings) -> Self {
        let regions = Arc::new(Regions::new(64));
        let transport = MooncakeTcp::new("mooncake", settings.clone(), regions.clone()).unwrap();
        let halves = transport.attach(NicId(0), PairId(0), no_wakes()).unwrap();
        transport.learn(START, REMOTE, REMOTE_LEN, &BASE.to_le_bytes()).unwrap();
        let out = Completions::with_capacity(64);
        Self { regions, transport, halves, out, ended: Vec::new(), closed: Vec::new() }
    }

    /// A region of `len` bytes; pinned, as a request's would be.
    pub fn region(&self, len: u64) -> RegionId {
        let id = self.regions.add(Memory::allocate(len).unwrap(), Access::Local).unwrap();
        self.regions.pin(id).unwrap();
        id
    }

    pub fn fill(&self, id: RegionId, offset: u64, bytes: &[u8]) {
        self.regions.write_shared(id, offset, bytes).unwrap();
    }

    pub fn bytes(&self, id: RegionId, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.regions.read_shared(id, offset, &mut bytes).unwrap();
        bytes
    }

    /// Opens a lane, as control would.
    pub fn dial(&mut self, link: LinkId, to: &[SocketAddr], framing: Framing) -> Result<(), Error> {
        let path = path(link, to);
        let body = vec![if framing == Framing::V2 { 2 } else { 1 }];
        let offer = Offer { kind: KIND.into(), name: "mooncake".into(), body };
        let mut via = NoControl;
        let dialling = self.transport.dial(&path, &offer, &mut via, soon());
        let link = runtime().block_on(dialling)?;
        self.halves.post.adopt(link.post.unwrap());
        self.halves.reap.adopt(link.reap.unwrap());
        Ok(())
    }

    /// A lane (link 1) to a target that the test plays itself.
    pub fn raw_target(settings: &Settings, framing: Framing) -> (Self, TcpStream) {
        let mut side = Self::new(settings);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        side.dial(LinkId(1), &[listener.local_addr().unwrap()], framing).unwrap();
        let stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (side, stream)
    }

    /// Posts all, which must find room.
    pub fn post(&mut self, work: &[WorkRequest]) {
        assert_eq!(self.halves.post.post(0, LinkId(1), work).taken, work.len());
    }

    /// One turn of both halves.
    pub fn turn(&mut self, now: Nanos) {
        self.out.clear();
        self.halves.post.flush(now);
        self.halves.reap.reap(now, &mut self.out);
        self.ended.extend(self.out.done().iter().map(|c| (c.id.0, c.outcome)));
        let closed = self.out.closed().iter().enumerate();
        self.closed.extend(closed.map(|(i, link)| (*link, self.out.blame(i))));
    }

    /// Turns until so many have ended.
    #[track_caller]
    pub fn until_ended(&mut self, count: usize) {
        until("all ended", || {
            self.turn(0);
            self.ended.len() >= count
        });
        assert_eq!(self.ended.len(), count, "{:?}", self.ended);
    }

    /// Turns until link 1 is reported closed; answers whose fault it was.
    #[track_caller]
    pub fn until_closed(&mut self) -> Blame {
        until("closed", || {
            self.turn(0);
            !self.closed.is_empty()
        });
        assert_eq!(self.closed.len(), 1);
        assert_eq!((self.closed[0].0, self.halves.post.room(LinkId(1))), (LinkId(1), 0));
        self.closed[0].1
    }

    /// How all that has ended has ended, in the order of their names.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let mut ended = self.ended.clone();
        ended.sort_by_key(|(id, _)| *id);
        ended.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

pub fn path(link: LinkId, to: &[SocketAddr]) -> Path {
    Path {
        link,
        nic: NicId(0),
        pair: PairId(0),
        lane: 0,
        peer: "target".into(),
        address: to[0],
        addresses: to.into(),
        session: SessionId([0; 16]),
        incarnation: START,
        avoid: Vec::new(),
    }
}

pub fn soon() -> Nanos {
    pipeline_transports::clock::now() + 5_000_000_000
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// From `near` of a local region to `far` of the target's memory, or back.
pub fn request(id: u64, op: Op, local: RegionId, near: u64, far: u64, len: u64) -> WorkRequest {
    let span = |region, offset| Span { region, offset };
    WorkRequest { id: WrId(id), op, local: span(local, near), remote: span(REMOTE, far), len }
}

/// Steps until `done` says so; panics after ten seconds, so that a hang is a failure with a place.
#[track_caller]
pub fn until(what: &str, mut step: impl FnMut() -> bool) {
    let start = Instant::now();
    while !step() {
        assert!(start.elapsed() < Duration::from_secs(10), "still not: {what}");
        std::thread::yield_now();
    }
}

/// Bytes in which no two places look alike.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = vec![0; len];
    for chunk in bytes.chunks_mut(8) {
        word = word.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(1);
        chunk.copy_from_slice(&(word ^ word >> 29).to_le_bytes()[..chunk.len()]);
    }
    bytes
}
