//! How near a NIC lies to a place of memory: what the file says first, then the PCI bus, then NUMA nodes.
//! Deliberately one order for all: `nic_select` takes the nearest group, `explain` prints it, `docs/topology.md` is its table.

use std::fmt;

use pipeline_configs::Location;

use super::sysfs::GpuDevice;

/// In order: what comes first is nearer. NICs that are equally near are one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Nearness {
    /// The file says that it is next to it: `gpus` of the NIC, `gpu_nics`, the first list of a matrix.
    Said,
    /// Behind one PCI switch, with so many devices between the two.
    Switch(u8),
    /// Below one PCI root port.
    RootPort,
    /// On the same NUMA node.
    Node,
    /// Nobody knows where one of the two lies.
    Unknown,
    /// On another NUMA node, at this distance (the local one has 10); [`u32::MAX`]: nobody knows how far.
    Far(u32),
    /// In the second list of a matrix.
    Other,
    /// In no list of a matrix that names the place.
    Unlisted,
}

impl Nearness {
    /// What a byte over it counts for where distance is weighed and not ranked, in 1/1024: as much as one over a near NIC, a
    /// third more, or as much more as the distance says.
    pub(crate) fn weight(self) -> u64 {
        match self {
            Self::Said | Self::Switch(_) | Self::RootPort | Self::Node => 1024,
            Self::Unknown => 1365,
            Self::Far(u32::MAX) | Self::Other => 2048,
            Self::Far(distance) => 1024 * u64::from(distance.clamp(10, 1000)) / 10,
            Self::Unlisted => 4096,
        }
    }

    /// Whether it counts as near: what Mooncake calls preferred.
    pub fn is_near(self) -> bool {
        self <= Self::Node
    }
}

impl fmt::Display for Nearness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said => f.write_str("the file says so"),
            Self::Switch(_) => f.write_str("behind one PCI switch"),
            Self::RootPort => f.write_str("below one PCI root port"),
            Self::Node => f.write_str("same NUMA node"),
            Self::Unknown => f.write_str("nobody knows where it lies"),
            Self::Far(u32::MAX) => f.write_str("another NUMA node"),
            Self::Far(distance) => write!(f, "another NUMA node, distance {distance}"),
            Self::Other => f.write_str("second list of the matrix"),
            Self::Unlisted => f.write_str("in no list of the matrix"),
        }
    }
}

/// A NIC as it lies in the machine: what the file says of it, else what the system tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NicPlace {
    pub(crate) numa: Option<u16>,
    /// GPUs that the file puts next to it.
    pub(crate) gpus: Option<Vec<u16>>,
    /// PCI devices from the root down to it.
    pub(crate) path: Vec<String>,
}

/// Distances between NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nodes(pub(crate) Vec<(u16, Vec<u32>)>);

impl Nodes {
    fn distance(&self, from: u16, to: u16) -> u32 {
        let row = self.0.iter().find(|(node, _)| *node == from).map(|(_, row)| row);
        let at = self.0.iter().position(|(node, _)| *node == to);
        row.zip(at).and_then(|(row, at)| row.get(at).copied()).unwrap_or(u32::MAX)
    }

    fn between(&self, memory: Option<u16>, nic: Option<u16>) -> Nearness {
        match (memory, nic) {
            (Some(memory), Some(nic)) if memory == nic => Nearness::Node,
            (Some(memory), Some(nic)) => Nearness::Far(self.distance(memory, nic)),
            _ => Nearness::Unknown,
        }
    }
}

