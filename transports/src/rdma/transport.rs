//! RDMA as a [`Transport`]: what a node has of it, put together. Control connects, workers post and reap.
//! Deliberately little of its own: each call leads to the file that knows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::completion_queue::CompletionQueue;
use super::connect::{self, Accepted, Nic};
use super::device::{Device, Watch};
use super::domain::Domain;
use super::events;
use super::gpu::Reach;
use super::graveyard::Graveyard;
use super::link::{Pair, PostEnd, ReapEnd};
use super::nic_facts;
use super::offer::{Body, NICS_MAX};
use super::places::Places;
use super::post::{Limits, RdmaPost};
use super::reap::RdmaReap;
use super::settings::RdmaSettings;
use crate::caps::{Caps, Mover};
use crate::clock::Nanos;
use crate::control::Control;
use crate::deadline::in_time;
use crate::error::Error;
use crate::link::{Halves, Link, LinkEnd, LinkId, Waker, Wakes};
use crate::memory::{Access, Memory, RegionId};
use crate::spread::{InTurn, Spread};
use crate::stall::Looks;
use crate::transport::{
    Asking, BoxFuture, Incoming, NicFacts, NicId, Offer, PairId, Path, Registration, SessionId, Transport,
};

/// The type in the file and in offers.
pub const KIND: &str = "rdma";

/// Completions that the queue of a pair of workers holds, if the device can: what all of its links may have outstanding.
const QUEUE_ENTRIES: u32 = 1 << 16;

/// See the file's head.
pub struct RdmaTransport {
    name: String,
    settings: RdmaSettings,
    domain: Domain,
    nics: Vec<Nic>,
    caps: Caps,
    pairs: Mutex<HashMap<(NicId, PairId), Arc<Pair>>>,
    accepted: Accepted,
    graveyard: Arc<Graveyard>,
    /// Of whoever wants to hear that a NIC has changed.
    watches: Mutex<Vec<Watch>>,
}

impl RdmaTransport {
    /// A transport called `name` in the file, for a table of at most `regions` regions. Opens its devices; without any in
    /// `settings`, the first of the machine whose port is up.
    ///
    /// # Errors
    /// [`Error::Missing`] without libibverbs or one of the devices; [`Error::LocalNic`] where a device refuses;
    /// [`Error::BadArgument`] for more NICs than an offer can tell of.
    pub fn new(name: &str, mut settings: RdmaSettings, regions: usize) -> Result<Self, Error> {
        if settings.nics.len() > NICS_MAX {
            let count = settings.nics.len();
            return Err(Error::BadArgument(format!(
                "transport `{name}` has {count} NICs (`nics`), and {NICS_MAX} are the most; make two transports of it"
            )));
        }
        let domain = Domain::open(name, &mut settings, regions)?;
        let nics = domain.names().iter().zip(domain.devices());
        let nics = nics.map(|(name, device)| nic(name, device, &settings)).collect::<Result<Vec<_>, _>>()?;
        let caps = Caps {
            two_sided: false,
            fenced: false,
            read: true,
            write: true,
            direct: true,
            mover: Mover::Device,
            max_bytes: domain.max_bytes(),
            preferred_bytes: settings.preferred_bytes,
        };
        let graveyard = Graveyard::new(nics.iter().map(|nic| nic.places.limit() as usize).sum());
        let accepted = Accepted::new(graveyard.clone());
        let (name, pairs, watches) = (name.to_owned(), Mutex::default(), Mutex::default());
        Ok(Self { name, settings, domain, nics, caps, pairs, accepted, graveyard, watches })
    }

    /// How a NIC reaches memory of a GPU, once a region of it was registered.
    pub fn reach(&self, nic: NicId, gpu: u16) -> Option<Reach> {
        self.domain.reach(nic, gpu)
    }

    /// Queue pairs that peers have dialled and that have not been let go of.
    pub fn accepted(&self) -> usize {
        self.accepted.len()
    }

    pub(super) fn domain(&self) -> &Domain {
        &self.domain
    }

    pub(super) fn settings(&self) -> &RdmaSettings {
        &self.settings
    }

    pub(super) fn graveyard(&self) -> &Graveyard {
        &self.graveyard
    }

    pub(super) fn nic(&self, nic: NicId) -> Result<&Nic, Error> {
        self.nics
            .get(usize::from(nic.0))
            .ok_or_else(|| Error::BadArgument(format!("transport `{}` has no NIC {}", self.name, nic.0)))
    }

    pub(super) fn pair(&self, nic: NicId, pair: PairId) -> Result<Arc<Pair>, Error> {
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.get(&(nic, pair)).cloned().ok_or_else(|| {
            Error::BadArgument(format!(
                "transport `{}` has no workers for NIC {} pair {}",
                self.name, nic.0, pair.0
            ))
        })
    }

