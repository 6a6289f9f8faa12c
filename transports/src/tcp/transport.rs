//! TCP as a [`Transport`]: opens and accepts lanes in the control pool, makes the halves for the workers.
//! Deliberately no listener: the node has one, owned by control, which hands lanes over.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::counters::Counters;
use super::dial::reach;
use super::halves::{Connection, Pair, PostEnd, ReapEnd};
use super::hello::Hello;
use super::lane::{Lane, ServeEnd};
use super::nics::{Nics, State};
use super::post::TcpPost;
use super::reap::TcpReap;
use super::serve::TcpServe;
use super::settings::Settings;
use super::slots::Slots;
use super::socket;
use crate::caps::{Caps, Mover};
use crate::clock::Nanos;
use crate::control::{Control, Preamble};
use crate::deadline::in_time;
use crate::error::Error;
use crate::link::{Halves, Link, LinkEnd, Wakes};
use crate::memory::{Access, Memory, Regions};
use crate::resting::Resting;
use crate::transport::{
    BoxFuture, Incoming, NicFacts, NicId, Offer, PairId, Path, Registered, Registration, Transport,
};

/// The type in the file and in offers.
pub const KIND: &str = "tcp";

/// See the file's head.
pub struct TcpTransport {
    name: String,
    settings: Settings,
    nics: Vec<String>,
    caps: Caps,
    regions: Arc<Regions>,
    counters: Arc<Counters>,
    pairs: Mutex<HashMap<(NicId, PairId), Arc<Pair>>>,
    /// The NICs while it runs.
    ways: Nics,
    /// Addresses of peers that failed of late.
    resting: Resting,
}

/// Sockets need no registration.
struct Nothing;

impl Registered for Nothing {}

impl TcpTransport {
    /// A transport called `name` in the file, over the regions of `regions`.
    pub fn new(name: &str, settings: Settings, regions: Arc<Regions>) -> Self {
        let caps = Caps {
            two_sided: true,
            fenced: false,
            read: true,
            write: true,
            direct: true,
            mover: Mover::Cpu,
            max_bytes: settings.hello().max_bytes,
            preferred_bytes: settings.preferred_bytes,
        };
        let mut nics: Vec<String> = settings.nics.iter().map(|n| n.name.clone()).collect();
        if nics.is_empty() {
            nics.push(name.to_owned());
        }
        let (counters, pairs) = (Arc::default(), Mutex::default());
        let (ways, resting) = (Nics::new(&settings.nics), Resting::default());
        Self { name: name.to_owned(), settings, nics, caps, regions, counters, pairs, ways, resting }
    }

