//! The checks of `doctor`. Each only speaks when the file depends on what it looks at.

use pipeline_configs::units::show_bytes;
use pipeline_configs::{Config, SegmentKind};
use pipeline_graph::{PoolDecl, PoolKind};

use super::Verdict;
use super::machine::Machine;
use super::{memory, places};
use crate::cli::nics_here::{Here, nics_here, strays};

/// Descriptors that a node needs besides its links: log, listener, epoll sets, files of `copy`; and the 48 connections that
/// metrics and the admin socket take.
const SPARE_FILES: u64 = 128;

/// All of them.
pub fn all(config: &Config, on: &Machine) -> Vec<Verdict> {
    let mut verdicts = listeners(config, on);
    verdicts.extend([nofile(config, on), cpus(config, on)]);
    verdicts.extend(memory::look(config, on.memory));
    verdicts.extend(idle(config, on));
    verdicts.extend(pinning(config, on));
    verdicts.extend(nics(config, on));
    verdicts.extend(rdma(config, on));
    verdicts.extend(gpus(config, on));
    verdicts.extend(places::all(config));
    verdicts.extend((on.directory)(config));
    if uses(config, &["rdma", "mooncake_rdma", "cuda"]) {
        verdicts.push(memlock(config, on));
    }
    if uses(config, &["cma"]) {
        verdicts.push(ptrace(on));
    }
    if uses(config, &["file"]) {
        verdicts.push(io_uring(on));
    }
    verdicts
}

/// Whether transports of this type use devices of RDMA.
fn is_rdma(kind: &str) -> bool {
    matches!(kind, "rdma" | "mooncake_rdma")
}

fn uses(config: &Config, kinds: &[&str]) -> bool {
    config.transports.iter().any(|t| kinds.contains(&t.kind.as_str()))
}

/// The node's own address, that of its metrics, and those of transports that speak to other engines.
fn listeners(config: &Config, on: &Machine) -> Vec<Verdict> {
    let mut verdicts = vec![listen("node.listen", &config.node.listen, on)];
    verdicts.extend(config.metrics_listen.as_ref().map(|address| listen("metrics.listen", address, on)));
    for transport in config.transports.iter().filter(|transport| transport.foreign) {
        for key in ["listen", "data_listen"] {
            if let Some(address) = transport.values.text(key) {
                verdicts.push(listen(&format!("transports.{}.{key}", transport.name), address, on));
            }
        }
    }
    verdicts
}

fn listen(key: &str, address: &str, on: &Machine) -> Verdict {
    match (on.bind)(address) {
        Ok(()) => Verdict::well("listen", format!("{address} can be listened on")),
        Err(why) => {
            let port = address.rsplit(':').next().unwrap_or("");
            let mend = format!("see who has it: ss -ltnp 'sport = :{port}'; or --set {key}='127.0.0.1:0'");
            Verdict::ill("listen", format!("{address} cannot be listened on: {why}"), mend)
        }
    }
}

fn nofile(config: &Config, on: &Machine) -> Verdict {
    let needed = config.limits.links.saturating_add(config.limits.peers).saturating_add(SPARE_FILES);
    let (now, most) = on.nofile;
    let found = |n: Option<u64>| n.map_or("unlimited".to_owned(), |n| n.to_string());
    let said = format!("{} open files; [limits] links and peers may need {needed}", found(now));
    match now {
        Some(n) if n < needed => {
            let mend = match most {
                Some(most) if most < needed => format!(
                    "raise the hard limit: add `* hard nofile {needed}` to /etc/security/limits.conf (systemd: LimitNOFILE={needed}); or --set limits.links={}",
                    n.saturating_sub(config.limits.peers + SPARE_FILES).max(1)
                ),
                _ => format!("ulimit -n {needed}   (systemd: LimitNOFILE={needed})"),
            };
            Verdict::ill("nofile", said, mend)
        }
        _ => Verdict::well("nofile", said),
    }
}

