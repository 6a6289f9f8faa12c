//! What a failed attempt to connect says: something about the peer, or that this process or machine has run out of
//! something. Deliberately told apart, because the second says nothing about the peer, which must not be given up for it.

use std::io;
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::error::Error;

/// The error for a connection to `peer` that could not be made.
pub fn connecting(peer: &str, source: io::Error) -> Error {
    let local = Errno::from_io_error(&source).and_then(shortage);
    match local {
        Some((what, help)) => Error::Exhausted { peer: peer.to_owned(), what, help, source },
        None => Error::Unreachable { peer: peer.to_owned(), reason: source.to_string() },
    }
}

/// What this side lacks, and what mends it; `None` for errors that speak of the other side.
pub fn shortage(errno: Errno) -> Option<(&'static str, String)> {
    Some(match errno {
        Errno::ADDRNOTAVAIL => (
            "no local port is free",
            "widen net.ipv4.ip_local_port_range, or use fewer lanes and peers".to_owned(),
        ),
        Errno::MFILE => ("this process has no file descriptor left", descriptors()),
        Errno::NFILE => ("this machine has no file descriptor left", "raise fs.file-max".to_owned()),
        Errno::NOBUFS | Errno::NOMEM => {
            ("the system has no memory for another socket", "see net.ipv4.tcp_mem".to_owned())
        }
        _ => return None,
    })
}

/// Descriptors that connections we dial leave free, so that peers can still come in: at most an eighth of all.
const SPARE: u64 = 8;

/// Whether a connection we dialled may keep its descriptor; else an error as if there had been none.
///
/// # Errors
/// `EMFILE` when it is one of the last: the system gives the lowest number that is free.
pub fn spare(socket: &impl AsRawFd) -> io::Result<()> {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    let last = limit - SPARE.min(limit / 8);
    match u64::try_from(socket.as_raw_fd()) {
        Ok(number) if number >= last => Err(io::Error::from_raw_os_error(Errno::MFILE.raw_os_error())),
        _ => Ok(()),
    }
}

fn descriptors() -> String {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.map_or_else(|| "unlimited".to_owned(), |n| n.to_string());
    format!(
        "its limit (RLIMIT_NOFILE) is {limit}: raise it with `ulimit -n` or LimitNOFILE=, or use fewer lanes and peers"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortages of this side name what is short and what to do; everything else is the peer's.
    #[test]
    fn whose_fault_it_is() {
        let said = |errno: Errno| connecting("b", io::Error::from_raw_os_error(errno.raw_os_error()));
        let text = said(Errno::MFILE).to_string();
        assert!(text.contains("RLIMIT_NOFILE") && text.contains("ulimit -n") && text.contains("b"), "{text}");
        let text = said(Errno::ADDRNOTAVAIL).to_string();
        assert!(text.contains("no local port") && text.contains("ip_local_port_range"), "{text}");
        for errno in [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::TIMEDOUT, Errno::CONNRESET] {
            assert!(matches!(said(errno), Error::Unreachable { .. }), "{errno:?}");
        }
    }
}
