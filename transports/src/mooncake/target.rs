//! This node as others see it: its two listeners, its name, what it tells of itself, and the halves that serve.
//! Deliberately nothing of what this node asks others for.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::net::TcpListener;

use super::bodies::{Connection, RpcMeta};
use super::buffers::{Buffers, Known};
use super::descriptor::{Descriptor, PROTO_VERSION, Protocol, TCP};
use super::find::Central;
use super::hall::{Hall, Halls};
use super::name::HostPort;
use super::port::Host;
use super::publish::{Entry, LOOK, Published};
use super::serve::{MooncakeServe, Serving};
use super::settings::{Metadata, STALL_MIN, Settings, is_every_address};
use super::{listener, port, stamp};
use crate::clock::Nanos;
use crate::error::Error;
use crate::foreign::{ForeignNotice, Hear};
use crate::link::Waker;
use crate::memory::{Memory, Regions};
use crate::transport::BoxFuture;

/// See the file's head.
pub(crate) struct Target {
    settings: Settings,
    buffers: Arc<Buffers>,
    serving: Arc<Serving>,
    halls: Halls,
    bound: OnceLock<Bound>,
    hear: OnceLock<Hear>,
    /// The text of the descriptor, and of which state of the buffers.
    told: Mutex<Option<(u64, Arc<[u8]>)>>,
}

struct Bound {
    name: String,
    data_host: String,
    data_port: u16,
    handshake: TcpListener,
    data: TcpListener,
    published: Option<Published>,
}

impl Target {
    pub(crate) fn new(settings: Settings, regions: Arc<Regions>) -> Self {
        let buffers = Arc::<Buffers>::default();
        let serving = Serving {
            regions,
            buffers: buffers.clone(),
            refusals: Default::default(),
            stalls: Default::default(),
        };
        Self {
            settings,
            buffers,
            serving: Arc::new(serving),
            halls: Halls::default(),
            bound: OnceLock::new(),
            hear: OnceLock::new(),
            told: Mutex::default(),
        }
    }

    /// A region that may be published later.
    pub(crate) fn register(&self, memory: &Memory) -> Known {
        Known::new(self.buffers.clone(), memory.ptr() as u64, memory.len())
    }

    /// Binds both listeners for a node of this name; with a directory, what it tells goes there.
    ///
    /// # Errors
    /// [`Error::Io`] with the address; [`Error::BadArgument`] when it was bound before.
    pub(super) async fn bind(&self, node: &str, central: Option<Arc<Central>>) -> Result<(), Error> {
        let settings = &self.settings;
        let advertised = settings.advertised()?;
        let data_at = settings.data_listen.clone().unwrap_or_else(|| HostPort::new(&settings.listen.host, 0));
        let (handshake, port) = listen(&settings.listen, "listen").await?;
        let (data, data_port) = listen(&data_at, "data_listen").await?;
        let data_host = match settings.data_listen.as_ref().map(|at| at.host.as_str()) {
            Some(host) if !is_every_address(host) => host.to_owned(),
            _ => advertised.clone(),
        };
        let by_address = HostPort::new(&advertised, port);
        let name = match settings.metadata {
            Metadata::Peers => by_address.to_string(),
            Metadata::Central(_) => settings.server_name.clone().unwrap_or_else(|| node.to_owned()),
        };
        let published = central.map(|central| Published {
            central,
            name: name.clone(),
            rpc_meta: RpcMeta { ip_or_host_name: advertised, rpc_port: port },
            has_newline: !matches!(&settings.metadata, Metadata::Central(url) if url.starts_with("http")),
            throttle: Default::default(),
            look: LOOK,
            withdrawn: Default::default(),
        });
        self.buffers.named(&name);
        tracing::info!(name, handshake = %by_address, data_host, data_port, "listens for Mooncake peers");
        let bound = Bound { name, data_host, data_port, handshake, data, published };
        let again = |_| Error::BadArgument("the listeners of a Mooncake transport are bound once".to_owned());
        self.bound.set(bound).map_err(again)
    }

