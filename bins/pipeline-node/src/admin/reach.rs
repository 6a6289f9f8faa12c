//! A connection to somebody's socket, without waiting for room in its queue. A node that is stopped takes no connections, and
//! once its queue is full a plain `connect` waits for it without end, and takes no signal either.

use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connects at once. The stream blocks, as one of `std` does.
///
/// # Errors
/// [`Errno::AGAIN`] when somebody listens whose queue is full; else as `connect`.
pub(super) fn connect(path: &Path) -> Result<UnixStream, Errno> {
    let name = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &name)?;
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket.into())
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Fills the queue of a socket whose owner takes no connections; what is here keeps it full.
    pub(in crate::admin) fn full(path: &Path) -> (UnixListener, Vec<UnixStream>) {
        let listener = UnixListener::bind(path).unwrap();
        rustix::net::listen(&listener, 2).unwrap();
        let queued = std::iter::from_fn(|| connect(path).ok()).take(100).collect();
        (listener, queued)
    }

    /// Whoever takes no connections is told from who is not there, and nobody waits for him.
    #[test]
    fn full_queues_are_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        assert_eq!(connect(&path).unwrap_err(), Errno::NOENT);
        let (listener, queued) = full(&path);
        assert!((1..100).contains(&queued.len()), "{}", queued.len());
        assert_eq!(connect(&path).unwrap_err(), Errno::AGAIN);
        drop((listener, queued));
        assert_eq!(connect(&path).unwrap_err(), Errno::CONNREFUSED);
    }
}