    async fn open(&self, path: &Path, peer: &Offer, via: &mut dyn Control, by: Nanos) -> Result<Link, Error> {
        if peer.kind != KIND {
            let reason = format!("its transport `{}` is of type {}, not {KIND}", peer.name, peer.kind);
            return Err(Error::Refused { peer: path.peer.clone(), reason });
        }
        let (nic, pair) = (self.nic(path.nic)?, self.pair(path.nic, path.pair)?);
        let keys = self.domain.learnt().of(path.incarnation);
        let link = connect::dial(nic, &pair, &self.settings, keys, (path, peer), via, by).await?;
        let (id, remote_nic) = (link.id, link.remote_nic);
        let post = LinkEnd { id, body: Box::new(PostEnd(link.clone())) };
        let reap = LinkEnd { id, body: Box::new(ReapEnd::new(link)) };
        Ok(Link { id, post: Some(post), reap: Some(reap), serve: None, remote_nic })
    }

    /// The workers of a pair, made known at their first half: those of later halves wake the same.
    fn workers(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Arc<Pair>, Error> {
        let device = &self.nic(nic)?.device;
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = pairs.get(&(nic, pair)) {
            return Ok(known.clone());
        }
        let queue = CompletionQueue::new(device, QUEUE_ENTRIES, true)?;
        let fresh = Arc::new(Pair::new(wake, queue, self.graveyard.clone()));
        pairs.insert((nic, pair), fresh.clone());
        Ok(fresh)
    }
}

fn nic(name: &str, device: &Arc<Device>, settings: &RdmaSettings) -> Result<Nic, Error> {
    let limit = settings.endpoints.min(device.attr().max_qp.saturating_sub(1));
    // The marker behind the last work request completes as well.
    let completions = connect::depth(device, settings) + 1;
    Ok(Nic {
        name: name.to_owned(),
        rail: settings.nic(name).rail,
        places: Places::new(limit, completions),
        device: device.clone(),
        idle_queue: Arc::new(CompletionQueue::new(device, 1, false)?),
    })
}

impl Transport for RdmaTransport {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn nics(&self) -> &[String] {
        self.domain.names()
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
        Ok(Box::new(self.domain.register(memory, access, threads)?))
    }

    fn offer(&self) -> Offer {
        let nics = self.nics.iter().map(|nic| nic.offer(&self.settings)).collect();
        let body = Body { rails: self.settings.rails, nics }.encode();
        Offer { kind: KIND.to_owned(), name: self.name.clone(), body }
    }

    fn lanes(&self) -> u16 {
        self.settings.lanes.max(1)
    }

    fn dial<'a>(
        &'a self,
        path: &'a Path,
        peer: &'a Offer,
        via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        Box::pin(in_time("opening an RDMA link", &path.peer, by, self.open(path, peer, via, by)))
    }

    fn accept<'a>(
        &'a self,
        _from: Incoming,
        _via: &'a mut dyn Control,
        _by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        let what = "take a data connection: its links are made by an exchange";
        Box::pin(std::future::ready(Err(Error::Unsupported { transport: KIND, what })))
    }

    fn learn(&self, incarnation: u64, region: RegionId, len: u64, keys: &[u8]) -> Result<(), Error> {
        self.domain.learnt().learn(incarnation, region, len, keys)
    }

    fn forget(&self, incarnation: u64) {
        self.domain.learnt().forget(incarnation);
        self.nics.iter().for_each(|nic| nic.places.forget(incarnation));
    }

    fn answer<'a>(
        &'a self,
        from: Asking,
        body: &'a [u8],
        by: Nanos,
    ) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        Box::pin(async move {
            let work = connect::answer(&self.nics, &self.accepted, &self.settings, (&from, body), by);
            in_time("answering an RDMA link", &from.peer, by, work).await
        })
    }

    fn let_go<'a>(&'a self, session: SessionId, only: Option<LinkId>) -> BoxFuture<'a, ()> {
        self.accepted.let_go(session, only);
        Box::pin(std::future::ready(()))
    }

    fn tend<'a>(&'a self) -> BoxFuture<'a, std::convert::Infallible> {
        Box::pin(events::tend(self.domain.devices(), &self.graveyard))
    }

    fn nic_facts(&self, nic: NicId) -> NicFacts {
        self.domain.device(nic).map_or_else(NicFacts::default, |device| nic_facts::of(device))
    }

    fn on_nic_change(&self, changed: Waker) {
        let watches = self.domain.devices().iter().map(|device| device.on_change(changed.clone()));
        self.watches.lock().unwrap_or_else(PoisonError::into_inner).extend(watches);
    }

    fn evicts(&self) -> bool {
        true
    }

    fn attach(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Halves, Error> {
        let (index, pair) = (nic.0, self.workers(nic, pair, wake)?);
        let depth = connect::depth(&self.nic(nic)?.device, &self.settings);
        let limits = Limits {
            // At least two a depth, so that the room of one can be used while the other completes.
            signal_every: self.settings.signal_every.clamp(1, (depth / 2).max(1)),
            depth,
            max_bytes: u32::try_from(self.caps.max_bytes).unwrap_or(u32::MAX),
        };
        let looks = Looks::every(Some(self.settings.stall()));
        Ok(Halves {
            post: Box::new(RdmaPost::new(pair.clone(), (self.domain.local().clone(), index), limits)),
            reap: Box::new(RdmaReap::new(pair, looks)),
            serve: None,
        })
    }
}
