//! Transfers within a process: between two engines, or an engine and itself, by copying.
//!
//! The cheapest transport there is, under the same rules as a wire: the target's regions, rights and gates
//! are asked for every request. Deliberately no thread of its own: the worker that reaps copies.

mod reap;

use std::sync::Arc;

use crate::caps::{Caps, Mover};
use crate::clock::Nanos;
use crate::control::Control;
use crate::error::Error;
use crate::inproc::{PostHalf, Station, Unregistered};
use crate::link::{Halves, Link, Wakes};
use crate::memory::{Access, Memory, Regions};
use crate::transport::{BoxFuture, Incoming, NicId, Offer, PairId, Path, Registration, Transport};

use reap::ReapHalf;

/// Its type in the file.
pub const KIND: &str = "loopback";

/// Larger work requests than this are refused as malformed: the engine cuts far smaller ones.
const MAX_BYTES: u64 = 1 << 40;

/// What a file says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopbackSettings {
    /// Its name in the file.
    pub name: String,
    /// Names of its NICs; none: one of its own name.
    pub nics: Vec<String>,
    /// Links a path.
    pub lanes: u16,
    /// The meaning of `slice = "auto"`, bytes.
    pub preferred_bytes: u64,
    /// Work requests outstanding on a link, at least 1.
    pub queue: usize,
}

impl Default for LoopbackSettings {
    fn default() -> Self {
        Self { name: KIND.into(), nics: Vec::new(), lanes: 1, preferred_bytes: 256 << 10, queue: 256 }
    }
}

/// See the module's head.
pub struct Loopback {
    station: Station,
    caps: Caps,
    lanes: u16,
}

impl Loopback {
    /// For the node `incarnation` with these regions.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for a queue of 0, or an incarnation that another node of this process has;
    /// [`Error::Io`] when the system has no random bytes.
    pub fn new(settings: LoopbackSettings, incarnation: u64, regions: Arc<Regions>) -> Result<Self, Error> {
        let caps = Caps {
            two_sided: false,
            fenced: true,
            read: true,
            write: true,
            direct: true,
            mover: Mover::Cpu,
            max_bytes: MAX_BYTES,
            preferred_bytes: settings.preferred_bytes,
        };
        let station =
            Station::new((KIND, &settings.name), &settings.nics, settings.queue, incarnation, regions)?;
        Ok(Self { station, caps, lanes: settings.lanes.max(1) })
    }
}

impl Transport for Loopback {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn nics(&self) -> &[String] {
        self.station.nics()
    }

    fn register(&self, memory: &Memory, _access: Access) -> Result<Registration, Error> {
        memory.of_host(KIND)?;
        Ok(Box::new(Unregistered))
    }

    fn offer(&self) -> Offer {
        self.station.offer()
    }

    fn lanes(&self) -> u16 {
        self.lanes
    }

    fn dial<'a>(
        &'a self,
        path: &'a Path,
        peer: &'a Offer,
        _via: &'a mut dyn Control,
        _by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        Box::pin(std::future::ready(self.station.dial(path, peer)))
    }

    fn accept<'a>(
        &'a self,
        _from: Incoming,
        _via: &'a mut dyn Control,
        _by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        let error = Error::Unsupported { transport: KIND, what: "accept connections: it has no wire" };
        Box::pin(std::future::ready(Err(error)))
    }

    fn attach(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Halves, Error> {
        self.station.ports.attach(nic, pair, wake.clone())?;
        Ok(Halves {
            post: Box::new(PostHalf::new(wake.reap)),
            reap: Box::new(ReapHalf::new(self.station.regions.clone(), wake.post)),
            serve: None,
        })
    }
}
