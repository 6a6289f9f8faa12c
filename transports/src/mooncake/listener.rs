//! Takes data connections and hands each to a serve half. Deliberately reads not a byte of them: there is no greeting.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

use super::hall::{Guest, Halls, Seated};
use super::throttle::Throttle;
use crate::clock::now;

/// Before the next try where the system has no descriptor for another connection.
const BREATH: Duration = Duration::from_millis(100);
/// Before the next look whether there is room for a newcomer.
const TURN: Duration = Duration::from_millis(2);
/// Idle time before the system asks whether a peer's machine is still there.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Serves a port for ever: at most `most` connections at a time, others wait in the system's queue; and a peer's machine that takes no byte for `stall` is gone.
pub(crate) async fn serve(
    listener: &TcpListener,
    halls: &Halls,
    most: usize,
    stall: Option<Duration>,
) -> Infallible {
    let throttle = Throttle::default();
    loop {
        while !halls.has_room(most, now()) {
            tokio::time::sleep(TURN).await;
        }
        let taken = match listener.accept().await {
            Ok((stream, from)) => take(stream, from, halls, most, stall).map_err(|error| (Some(from), error)),
            Err(error) => Err((None, error)),
        };
        let Err((from, error)) = taken else { continue };
        if let Some(unsaid) = throttle.speak(now()) {
            tracing::warn!(?from, %error, unsaid, "a data connection could not be taken");
        }
        if from.is_none() {
            tokio::time::sleep(BREATH).await;
        }
    }
}

fn take(
    stream: TcpStream,
    from: SocketAddr,
    halls: &Halls,
    most: usize,
    stall: Option<Duration>,
) -> std::io::Result<()> {
    let socket = SockRef::from(&stream);
    // A status is 8 bytes that somebody waits for.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3))?;
    if let Some(stall) = stall {
        socket.set_tcp_user_timeout(Some(stall))?;
    }
    let refuse = |why: &'static str| Err(std::io::Error::other(why));
    match halls.seat(Guest::new(stream.into_std()?, from, now()), most) {
        Seated::Yes => Ok(()),
        Seated::InsteadOf(other) => {
            tracing::debug!(%from, %other, "as many data connections as may be: the longest idle one makes room");
            Ok(())
        }
        Seated::Full => refuse("as many are open as `connections` allows, and none of them is idle"),
        Seated::Nowhere => refuse("no stage `serve` takes it: the file has none, or its box is full"),
    }
}