    /// What others call this node.
    pub(crate) fn name(&self) -> Option<&str> {
        self.bound.get().map(|bound| bound.name.as_str())
    }

    /// Where notices go.
    pub(crate) fn hear(&self, by: Hear) {
        // The first one stays: there is one node behind a transport.
        let _ = self.hear.set(by);
    }

    /// Serves both ports for ever.
    pub(crate) async fn tend(self: Arc<Self>) -> Infallible {
        let Some(bound) = self.bound.get() else { return std::future::pending().await };
        let settings = &self.settings;
        let max = settings.max_handshake_bytes;
        let publishing = async {
            match &bound.published {
                Some(published) => published.keep(&*self).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            never = port::serve(&bound.handshake, self.clone(), max) => never,
            never = listener::serve(&bound.data, &self.halls, settings.connections, self.stall()) => never,
            never = publishing => never,
        }
    }

    /// Takes back what a directory was told.
    pub(crate) async fn withdraw(&self, by: Nanos) {
        if let Some(published) = self.bound.get().and_then(|bound| bound.published.as_ref())
            && let Err(error) = published.withdraw(by).await
        {
            tracing::warn!(name = published.name, %error, "this node stays in the directory although it ends");
        }
    }

    /// Another serve half, whose worker this waker reaches.
    ///
    /// # Errors
    /// [`Error::Io`] where no epoll set is to be had.
    pub(crate) fn attach(&self, waker: Waker) -> Result<MooncakeServe, Error> {
        let hall = Hall::new(waker);
        let half = MooncakeServe::new(hall.clone(), self.serving.clone(), self.stall())?;
        self.halls.open(&hall);
        Ok(half)
    }

    /// What this node says of itself when it asks others: everything but its buffers, which nobody reads there.
    pub(crate) fn introduction(&self) -> Descriptor {
        let Some(bound) = self.bound.get() else { return Descriptor::default() };
        Descriptor {
            buffers: Vec::new(),
            name: bound.name.clone(),
            protocol: Protocol::One(TCP.to_owned()),
            rdma_server_name: Some(String::new()),
            tcp_data_host: Some(bound.data_host.clone()),
            tcp_data_port: bound.data_port,
            tcp_proto_version: Some(PROTO_VERSION),
            timestamp: Some(stamp::now()),
            ..Descriptor::default()
        }
    }

    fn line(&self) -> Arc<[u8]> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match &*told {
            Some((version, text)) if *version == self.buffers.version() => text.clone(),
            _ => {
                let (version, buffers) = self.buffers.list(self.name().unwrap_or_default());
                let text: Arc<[u8]> = Descriptor { buffers, ..self.introduction() }.encode_line().into();
                *told = Some((version, text.clone()));
                text
            }
        }
    }

    fn stall(&self) -> Option<std::time::Duration> {
        self.settings.stall.map(|stall| stall.max(STALL_MIN))
    }
}

impl Host for Target {
    fn descriptor(&self) -> Option<Arc<[u8]>> {
        matches!(self.settings.metadata, Metadata::Peers).then(|| self.line())
    }

    fn notice(&self, notice: ForeignNotice) -> bool {
        self.hear.get().is_some_and(|hear| hear(notice))
    }

    /// Over TCP there are no queue pairs: all fields are empty, as those of Mooncake's nodes without RDMA.
    fn connection(&self, _asked: Connection, _from: SocketAddr) -> BoxFuture<'_, Connection> {
        Box::pin(std::future::ready(Connection::default()))
    }
}

impl Entry for Target {
    fn text(&self) -> Vec<u8> {
        self.line().to_vec()
    }

    async fn changed(&self) {
        self.buffers.changed().await;
    }
}

/// A listener and its port.
async fn listen(at: &HostPort, key: &str) -> Result<(TcpListener, u16), Error> {
    let io = |source| Error::Io { what: format!("listening for Mooncake peers at {at} (`{key}`)"), source };
    let listener = TcpListener::bind((at.host.as_str(), at.port)).await.map_err(io)?;
    let port = listener.local_addr().map_err(io)?.port();
    Ok((listener, port))
}
