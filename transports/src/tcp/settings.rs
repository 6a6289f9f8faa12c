//! What a file may say about a TCP transport: lanes, sockets, frames.
//! Deliberately plain data with defaults that were measured on loopback and are safe on a wire.

use std::net::IpAddr;
use std::time::Duration;

use super::frame::COUNT_MAX;
use super::hello::Hello;

/// The least `stall`: below it a busy machine would look dead.
pub const STALL_MIN: Duration = Duration::from_millis(100);

/// Settings of one TCP transport; the same on dialler and acceptor is usual, not needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// NICs to open lanes from. Empty: one, named after the transport, with the system's routing.
    pub nics: Vec<Nic>,
    /// Lanes are tied to the interface of their NIC as well (`SO_BINDTODEVICE`), not to its address alone.
    pub bind_device: bool,
    /// Connections a path.
    pub lanes: u16,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// Congestion control by its kernel name (`"cubic"`, `"bbr"`); `None`: the system's default.
    pub congestion: Option<String>,
    /// `SO_SNDBUF`, bytes; `None`: the kernel tunes it.
    pub send_buffer_bytes: Option<usize>,
    /// `SO_RCVBUF`, bytes; `None`: the kernel tunes it.
    pub receive_buffer_bytes: Option<usize>,
    /// Work requests outstanding on a lane.
    pub depth: u32,
    /// Work requests a frame, 1–64.
    pub frame_descriptors: u16,
    /// Payload bytes after which a frame is closed.
    pub frame_bytes: u64,
    /// The longest work request, bytes.
    pub max_bytes: u64,
    /// The meaning of `slice = "auto"`, bytes.
    pub preferred_bytes: u64,
    /// Idle time before `SO_KEEPALIVE` probes a lane; `None`: never.
    pub keepalive: Option<Duration>,
    /// How long a lane with work outstanding may stand still before it counts as dead, at least [`STALL_MIN`]; also
    /// its `TCP_USER_TIMEOUT`. `None`: for ever.
    pub stall: Option<Duration>,
}

/// A NIC lanes are opened from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its name in the file.
    pub name: String,
    /// Source address of its lanes; without it, of the addresses of its interface the one that is nearest to the peer.
    pub address: Option<IpAddr>,
    /// Its interface. One that does not exist is no error where there is an address.
    pub device: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nics: Vec::new(),
            bind_device: false,
            lanes: 2,
            nodelay: true,
            congestion: None,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            depth: 1024,
            frame_descriptors: COUNT_MAX as u16,
            frame_bytes: 4 << 20,
            max_bytes: 1 << 36,
            preferred_bytes: 1 << 20,
            keepalive: Some(Duration::from_secs(15)),
            stall: Some(Duration::from_secs(10)),
        }
    }
}

impl Settings {
    /// `stall` as it is carried out.
    pub(super) fn stall(&self) -> Option<Duration> {
        self.stall.map(|stall| stall.max(STALL_MIN))
    }

    /// The sizes a lane's hello carries, brought into the protocol's bounds.
    pub fn hello(&self) -> Hello {
        Hello {
            descriptors: self.frame_descriptors.clamp(1, COUNT_MAX as u16),
            depth: self.depth.clamp(1, 1 << 20),
            max_bytes: self.max_bytes.max(1),
            frame_bytes: self.frame_bytes.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a file says, the hello made of it is one that every peer accepts.
    #[test]
    fn hello_is_within_bounds() {
        let silly =
            Settings { depth: 0, frame_descriptors: 0, frame_bytes: 0, max_bytes: 0, ..Settings::default() };
        for settings in [Settings::default(), silly] {
            let hello = settings.hello();
            assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }
    }
}
