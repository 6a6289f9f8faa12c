//! Who moved how much, from three sides: the client's own figures, the kernel's count of what the server's sockets received,
//! and the bytes that left by each interface.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use pipeline_node::{Engine, NicStats};

/// Bytes that each NIC has moved since `before`, in the order of the file.
pub fn moved(engine: &Engine, before: &[NicStats]) -> Vec<u64> {
    engine.nics().iter().zip(before).map(|(now, before)| now.since(before).bytes).collect()
}

/// How far the most distant of some figures is from their mean, as a part of the mean.
pub fn distance(figures: &[u64]) -> f64 {
    let mean = figures.iter().sum::<u64>() as f64 / figures.len() as f64;
    figures.iter().map(|figure| (*figure as f64 / mean - 1.0).abs()).fold(0.0, f64::max)
}

/// What the sockets of this process that were accepted on a port have received, by the address that they came from.
pub fn received(port: u16) -> BTreeMap<IpAddr, u64> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // SAFETY: it is only asked what it is; one that was closed meanwhile answers with an error.
        let socket = unsafe { BorrowedFd::borrow_raw(number) };
        let local = rustix::net::getsockname(socket).ok().and_then(|a| SocketAddr::try_from(a).ok());
        let remote =
            rustix::net::getpeername(socket).ok().flatten().and_then(|a| SocketAddr::try_from(a).ok());
        if let (Some(local), Some(remote)) = (local, remote)
            && local.port() == port
        {
            *all.entry(remote.ip()).or_default() += received_by(socket);
        }
    }
    all
}

/// `tcpi_bytes_received` of a connection.
fn received_by(socket: BorrowedFd<'_>) -> u64 {
    const AT: usize = 128;
    let mut info = [0_u8; 256];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let got = unsafe {
        let into = info.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &raw mut length)
    };
    assert!(got == 0 && length as usize >= AT + 8, "TCP_INFO of a connection: {length} bytes");
    u64::from_ne_bytes(info[AT..AT + 8].try_into().unwrap())
}

/// Bytes that have left this network by an interface.
pub fn left_by(interface: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/self/net/dev").unwrap();
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
    line.expect("no such interface").split_whitespace().nth(8).unwrap().parse().unwrap()
}
