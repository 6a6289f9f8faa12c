//! What the system tells of NICs, GPUs and NUMA nodes: read from `/sys`, or from a folder that a test has made in its place.
//! Deliberately asked once, at start, and believed as it is: what a file says beats it elsewhere.

use std::path::{Path, PathBuf};

/// A `/sys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysfs {
    root: Option<PathBuf>,
}

/// What is known of the device behind a NIC; a bond, a bridge and other virtual interfaces have none of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NicDevice {
    /// Its NUMA node.
    pub(crate) numa: Option<u16>,
    /// Bits per second of its port.
    pub(crate) bits_per_s: Option<u64>,
    /// The devices of the PCI bus from the root of the machine down to it.
    pub(crate) path: Vec<String>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GpuDevice {
    /// Its NUMA node.
    pub(crate) numa: Option<u16>,
    /// As for a NIC.
    pub(crate) path: Vec<String>,
}

impl Sysfs {
    /// That of this machine.
    pub fn of_machine() -> Self {
        Self::below("/sys")
    }

    /// What this folder tells in place of `/sys`.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: Some(root.into()) }
    }

    /// One that tells nothing: what the file says is all that counts.
    pub fn silent() -> Self {
        Self { root: None }
    }

    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = std::fs::read_to_string(self.root.as_ref()?.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = self.root.as_ref().and_then(|root| std::fs::read_dir(root.join(folder)).ok());
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    /// Numbers of the NUMA nodes, ascending, and from each the distances to all in the same order; nothing where the kernel
    /// knows none.
    pub(crate) fn nodes(&self) -> Vec<(u16, Vec<u32>)> {
        let number = |name: &String| name.strip_prefix("node")?.parse().ok();
        let mut nodes: Vec<u16> = self.names("devices/system/node").iter().filter_map(number).collect();
        nodes.sort_unstable();
        let distances = |node: u16| {
            let text = self.text(format!("devices/system/node/node{node}/distance")).unwrap_or_default();
            text.split_whitespace().map_while(|d| d.parse().ok()).collect()
        };
        nodes.into_iter().map(|node| (node, distances(node))).collect()
    }

    /// What is known of an RDMA device or a network interface.
    pub(crate) fn nic(&self, name: &str) -> NicDevice {
        // The name comes from a file of the user: it names an entry, not a way to somewhere else.
        if name.is_empty() || name.contains('/') || name == ".." {
            return NicDevice::default();
        }
        let folder = ["infiniband", "net"].map(|class| format!("class/{class}/{name}"));
        let found =
            folder.iter().find(|folder| self.root.as_ref().is_some_and(|root| root.join(folder).exists()));
        let Some(folder) = found else { return NicDevice::default() };
        let bits_per_s = self.speed(folder);
        // What carries others has the place that they agree on.
        let carried = self.carriers(folder);
        if !carried.is_empty() {
            let places: Vec<NicDevice> = carried.iter().map(|name| self.nic(name)).collect();
            let same = places.iter().all(|place| place.numa == places[0].numa);
            let numa = if same { places[0].numa } else { None };
            let sum = places.iter().map(|place| place.bits_per_s).sum::<Option<u64>>();
            return NicDevice { numa, bits_per_s: bits_per_s.or(sum), path: Vec::new() };
        }
        let device = format!("{folder}/device");
        // A virtio NIC hangs below the slot, not in it. -1 stands for "nobody knows".
        let numa = self.number(format!("{device}/numa_node"));
        let numa = numa.or_else(|| self.number(format!("{device}/../numa_node")));
        let numa = numa.and_then(|node: i32| u16::try_from(node).ok());
        NicDevice { numa, bits_per_s, path: self.pci_path(&device) }
    }

    /// The interfaces that a bond is made of, or that a VLAN sits on.
    fn carriers(&self, folder: &str) -> Vec<String> {
        let slaves = self.text(format!("{folder}/bonding/slaves")).unwrap_or_default();
        let below =
            self.names(folder).into_iter().filter_map(|name| Some(name.strip_prefix("lower_")?.to_owned()));
        let mut all: Vec<String> = slaves.split_whitespace().map(str::to_owned).chain(below).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Bits per second: `speed` of an interface in Mbit/s (-1 while it is down), `rate` of an RDMA port as `200 Gb/sec (4X HDR)`.
    fn speed(&self, folder: &str) -> Option<u64> {
        if let Some(mbit) = self.number::<i64>(format!("{folder}/speed")) {
            return u64::try_from(mbit).ok().filter(|mbit| *mbit > 0)?.checked_mul(1_000_000);
        }
        let port = self.names(&format!("{folder}/ports")).into_iter().next()?;
        let rate = self.text(format!("{folder}/ports/{port}/rate"))?;
        let gbit: f64 = rate.split_whitespace().next()?.parse().ok()?;
        (rate.contains("Gb/sec") && gbit > 0.0).then_some((gbit * 1e9) as u64)
    }

    /// The names of the PCI devices on the way to a device, the root first.
    fn pci_path(&self, device: &str) -> Vec<String> {
        let Some(root) = &self.root else { return Vec::new() };
        let Ok(path) = root.join(device).canonicalize() else { return Vec::new() };
        let names = path.components().filter_map(|c| c.as_os_str().to_str());
        names.filter(|name| is_pci(name)).map(str::to_owned).collect()
    }

    /// GPUs, in the order of their PCI addresses: that of CUDA with CUDA_DEVICE_ORDER=PCI_BUS_ID, and of cards of one kind.
    pub(crate) fn gpus(&self) -> Vec<GpuDevice> {
        let devices = self.names("bus/pci/devices").into_iter();
        devices.filter_map(|name| self.gpu(&format!("bus/pci/devices/{name}"))).collect()
    }

    fn gpu(&self, folder: &str) -> Option<GpuDevice> {
        const NVIDIA: &str = "0x10de";
        let class = self.text(format!("{folder}/class"))?;
        // A display or 3D controller; its sound and bus functions are none.
        let is_gpu = ["0x0300", "0x0302"].iter().any(|kind| class.starts_with(kind));
        if !is_gpu || self.text(format!("{folder}/vendor"))? != NVIDIA {
            return None;
        }
        let numa = self.number(format!("{folder}/numa_node")).and_then(|node: i32| u16::try_from(node).ok());
        Some(GpuDevice { numa, path: self.pci_path(folder) })
    }
}

/// `pci0000:3a` (a root of the machine), `0000:3b:00.0` (a device of it).
fn is_pci(name: &str) -> bool {
    let (bus, of) = match name.strip_prefix("pci") {
        Some(root) => (root, 2),
        None => (name, 3),
    };
    let parts: Vec<&str> = bus.split(':').collect();
    parts.len() == of
        && parts.iter().all(|p| p.chars().all(|c| c.is_ascii_hexdigit() || c == '.'))
        && bus.len() >= 7
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    /// What a device tells is found by its name, whether the class is that of RDMA or of interfaces; -1 is nobody's node; a
    /// virtio NIC has its slot's; a name that would lead elsewhere is none.
    #[test]
    fn devices() {
        let tree = Tree::new(&[
            ("class/net/eth0/device/numa_node", "1"),
            ("class/net/eth0/speed", "100000"),
            ("class/net/eth1/device/numa_node", "-1"),
            ("class/net/eth1/speed", "-1"),
            ("class/net/lo/mtu", "65536"),
            ("devices/pci0000:00/0000:00:03.0/numa_node", "0"),
            ("devices/pci0000:00/0000:00:03.0/virtio2/vendor", "0x1af4"),
            ("class/infiniband/mlx5_0/device/numa_node", "0"),
            ("class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)"),
        ]);
        tree.link("class/net/eth2/device", "devices/pci0000:00/0000:00:03.0/virtio2");
        let sys = tree.sysfs();
        let told = |name| {
            let nic = sys.nic(name);
            (nic.numa, nic.bits_per_s)
        };
        assert_eq!(told("eth0"), (Some(1), Some(100_000_000_000)));
        assert_eq!([told("eth1"), told("lo"), told("eth9")], [(None, None); 3]);
        assert_eq!((told("eth2").0, told("mlx5_0")), (Some(0), (Some(0), Some(200_000_000_000))));
        assert_eq!(sys.nic("eth2").path, ["pci0000:00", "0000:00:03.0"]);
        assert!(["", "..", "../net/eth0"].iter().all(|name| sys.nic(name) == NicDevice::default()));
        assert_eq!(Sysfs::silent().nic("eth0"), NicDevice::default());
    }

    /// A bond lies where all that it is made of lie, and is as fast as they are together; one across two nodes lies nowhere; a
    /// VLAN lies where its interface does.
    #[test]
    fn carriers() {
        let tree = Tree::new(&[
            ("class/net/a0/device/numa_node", "0"),
            ("class/net/a0/speed", "25000"),
            ("class/net/a1/device/numa_node", "0"),
            ("class/net/a1/speed", "25000"),
            ("class/net/b0/device/numa_node", "1"),
            ("class/net/bond0/bonding/slaves", "a0 a1"),
            ("class/net/bond1/bonding/slaves", "a0 b0"),
            ("class/net/vlan7/lower_b0/mtu", "1500"),
        ]);
        let sys = tree.sysfs();
        assert_eq!(sys.nic("bond0").numa, Some(0));
        assert_eq!(sys.nic("bond0").bits_per_s, Some(50_000_000_000));
        assert_eq!([sys.nic("bond1").numa, sys.nic("vlan7").numa], [None, Some(1)]);
    }

    /// Nodes come in order of their numbers with their distances, and what is no node is passed over.
    #[test]
    fn nodes() {
        let tree = Tree::new(&[
            ("devices/system/node/node10/distance", "21 10"),
            ("devices/system/node/node2/distance", "10 21"),
            ("devices/system/node/possible", "0-1"),
        ]);
        assert_eq!(tree.sysfs().nodes(), [(2, vec![10, 21]), (10, vec![21, 10])]);
        assert!(["pci0000:00", "0000:3b:00.0"].iter().all(|name| is_pci(name)));
        assert!(["virtio2", "devices", "net", "0000:3b"].iter().all(|name| !is_pci(name)));
    }
}
