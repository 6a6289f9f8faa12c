//! Two sides of an RDMA transport in one process, on two devices, their halves stepped by hand. Deliberately without
//! stages: what is tested here is the transport alone.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use pipeline_transports::control::Control;
use pipeline_transports::rdma::{RdmaNic, RdmaSettings, RdmaTransport};
use pipeline_transports::transport::{BoxFuture, Registration, SessionId};
use pipeline_transports::wr::Span;
use pipeline_transports::{
    Access, Asking, Blame, Completions, Error, Halves, Link, LinkId, Memory, Nanos, NicId, Op, Outcome,
    PairId, Path, RegionId, Regions, Transport, Waker, Wakes, WorkRequest, WrId,
};

/// Tests of this file run at once, and some break the network under all of them: those have it for themselves.
static NETWORK: RwLock<()> = RwLock::new(());

/// Held by a test that needs the network as it is.
pub fn quiet_network() -> RwLockReadGuard<'static, ()> {
    NETWORK.read().unwrap_or_else(PoisonError::into_inner)
}

/// Held by a test that breaks it; what it leaves broken, because it failed, is mended for the others.
pub struct BrokenNetwork(#[allow(dead_code, reason = "held, not looked at")] RwLockWriteGuard<'static, ()>);

pub fn broken_network() -> BrokenNetwork {
    BrokenNetwork(NETWORK.write().unwrap_or_else(PoisonError::into_inner))
}

impl Drop for BrokenNetwork {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for interface in ["nic0", "p0", "p1"] {
                ip(&["link", "set", interface, "up"]);
            }
            ip(&["addr", "add", "10.9.0.10/24", "dev", "nic0"]);
        }
    }
}

/// Runs `ip` of iproute2. Whether it did what it was told.
pub fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).status().unwrap().success()
}

/// The session of all links.
pub const SESSION: SessionId = SessionId([7; 16]);
/// The target's start.
pub const INCARNATION: u64 = 9;

/// Settings for these devices. (Shorter timeouts than the usual ones would fail links on a busy machine.)
pub fn settings(devices: &[&str]) -> RdmaSettings {
    RdmaSettings {
        nics: devices.iter().map(|name| RdmaNic::named(name)).collect(),
        ..RdmaSettings::default()
    }
}

/// One side: regions, transport, halves of NIC 0.
pub struct Side {
    pub regions: Arc<Regions>,
    pub transport: Arc<RdmaTransport>,
    pub halves: Halves,
    registrations: HashMap<RegionId, Registration>,
}

pub fn no_wakes() -> Wakes {
    Wakes { post: Waker::none(), reap: Waker::none(), serve: Waker::none() }
}

impl Side {
    pub fn new(settings: &RdmaSettings) -> Self {
        let regions = Arc::new(Regions::new(256));
        let transport = Arc::new(RdmaTransport::new("rdma", settings.clone(), regions.capacity()).unwrap());
        let halves = transport.attach(NicId(0), PairId(0), no_wakes()).unwrap();
        Self { regions, transport, halves, registrations: HashMap::new() }
    }

    /// The halves of a second attach of the same pair.
    pub fn attach_again(&self) -> Halves {
        self.transport.attach(NicId(0), PairId(0), no_wakes()).unwrap()
    }

    /// Registers memory. Answers its name and what peers must know.
    pub fn add(&mut self, memory: Memory, access: Access) -> (RegionId, u64, Vec<u8>) {
        let (len, registration) = (memory.len(), self.transport.register(&memory, access).unwrap());
        let region = self.regions.add(memory, access).unwrap();
        registration.bind(region);
        let keys = registration.keys();
        self.registrations.insert(region, registration);
        (region, len, keys)
    }

    /// Unregisters: the devices let go first.
    pub fn remove(&mut self, region: RegionId) -> Result<Memory, Error> {
        self.registrations.remove(&region);
        self.regions.remove(region)
    }

    /// Takes over both ends of a link.
    pub fn adopt(&mut self, link: Link) {
        self.halves.post.adopt(link.post.unwrap());
        self.halves.reap.adopt(link.reap.unwrap());
    }

    /// A region of `len` bytes of `byte`; pinned, as a request's would be.
    pub fn region(&mut self, len: u64, byte: u8, access: Access) -> (RegionId, u64, Vec<u8>) {
        let mut memory = Memory::allocate(len).unwrap();
        memory.write(0, &vec![byte; len as usize]).unwrap();
        let (region, len, keys) = self.add(memory, access);
        self.regions.pin(region).unwrap();
        (region, len, keys)
    }

    pub fn bytes(&self, region: RegionId, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.regions.read_shared(region, offset, &mut bytes).unwrap();
        bytes
    }
}

/// The control connection to the other side: answers at once.
pub struct Wire<'a>(pub &'a RdmaTransport);

impl Control for Wire<'_> {
    fn exchange<'a>(&'a mut self, body: &'a [u8], by: Nanos) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        let from = Asking { peer: "initiator".into(), session: SESSION, incarnation: 1 };
        self.0.answer(from, body, by)
    }
}

pub fn path(link: LinkId, lane: u16) -> Path {
    Path {
        link,
        nic: NicId(0),
        pair: PairId(0),
        lane,
        peer: "target".into(),
        address: "127.0.0.1:1".parse().unwrap(),
        addresses: Default::default(),
        session: SESSION,
        incarnation: INCARNATION,
        avoid: Vec::new(),
    }
}

