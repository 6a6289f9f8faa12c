//! Mooncake's RDMA protocol as a [`Transport`]: the devices, rings and halves of [`RdmaTransport`], with links that are
//! opened by asking another node's handshake port, and regions that are told of by address.
//! Deliberately only the joints: what each side of it does is in the files beside.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use super::dial::Dialling;
use super::keys;
use super::node::Node;
use super::peer::Reached;
use super::told::ANYWHERE;
use crate::caps::Caps;
use crate::clock::Nanos;
use crate::control::Control;
use crate::deadline::in_time;
use crate::error::Error;
use crate::foreign::Foreign;
use crate::link::{Halves, Link, Waker, Wakes};
use crate::memory::{Access, Memory, RegionId, Regions};
use crate::mooncake::Settings;
use crate::rdma::foreign::PieceKeys;
use crate::rdma::{Addresses, RdmaSettings, RdmaTransport};
use crate::spread::{InTurn, Spread};
use crate::transport::{
    BoxFuture, Incoming, NicFacts, NicId, Offer, PairId, Path, Registered, Registration, Transport,
};

/// The type in the file and in offers.
pub const KIND: &str = "mooncake_rdma";

/// See the file's head.
pub struct MooncakeRdma {
    name: String,
    node: Arc<Node>,
    /// Queue pairs that are connected at once.
    queue_pairs: u16,
    caps: Caps,
    regions: Arc<Regions>,
}

/// A region that is registered with the devices. Others are not told of it any more when its registrations end.
struct Known {
    pieces: Vec<PieceKeys>,
    /// Where it lies, where its memory says so.
    location: Option<String>,
    name: OnceLock<RegionId>,
    node: Arc<Node>,
    regions: Arc<Regions>,
    registered: Registration,
}

impl Registered for Known {
    fn bind(&self, region: RegionId) {
        self.registered.bind(region);
        // Said once.
        let _ = self.name.set(region);
    }

    fn publish(&self, _segment: &str) {
        let Some(region) = self.name.get() else { return };
        let of_host = || self.regions.node_of(*region).map(|node| format!("cpu:{node}"));
        let location = self.location.clone().or_else(of_host);
        self.node.publish(*region, self.pieces.clone(), location.as_deref().unwrap_or(ANYWHERE));
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        if let Some(region) = self.name.get() {
            self.node.withdraw(*region);
        }
    }
}

impl MooncakeRdma {
    /// A transport called `name` in the file, over the regions of `regions`: where it listens and what it is called is of
    /// `port`, devices and queue pairs are of `wire`, of which `queue_pairs` are connected at once.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for settings by which others could not reach it; as [`RdmaTransport::new`].
    pub fn new(
        name: &str,
        port: Settings,
        wire: RdmaSettings,
        queue_pairs: u16,
        regions: Arc<Regions>,
    ) -> Result<Self, Error> {
        port.advertised()?;
        let wire = RdmaSettings { addresses: Addresses::Real, always_global: true, ..wire };
        let wire = RdmaTransport::new(name, wire, regions.capacity())?;
        let caps = Caps { fenced: false, ..wire.caps().clone() };
        let node = Arc::new(Node::new(name, port, wire)?);
        Ok(Self { name: name.to_owned(), node, queue_pairs: queue_pairs.max(1), caps, regions })
    }

    /// Sets of queue pairs that others have connected to.
    pub fn accepted(&self) -> usize {
        self.node.serving()
    }

    fn wire(&self) -> &RdmaTransport {
        self.node.wire()
    }

    async fn open(&self, path: &Path, peer: &Offer, by: Nanos) -> Result<Link, Error> {
        let refused = |reason: String| Error::Refused { peer: path.peer.clone(), reason };
        if peer.kind != KIND {
            return Err(refused(format!(
                "its transport `{}` is of type {}, not {KIND}",
                peer.name, peer.kind
            )));
        }
        let reached = Reached::decode(&peer.body)
            .map_err(|_| refused("nodes of this kind are reached by their other transports".to_owned()))?;
        let dialling = Dialling {
            wire: self.wire(),
            own: self.node.name()?,
            queue_pairs: self.queue_pairs,
            counts: self.node.counts(),
            max_handshake_bytes: self.node.settings().max_handshake_bytes,
        };
        dialling.dial(path, &reached, by).await
    }
}

impl Transport for MooncakeRdma {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn nics(&self) -> &[String] {
        self.wire().nics()
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
        let registered = self.wire().register_pieces(memory, access, threads)?;
        Ok(Box::new(Known {
            pieces: registered.told(),
            location: memory.gpu().map(|gpu| format!("cuda:{}", gpu.gpu())),
            name: OnceLock::new(),
            node: self.node.clone(),
            regions: self.regions.clone(),
            registered: Box::new(registered),
        }))
    }

    fn offer(&self) -> Offer {
        // Nodes of this kind find nothing in it.
        Offer { kind: KIND.to_owned(), name: self.name.clone(), body: Vec::new() }
    }

    fn lanes(&self) -> u16 {
        self.wire().lanes()
    }

    fn dial<'a>(
        &'a self,
        path: &'a Path,
        peer: &'a Offer,
        _via: &'a mut dyn Control,
        by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        Box::pin(in_time("opening an RDMA link", &path.peer, by, self.open(path, peer, by)))
    }

    fn accept<'a>(
        &'a self,
        _from: Incoming,
        _via: &'a mut dyn Control,
        _by: Nanos,
    ) -> BoxFuture<'a, Result<Link, Error>> {
        let what = "take a data connection: its peers come to its own port";
        Box::pin(std::future::ready(Err(Error::Unsupported { transport: KIND, what })))
    }

    fn learn(&self, incarnation: u64, region: RegionId, len: u64, said: &[u8]) -> Result<(), Error> {
        let (address, rkeys) = keys::decode(said).ok_or_else(|| Error::Protocol {
            peer: format!("of start {incarnation:016x}"),
            reason: format!("region {:016x} has no keys of this transport", region.0),
        })?;
        self.wire().enter(incarnation, region, (address, len), rkeys)
    }

    fn forget(&self, incarnation: u64) {
        self.node.forget(incarnation);
        self.wire().forget(incarnation);
    }

    fn tend<'a>(&'a self) -> BoxFuture<'a, Infallible> {
        Box::pin(async {
            let (never, _) = tokio::join!(self.wire().tend(), self.node.clone().tend());
            never
        })
    }

    fn nic_facts(&self, nic: NicId) -> NicFacts {
        self.wire().nic_facts(nic)
    }

    fn on_nic_change(&self, changed: Waker) {
        self.wire().on_nic_change(changed);
    }

    fn evicts(&self) -> bool {
        true
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        Some(&*self.node)
    }

    fn attach(&self, nic: NicId, pair: PairId, wake: Wakes) -> Result<Halves, Error> {
        self.wire().attach(nic, pair, wake)
    }
}
