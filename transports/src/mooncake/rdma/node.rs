//! This node as others see it at its handshake port, and how it finds them.
//! Deliberately no links: it tells, finds, and connects what others ask for; who posts is somebody else.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpListener;

use super::answer::{Asked, Serving};
use super::dial::Counts;
use super::found::found;
use super::peer::Reached;
use super::told::{OwnNic, Told};
use super::transport::KIND;
use crate::clock::{Nanos, now};
use crate::error::Error;
use crate::foreign::{Foreign, ForeignNotice, Found, Hear};
use crate::memory::RegionId;
use crate::mooncake::bodies::{Connection, RpcMeta};
use crate::mooncake::descriptor::Descriptor;
use crate::mooncake::find::{Central, Finder, resolve};
use crate::mooncake::name::HostPort;
use crate::mooncake::port::{self, Host};
use crate::mooncake::publish::{Entry, LOOK, Published};
use crate::mooncake::region_names::RegionNames;
use crate::mooncake::{Metadata, Settings};
use crate::rdma::RdmaTransport;
use crate::rdma::foreign::PieceKeys;
use crate::transport::{BoxFuture, NicId, Offer, Transport};

/// How long connecting queue pairs for others may take: they wait longer for the answer.
const CONNECT_NS: Nanos = 10_000_000_000;

/// See the file's head. Any thread.
pub(super) struct Node {
    /// Name of the transport.
    transport: String,
    settings: Settings,
    wire: RdmaTransport,
    central: Option<Arc<Central>>,
    finder: Finder,
    names: RegionNames,
    told: Told,
    serving: Serving,
    counts: Counts,
    bound: OnceLock<Bound>,
    hear: OnceLock<Hear>,
}

/// What there is once it listens.
struct Bound {
    name: String,
    port: TcpListener,
    published: Option<Published>,
}

impl Node {
    /// # Errors
    /// A directory that cannot be.
    pub(super) fn new(transport: &str, settings: Settings, wire: RdmaTransport) -> Result<Self, Error> {
        let central = Central::of(&settings)?;
        let finder = Finder::new(transport, central.clone(), settings.max_handshake_bytes);
        Ok(Self {
            transport: transport.to_owned(),
            settings,
            wire,
            central,
            finder,
            names: RegionNames::default(),
            told: Told::default(),
            serving: Serving::default(),
            counts: Counts::default(),
            bound: OnceLock::new(),
            hear: OnceLock::new(),
        })
    }

