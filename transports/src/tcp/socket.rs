//! Options of a lane's socket. What a kernel refuses by right (an unknown congestion control) is an error that
//! names the option; Deliberately no fallback to another value behind the user's back.

use std::os::fd::AsFd;

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
        let probe = TcpKeepalive::new().with_time(idle).with_interval(idle / 3).with_retries(3);
        option("SO_KEEPALIVE", socket.set_tcp_keepalive(&probe))?;
    }
    Ok(())
}

fn option(name: &str, set: std::io::Result<()>) -> Result<(), Error> {
    set.map_err(|source| Error::Io { what: format!("setting {name} of a lane"), source })
}
