//! Options of a lane's socket. What a kernel refuses by right (an unknown congestion control) is an error that
//! names the option; Deliberately no fallback to another value behind the user's back.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::settings::Settings;
use crate::error::Error;

/// Sets what must be set before a connection is made: buffers bound the window that is announced.
///
/// # Errors
/// [`Error::Io`] naming the option.
pub(super) fn before_connect(socket: &impl AsFd, settings: &Settings) -> Result<(), Error> {
    let socket = SockRef::from(socket);
    if let Some(bytes) = settings.send_buffer_bytes {
        option("SO_SNDBUF", socket.set_send_buffer_size(bytes))?;
    }
    if let Some(bytes) = settings.receive_buffer_bytes {
        option("SO_RCVBUF", socket.set_recv_buffer_size(bytes))?;
    }
    Ok(())
}

/// Sets everything else.
///
/// # Errors
/// [`Error::Io`] naming the option.
pub(super) fn connected(socket: &impl AsFd, settings: &Settings) -> Result<(), Error> {
    let socket = SockRef::from(socket);
    option("TCP_NODELAY", socket.set_tcp_nodelay(settings.nodelay))?;
    if let Some(name) = &settings.congestion {
        let set = socket.set_tcp_congestion(name.as_bytes());
        option(&format!("congestion = \"{name}\" (see net.ipv4.tcp_available_congestion_control)"), set)?;
    }
    if let Some(idle) = settings.keepalive {
        let probe = TcpKeepalive::new()
            .with_time(whole_seconds(idle))
            .with_interval(whole_seconds(idle / 3))
            .with_retries(3);
        option("SO_KEEPALIVE", socket.set_tcp_keepalive(&probe))?;
    }
    if let Some(stall) = settings.stall() {
        // Bytes that the other machine does not acknowledge, a window that stays shut, and a close that nobody answers.
        option("TCP_USER_TIMEOUT", socket.set_tcp_user_timeout(Some(stall)))?;
    }
    Ok(())
}

/// Ties a socket that is not connected yet to a source address. Its port is chosen when it connects, so that one address
/// has as many connections as there are ports *to each peer*, not in all.
///
/// # Errors
/// The system's reason: the address is nobody's now.
pub(super) fn bind_source(socket: &impl AsFd, source: SocketAddr) -> std::io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option takes an int, which lives through the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if set != 0 {
        tracing::debug!(
            "IP_BIND_ADDRESS_NO_PORT is not had: ports of a source address are shared by all peers"
        );
    }
    SockRef::from(socket).bind(&source.into())
}

/// The socket calls itself readable when so many bytes have come, or it has ended, or will take no more: where that many are
/// on their way, whoever waits is not woken for less.
///
/// # Errors
/// The system's reason.
pub(crate) fn wait_for(socket: &impl AsFd, bytes: u32) -> std::io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the option takes an int, which lives through the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The kernel counts keepalive in seconds and refuses 0.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(Duration::from_secs(1))
}

fn option(name: &str, set: std::io::Result<()>) -> Result<(), Error> {
    set.map_err(|source| Error::Io { what: format!("setting {name} of a lane"), source })
}
