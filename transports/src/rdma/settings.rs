//! What a file may say about an RDMA transport. Deliberately plain data; the keys with their ranges are in the catalogue.

use std::time::Duration;

use super::gid::GidChoice;
use super::port::Mtu;

/// Whom NICs may talk to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rails {
    /// Everybody.
    #[default]
    Any,
    /// Those of their own rail.
    Same,
}

/// How memory of a GPU is made known to a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuMemory {
    /// By a dmabuf, and where that is not supported by the driver's peer memory.
    #[default]
    Auto,
    /// By a dmabuf or not at all.
    Dmabuf,
    /// By the driver's peer memory (the kernel module `nvidia_peermem`) or not at all.
    PeerMemory,
}

/// What peers are told of where memory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addresses {
    /// How its pages lie, and nothing of where.
    #[default]
    Hidden,
    /// Its addresses in this process: for a protocol whose work requests name those.
    Real,
}

/// Settings of one RDMA transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaSettings {
    /// NICs; never empty once the transport is made.
    pub nics: Vec<RdmaNic>,
    /// Queue pairs a path.
    pub lanes: u16,
    /// Work requests outstanding on a queue pair.
    pub depth: u32,
    /// The meaning of `slice = "auto"`, bytes.
    pub preferred_bytes: u64,
    /// The longest work request, bytes.
    pub max_bytes: u64,
    /// READs outstanding on a queue pair: what a device can do, at most.
    pub read_depth: u8,
    /// Which of its GIDs a NIC is reached by, unless the NIC's own entry says so.
    pub gid: GidChoice,
    /// Service level, 0-15.
    pub service_level: u8,
    /// Traffic class of RoCE packets.
    pub traffic_class: u8,
    /// Largest packet, bytes.
    pub mtu_bytes: u32,
    /// How long a NIC waits for an acknowledgement.
    pub ack_timeout: Duration,
    /// How often a NIC sends again, 0-7.
    pub retries: u8,
    /// How long a queue pair with work outstanding may complete nothing; `None`: see [`Self::stall`].
    pub stall: Option<Duration>,
    /// Queue pairs at a time on each NIC.
    pub endpoints: u32,
    /// Bytes up to which a WRITE carries its payload in the work request.
    pub inline_bytes: u32,
    /// Every how many work requests one is signalled.
    pub signal_every: u32,
    /// Whether the NIC may deliver bytes of one transfer in any order.
    pub relaxed_ordering: bool,
    /// Whom NICs may talk to.
    pub rails: Rails,
    /// How memory of a GPU is made known to a NIC.
    pub gpu_memory: GpuMemory,
    /// Bytes of a single memory registration; the device's own limit holds as well.
    pub register_max_bytes: u64,
    /// What NICs call the bytes of a region. No key of a file: the protocol says it.
    pub addresses: Addresses,
    /// Whether packets carry GIDs on InfiniBand too, where they need none. Both ends must hold it the same way, so the
    /// protocol says it.
    pub always_global: bool,
}

/// A NIC of the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaNic {
    /// Its name in the file.
    pub name: String,
    /// The device, as `ibv_devices` lists it.
    pub device: String,
    /// Port of the device, from 1.
    pub port: u8,
    /// Which of its GIDs it is reached by.
    pub gid: GidChoice,
    /// Its rail, where the file says so.
    pub rail: Option<u16>,
}

impl Default for RdmaSettings {
    fn default() -> Self {
        Self {
            nics: Vec::new(),
            lanes: 2,
            depth: 256,
            preferred_bytes: 64 << 10,
            max_bytes: 1 << 30,
            read_depth: 16,
            gid: GidChoice::Best,
            service_level: 0,
            traffic_class: 0,
            mtu_bytes: 4096,
            ack_timeout: Duration::from_millis(67),
            retries: 7,
            stall: None,
            endpoints: 4096,
            inline_bytes: 64,
            signal_every: 64,
            relaxed_ordering: true,
            rails: Rails::Any,
            gpu_memory: GpuMemory::Auto,
            register_max_bytes: u64::MAX,
            addresses: Addresses::Hidden,
            always_global: false,
        }
    }
}

