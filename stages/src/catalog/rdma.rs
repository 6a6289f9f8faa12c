//! How the transport `rdma` is made of what a file says of it; in a program that was built without it, how it is not.

use std::sync::Arc;

use pipeline_configs::TransportConfig;
use pipeline_transports::{Error, Regions, Transport};

#[cfg(feature = "rdma")]
pub use with::settings;

/// Makes it.
///
/// # Errors
/// What this program or this machine lacks, and how to get it; what a device refuses.
#[cfg(not(feature = "rdma"))]
pub(super) fn make(config: &TransportConfig, _: u64, _: &Arc<Regions>) -> Result<Arc<dyn Transport>, Error> {
    let what = format!(
        "this program was built without it, and transport `{}` needs it; build it with: \
         apt install cmake pkg-config libclang-dev libnl-3-dev libnl-route-3-dev libibverbs-dev; \
         cargo build --release -p pipeline-node --features rdma",
        config.name
    );
    Err(Error::Missing { transport: "rdma", what })
}

#[cfg(feature = "rdma")]
pub(super) use with::make;

#[cfg(feature = "rdma")]
mod with {
    use std::time::Duration;

    use pipeline_configs::Interface;
    use pipeline_transports::rdma::{GidChoice, GpuMemory, Rails, RdmaNic, RdmaSettings, RdmaTransport};

    use super::*;

    /// See [`super::make`].
    pub fn make(
        config: &TransportConfig,
        _: u64,
        regions: &Arc<Regions>,
    ) -> Result<Arc<dyn Transport>, Error> {
        Ok(Arc::new(RdmaTransport::new(&config.name, settings(config), regions.capacity())?))
    }

    /// What a file says of an RDMA transport: devices, queue pairs, registrations.
    pub fn settings(config: &TransportConfig) -> RdmaSettings {
        let (values, usual) = (&config.values, RdmaSettings::default());
        let number = |key, usual: u64| values.number(key).unwrap_or(usual);
        let port = number("port", 1) as u8;
        let nic = |(name, at): (&String, &Interface)| {
            // A transport that names no NIC has one of its own name: which device that is, it finds out.
            let device = at.device.as_deref()?;
            let gid = at.address.map_or(GidChoice::Best, GidChoice::Address);
            Some(RdmaNic { name: name.clone(), port, gid, ..RdmaNic::named(device) })
        };
        RdmaSettings {
            nics: config.nics.iter().zip(&config.interfaces).filter_map(nic).collect(),
            lanes: number("lanes", u64::from(usual.lanes)) as u16,
            depth: number("depth", u64::from(usual.depth)) as u32,
            preferred_bytes: number("prefers", usual.preferred_bytes),
            max_bytes: number("max_request", usual.max_bytes),
            read_depth: number("read_depth", u64::from(usual.read_depth)) as u8,
            gid: values.number("gid").map_or(GidChoice::Best, |index| GidChoice::Index(index as u8)),
            service_level: number("service_level", 0) as u8,
            traffic_class: number("traffic_class", 0) as u8,
            mtu_bytes: values.text("mtu").and_then(|mtu| mtu.parse().ok()).unwrap_or(usual.mtu_bytes),
            ack_timeout: values.time("ack_timeout").unwrap_or(usual.ack_timeout),
            retries: number("retries", u64::from(usual.retries)) as u8,
            stall: values.time("stall").filter(|stall| *stall > Duration::ZERO),
            endpoints: number("endpoints", u64::from(usual.endpoints)) as u32,
            inline_bytes: number("inline", u64::from(usual.inline_bytes)) as u32,
            signal_every: number("signal_every", u64::from(usual.signal_every)) as u32,
            relaxed_ordering: values.flag("relaxed_ordering"),
            rails: if values.text("rails") == Some("same") { Rails::Same } else { Rails::Any },
            gpu_memory: match values.text("gpu_memory") {
                Some("dmabuf") => GpuMemory::Dmabuf,
                Some("peermem") => GpuMemory::PeerMemory,
                _ => GpuMemory::Auto,
            },
            register_max_bytes: number("register_max", usual.register_max_bytes),
            addresses: usual.addresses,
            always_global: usual.always_global,
        }
    }
}

#[cfg(all(test, feature = "rdma"))]
mod tests {
    use pipeline_configs::{Options, load_str};
    use pipeline_transports::rdma::{GidChoice, RdmaSettings};

    use super::super::catalog;
    use super::settings;

    /// The settings of the transport `rdma` of a file that says this of it.
    fn of(text: &str) -> RdmaSettings {
        let text = format!("version = 1\nuse = \"rdma\"\n{text}");
        let loaded = load_str("t", &text, &catalog(), &Options::default()).unwrap_or_else(|f| panic!("{f}"));
        settings(&loaded.config.transports[0])
    }

    /// A file that says nothing gets the transport's own defaults: those in the documentation are those that hold.
    #[test]
    fn defaults_are_the_transports() {
        assert_eq!(of(""), RdmaSettings::default());
    }

    /// NICs keep name, device, port and address; an address picks the GID, and goes before the transport's index.
    #[test]
    fn nics() {
        let said = of("transports.rdma = { nics = [\"a\", \"mlx5_1\"], gid = 3, port = 2 }\n\
                       nics.a = { device = \"mlx5_0\", address = \"10.0.0.1\" }\n");
        let nic =
            |at: usize| (said.nics[at].name.as_str(), said.nics[at].device.as_str(), said.nics[at].port);
        assert_eq!((nic(0), nic(1)), (("a", "mlx5_0", 2), ("mlx5_1", "mlx5_1", 2)));
        assert_eq!(said.nics[0].gid, GidChoice::Address("10.0.0.1".parse().unwrap()));
        assert_eq!((said.nics[1].gid, said.gid), (GidChoice::Best, GidChoice::Index(3)));
    }
}

#[cfg(all(test, not(feature = "rdma")))]
mod tests {
    use super::*;

    /// A program without the feature says so, with what to build it and with which packages.
    #[test]
    fn refused_without_the_feature() {
        let config = TransportConfig {
            name: "fast".into(),
            kind: "rdma".into(),
            foreign: false,
            nics: Vec::new(),
            interfaces: Vec::new(),
            values: Default::default(),
        };
        let refused = make(&config, 1, &Arc::new(Regions::new(1))).err().unwrap().to_string();
        assert!(refused.contains("`fast`") && refused.contains("--features rdma"), "{refused}");
        assert!(refused.contains("libibverbs-dev"), "{refused}");
    }
}