    /// What it has counted.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn pair(&self, nic: NicId, pair: PairId) -> Result<Arc<Pair>, Error> {
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.get(&(nic, pair)).cloned().ok_or_else(|| {
            Error::BadArgument(format!(
                "transport `{}` has no workers for NIC {} pair {}",
                self.name, nic.0, pair.0
            ))
        })
    }

    fn state(&self, nic: NicId) -> Result<Arc<State>, Error> {
        let none = || Error::BadArgument(format!("transport `{}` has no NIC {}", self.name, nic.0));
        self.ways.state(nic.0).cloned().ok_or_else(none)
    }

    async fn open(&self, path: &Path, peer: &Offer, by: Nanos) -> Result<Link, Error> {
        let pair = self.pair(path.nic, path.pair)?;
        if peer.kind != KIND {
            let reason = format!("its transport `{}` is of type {}, not {KIND}", peer.name, peer.kind);
            return Err(Error::Refused { peer: path.peer.clone(), reason });
        }
        let own = self.settings.hello();
        let hello = Preamble::lane(path.session, path.link, &peer.name, own.encode().to_vec())
            .encode()
            .map_err(|e| Error::BadArgument(format!("lane to {}: {e}", path.peer)))?;
        let reached = reach(&self.settings, &self.ways, &self.resting, path, &hello, by).await?;
        let unreachable =
            |e: std::io::Error| Error::Unreachable { peer: path.peer.clone(), reason: e.to_string() };
        let stream = reached.stream.into_std().map_err(unreachable)?;
        let from = stream.local_addr().map_err(unreachable)?.ip();
        let agreed = own.agree(&reached.theirs);
        let lane = Arc::new(Lane {
            connection: Connection::new(path.link, path.peer.clone(), stream, pair),
            agreed,
            slots: Slots::new(agreed.depth as usize),
            counters: self.counters.clone(),
            nic: self.state(path.nic)?,
        });
        lane.nic.add(from, &lane);
        let id = path.link;
        let post = LinkEnd { id, body: Box::new(PostEnd(lane.clone())) };
        let reap = LinkEnd { id, body: Box::new(ReapEnd(lane)) };
        Ok(Link { id, post: Some(post), reap: Some(reap), serve: None, remote_nic: reached.remote_nic })
    }

    async fn welcome(&self, from: Incoming) -> Result<Link, Error> {
        let Incoming { link: id, peer, stream, hello, nic, pair } = from;
        self.pair(nic, pair)?;
        let io = |source| Error::Io { what: format!("answering the lane of {peer}"), source };
        let mut stream = TcpStream::from_std(stream).map_err(io)?;
        let theirs = match Hello::decode(&hello) {
            Ok(theirs) => theirs,
            Err(why) => {
                stream.write_all(&Hello::answer(None)).await.map_err(io)?;
                return Err(Error::Protocol { peer, reason: why.to_string() });
            }
        };
        let own = self.settings.hello();
        socket::before_connect(&stream, &self.settings)?;
        socket::connected(&stream, &self.settings)?;
        stream.write_all(&Hello::answer(Some(&own))).await.map_err(io)?;
        let stream = stream.into_std().map_err(io)?;
        let (agreed, counters) = (own.agree(&theirs), self.counters.clone());
        let end = ServeEnd { id, peer, stream, agreed, counters };
        Ok(Link {
            id,
            post: None,
            reap: None,
            serve: Some(LinkEnd { id, body: Box::new(end) }),
            remote_nic: 0,
        })
    }
}

impl Transport for TcpTransport {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn nics(&self) -> &[String] {
        &self.nics
    }

    fn register(&self, memory: &Memory, _access: Access) -> Result<Registration, Error> {
        memory.of_host(KIND)?;
        Ok(Box::new(Nothing))
    }

    fn offer(&self) -> Offer {
        let body = self.settings.hello().encode().to_vec();
        Offer { kind: KIND.to_owned(), name: self.name.clone(), body }
    }

    fn lanes(&self) -> u16 {
        self.settings.lanes.max(1)
    }

    fn dial<'a>(
        &'a self,
        path: &'a Path,
        peer: &'a Offer,
        _via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        Box::pin(in_time("opening a TCP lane", &path.peer, by, self.open(path, peer, by)))
    }

    fn accept<'a>(
        &'a self,
        from: Incoming,
        _via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        Box::pin(async move {
            let peer = from.peer.clone();
            in_time("accepting a TCP lane", &peer, by, self.welcome(from)).await
        })
    }

    fn tend<'a>(&'a self) -> BoxFuture<'a, Infallible> {
        Box::pin(self.ways.tend(&self.name))
    }

    fn nic_facts(&self, nic: NicId) -> NicFacts {
        self.ways.facts(nic.0)
    }

    fn attach(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Halves, Error> {
        // A pair that lost a half goes on with what the others share: they are to notice the deaths of new lanes too.
        let known = self.pairs.lock().unwrap_or_else(PoisonError::into_inner).get(&(nic, pair)).cloned();
        self.state(nic)?;
        let shared = known.unwrap_or_else(|| Arc::new(Pair::new(wake)));
        let halves = Halves {
            post: Box::new(TcpPost::new(self.regions.clone(), shared.clone())?),
            reap: Box::new(TcpReap::new(self.settings.stall())?),
            serve: Some(Box::new(TcpServe::new(self.regions.clone(), self.counters.clone())?)),
        };
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner).insert((nic, pair), shared);
        Ok(halves)
    }
}
