//! What `doctor` looks at for transports of type `rdma`: library, devices, ports, addresses, as user space sees them.
//! Deliberately a look only; what the kernel lists is checked with the other NICs.

use pipeline_configs::TransportConfig;

use super::Verdict;

/// Looks at what one transport needs of this machine.
#[cfg(not(feature = "rdma"))]
pub fn look(transport: &TransportConfig) -> Vec<Verdict> {
    let found = format!("this program was built without RDMA, and transport `{}` needs it", transport.name);
    let mend = "apt install cmake pkg-config libclang-dev libnl-3-dev libnl-route-3-dev libibverbs-dev; cargo build --release -p pipeline-node --features rdma";
    vec![Verdict::ill("rdma", found, mend)]
}

/// Looks at what one transport needs of this machine.
#[cfg(feature = "rdma")]
pub fn look(transport: &TransportConfig) -> Vec<Verdict> {
    use pipeline_stages::catalog::rdma_settings;
    use pipeline_transports::rdma::survey;

    match survey(&transport.name, &rdma_settings(transport)) {
        Err(error) => vec![ill(&error.to_string())],
        Ok(nics) => nics
            .iter()
            .map(|(name, seen)| match seen {
                Ok(seen) => judge(name, seen),
                Err(error) => ill(&error.to_string()),
            })
            .collect(),
    }
}

/// The errors of the transport say what to do behind a semicolon.
#[cfg(feature = "rdma")]
fn ill(error: &str) -> Verdict {
    match error.split_once("; ") {
        Some((found, mend)) => Verdict::ill("rdma", found, mend),
        None => Verdict::ill("rdma", error, "see `ibv_devinfo -v` (apt install ibverbs-utils) and dmesg"),
    }
}

#[cfg(feature = "rdma")]
fn judge(name: &str, seen: &pipeline_transports::rdma::NicSeen) -> Verdict {
    let what = format!("NIC `{name}`: port {} of {} ({})", seen.port, seen.device, seen.link_layer);
    if !seen.is_up {
        let mend = format!(
            "see `ibv_devinfo -d {0}` and `rdma link show`; RoCE: ip link set <interface> up; InfiniBand: is the cable in, and does a subnet manager run?",
            seen.device
        );
        return Verdict::ill("rdma", format!("{what} is down"), mend);
    }
    match &seen.gid {
        Ok((index, gid)) => {
            let dmabuf = if seen.has_dmabuf { "" } else { "; no dmabufs (rdma-core older than 34)" };
            let said = format!("{what} is up, MTU {}, GID {index} is {gid}{dmabuf}", seen.mtu_bytes);
            Verdict::well("rdma", said)
        }
        Err(why) => {
            let mend = "ip address add <address>/24 dev <interface>; or correct `gid` of the transport, [nics] address";
            Verdict::ill("rdma", format!("{what} is up, but {why}"), mend)
        }
    }
}

#[cfg(all(test, feature = "rdma"))]
mod tests {
    use pipeline_transports::rdma::{Missing, NicSeen};

    use super::*;

    fn seen() -> NicSeen {
        NicSeen {
            device: "mlx5_0".into(),
            port: 1,
            is_up: true,
            link_layer: "Ethernet",
            mtu_bytes: 4096,
            gid: Ok((3, "10.0.0.1".into())),
            register_max_bytes: u64::MAX,
            has_dmabuf: true,
        }
    }

    /// A port that is up and has its GID is well, and what was found is said; one that is down or has none is not, with
    /// what to do.
    #[test]
    fn ports_and_gids() {
        let well = judge("a", &seen());
        assert!(well.ok && well.found.contains("GID 3 is 10.0.0.1") && well.found.contains("MTU 4096"));
        let down = judge("a", &NicSeen { is_up: false, ..seen() });
        assert!(!down.ok && down.mend.contains("ibv_devinfo -d mlx5_0"), "{down:?}");
        let none = judge("a", &NicSeen { gid: Err("it has no GID with index 9".into()), ..seen() });
        assert!(
            !none.ok && none.found.contains("index 9") && none.mend.contains("ip address add"),
            "{none:?}"
        );
    }

    /// What is missing is told apart from what to do about it.
    #[test]
    fn what_is_missing() {
        let error = pipeline_transports::Error::from(Missing::Library { reason: "no such file".into() });
        let verdict = ill(&error.to_string());
        assert!(
            verdict.found.contains("libibverbs.so.1") && verdict.mend.contains("apt install libibverbs1")
        );
        assert!(!ill("whatever").mend.is_empty());
    }
}
