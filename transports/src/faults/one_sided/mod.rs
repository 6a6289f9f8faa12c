//! A one-sided wire for tests, around a transport within a process: its links are made by exchanges, it refuses regions that
//! it was not told of, its dead links must be fenced, and its NICs fail when the test says so.
//!
//! Deliberately as strict as a device: what the acceptor has let go of never touches its memory again, however much was
//! posted before, and nothing else stops it.

mod elsewhere;
mod halves;
mod wires;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

pub use wires::{Counts, Wires};

use crate::caps::Caps;
use crate::clock::Nanos;
use crate::control::Control;
use crate::error::Error;
use crate::foreign::Foreign;
use crate::link::{Halves, Link, LinkId, Waker, Wakes};
use crate::memory::{Access, Memory, RegionId};
use crate::transport::{
    Asking, BoxFuture, Incoming, NicFacts, NicId, Offer, PairId, Path, Registered, Registration, SessionId,
    Transport,
};
use elsewhere::Elsewhere;
use halves::{Pair, Poster, Reaper};
use wires::{End, Published};

/// Before the name of the region: what keys that make sense look like.
const MAGIC: &[u8; 4] = b"keys";

/// Ends that acceptors of this process have made and no dialler has taken over yet.
static ENDS: Mutex<Option<HashMap<u64, Arc<End>>>> = Mutex::new(None);

/// See the module's head.
pub struct OneSided {
    inner: Arc<dyn Transport>,
    caps: Caps,
    wires: Wires,
    /// Its peers run another engine, of which there are neither exchanges nor fences.
    elsewhere: Option<Elsewhere>,
}

/// What a region is told by: known once it has a name.
struct Known {
    wires: Wires,
    region: AtomicU64,
    place: Published,
}

impl Registered for Known {
    fn keys(&self) -> Vec<u8> {
        match self.wires.state().nonsense {
            true => b"?".to_vec(),
            false => [MAGIC.as_slice(), &self.region.load(Relaxed).to_le_bytes()].concat(),
        }
    }

    fn bind(&self, region: RegionId) {
        self.region.store(region.0, Relaxed);
        self.wires.state().counts.bound += 1;
    }

    fn publish(&self, _segment: &str) {
        self.wires.state().published.push((self.region.load(Relaxed), self.place));
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.wires.state().published.retain(|(_, place)| place.address != self.place.address);
    }
}

impl OneSided {
    /// Around `inner`, which moves the bytes within this process.
    pub fn new(inner: Arc<dyn Transport>, wires: Wires) -> Self {
        let caps = Caps { two_sided: false, fenced: false, ..inner.caps().clone() };
        Self { inner, caps, wires, elsewhere: None }
    }

    /// As [`Self::new`], to peers that run another engine: found by name, without sessions, and with links that nobody can be
    /// asked to let go of.
    pub fn to_another_engine(inner: Arc<dyn Transport>, wires: Wires) -> Self {
        let elsewhere = Some(Elsewhere::new(&wires, &inner));
        Self { elsewhere, ..Self::new(inner, wires) }
    }

    async fn open(&self, path: &Path, peer: &Offer, via: &mut dyn Control, by: Nanos) -> Result<Link, Error> {
        if self.wires.state().down.contains(&path.nic.0) {
            let nic = self.nics()[usize::from(path.nic.0)].clone();
            return Err(Error::LocalNic { nic, reason: "its port is down: the test says so".to_owned() });
        }
        self.wires.state().counts.dialled += 1;
        let answer = via.exchange(&path.link.0.to_le_bytes(), by).await;
        let broken = |reason: &str| Error::Protocol { peer: path.peer.clone(), reason: reason.to_owned() };
        let end = match (answer, &self.elsewhere) {
            (Ok(_), Some(_)) => return Err(broken("another engine answered an exchange")),
            (Err(_), Some(_)) => Arc::default(),
            (answer, None) => {
                let number = answer?.try_into().map(u64::from_le_bytes).unwrap_or_default();
                let mut ends = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
                let end = ends.as_mut().and_then(|ends| ends.remove(&number));
                end.ok_or_else(|| broken("no end of that number"))?
            }
        };
        if self.wires.state().undialable {
            let reason = "the test says so".to_owned();
            return Err(Error::Unreachable { peer: path.peer.clone(), reason });
        }
        end.take_over(path.nic.0, path.incarnation);
        let link = self.inner.dial(path, peer, via, by).await?;
        self.wires.state().links.insert(path.link, end);
        Ok(link)
    }
}