fn cpus(config: &Config, on: &Machine) -> Verdict {
    let workers: usize = config.blueprint.pools.iter().map(|p| p.workers()).sum();
    let spins = |p: &&PoolDecl| p.wait.park_ns == 0 && p.kind != PoolKind::Stealing;
    let busy = config.blueprint.pools.iter().filter(spins).map(|p| p.workers()).sum::<usize>();
    let budget = on.cpus.budget();
    let quota = on.cpus.quota.map_or("no quota".to_owned(), |q| format!("quota of {q} CPUs"));
    let said = format!(
        "{} CPUs allowed, {quota}; {workers} workers, {busy} of them never sleep",
        on.cpus.allowed.len()
    );
    if busy > budget {
        let mend = "use wait = \"adaptive\" for them, or fewer threads; or raise the quota (cpu.max of the cgroup, --cpus of the container)";
        return Verdict::ill("cpus", said, mend);
    }
    Verdict::well("cpus", said)
}

/// What a wake-up costs here, of files that have threads which sleep, and whether one may have what it asks for instead.
fn idle(config: &Config, on: &Machine) -> Option<Verdict> {
    if let Some(latency) = config.node.cpu_dma_latency {
        let asked = format!("CPUs are asked to wake within {} us while the node runs", latency.as_micros());
        let device = on.root.join("dev/cpu_dma_latency");
        return Some(match std::fs::OpenOptions::new().write(true).open(&device) {
            Ok(_) => Verdict::well("idle", asked),
            Err(why) => Verdict::ill(
                "idle",
                format!("{asked}, and {} cannot be written: {why}", device.display()),
                "run it as root, or as a user who may write that file; or leave [node] cpu_dma_latency out",
            ),
        });
    }
    let sleeps = |p: &PoolDecl| p.wait.park_ns > 0 || p.kind == PoolKind::Stealing;
    let words = on.idle.words().filter(|_| config.blueprint.pools.iter().any(sleeps))?;
    Some(match on.idle.mend() {
        Some(mend) => Verdict::could_be_better("idle", words, mend),
        None => Verdict::well("idle", words),
    })
}

fn pinning(config: &Config, on: &Machine) -> Vec<Verdict> {
    let pinned = config.blueprint.pools.iter().filter(|p| !p.cpus.is_empty());
    pinned
        .map(|pool| {
            let barred: Vec<usize> = pool.cpus.iter().copied().filter(|c| !on.cpus.allowed.contains(c)).collect();
            match barred.as_slice() {
                [] => Verdict::well("pinning", format!("pool `{}` may use its CPUs", pool.name)),
                barred => Verdict::ill(
                    "pinning",
                    format!("pool `{}` names CPUs that this process may not use: {barred:?}", pool.name),
                    format!("--set pools.{}.cores='all', or widen the mask (taskset -c, --cpuset-cpus of the container)", pool.name),
                ),
            }
        })
        .collect()
}

/// Of TCP transports: each NIC, in the words in which a lane would be refused.
fn interfaces(config: &Config, on: &Machine) -> Vec<Verdict> {
    let Some(interfaces) = &on.interfaces else { return Vec::new() };
    let verdict = |Here { transport, nic, illness }: Here| match illness {
        None => Verdict::well("nics", format!("`{nic}` of transport `{transport}` can be used")),
        Some(why) => {
            let (what, mend) = why.split_once("; ").unwrap_or((&why, "see `ip -br address`"));
            let found: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
            let mend = format!("{mend} (found: {})", found.join(", "));
            Verdict::ill("nics", format!("NIC `{nic}` of transport `{transport}`: {what}"), mend)
        }
    };
    let stray = |(transport, nic, why): (String, String, String)| {
        let (what, mend) = why.split_once("; ").unwrap_or((&why, "see `ip rule` and `ip route`"));
        Verdict::ill("nics", format!("NIC `{nic}` of transport `{transport}`: {what}"), mend)
    };
    let here = nics_here(config, interfaces).into_iter().map(verdict);
    here.chain(strays(config, interfaces).into_iter().map(stray)).collect()
}

