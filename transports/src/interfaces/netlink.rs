//! The sockets of route netlink: a list asked for, and a monitor that hears of changes.
//! Deliberately without a cache: who asks often keeps what it was told.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::Interface;
use super::message::{GET_ADDRESS, GET_LINK, List, Rest, request, request_route, route, take};

/// The kernel fills datagrams of up to 32 KiB.
const BUFFER: usize = 64 << 10;
/// Times that a list which changes under our eyes is asked for.
const TRIES: usize = 8;
/// Groups of changes: links, addresses of both families.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

/// All interfaces with their addresses.
///
/// # Errors
/// The system's reason.
pub(super) fn dump() -> io::Result<Vec<Interface>> {
    let socket = open(SocketFlags::CLOEXEC)?;
    let mut buffer = vec![0; BUFFER];
    for _ in 0..TRIES {
        let mut list = List::default();
        for kind in [GET_LINK, GET_ADDRESS] {
            send(&socket, &request(kind), SendFlags::empty())?;
            receive(&socket, &mut buffer, &mut list)?;
        }
        if list.has_changed {
            continue;
        }
        for (index, address) in list.addresses {
            if let Some(link) = list.links.iter_mut().find(|link| link.index == index) {
                link.addresses.push(address);
            }
        }
        return Ok(list.links);
    }
    Err(io::Error::from(Errno::AGAIN))
}

/// One list to its end.
fn receive(socket: &OwnedFd, buffer: &mut [u8], list: &mut List) -> io::Result<()> {
    loop {
        let (_, length) = match recv(socket, &mut *buffer, RecvFlags::TRUNC) {
            Err(Errno::INTR) => continue,
            received => received?,
        };
        let datagram = buffer.get(..length);
        let datagram = datagram.ok_or_else(|| io::Error::other("a netlink message longer than 64 KiB"))?;
        match take(datagram, list) {
            Rest::More => {}
            Rest::Done => return Ok(()),
            Rest::Refused(errno) => return Err(io::Error::from_raw_os_error(-errno)),
        }
    }
}

/// The number of the interface by which packets from one address to another would leave.
///
/// # Errors
/// The system's reason, such as that there is no way.
pub(super) fn route_by(from: IpAddr, to: IpAddr) -> io::Result<u32> {
    let socket = open(SocketFlags::CLOEXEC)?;
    send(&socket, &request_route(from, to), SendFlags::empty())?;
    let mut buffer = [0; 4096];
    let (_, length) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
    route(&buffer[..length]).map_err(|errno| io::Error::from_raw_os_error(-errno))
}

fn open(flags: SocketFlags) -> io::Result<OwnedFd> {
    // No protocol is that of routes.
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?)
}

/// A socket that is readable after a link or an address has changed.
pub struct Monitor(OwnedFd);

impl Monitor {
    /// Of this network namespace, from now on.
    ///
    /// # Errors
    /// The system's reason.
    pub fn new() -> io::Result<Self> {
        let socket = open(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self(socket))
    }

    /// Forgets what has been told so far: whoever asks for a list afterwards misses nothing. Never blocks.
    ///
    /// # Errors
    /// The system's reason; that there was nothing is none.
    pub fn drain(&self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match recv(&self.0, &mut buffer[..], RecvFlags::empty()) {
                // Overrun: much has changed, and all of it is seen in the next list.
                Ok(_) | Err(Errno::INTR | Errno::NOBUFS) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl std::os::fd::AsRawFd for Monitor {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}