/// How near a NIC is to memory at `location`; GPUs by their number.
pub(crate) fn nearness(nic: &NicPlace, location: Location, gpus: &[GpuDevice], nodes: &Nodes) -> Nearness {
    let number = match location {
        Location::Any => return Nearness::Unknown,
        Location::Cpu(node) => return nodes.between(Some(node), nic.numa),
        Location::Gpu(number) => number,
    };
    let said = nic.gpus.as_ref().map(|gpus| gpus.contains(&number));
    if said == Some(true) {
        return Nearness::Said;
    }
    let unknown = GpuDevice::default();
    let gpu = gpus.get(usize::from(number)).unwrap_or(&unknown);
    let shared = gpu.path.iter().zip(&nic.path).take_while(|(a, b)| a == b).count();
    let between = gpu.path.len() + nic.path.len() - 2 * shared;
    match (shared, said) {
        // The file names the GPUs that it is next to, and this is none of them: only its node counts.
        (3.., None) => Nearness::Switch(u8::try_from(between).unwrap_or(u8::MAX)),
        (2, None) => Nearness::RootPort,
        // Of one root complex, whatever nodes are told.
        (1.., _) if gpu.numa.is_none() || nic.numa.is_none() => Nearness::Node,
        _ => nodes.between(gpu.numa, nic.numa),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// B38: the own node comes before an unknown one, that before every other one, and those by their distances; a node that
    /// the machine does not have comes last, and is no error.
    #[test]
    fn nodes_rank() {
        let nodes = Nodes(vec![(0, vec![10, 12, 32]), (1, vec![12, 10, 32]), (2, vec![32, 32, 10])]);
        let of = |numa| nearness(&NicPlace { numa, ..NicPlace::default() }, Location::Cpu(0), &[], &nodes);
        let ranks = [of(Some(0)), of(None), of(Some(1)), of(Some(2)), of(Some(7))];
        assert!(ranks.is_sorted() && ranks.windows(2).all(|w| w[0] != w[1]), "{ranks:?}");
        let any = nearness(&NicPlace::default(), Location::Any, &[], &nodes);
        assert_eq!(any, of(None));
        let weights = ranks.map(Nearness::weight);
        assert_eq!(weights, [1024, 1365, 1228, 3276, 2048]);
    }

    /// A GPU is nearest to what the file puts next to it, then to what is behind its switch with least in between, below its
    /// root port, on its node; what is said of other GPUs takes the bus away from it.
    #[test]
    fn gpus_rank() {
        let gpu = path(&["pci0000:00", "0000:00:01.0", "0000:01:00.0", "0000:02:01.0", "0000:04:00.0"]);
        let gpus = [GpuDevice { numa: Some(0), path: gpu }];
        let nic = |names: &[&str], numa, gpus: Option<Vec<u16>>| NicPlace { numa, gpus, path: path(names) };
        let switch = ["pci0000:00", "0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"];
        let cascade = [
            "pci0000:00",
            "0000:00:01.0",
            "0000:01:00.0",
            "0000:02:02.0",
            "0000:05:00.0",
            "0000:06:00.0",
            "0000:07:00.0",
        ];
        let ranked = [
            nic(&["pci0000:80", "0000:80:01.0"], Some(1), Some(vec![0])),
            nic(&switch, Some(0), None),
            nic(&cascade, Some(0), None),
            nic(&["pci0000:00", "0000:00:01.0", "0000:09:00.0"], Some(0), None),
            nic(&["pci0000:00", "0000:00:02.0", "0000:0a:00.0"], Some(0), None),
            nic(&[], None, None),
            nic(&["pci0000:80", "0000:80:01.0"], Some(1), None),
        ];
        let nodes = Nodes(vec![(0, vec![10, 21]), (1, vec![21, 10])]);
        let ranks = ranked.map(|nic| nearness(&nic, Location::Gpu(0), &gpus, &nodes));
        assert!(ranks.is_sorted() && ranks.windows(2).all(|w| w[0] != w[1]), "{ranks:?}");
        assert_eq!((ranks[0], ranks[3], ranks[4]), (Nearness::Said, Nearness::RootPort, Nearness::Node));
        let other = nearness(&nic(&switch, Some(0), Some(vec![5])), Location::Gpu(0), &gpus, &nodes);
        assert_eq!(other, Nearness::Node);
        let nowhere = nearness(&nic(&switch, Some(0), None), Location::Gpu(3), &gpus, &nodes);
        assert_eq!(nowhere, Nearness::Unknown);
    }
}