impl Transport for OneSided {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn nics(&self) -> &[String] {
        self.inner.nics()
    }

    fn register(&self, memory: &Memory, access: Access) -> Result<Registration, Error> {
        let place = Published { address: memory.ptr() as u64, len: memory.len(), access };
        Ok(Box::new(Known { wires: self.wires.clone(), region: AtomicU64::new(0), place }))
    }

    fn offer(&self) -> Offer {
        self.inner.offer()
    }

    fn lanes(&self) -> u16 {
        self.inner.lanes()
    }

    fn dial<'a>(
        &'a self,
        path: &'a Path,
        peer: &'a Offer,
        via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        Box::pin(self.open(path, peer, via, by))
    }

    fn accept<'a>(
        &'a self,
        _from: Incoming,
        _via: &'a mut dyn Control,
        _by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        let what = "accept connections: its links are made by exchanges";
        Box::pin(std::future::ready(Err(Error::Unsupported { transport: "one-sided", what })))
    }

    fn learn(&self, incarnation: u64, region: RegionId, len: u64, keys: &[u8]) -> Result<(), Error> {
        if keys != [MAGIC.as_slice(), &region.0.to_le_bytes()].concat() {
            let (peer, reason) = (format!("{incarnation:x}"), "keys that make no sense".to_owned());
            return Err(Error::Protocol { peer, reason });
        }
        self.wires.state().learnt.insert((incarnation, region), len);
        Ok(())
    }

    fn forget(&self, incarnation: u64) {
        let state = &mut *self.wires.state();
        state.learnt.retain(|(of, _), _| *of != incarnation);
        state.counts.forgotten += 1;
    }

    fn answer<'a>(
        &'a self,
        from: Asking,
        body: &'a [u8],
        _by: Nanos,
    ) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let broken = || Error::Protocol { peer: from.peer.clone(), reason: "not the name of a link".into() };
        let answered = body.try_into().map(u64::from_le_bytes).map_err(|_| broken()).map(|link| {
            let (number, end) = (NEXT.fetch_add(1, Relaxed), Arc::new(End::default()));
            let mut ends = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
            ends.get_or_insert_default().insert(number, end.clone());
            let mut state = self.wires.state();
            state.serving.insert((from.session, LinkId(link)), end);
            state.counts.answered += 1;
            number.to_le_bytes().to_vec()
        });
        Box::pin(std::future::ready(answered))
    }

    fn let_go<'a>(&'a self, session: SessionId, only: Option<LinkId>) -> BoxFuture<'a, ()> {
        Box::pin(self.wires.let_go(session, only))
    }

    fn tend<'a>(&'a self) -> BoxFuture<'a, Infallible> {
        assert!(!self.wires.state().tending_panics, "the test wants it so");
        Box::pin(std::future::pending())
    }

    fn nic_facts(&self, nic: NicId) -> NicFacts {
        let down = self.wires.state().down.contains(&nic.0);
        NicFacts {
            resting: down.then(|| "its port is down: the test says so".to_owned()),
            ..NicFacts::default()
        }
    }

    fn on_nic_change(&self, changed: Waker) {
        self.wires.state().changed.push(changed);
    }

    fn evicts(&self) -> bool {
        true
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        self.elsewhere.as_ref().map(|elsewhere| elsewhere as &dyn Foreign)
    }

    fn attach(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Halves, Error> {
        let (reap, shared) = (wake.reap.clone(), Arc::new(Mutex::new(Pair::default())));
        self.wires.state().reapers.push(reap.clone());
        let Halves { post, reap: inner, serve } = self.inner.attach(nic, pair, wake)?;
        debug_assert!(serve.is_none(), "a one-sided wire has no third end");
        let post = Poster { inner: post, wires: self.wires.clone(), pair: shared.clone(), reap };
        let reap = Reaper { inner, wires: self.wires.clone(), pair: shared };
        Ok(Halves { post: Box::new(post), reap: Box::new(reap), serve: None })
    }
}
