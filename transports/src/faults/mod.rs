//! Faults on demand, for tests only: a transport around a transport that delays, drops, duplicates or fails work
//! requests, completions, registrations and connections, by a plan that the test changes while the node runs.
//!
//! Compiled with the feature `faults` alone, which nothing switches on but dev-dependencies: no released binary
//! contains it. Deliberately outside the transports: what is struck is what stages and control see of them, so a
//! real wire lies underneath, and a rule means the same over each of them.

mod desk;
mod one_sided;
mod plan;
mod post;
mod reap;
mod serve;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use one_sided::{Counts, OneSided, Wires};
pub use plan::{Effect, Plan, Rule, RuleId, Site, When};

use crate::caps::Caps;
use crate::clock::{self, Nanos};
use crate::control::Control;
use crate::error::Error;
use crate::foreign::Foreign;
use crate::link::{Halves, Link, LinkId, Serve, Waker, Wakes};
use crate::memory::{Access, LockedPages, Memory, RegionId};
use crate::spread::{InTurn, Spread};
use crate::transport::{
    Asking, BoxFuture, Incoming, NicFacts, NicId, Offer, PairId, Path, Registered, Registration, SessionId,
    Staged, Transport,
};

use desk::Desk;

/// See the module's head.
pub struct Faulty {
    inner: Arc<dyn Transport>,
    plan: Plan,
    /// Its name in the file.
    name: String,
    peers: Arc<Mutex<HashMap<LinkId, String>>>,
    /// By pair: halves of a second attach work with those of the first.
    desks: Mutex<HashMap<(NicId, PairId), Arc<Desk>>>,
}

impl Faulty {
    /// Around the transport `name`.
    pub fn new(name: &str, inner: Arc<dyn Transport>, plan: Plan) -> Self {
        Self { inner, plan, name: name.to_owned(), peers: Arc::default(), desks: Mutex::default() }
    }

    /// Lets a connection wait, hang until `by`, or fail.
    async fn connect(&self, site: Site, what: &'static str, peer: &str, by: Nanos) -> Result<(), Error> {
        let fate = self.plan.judge(site, &self.name, peer);
        let late = || Error::Deadline { what, peer: peer.to_owned() };
        if fate.lost {
            tokio::time::sleep(clock::until(by)).await;
            return Err(late());
        }
        if let Some(delay) = fate.delay {
            tokio::time::sleep(delay.min(clock::until(by))).await;
            if clock::until(by) == Duration::ZERO {
                return Err(late());
            }
        }
        if fate.fails {
            let reason = "a rule of the test".to_owned();
            return Err(Error::Unreachable { peer: peer.to_owned(), reason });
        }
        Ok(())
    }
}

/// A registration that keeps pages in memory.
struct Locked {
    inner: Registration,
    _locked: LockedPages,
}

impl Registered for Locked {
    fn keys(&self) -> Vec<u8> {
        self.inner.keys()
    }

    fn bind(&self, region: RegionId) {
        self.inner.bind(region);
    }

    fn publish(&self, segment: &str) {
        self.inner.publish(segment);
    }
}

impl Transport for Faulty {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn nics(&self) -> &[String] {
        self.inner.nics()
    }

    fn register(&self, memory: &Memory, access: Access) -> Result<Registration, Error> {
        self.register_on(memory, access, &InTurn)
    }

    fn register_on(
        &self,
        memory: &Memory,
        access: Access,
        threads: &dyn Spread,
    ) -> Result<Registration, Error> {
        let fate = self.plan.judge(Site::Registration, &self.name, "");
        if let Some(delay) = fate.delay {
            std::thread::sleep(delay);
        }
        if fate.fails {
            let what = format!("registering {} bytes with transport `{}`", memory.len(), self.name);
            let source = std::io::Error::other("a rule of the test");
            return Err(Error::Io { what, source });
        }
        let inner = self.inner.register_on(memory, access, threads)?;
        if !fate.locks {
            return Ok(inner);
        }
        let what = || format!("locking {} bytes for transport `{}`", memory.len(), self.name);
        let locked = memory.lock_pages().map_err(|source| Error::Io { what: what(), source })?;
        Ok(Box::new(Locked { inner, _locked: locked }))
    }

    fn offer(&self) -> Offer {
        self.inner.offer()
    }

    fn lanes(&self) -> u16 {
        self.inner.lanes()
    }

    fn staged(&self) -> Staged {
        self.inner.staged()
    }

    fn learn(&self, incarnation: u64, region: RegionId, len: u64, keys: &[u8]) -> Result<(), Error> {
        self.inner.learn(incarnation, region, len, keys)
    }

    fn forget(&self, incarnation: u64) {
        self.inner.forget(incarnation);
    }

    fn answer<'a>(
        &'a self,
        from: Asking,
        body: &'a [u8],
        by: Nanos,
    ) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        self.inner.answer(from, body, by)
    }

    fn let_go<'a>(&'a self, session: SessionId, only: Option<LinkId>) -> BoxFuture<'a, ()> {
        self.inner.let_go(session, only)
    }

    fn tend<'a>(&'a self) -> BoxFuture<'a, std::convert::Infallible> {
        self.inner.tend()
    }

    fn nic_facts(&self, nic: NicId) -> NicFacts {
        self.inner.nic_facts(nic)
    }

    fn on_nic_change(&self, changed: Waker) {
        self.inner.on_nic_change(changed);
    }

    fn evicts(&self) -> bool {
        self.inner.evicts()
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        self.inner.foreign()
    }

    fn dial<'a>(
        &'a self,
        path: &'a Path,
        peer: &'a Offer,
        via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        Box::pin(async move {
            self.connect(Site::Dial, "dialling", &path.peer, by).await?;
            let link = self.inner.dial(path, peer, via, by).await?;
            let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            peers.insert(link.id, path.peer.clone());
            drop(peers);
            Ok(link)
        })
    }

    fn accept<'a>(
        &'a self,
        from: Incoming,
        via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        Box::pin(async move {
            self.connect(Site::Accept, "taking a lane", &from.peer, by).await?;
            self.inner.accept(from, via, by).await
        })
    }

    fn attach(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Halves, Error> {
        let halves = self.inner.attach(nic, pair, wake.clone())?;
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Desk::new(self.plan.clone(), &self.name, self.peers.clone()));
        let desk = desks.entry((nic, pair)).or_insert_with(new).clone();
        let post = post::PostHalf { inner: halves.post, desk: desk.clone(), reaper: wake.reap };
        let reap = reap::ReapHalf { inner: halves.reap, desk: desk.clone(), adopted: false };
        let serve = halves.serve.map(|inner| Box::new(serve::ServeHalf { inner, desk }) as Box<dyn Serve>);
        Ok(Halves { post: Box::new(post), reap: Box::new(reap), serve })
    }
}
