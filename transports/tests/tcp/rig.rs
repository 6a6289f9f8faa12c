//! Two sides of a TCP transport in one process, their halves stepped by hand. Shared by tests and by the
//! example that measures lanes. Deliberately without stages: what is tested here is the transport alone.
#![allow(dead_code, reason = "shared by several targets, each of which uses a part")]
#![allow(clippy::unwrap_used, reason = "only tests and examples")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline_transports::control::{Control, Preamble};
use pipeline_transports::tcp::{Settings, TcpTransport};
use pipeline_transports::transport::{BoxFuture, SessionId};
use pipeline_transports::wr::Span;
use pipeline_transports::{
    Access, Completion, Completions, Error, Halves, Incoming, Link, LinkId, Memory, Nanos, NicId, Op, PairId,
    Path, RegionId, Regions, Transport, Waker, Wakes, WorkRequest, WrId,
};

/// The control connection that TCP never uses.
pub struct NoControl;

impl Control for NoControl {
    fn exchange<'a>(&'a mut self, _body: &'a [u8], _by: Nanos) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        unreachable!("a TCP lane needs nothing from control")
    }
}

/// One side: regions, transport, halves.
pub struct Side {
    pub regions: Arc<Regions>,
    pub transport: TcpTransport,
    pub halves: Halves,
}

pub fn no_wakes() -> Wakes {
    Wakes { post: Waker::none(), reap: Waker::none(), serve: Waker::none() }
}

impl Side {
    pub fn new(settings: &Settings) -> Self {
        let regions = Arc::new(Regions::new(64));
        let transport = TcpTransport::new("tcp", settings.clone(), regions.clone());
        let halves = transport.attach(NicId(0), PairId(0), no_wakes()).unwrap();
        Self { regions, transport, halves }
    }

    /// The halves of a second attach of the same pair.
    pub fn attach_again(&self) -> Halves {
        self.transport.attach(NicId(0), PairId(0), no_wakes()).unwrap()
    }

    /// A region of `len` bytes; pinned, as a request's would be.
    pub fn region(&self, len: u64, access: Access) -> RegionId {
        let id = self.regions.add(Memory::allocate(len).unwrap(), access).unwrap();
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

    /// Takes an incoming lane, as control would.
    pub async fn accept(&mut self, stream: TcpStream, link: LinkId) -> Result<(), Error> {
        stream.set_nonblocking(true).unwrap();
        let mut stream = tokio::net::TcpStream::from_std(stream).unwrap();
        let preamble = Preamble::read(&mut stream).await.unwrap();
        assert_eq!((preamble.session, preamble.transport.as_str()), (SessionId([7; 16]), "tcp"));
        let from = Incoming {
            link,
            peer: "initiator".into(),
            stream: stream.into_std().unwrap(),
            hello: preamble.hello,
            nic: NicId(0),
            pair: PairId(0),
        };
        let link = self.transport.accept(from, &mut NoControl, soon()).await?;
        self.halves.serve.as_mut().unwrap().adopt(link.serve.unwrap());
        Ok(())
    }

    /// Opens a lane to `address`, as control would.
    pub async fn dial(&mut self, address: SocketAddr, link: LinkId) -> Result<(), Error> {
        let link = self.open(address, link).await?;
        self.halves.post.adopt(link.post.unwrap());
        self.halves.reap.adopt(link.reap.unwrap());
        Ok(())
    }

    /// A lane whose ends nobody has adopted yet.
    pub async fn open(&self, address: SocketAddr, link: LinkId) -> Result<Link, Error> {
        let path = Path {
            link,
            nic: NicId(0),
            pair: PairId(0),
            lane: 0,
            peer: "target".into(),
            address,
            addresses: Default::default(),
            session: SessionId([7; 16]),
            incarnation: 1,
            avoid: Vec::new(),
        };
        let offer = self.transport.offer();
        self.transport.dial(&path, &offer, &mut NoControl, soon()).await
    }
}

pub fn soon() -> Nanos {
    pipeline_transports::clock::now() + 5_000_000_000
}

/// An initiator and a target with `lanes` lanes between them, links 1, 2, …
pub fn connected(settings: &Settings, lanes: u64) -> (Side, Side) {
    let (mut a, mut b) = (Side::new(settings), Side::new(settings));
    for lane in 1..=lanes {
        connect(&mut a, &mut b, LinkId(lane));
    }
    (a, b)
}

/// One more lane between two sides.
pub fn connect(a: &mut Side, b: &mut Side, link: LinkId) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    runtime().block_on(async {
        let accepted = async {
            let stream = tokio::task::spawn_blocking(move || listener.accept().unwrap().0);
            b.accept(stream.await.unwrap(), link).await.unwrap();
        };
        let (dialled, ()) = tokio::join!(a.dial(address, link), accepted);
        dialled.unwrap();
    });
}

/// An initiator with one lane (link 1) to a hand-made target: the raw socket, after the hello.
pub fn raw_target(settings: &Settings) -> (Side, TcpStream) {
    use std::io::{Read, Write};
    let mut side = Side::new(settings);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let hello = settings.hello();
    let target = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut preamble = [0; 36 + 3 + 24];
        stream.read_exact(&mut preamble).unwrap();
        stream.write_all(&pipeline_transports::tcp::hello::Hello::answer(Some(&hello))).unwrap();
        stream
    });
    runtime().block_on(side.dial(address, LinkId(1))).unwrap();
    (side, target.join().unwrap())
}

/// A target with one lane (link 1) from a hand-made initiator: the raw socket, after the hello.
pub fn raw_initiator(settings: &Settings) -> (TcpStream, Side) {
    use std::io::{Read, Write};
    let mut side = Side::new(settings);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let hello = settings.hello().encode().to_vec();
    let preamble = Preamble::lane(SessionId([7; 16]), LinkId(1), "tcp", hello).encode().unwrap();
    stream.write_all(&preamble).unwrap();
    runtime().block_on(side.accept(listener.accept().unwrap().0, LinkId(1))).unwrap();
    let mut answer = [0; 32];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], 0);
    (stream, side)
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub fn request(id: u64, op: Op, local: (RegionId, u64), remote: (RegionId, u64), len: u64) -> WorkRequest {
    let span = |(region, offset)| Span { region, offset };
    WorkRequest { id: WrId(id), op, local: span(local), remote: span(remote), len }
}

/// Steps until `done` says so; panics after ten seconds, so that a hang is a failure with a place.
pub fn until(what: &str, mut step: impl FnMut() -> bool) {
    let start = Instant::now();
    while !step() {
        assert!(start.elapsed() < Duration::from_secs(10), "still not: {what}");
        std::thread::yield_now();
    }
}

/// Steps the initiator's halves once and appends what completed.
pub fn drive(side: &mut Side, done: &mut Vec<Completion>, closed: &mut Vec<LinkId>) {
    let mut out = Completions::with_capacity(256);
    side.halves.post.flush(0);
    side.halves.reap.reap(0, &mut out);
    done.extend_from_slice(out.done());
    closed.extend_from_slice(out.closed());
}

/// Steps the target's half once.
pub fn serve(side: &mut Side) -> usize {
    side.halves.serve.as_mut().unwrap().step(1, 64).answered
}
