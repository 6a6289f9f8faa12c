//! A simulated transport within a process: seeded delay, reordering, loss, errors, refusals and duplicates,
//! so that what stages do about them can be tested and replayed.
//!
//! Time is what the halves are handed, so a virtual clock works; the same seed, links dialled and calls give
//! the same completions. Deliberately one liberty against the words of [`crate::link`]: with
//! `duplicate_ppm` a request may complete twice. Without `direct` bytes really go through a staging buffer. A request begins halfway through its delay: until then it
//! can be taken back, from then on its bytes are under way. A dead link is fenced.

mod events;
mod open;
pub(crate) mod random;
mod reap;
mod settings;
mod staging;

use std::sync::Arc;

use crate::caps::{Caps, Mover};
use crate::clock::Nanos;
use crate::control::Control;
use crate::error::Error;
use crate::inproc::{PostHalf, Station, Unregistered};
use crate::link::{Halves, Link, Wakes};
use crate::memory::{Access, Memory, Regions};
use crate::transport::{BoxFuture, Incoming, NicId, Offer, PairId, Path, Registration, Staged, Transport};

use reap::ReapHalf;
pub use settings::SimSettings;
use staging::Tally;

/// Its type in the file.
pub const KIND: &str = "sim";

/// Largest work request: a sparse exbibyte.
const MAX_BYTES: u64 = 1 << 60;

/// See the module's head.
pub struct Sim {
    station: Station,
    caps: Caps,
    settings: Arc<SimSettings>,
    staged: Arc<Tally>,
}

impl Sim {
    /// For the node `incarnation` with these regions.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for a queue of 0, delays or rates out of range, or an incarnation that
    /// another node of this process has; [`Error::Io`] when the system has no random bytes.
    pub fn new(settings: SimSettings, incarnation: u64, regions: Arc<Regions>) -> Result<Self, Error> {
        settings.check()?;
        let caps = Caps {
            two_sided: false,
            fenced: true,
            read: true,
            write: true,
            direct: settings.direct,
            // What it simulates, not what it does: without a staging buffer it passes for a NIC.
            mover: if settings.direct { Mover::Device } else { Mover::Cpu },
            max_bytes: MAX_BYTES,
            preferred_bytes: settings.preferred_bytes,
        };
        let station =
            Station::new((KIND, &settings.name), &settings.nics, settings.queue, incarnation, regions)?;
        Ok(Self { station, caps, settings: Arc::new(settings), staged: Arc::default() })
    }
}

impl Transport for Sim {
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
        self.settings.lanes.max(1)
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

    fn staged(&self) -> Staged {
        self.staged.read()
    }

    fn attach(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Halves, Error> {
        self.station.ports.attach(nic, pair, wake.clone())?;
        let regions = self.station.regions.clone();
        let settings = match self.settings.nic_bytes_per_s.get(usize::from(nic.0)) {
            Some(&bytes_per_s) => Arc::new(SimSettings { bytes_per_s, ..(*self.settings).clone() }),
            None => self.settings.clone(),
        };
        Ok(Halves {
            post: Box::new(PostHalf::new(wake.reap)),
            reap: Box::new(ReapHalf::new(regions, wake.post, settings, self.staged.clone())),
            serve: None,
        })
    }
}