/// The least `stall`: below it a busy machine would look dead.
pub const STALL_MIN: Duration = Duration::from_secs(1);
/// The least of a file that says nothing: a queue pair that shares a slow port with many others may wait that long.
const STALL_USUAL: Duration = Duration::from_secs(5);

impl RdmaSettings {
    /// The entry of a NIC; without one, that of the device of this name.
    pub(crate) fn nic(&self, name: &str) -> RdmaNic {
        let mut nic =
            self.nics.iter().find(|nic| nic.name == name).cloned().unwrap_or_else(|| RdmaNic::named(name));
        if nic.gid == GidChoice::Best {
            nic.gid = self.gid;
        }
        nic
    }

    /// Largest packet that the file allows.
    pub(crate) fn mtu(&self) -> Mtu {
        Mtu::at_most(self.mtu_bytes)
    }

    /// `ack_timeout` as queue pairs count it: 4.096 us × 2^n, n from 1 to 31, the next longer one.
    pub(crate) fn timeout_code(&self) -> u8 {
        let wanted = self.ack_timeout.as_nanos();
        (1..31).find(|n| 4096u128 << n >= wanted).unwrap_or(31)
    }

    /// How long a queue pair with work outstanding may complete nothing before it counts as dead. Without a word in the
    /// file: until the NIC itself must have given up, which its rules allow it to do four times as late as it is told, and
    /// at least [`STALL_USUAL`]. What the NIC notices by itself, and what its events say, does not wait for this.
    pub(crate) fn stall(&self) -> Duration {
        let told = Duration::from_nanos(4096 << self.timeout_code()) * (u32::from(self.retries) + 1);
        self.stall.unwrap_or((told * 4).max(STALL_USUAL)).max(STALL_MIN)
    }
}

impl RdmaNic {
    /// The device of this name, with all else by default.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), device: name.to_owned(), port: 1, gid: GidChoice::Best, rail: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_timeout(ns: u64) -> RdmaSettings {
        RdmaSettings { ack_timeout: Duration::from_nanos(ns), ..RdmaSettings::default() }
    }

    /// The timeout of a queue pair is the next one of its scale that is not shorter, and never its 0, which is for ever.
    #[test]
    fn timeouts() {
        let code = |ns| with_timeout(ns).timeout_code();
        assert_eq!(
            [0, 1, 8192, 8193, 67_000_000, 67_108_864, 67_108_865].map(code),
            [1, 1, 1, 2, 14, 14, 15]
        );
        assert_eq!(code(9_000_000_000_000), 31);
    }

    /// Without a word in the file a queue pair is dead when its NIC must have given up by itself, and not soon; what the
    /// file says holds, but for a floor.
    #[test]
    fn stalls() {
        assert_eq!(with_timeout(1).stall(), STALL_USUAL);
        assert_eq!(with_timeout(1 << 30).stall(), Duration::from_nanos(4096 << 18) * 32);
        let said = |stall| RdmaSettings { stall: Some(stall), ..RdmaSettings::default() }.stall();
        assert_eq!(said(Duration::from_secs(7)), Duration::from_secs(7));
        assert_eq!(said(Duration::from_millis(3)), STALL_MIN);
    }

    /// A NIC without an entry is the device of its name; its own choice of a GID goes before the transport's.
    #[test]
    fn entries_of_nics() {
        let own = RdmaNic { gid: GidChoice::Index(5), device: "mlx5_1".into(), ..RdmaNic::named("b") };
        let settings = RdmaSettings { nics: vec![own], gid: GidChoice::Index(3), ..RdmaSettings::default() };
        assert_eq!(
            (settings.nic("b").gid, settings.nic("b").device.as_str()),
            (GidChoice::Index(5), "mlx5_1")
        );
        assert_eq!((settings.nic("a").gid, settings.nic("a").device.as_str()), (GidChoice::Index(3), "a"));
    }
}