/// A link from one side to the other whose ends nobody has adopted yet.
pub fn dial(near: &Side, far: &RdmaTransport, link: LinkId, lane: u16) -> Result<Link, Error> {
    let (offer, path) = (far.offer(), path(link, lane));
    runtime().block_on(near.transport.dial(&path, &offer, &mut Wire(far), soon()))
}

pub fn soon() -> Nanos {
    pipeline_transports::clock::now() + 5_000_000_000
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// An initiator on the first device and a target on the second, with a link between them, and regions on both sides.
pub struct Two {
    pub near: Side,
    pub far: Side,
    pub local: RegionId,
    pub remote: RegionId,
    pub len: u64,
    pub out: Completions,
    pub closed: Vec<(LinkId, Blame)>,
    pub ended: HashMap<u64, Outcome>,
    pub links: u64,
    pub longest_reap: Duration,
    next: u64,
}

impl Two {
    /// Both regions are of `len` bytes; the initiator's is full of 0x11, the target's of 0x22.
    pub fn new(near: &RdmaSettings, far: &RdmaSettings, len: u64) -> Self {
        let (mut near, mut far) = (Side::new(near), Side::new(far));
        let (local, ..) = near.region(len, 0x11, Access::Local);
        let (remote, _, keys) = far.region(len, 0x22, Access::ReadWrite);
        near.transport.learn(INCARNATION, remote, len, &keys).unwrap();
        let (closed, ended) = (Vec::new(), HashMap::new());
        let out = Completions::with_capacity(64);
        let longest_reap = Duration::ZERO;
        Self { near, far, local, remote, len, out, closed, ended, links: 0, longest_reap, next: 0 }
    }

    /// One more link, adopted.
    pub fn connect(&mut self) -> LinkId {
        self.links += 1;
        let link = LinkId(self.links);
        let made = dial(&self.near, &self.far.transport, link, 0).unwrap();
        self.near.adopt(made);
        link
    }

    /// A work request between equal offsets.
    pub fn request(&mut self, op: Op, offset: u64, len: u64) -> WorkRequest {
        self.next += 1;
        let span = |region| Span { region, offset };
        WorkRequest { id: WrId(self.next), op, local: span(self.local), remote: span(self.remote), len }
    }

    /// `count` requests for blocks side by side.
    pub fn blocks(&mut self, op: Op, count: u64, len: u64) -> Vec<WorkRequest> {
        (0..count).map(|i| self.request(op, i * len, len)).collect()
    }

    /// Posts all of it; there must be room.
    pub fn post(&mut self, link: LinkId, work: &[WorkRequest]) {
        assert_eq!(self.near.halves.post.post(now(), link, work).taken, work.len());
    }

    /// Flushes and reaps once.
    pub fn step(&mut self) {
        self.near.halves.post.flush(now());
        self.reap();
    }

    /// Reaps once.
    pub fn reap(&mut self) {
        self.out.clear();
        let begin = Instant::now();
        self.near.halves.reap.reap(now(), &mut self.out);
        self.longest_reap = self.longest_reap.max(begin.elapsed());
        for done in self.out.done() {
            assert!(!self.closed.iter().any(|(link, _)| *link == done.link), "{done:?} of a closed link");
            assert_eq!(self.ended.insert(done.id.0, done.outcome), None, "{done:?} came twice");
        }
        for (at, link) in self.out.closed().iter().enumerate() {
            assert!(!self.closed.iter().any(|(closed, _)| closed == link), "{link:?} closed twice");
            self.closed.push((*link, self.out.blame(at)));
        }
    }

    /// Steps until `done` says so; panics after twenty seconds, so that a hang is a failure with a place.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let begin = Instant::now();
        while !done(self) {
            self.step();
            assert!(begin.elapsed() < Duration::from_secs(20), "still not: {what}; {:?}", self.closed);
            std::thread::yield_now();
        }
    }

    /// Steps until all of `work` has ended.
    #[track_caller]
    pub fn finish(&mut self, work: &[WorkRequest]) {
        self.until("all completions", |two| work.iter().all(|w| two.ended.contains_key(&w.id.0)));
    }

    /// Keeps a link at work, by WRITEs that it adds to `work`, until it closes.
    #[track_caller]
    pub fn stream_until_closed(&mut self, link: LinkId, work: &mut Vec<WorkRequest>) {
        self.until("the link to close", |two| {
            if two.near.halves.reap.outstanding() < 32 && two.near.halves.post.room(link) >= 32 {
                let more = two.blocks(Op::Write, 32, 64 << 10);
                two.post(link, &more);
                work.extend(more);
            }
            two.closed.iter().any(|(closed, _)| *closed == link)
        });
    }

    pub fn outcome(&self, work: &WorkRequest) -> Option<Outcome> {
        self.ended.get(&work.id.0).copied()
    }

    /// How many of `work` ended so.
    pub fn count(&self, work: &[WorkRequest], outcome: Outcome) -> usize {
        work.iter().filter(|w| self.outcome(w) == Some(outcome)).count()
    }
}

pub fn now() -> Nanos {
    pipeline_transports::clock::now()
}
