//! The embedded directory: an HTTP server that keeps values in memory and speaks Mooncake's metadata protocol, so that nodes
//! of ours and real Mooncake engines meet in one place (`pipeline-node directory`). Bounded in keys, bytes and connections;
//! what passes a bound is refused and says so.
//!
//! Deliberately one machine's memory: nothing is written to disk and nothing is replicated. After a restart it is empty, and
//! whoever lives publishes again.

mod answer;
mod table;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::clock::now;
use crate::control::Address;
use crate::error::Error;
use table::Table;
pub use table::Usage;

/// Longest silence of a client: before its next request, in the middle of one, and while it should read an answer.
const SILENCE: Duration = Duration::from_secs(60);
/// How often values whose time has passed are taken out although nobody asks.
const SWEEP: Duration = Duration::from_secs(1);
/// The pause while descriptors are short.
const SHORT: Duration = Duration::from_millis(50);
/// Clients that are told at a time that there is no room, and how long that may take.
const TURNED: usize = 64;
const FAREWELL: Duration = Duration::from_millis(500);
/// Most bytes of the head of a request.
const HEAD_MAX: usize = 64 << 10;
/// What a client gets for which there is no room.
const TURNED_AWAY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain\r\n\
    content-length: 61\r\n\r\ntoo many connections; raise --connections, or come back soon\n";

/// What a server may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Keys.
    pub keys: usize,
    /// Bytes of keys and values, and of values that are just being received.
    pub bytes: u64,
    /// Bytes of one value; never more than [`super::VALUE_MAX`].
    pub value: usize,
    /// Connections at a time.
    pub connections: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { keys: 65_536, bytes: 256 << 20, value: super::VALUE_MAX, connections: 4096 }
    }
}

/// See the module.
pub struct Server {
    listener: TcpListener,
    local: SocketAddr,
    table: Arc<Mutex<Table>>,
    connections: usize,
}

impl Server {
    /// Binds; nothing is served before [`Self::run`]. In a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for what is no address, [`Error::Io`] with the address.
    pub async fn bind(listen: &str, bounds: Bounds) -> Result<Self, Error> {
        let address = Address::parse_listen(listen).map_err(|e| Error::BadArgument(e.to_string()))?;
        let failed = |source| Error::Io { what: format!("listening on {listen}"), source };
        let mut last = std::io::Error::other("the name has no address");
        for at in lookup_host((address.host.as_str(), address.port)).await.map_err(failed)? {
            match bind_at(at).and_then(|listener| Ok((listener.local_addr()?, listener))) {
                Ok((local, listener)) => {
                    let table = Arc::new(Mutex::new(Table::new(bounds)));
                    return Ok(Self { listener, local, table, connections: bounds.connections });
                }
                Err(e) => last = e,
            }
        }
        Err(failed(last))
    }

    /// Where it listens, with the port the system gave for port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// What it holds now.
    pub fn usage(&self) -> Usage {
        answer::lock(&self.table).usage(now())
    }

    /// Serves until the future is dropped; with it end all connections.
    pub async fn run(&self) -> Infallible {
        let sweep = async {
            loop {
                sleep(SWEEP).await;
                answer::lock(&self.table).expire(now());
            }
        };
        tokio::select! {
            never = self.accept() => never,
            never = sweep => never,
        }
    }

    async fn accept(&self) -> Infallible {
        let (mut served, mut turned) = (JoinSet::new(), JoinSet::new());
        let mut told = None;
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = served.join_next() => continue,
                Some(_) = turned.join_next() => continue,
            };
            match accepted {
                Ok((stream, from)) if served.len() >= self.connections => {
                    if told.is_none_or(|told: Instant| told.elapsed() > Duration::from_secs(1)) {
                        told = Some(Instant::now());
                        tracing::warn!(%from, "turned away: all {} connections are taken", self.connections);
                    }
                    // With too many of those at a time the last ones are only closed.
                    if turned.len() < TURNED {
                        turned.spawn(turn_away(stream));
                    }
                }
                Ok((stream, from)) => _ = served.spawn(serve(stream, from, self.table.clone())),
                Err(error) => {
                    // Descriptors are short, or a client went away while it waited: neither is a reason to stop.
                    tracing::debug!(%error, "a connection could not be accepted");
                    sleep(SHORT).await;
                }
            }
        }
    }
}

/// As listeners of nodes are bound: an automatic port without `SO_REUSEADDR`, so that no two servers share one.
fn bind_at(at: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(at.port() != 0)?;
    socket.bind(at)?;
    socket.set_reuseaddr(true)?;
    socket.listen(1024)
}

/// Says so, and reads what the client sends for a moment: else the system would reset the connection, and our words with it.
async fn turn_away(mut stream: TcpStream) {
    let away = async {
        stream.write_all(TURNED_AWAY).await?;
        stream.shutdown().await?;
        while stream.read(&mut [0; 512]).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = timeout(FAREWELL, away).await;
}

async fn serve(stream: TcpStream, from: SocketAddr, table: Arc<Mutex<Table>>) {
    // For clients that read no answer, and for hosts that vanished.
    let silence = u32::try_from(SILENCE.as_millis()).unwrap_or(u32::MAX);
    let _ = stream.set_nodelay(true).and_then(|()| Ok(set_tcp_user_timeout(&stream, silence)?));
    let service = service_fn(|request| answer::answer(&table, request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%from, "connection ended: {error}");
    }
}
