//! How a lane reaches the data port of a target: to the first of its addresses that answers. Nothing is said there before the
//! first request; which version of requests it understands, its descriptor has told.
//! Deliberately no name is resolved here.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::clock::{Nanos, until};
use crate::error::Error;
use crate::exhausted::{connecting, spare};
use crate::resting::Resting;
use crate::transport::Path;

/// How long an address is tried while there are others.
const PATIENCE: Duration = Duration::from_secs(1);
/// When an idle lane asks whether the other machine is still there, and how often then.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5));

/// Connects by `by`, to the address that did not fail of late.
///
/// # Errors
/// What the last address said: [`Error::Unreachable`], [`Error::Exhausted`], [`Error::Deadline`].
pub(super) async fn reach(
    path: &Path,
    resting: &Resting,
    stall: Option<Duration>,
    by: Nanos,
) -> Result<TcpStream, Error> {
    let mut candidates = path.addresses.to_vec();
    if candidates.is_empty() {
        candidates.push(path.address);
    }
    candidates.sort_by_key(|to| resting.has(path.nic.0, *to));
    let mut last = None;
    for (i, to) in candidates.iter().copied().enumerate() {
        let left = candidates.len() - i;
        // The last one has all the time that is left.
        let patience = if left > 1 { PATIENCE.min(until(by) / left as u32) } else { until(by) };
        let late = || Error::Deadline { what: "opening a lane", peer: format!("{} at {to}", path.peer) };
        match timeout(patience, connect(path, to, stall)).await.unwrap_or_else(|_| Err(late())) {
            Ok(stream) => return Ok(stream),
            // Another address takes as much of what is short here.
            Err(error @ Error::Exhausted { .. }) => return Err(error),
            Err(error) => {
                if candidates.len() > 1 && resting.add(path.nic.0, to) {
                    tracing::info!(peer = path.peer, %to, %error, "an address of a Mooncake peer does not answer");
                }
                last = Some(error);
            }
        }
    }
    Err(last.unwrap_or_else(|| Error::Unreachable { peer: path.peer.clone(), reason: "no address".into() }))
}

async fn connect(path: &Path, to: SocketAddr, stall: Option<Duration>) -> Result<TcpStream, Error> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(|e| connecting(&path.peer, e))?;
    spare(&socket).map_err(|e| connecting(&path.peer, e))?;
    let stream = socket.connect(to).await.map_err(|e| match connecting(&path.peer, e) {
        Error::Unreachable { peer, reason } => Error::Unreachable { peer, reason: format!("{to}: {reason}") },
        other => other,
    })?;
    set_options(&stream, stall)
        .map_err(|source| Error::Io { what: format!("setting up a lane to {}", path.peer), source })?;
    Ok(stream)
}

/// Small requests must not wait for company, and a machine that has gone must be missed.
fn set_options(stream: &TcpStream, stall: Option<Duration>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let (idle, again) = KEEPALIVE;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle).with_interval(again).with_retries(3))?;
    if let Some(stall) = stall {
        // Bytes that the other machine does not acknowledge. That its process reads them, the reaper watches.
        socket.set_tcp_user_timeout(Some(stall))?;
    }
    Ok(())
}
