//! The one listener of a node: control connections and lanes both arrive here. Deliberately unimpressed by
//! strangers: a bounded number of handshakes, each with a deadline, and no spinning when descriptors run out.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pipeline_transports::Error as Reason;
use pipeline_transports::control::preamble::{Kind, Preamble};
use pipeline_transports::control::{Address, Established, RefusalCode, WireError, handshake};
use pipeline_transports::exhausted::shortage;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::accepted;
use super::connect::options;
use super::error::Error;
use super::session::Session;
use super::shared::{Shared, lock};

/// A handshake is never cut short before this, however many wait: on a busy machine honest ones are slow.
const GRACE: Duration = Duration::from_millis(250);
/// The longest pause while descriptors are short: who comes when there are some again waits no longer.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Binds, so that a node may restart on its port while old connections are in TIME-WAIT: for that both the
/// old sockets and the new one need `SO_REUSEADDR`. An automatic port takes it after the bind only, because
/// with it the kernel may give one port to two nodes. `SO_REUSEPORT` is never set: two nodes would share a
/// port silently.
pub(super) async fn bind(listen: &str) -> Result<TcpListener, Error> {
    let address = Address::parse_listen(listen)?;
    let error = |e: std::io::Error| Error::Bind { address: listen.to_owned(), reason: explain(&e) };
    let mut last = std::io::Error::other("the name has no address");
    for at in lookup_host((address.host.as_str(), address.port)).await.map_err(error)? {
        match bind_at(at) {
            Ok(listener) => return Ok(listener),
            Err(e) => last = e,
        }
    }
    Err(error(last))
}

fn bind_at(at: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(at.port() != 0)?;
    socket.bind(at)?;
    // Connections inherit it from the listener.
    socket.set_reuseaddr(true)?;
    socket.listen(1024)
}

fn explain(e: &std::io::Error) -> String {
    use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
    match e.kind() {
        AddrInUse => "address in use; stop the other process or choose another port (0 for any)".to_owned(),
        AddrNotAvailable => "this machine has no such address; see `ip address`".to_owned(),
        PermissionDenied => "permission denied; choose a port above 1023".to_owned(),
        _ => e.to_string(),
    }
}

/// Handshakes that are going on, oldest first.
#[derive(Default)]
struct Strangers {
    tasks: JoinSet<()>,
    ages: VecDeque<(Instant, AbortHandle)>,
}

impl Strangers {
    /// Makes room for one more: waits while all are young, else ends the oldest.
    async fn room(&mut self, limit: usize) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.ages.retain(|(_, task)| !task.is_finished());
            let Some((since, oldest)) = self.ages.front().filter(|_| self.ages.len() >= limit) else {
                return;
            };
            let left = GRACE.saturating_sub(since.elapsed());
            if left.is_zero() {
                oldest.abort();
                self.ages.pop_front();
                return;
            }
            tokio::select! {
                _ = self.tasks.join_next() => {}
                () = sleep(left) => {}
            }
        }
    }
}

impl Strangers {
    /// Ends the handshakes that had their time of grace: their descriptors are needed.
    fn evict(&mut self) {
        while let Some((_, oldest)) = self.ages.front().filter(|(since, _)| since.elapsed() >= GRACE) {
            oldest.abort();
            self.ages.pop_front();
        }
    }
}

/// Accepts until the runtime ends.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut strangers = Strangers::default();
    let mut pause = Duration::from_millis(10);
    loop {
        strangers.room(shared.settings.handshakes).await;
        match listener.accept().await {
            Ok((stream, from)) => {
                pause = Duration::from_millis(10);
                let task = strangers.tasks.spawn(greet(shared.clone(), stream, from));
                strangers.ages.push_back((Instant::now(), task));
            }
            // A connection that was gone before we took it.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(e) => {
                // Out of descriptors or memory: the backlog stays readable, so without a pause this would spin.
                // Strangers that have said nothing so far make room; sessions that end do too.
                strangers.evict();
                if let Some(more) = shared.shortages.pass() {
                    let shortage = Errno::from_io_error(&e).and_then(shortage);
                    let help = shortage.map_or_else(String::new, |(what, help)| format!(": {what}; {help}"));
                    tracing::error!(more, "cannot accept: {e}{help}");
                }
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// What a connection turned out to be.
enum Greeting {
    Lane(Preamble),
    Session(Established),
}

async fn greet(shared: Arc<Shared>, mut stream: TcpStream, from: SocketAddr) {
    let limit = shared.settings.connect;
    let late = || Reason::Deadline { what: "the handshake", peer: from.to_string() };
    let greeting = timeout(limit, receive(&shared, &mut stream, from)).await.unwrap_or_else(|_| Err(late()));
    let done = match greeting {
        Ok(Greeting::Lane(preamble)) => accepted::lane(&shared, preamble, stream).await,
        Ok(Greeting::Session(established)) => {
            let peer = format!("{} ({from})", established.peer.name);
            let (session, wire) = Session::new(&peer, established, from, stream);
            accepted::start(&shared, session, wire);
            Ok(())
        }
        Err(error) => Err(error),
    };
    if let Err(error) = done
        && let Some(more) = shared.refusals.pass()
    {
        tracing::warn!(%from, more, "connection turned away: {error}");
    }
}

async fn receive(shared: &Shared, stream: &mut TcpStream, from: SocketAddr) -> Result<Greeting, Reason> {
    let peer = from.to_string();
    stream.set_nodelay(true).map_err(|e| WireError::from(e).of(&peer))?;
    let preamble = match Preamble::read(stream).await {
        Ok(preamble) => preamble,
        Err(error) => {
            if matches!(error, WireError::Version { .. }) {
                handshake::refuse(stream, RefusalCode::Version).await;
            }
            return Err(error.of(&peer));
        }
    };
    if preamble.kind == Kind::Lane {
        return Ok(Greeting::Lane(preamble));
    }
    if *shared.leaving.borrow() {
        handshake::refuse(stream, RefusalCode::Leaving).await;
        let reason = "turned away: this node is leaving".to_owned();
        return Err(Reason::Refused { peer, reason });
    }
    let limit = shared.settings.sessions;
    if lock(&shared.accepted).len() >= limit {
        handshake::refuse(stream, RefusalCode::Busy).await;
        let reason = format!("turned away: {limit} sessions stand already; see `limits.peers`");
        return Err(Reason::Refused { peer, reason });
    }
    let session = handshake::new_session()?;
    let established = handshake::accept(stream, &preamble.hello, &shared.identity, session, &peer).await?;
    options(stream, established.idle).map_err(|e| WireError::from(e).of(&peer))?;
    Ok(Greeting::Session(established))
}
