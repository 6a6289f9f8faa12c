//! Two nodes in one process, and a link between them without any control connection.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use pipeline_transports::control::Control;
use pipeline_transports::transport::{BoxFuture, SessionId};
use pipeline_transports::{
    Error, Halves, Link, LinkId, Nanos, NicId, Offer, PairId, Path, Regions, Transport, Waker, Wakes,
};

/// Numbers that no other test of this process uses.
pub fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

struct NoControl;

impl Control for NoControl {
    fn exchange<'a>(&'a mut self, _: &'a [u8], _: Nanos) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        unreachable!("in-process transports ask nothing of the peer's control")
    }
}

pub fn dial(transport: &dyn Transport, offer: &Offer, pair: u16) -> Result<Link, Error> {
    let path = Path {
        link: LinkId(unique()),
        nic: NicId(0),
        pair: PairId(pair),
        lane: 0,
        peer: "target".into(),
        address: SocketAddr::from(([127, 0, 0, 1], 7001)),
        addresses: Default::default(),
        session: SessionId([0; 16]),
        incarnation: 1,
        avoid: Vec::new(),
    };
    let mut control = NoControl;
    let future = pin!(transport.dial(&path, offer, &mut control, u64::MAX));
    match future.poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(link) => link,
        Poll::Pending => panic!("nothing to wait for in one process"),
    }
}

pub fn adopt(halves: &mut Halves, link: Link) -> LinkId {
    halves.post.adopt(link.post.expect("a dialler has a post end"));
    halves.reap.adopt(link.reap.expect("a dialler has a reap end"));
    assert!(link.serve.is_none());
    link.id
}

pub fn no_wakes() -> Wakes {
    Wakes { post: Waker::none(), reap: Waker::none(), serve: Waker::none() }
}

/// Two nodes of an in-process transport.
pub struct Pair<T> {
    pub initiator: Arc<Regions>,
    pub target: Arc<Regions>,
    pub near: T,
    pub far: Option<T>,
    pub halves: Halves,
    pub now: Nanos,
}

impl<T: Transport> Pair<T> {
    pub fn with(make: impl Fn(u64, Arc<Regions>) -> T) -> Self {
        let (initiator, target) = (Arc::new(Regions::new(64)), Arc::new(Regions::new(64)));
        let near = make(unique(), initiator.clone());
        let far = Some(make(unique(), target.clone()));
        let halves = near.attach(NicId(0), PairId(0), no_wakes()).unwrap();
        Self { initiator, target, near, far, halves, now: 1 }
    }

    pub fn link(&mut self) -> LinkId {
        let offer = self.far.as_ref().expect("the target lives").offer();
        let link = dial(&self.near, &offer, 0).unwrap();
        adopt(&mut self.halves, link)
    }
}