    pub(super) fn wire(&self) -> &RdmaTransport {
        &self.wire
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Sets of queue pairs that others have connected to.
    pub(super) fn serving(&self) -> usize {
        self.serving.len()
    }

    /// What others call it.
    ///
    /// # Errors
    /// [`Error::BadArgument`] before its port is bound.
    pub(super) fn name(&self) -> Result<&str, Error> {
        self.bound.get().map(|bound| bound.name.as_str()).ok_or_else(|| {
            let transport = &self.transport;
            Error::BadArgument(format!("transport `{transport}` has no name before its node has started"))
        })
    }

    /// Others are told of a region from now on.
    pub(super) fn publish(&self, region: RegionId, pieces: Vec<PieceKeys>, location: &str) {
        self.told.enter(region, pieces, location);
    }

    /// They are not any more.
    pub(super) fn withdraw(&self, region: RegionId) {
        self.told.leave(region);
    }

    /// Nobody works with that start of a node any more.
    pub(super) fn forget(&self, incarnation: u64) {
        self.names.forget(incarnation);
    }

    /// What it tells of itself now.
    fn descriptor(&self) -> Descriptor {
        let nics = self.wire.nics().iter().zip(0..).map(|(name, at)| {
            let (gid, lid) = self.wire.address_of(NicId(at));
            (name.as_str(), gid, lid)
        });
        self.told.descriptor(self.name().unwrap_or_default(), &nics.collect::<Vec<OwnNic<'_>>>())
    }

    /// What it tells of itself when it asks others: everything but its buffers, which nobody reads there.
    fn introduction(&self) -> Descriptor {
        Descriptor { buffers: Vec::new(), ..self.descriptor() }
    }

    async fn look_up(&self, name: &str, by: Nanos) -> Result<(Descriptor, HostPort), Error> {
        self.finder.descriptor(name, &self.introduction(), by).await
    }

    async fn listen(&self, node: &str) -> Result<(), Error> {
        let (settings, at) = (&self.settings, &self.settings.listen);
        let io =
            |source| Error::Io { what: format!("listening for Mooncake peers at {at} (`listen`)"), source };
        let host = settings.advertised()?;
        let port = TcpListener::bind((at.host.as_str(), at.port)).await.map_err(io)?;
        let by_address = HostPort::new(&host, port.local_addr().map_err(io)?.port());
        let name = match settings.metadata {
            Metadata::Peers => by_address.to_string(),
            Metadata::Central(_) => settings.server_name.clone().unwrap_or_else(|| node.to_owned()),
        };
        let published = self.central.as_ref().map(|central| Published {
            central: central.clone(),
            name: name.clone(),
            rpc_meta: RpcMeta { ip_or_host_name: host, rpc_port: by_address.port },
            has_newline: !matches!(&settings.metadata, Metadata::Central(url) if url.starts_with("http")),
            throttle: Default::default(),
            look: LOOK,
            withdrawn: Default::default(),
        });
        tracing::info!(name, handshake = %by_address, "listens for Mooncake peers of RDMA");
        let again = |_| Error::BadArgument("the listener of a Mooncake transport is bound once".to_owned());
        self.bound.set(Bound { name, port, published }).map_err(again)
    }

    /// Serves its port, and keeps what a directory tells of it.
    pub(super) async fn tend(self: Arc<Self>) -> Infallible {
        let Some(bound) = self.bound.get() else { return pending().await };
        let publishing = async {
            match &bound.published {
                Some(published) => published.keep(&*self).await,
                None => pending().await,
            }
        };
        tokio::select! {
            never = port::serve(&bound.port, self.clone(), self.settings.max_handshake_bytes) => never,
            never = publishing => never,
        }
    }
}

impl Host for Node {
    fn descriptor(&self) -> Option<Arc<[u8]>> {
        let tells = matches!(self.settings.metadata, Metadata::Peers);
        tells.then(|| Self::descriptor(self).encode_line().into())
    }

    fn notice(&self, notice: ForeignNotice) -> bool {
        self.hear.get().is_some_and(|hear| hear(notice))
    }

    fn connection(&self, said: Connection, _from: SocketAddr) -> BoxFuture<'_, Connection> {
        Box::pin(async move {
            let own = self.name().unwrap_or_default();
            let asked = Asked { wire: &self.wire, serving: &self.serving, own };
            let by = now() + CONNECT_NS;
            let find = async |name: &str| self.look_up(name, by).await.map(|(descriptor, _)| descriptor);
            asked.answer(&said, find, by).await
        })
    }
}

impl Entry for Node {
    fn text(&self) -> Vec<u8> {
        Self::descriptor(self).encode_line()
    }

    async fn changed(&self) {
        self.told.changed().await;
    }
}

impl Foreign for Node {
    fn bind<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.listen(node))
    }

    fn unbind<'a>(&'a self, by: Nanos) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(published) = self.bound.get().and_then(|bound| bound.published.as_ref())
                && let Err(error) = published.withdraw(by).await
            {
                let name = &published.name;
                tracing::warn!(name, %error, "this node stays in the directory although it ends");
            }
        })
    }

    fn protocol(&self, offer: &Offer) -> String {
        let nics = Reached::decode(&offer.body).map_or(0, |reached| reached.devices.len());
        format!("Mooncake RDMA, NICs: {nics}")
    }

    fn own_name(&self) -> Option<String> {
        self.name().ok().map(str::to_owned)
    }

    fn judge(&self, name: &str) -> Result<(), String> {
        self.finder.judge(name)
    }

    fn find<'a>(&'a self, name: &'a str, by: Nanos) -> BoxFuture<'a, Result<Found, Error>> {
        Box::pin(async move {
            let (descriptor, port) = self.look_up(name, by).await?;
            let addresses = resolve(name, &port, by).await?;
            let broken = |reason| Error::Protocol { peer: name.to_owned(), reason };
            found(&descriptor, addresses, &self.names, (KIND, &self.transport)).map_err(broken)
        })
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
        // The first one stays: there is one node behind a transport.
        let _ = self.hear.set(by);
    }
}
