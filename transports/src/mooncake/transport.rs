//! Mooncake's TCP protocol as a [`Transport`] and as [`Foreign`].
//! Deliberately only the joints: what each side of it does is in the files beside.

use std::convert::Infallible;
use std::sync::Arc;

use super::find::{Central, Finder};
use super::initiator::Initiator;
use super::settings::Settings;
use super::target::Target;
use super::wire::Framing;
use crate::caps::{Caps, Mover};
use crate::clock::Nanos;
use crate::control::Control;
use crate::error::Error;
use crate::foreign::{Foreign, ForeignNotice, Found, Hear};
use crate::link::{Halves, Link, Wakes};
use crate::memory::{Access, Memory, RegionId, Regions};
use crate::transport::{BoxFuture, Incoming, NicId, Offer, PairId, Path, Registration, Transport};

/// The type in the file and in offers.
pub const KIND: &str = "mooncake_tcp";

/// The longest work request. The wire would carry more; no region is as long.
const MAX_BYTES: u64 = 1 << 40;

/// See the file's head.
pub struct MooncakeTcp {
    name: String,
    lanes: u16,
    nics: Vec<String>,
    caps: Caps,
    central: Option<Arc<Central>>,
    target: Arc<Target>,
    initiator: Initiator,
    finder: Finder,
}

impl MooncakeTcp {
    /// A transport called `name` in the file, over the regions of `regions`.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for settings by which others could not reach it.
    pub fn new(name: &str, settings: Settings, regions: Arc<Regions>) -> Result<Self, Error> {
        settings.advertised()?;
        let caps = Caps {
            two_sided: true,
            fenced: false,
            read: true,
            write: true,
            direct: true,
            mover: Mover::Cpu,
            max_bytes: MAX_BYTES,
            preferred_bytes: settings.preferred_bytes,
        };
        let central = Central::of(&settings)?;
        Ok(Self {
            name: name.to_owned(),
            lanes: settings.lanes.max(1),
            nics: vec![name.to_owned()],
            caps,
            initiator: Initiator::new(&settings, regions.clone()),
            finder: Finder::new(name, central.clone(), settings.max_handshake_bytes),
            target: Arc::new(Target::new(settings, regions)),
            central,
        })
    }
}

impl Transport for MooncakeTcp {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn nics(&self) -> &[String] {
        &self.nics
    }

    fn register(&self, memory: &Memory, _access: Access) -> Result<Registration, Error> {
        memory.of_host(KIND)?;
        Ok(Box::new(self.target.register(memory)))
    }

    fn offer(&self) -> Offer {
        Offer { kind: KIND.to_owned(), name: self.name.clone(), body: Vec::new() }
    }

    fn lanes(&self) -> u16 {
        self.lanes
    }

    fn dial<'a>(
        &'a self,
        path: &'a Path,
        peer: &'a Offer,
        _via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        Box::pin(self.initiator.dial(path, peer, by))
    }

    fn learn(&self, incarnation: u64, region: RegionId, len: u64, keys: &[u8]) -> Result<(), Error> {
        self.initiator.learn(incarnation, region, len, keys)
    }

    fn forget(&self, incarnation: u64) {
        self.initiator.forget(incarnation);
        self.finder.forget(incarnation);
    }

    fn accept<'a>(
        &'a self,
        _from: Incoming,
        _via: &'a mut dyn Control,
        _by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        let what = "take a lane of a native peer: its peers come to a port of its own";
        Box::pin(std::future::ready(Err(Error::Unsupported { transport: KIND, what })))
    }

    fn tend<'a>(&'a self) -> BoxFuture<'a, Infallible> {
        Box::pin(self.target.clone().tend())
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        Some(self)
    }

    fn attach(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Halves, Error> {
        let serve = self.target.attach(wake.serve.clone())?;
        let (post, reap) = self.initiator.attach(nic, pair, wake)?;
        Ok(Halves { post: Box::new(post), reap: Box::new(reap), serve: Some(Box::new(serve)) })
    }
}

impl Foreign for MooncakeTcp {
    fn bind<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.target.bind(node, self.central.clone()))
    }

    fn unbind<'a>(&'a self, by: Nanos) -> BoxFuture<'a, ()> {
        Box::pin(self.target.withdraw(by))
    }

    fn own_name(&self) -> Option<String> {
        self.target.name().map(str::to_owned)
    }

    fn protocol(&self, offer: &Offer) -> String {
        let said = match Framing::from_offer(&offer.body) {
            Some(Framing::V2) => "Mooncake over TCP, version 2",
            Some(Framing::V1) => "Mooncake over TCP, version 1: a READ confirms the WRITEs before it",
            None => "",
        };
        said.to_owned()
    }

    fn judge(&self, name: &str) -> Result<(), String> {
        self.finder.judge(name)
    }

    fn find<'a>(&'a self, name: &'a str, by: Nanos) -> BoxFuture<'a, Result<Found, Error>> {
        Box::pin(async move { self.finder.find(name, &self.target.introduction(), by).await })
    }

    fn probe<'a>(&'a self, name: &'a str, by: Nanos) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.finder.probe(name, by))
    }

    fn notify<'a>(
        &'a self,
        name: &'a str,
        notice: &'a ForeignNotice,
        by: Nanos,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.finder.notify(name, notice, by))
    }

    fn hear(&self, by: Hear) {
        self.target.hear(by);
    }
}
