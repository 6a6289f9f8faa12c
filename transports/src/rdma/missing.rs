//! What a machine lacks to speak verbs, and how to get it. Deliberately only that: what a device that is there refuses is
//! an [`Error`].

use crate::error::Error;

/// Says what is absent and what to do. Package names are those of Debian and Ubuntu; other systems call them alike.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No libibverbs on this machine, or one that cannot be loaded.
    #[error(
        "libibverbs.so.1 cannot be loaded ({reason}); install it: apt install libibverbs1 ibverbs-providers"
    )]
    Library {
        /// What the loader said.
        reason: String,
    },
    /// A libibverbs from before rdma-core 32 (2020).
    #[error(
        "this machine's libibverbs.so.1 has no `{symbol}`: rdma-core 32 or later is needed; apt install --only-upgrade libibverbs1 ibverbs-providers, or your vendor's current driver package"
    )]
    Symbol {
        /// What it lacks.
        symbol: &'static str,
    },
    /// The kernel has no user verbs.
    #[error(
        "the kernel offers no verbs to programs ({reason}); load them: modprobe ib_uverbs, and the NIC's driver (modprobe mlx5_ib; without an RDMA NIC modprobe rdma_rxe); in a container: --device /dev/infiniband"
    )]
    Kernel {
        /// What the system said.
        reason: String,
    },
    /// User verbs and no device.
    #[error(
        "this machine has no RDMA device; load the NIC's driver (modprobe mlx5_ib), or make one of an Ethernet NIC: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0 (apt install iproute2)"
    )]
    AnyDevice,
    /// The kernel has the device, and libibverbs does not know how to drive it.
    #[error(
        "the kernel has RDMA device `{device}`, and libibverbs has no provider for it; apt install ibverbs-providers (or the vendor's provider)"
    )]
    Provider {
        /// Its name.
        device: String,
    },
    /// No device of that name.
    #[error(
        "there is no RDMA device `{device}` (there is: {found}); see `ibv_devices`, and name one in `nics` of the transport"
    )]
    Device {
        /// The name that was looked for.
        device: String,
        /// Those that are there.
        found: String,
    },
    /// It may not be opened.
    #[error(
        "RDMA device `{device}` cannot be opened ({reason}); give this user /dev/infiniband/uverbs* (a udev rule, group rdma), in a container: --device /dev/infiniband"
    )]
    Permission {
        /// Its name.
        device: String,
        /// What the system said.
        reason: String,
    },
    /// No such port.
    #[error("RDMA device `{device}` has no port {port}, but 1 to {ports}; correct `port`")]
    Port {
        /// Its name.
        device: String,
        /// The port that was looked for.
        port: u8,
        /// How many it has.
        ports: u8,
    },
}

impl From<Missing> for Error {
    fn from(missing: Missing) -> Self {
        Self::Missing { transport: "rdma", what: missing.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is missing, the message says what to do about it, and which transport it is missing to.
    #[test]
    fn each_says_what_to_do() {
        let (device, reason) = ("mlx5_0".to_owned(), "why".to_owned());
        let all = [
            (Missing::Library { reason: reason.clone() }, "apt install libibverbs1"),
            (Missing::Symbol { symbol: "ibv_x" }, "rdma-core 32"),
            (Missing::Kernel { reason: reason.clone() }, "modprobe ib_uverbs"),
            (Missing::AnyDevice, "rdma link add"),
            (Missing::Provider { device: device.clone() }, "apt install ibverbs-providers"),
            (Missing::Device { device: device.clone(), found: "rxe0".into() }, "there is: rxe0"),
            (Missing::Permission { device: device.clone(), reason }, "/dev/infiniband"),
            (Missing::Port { device, port: 3, ports: 2 }, "1 to 2"),
        ];
        for (missing, says) in all {
            let text = Error::from(missing).to_string();
            assert!(text.contains(says) && text.contains("`rdma`"), "{text}");
        }
    }
}