fn nics(config: &Config, on: &Machine) -> Vec<Verdict> {
    let mut verdicts = interfaces(config, on);
    for transport in config.transports.iter().filter(|transport| transport.kind != "tcp") {
        let (folder, list) = match transport.kind.as_str() {
            kind if is_rdma(kind) => ("sys/class/infiniband", "ibv_devices"),
            _ => ("sys/class/net", "ip -br link"),
        };
        let there = on.names(folder);
        if is_rdma(&transport.kind) && there.is_empty() {
            let mend = "load the driver (modprobe mlx5_ib, or modprobe rdma_rxe and rdma link add rxe0 type rxe netdev eth0)";
            verdicts.push(Verdict::ill(
                "nics",
                format!("transport `{}` needs an RDMA device, and there is none", transport.name),
                mend,
            ));
            continue;
        }
        for device in transport.interfaces.iter().filter_map(|i| i.device.as_deref()) {
            verdicts.push(if there.iter().any(|name| name == device) {
                Verdict::well("nics", format!("`{device}` of transport `{}` is there", transport.name))
            } else {
                let mend = format!(
                    "see what there is: {list}; then --set 'transports.{}.nics=[\"…\"]' (found: {})",
                    transport.name,
                    there.join(", ")
                );
                Verdict::ill(
                    "nics",
                    format!("`{device}` of transport `{}` is not there", transport.name),
                    mend,
                )
            });
        }
        for address in transport.interfaces.iter().filter_map(|i| i.address) {
            if let Err(why) = (on.bind)(&std::net::SocketAddr::new(address, 0).to_string()) {
                let mend = format!("ip address add {address}/24 dev …, or correct [nics] address");
                verdicts.push(Verdict::ill(
                    "nics",
                    format!("{address} is no address of this machine: {why}"),
                    mend,
                ));
            }
        }
    }
    verdicts
}

/// User space's view of RDMA devices, where the kernel has any.
fn rdma(config: &Config, on: &Machine) -> Vec<Verdict> {
    let of_rdma = config.transports.iter().filter(|t| is_rdma(&t.kind));
    of_rdma.flat_map(|transport| (on.rdma)(transport)).collect()
}

fn gpus(config: &Config, on: &Machine) -> Vec<Verdict> {
    let named = config.segments.iter().filter_map(|s| match s.kind {
        SegmentKind::Cuda { device, .. } => Some((s, device)),
        _ => None,
    });
    named
        .map(|(segment, device)| match on.has(format!("dev/nvidia{device}")) {
            true => Verdict::well("gpus", format!("cuda:{device} of segment `{}` is there", segment.name)),
            false => Verdict::ill(
                "gpus",
                format!("cuda:{device} of segment `{}` is not there", segment.name),
                "see what there is: nvidia-smi -L; in a container: --gpus all",
            ),
        })
        .collect()
}

fn memlock(config: &Config, on: &Machine) -> Verdict {
    let once = config.segments.iter().map(|s| s.kind.host_bytes()).fold(0, u64::saturating_add);
    // The kernel counts what each device pins by itself.
    let of_rdma = config.transports.iter().filter(|t| is_rdma(&t.kind));
    let devices = of_rdma.map(|t| t.nics.len() as u64).sum::<u64>().max(1);
    let needed = once.saturating_mul(devices);
    match on.memlock {
        Some(n) if n < needed => Verdict::ill(
            "memlock",
            format!(
                "{} may be locked; registering the segments with {devices} {} locks {}",
                show_bytes(n),
                if devices == 1 { "device" } else { "devices, which count each by itself," },
                show_bytes(needed)
            ),
            "ulimit -l unlimited   (systemd: LimitMEMLOCK=infinity; container: --ulimit memlock=-1)",
        ),
        n => Verdict::well(
            "memlock",
            format!("{} may be locked", n.map_or("any memory".to_owned(), show_bytes)),
        ),
    }
}

fn ptrace(on: &Machine) -> Verdict {
    match on.ptrace_scope {
        None | Some(0) => Verdict::well("ptrace", "processes of one user may read each other's memory"),
        Some(n) => Verdict::ill(
            "ptrace",
            format!("kernel.yama.ptrace_scope is {n}: transport `cma` cannot reach another process"),
            "sysctl -w kernel.yama.ptrace_scope=0   (container: --cap-add SYS_PTRACE)",
        ),
    }
}

fn io_uring(on: &Machine) -> Verdict {
    match on.io_uring {
        true => Verdict::well("io_uring", "may be used"),
        false => Verdict::ill(
            "io_uring",
            "the kernel forbids io_uring",
            "sysctl -w kernel.io_uring_disabled=0; or engine = \"threads\" on the transport",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::idle::Idle;
    use pipeline_configs::{Options, load_str};
    use pipeline_graph::Cpus;
    use pipeline_stages::catalog::catalog;
    use pipeline_transports::interfaces::{Assigned, Interface};

    /// A machine that suits everything, with its `/sys` and `/dev` in a folder of its own.
    fn good() -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        for dir in [
            "sys/class/net/eth0",
            "sys/class/infiniband/mlx5_0",
            "sys/class/infiniband/mlx5_1",
            "dev/nvidia0",
        ] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        let machine = Machine {
            memlock: None,
            memory: None,
            nofile: (Some(1 << 20), Some(1 << 20)),
            cpus: Cpus { allowed: (0..8).collect(), quota: None },
            ptrace_scope: Some(0),
            io_uring: true,
            idle: Idle::Polls(200_000),
            root: root.path().to_path_buf(),
            interfaces: Some([eth0(true)].into_iter().collect()),
            bind: |_| Ok(()),
            directory: |_| Vec::new(),
            rdma: |_| Vec::new(),
        };
        (root, machine)
    }

    fn eth0(is_up: bool) -> Interface {
        let ip = "10.0.0.1".parse().unwrap();
        let address = Assigned { ip, prefix: 24, is_usable: true, is_deprecated: false };
        Interface { name: "eth0".into(), index: 2, is_up, addresses: vec![address], ..Interface::default() }
    }

    fn ills(preset: &str, text: &str, on: &Machine) -> Vec<&'static str> {
        let text = format!("version = 1\nuse = \"{preset}\"\n{text}");
        let loaded = load_str("t", &text, &catalog(), &Options::default()).unwrap_or_else(|f| panic!("{f}"));
        let verdicts = all(&loaded.config, on);
        assert!(verdicts.iter().all(|v| v.ok || !v.mend.is_empty()), "each error has a mend: {verdicts:?}");
        verdicts.iter().filter(|v| !v.ok).map(|v| v.check).collect()
    }

    /// A machine that has all that a file names is well, whatever transport it uses.
    #[test]
    fn a_suitable_machine() {
        let (_root, machine) = good();
        assert_eq!(ills("tcp", "transports.tcp.nics = [\"eth0\"]\n", &machine), [""; 0]);
        assert_eq!(ills("shm", "", &machine), [""; 0]);
        assert_eq!(ills("nvme_tier", "", &machine), [""; 0]);
        let gpu =
            "transports.rdma.nics = [\"mlx5_0\"]\nsegments.a = { kind = \"cuda:0\", size = \"1GiB\" }\n";
        assert_eq!(ills("gpu_rdma", gpu, &machine), [""; 0]);
    }

    /// CPUs that are slow to wake are a hint, and no error, for files whose threads sleep; else they are not spoken of.
    #[test]
    fn slow_wake_ups_are_a_hint() {
        let (_root, mut machine) = good();
        let told = |text: &str, on: &Machine| {
            let text = format!("version = 1\nuse = \"tcp\"\n{text}");
            let loaded =
                load_str("t", &text, &catalog(), &Options::default()).unwrap_or_else(|f| panic!("{f}"));
            idle(&loaded.config, on).map(|verdict| (verdict.ok, !verdict.mend.is_empty()))
        };
        assert_eq!(told("", &machine), Some((true, false)));
        machine.idle = Idle::Halts;
        assert_eq!(told("", &machine), Some((true, true)));
        assert_eq!(told("node.cpu_dma_latency = \"20us\"\n", &machine), Some((false, true)), "no device");
        std::fs::write(machine.root.join("dev/cpu_dma_latency"), "").unwrap();
        assert_eq!(told("node.cpu_dma_latency = \"20us\"\n", &machine), Some((true, false)));
        let spins = "pools.nic.wait = \"spin\"\npools.files.wait = \"spin\"\n";
        assert_eq!(told(spins, &machine), None);
        machine.idle = Idle::Untold;
        assert_eq!(told("", &machine), None);
    }

    /// Each lack is one error, and only for files that depend on it.
    #[test]
    fn each_lack_is_told() {
        let (_root, fine) = good();
        let with = |change: fn(&mut Machine)| {
            let (root, cpus) = (fine.root.clone(), fine.cpus.clone());
            let (interfaces, idle) = (fine.interfaces.clone(), fine.idle.clone());
            let mut machine = Machine { root, cpus, interfaces, idle, ..fine };
            change(&mut machine);
            machine
        };
        let dram = "segments.a = { kind = \"dram\", size = \"1GiB\" }\n";
        assert_eq!(ills("tcp", "", &with(|m| m.bind = |_| Err("in use".into()))), ["listen"]);
        let mooncake = "transports.m = { type = \"mooncake_tcp\", listen = \"127.0.0.1:12001\", data_listen = \"127.0.0.1:12002\" }\n";
        let metrics =
            with(|m| m.bind = |at| if at.contains(":9464") { Err("in use".into()) } else { Ok(()) });
        assert_eq!(ills("tcp", "metrics.listen = \"127.0.0.1:9464\"\n", &metrics), ["listen"]);
        let taken = with(|m| m.bind = |at| if at.contains(":1200") { Err("in use".into()) } else { Ok(()) });
        assert_eq!(ills("tcp", mooncake, &taken), ["listen", "listen"]);
        assert_eq!(ills("tcp", mooncake, &fine), [""; 0]);
        assert_eq!(ills("tcp", "", &with(|m| m.nofile = (Some(1024), Some(4096)))), ["nofile"]);
        assert_eq!(ills("tcp", "pools.nic = { threads = 9, wait = \"spin\" }\n", &fine), ["cpus"]);
        assert_eq!(ills("tcp", "pools.nic = { cores = \"9\" }\n", &fine), ["pinning"]);
        assert_eq!(ills("tcp", "transports.tcp.nics = [\"eth9\"]\n", &fine), ["nics"]);
        let of_eth0 = "transports.tcp.nics = [\"eth0\"]\n";
        let down = |m: &mut Machine| m.interfaces = Some([eth0(false)].into_iter().collect());
        assert_eq!(ills("tcp", of_eth0, &with(down)), ["nics"]);
        assert_eq!(ills("tcp", "", &with(down)), [""; 0]);
        assert_eq!(ills("tcp", of_eth0, &with(|m| m.interfaces = None)), [""; 0]);
        let away = "transports.tcp.nics = [\"a\", \"eth0\"]\nnics.a.address = \"192.0.2.7\"\n";
        assert_eq!(ills("tcp", away, &fine), ["nics"]);
        assert_eq!(ills("tcp", "segments.a = { kind = \"cuda:3\", size = \"1GiB\" }\n", &fine), ["gpus"]);
        assert_eq!(
            ills("tcp", "segments.a = { kind = \"dir\", path = \"/nonexistent\" }\n", &fine),
            ["paths"]
        );
        assert_eq!(ills("tcp", "auth.key_file = \"/nonexistent\"\n", &fine), ["paths"]);
        assert_eq!(
            ills("tcp", "segments.a = { kind = \"file\", path = \"a.bin\", size = \"1GiB\" }\n", &fine),
            [""; 0]
        );
        let long = format!("admin.socket = \"/tmp/{}\"\n", "x".repeat(103));
        for socket in ["admin.socket = \"/nonexistent/a.sock\"\n", "admin.socket = \"Cargo.toml\"\n", &long] {
            assert_eq!(ills("tcp", socket, &fine), ["admin"], "{socket}");
        }
        assert_eq!(ills("tcp", "admin.socket = \"a.sock\"\n", &fine), [""; 0]);
        assert_eq!(ills("rdma", dram, &with(|m| m.memlock = Some(65_536))), ["memlock"]);
        let two = format!("{dram}transports.rdma.nics = [\"mlx5_0\", \"mlx5_1\"]\n");
        assert_eq!(ills("rdma", dram, &with(|m| m.memlock = Some(3 << 29))), [""; 0]);
        assert_eq!(
            ills("rdma", &two, &with(|m| m.memlock = Some(3 << 29))),
            ["memlock"],
            "each counts by itself"
        );
        let library =
            |m: &mut Machine| m.rdma = |_| vec![Verdict::ill("rdma", "no libibverbs", "install it")];
        assert_eq!(ills("rdma", "", &with(library)), ["rdma"]);
        assert_eq!(ills("tcp", "", &with(library)), [""; 0]);
        assert_eq!(ills("tcp", dram, &with(|m| m.memlock = Some(65_536))), [""; 0]);
        assert_eq!(ills("shm", "", &with(|m| m.ptrace_scope = Some(2))), ["ptrace"]);
        assert_eq!(ills("tcp", "", &with(|m| m.ptrace_scope = Some(2))), [""; 0]);
        assert_eq!(ills("nvme_tier", "", &with(|m| m.io_uring = false)), ["io_uring"]);
        assert_eq!(ills("tcp", "", &with(|m| m.io_uring = false)), [""; 0]);
    }
}
