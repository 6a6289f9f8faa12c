//! What lies near to what: NICs and places of memory (NUMA nodes, GPUs), from the file and from the system. Asked once at
//! start; afterwards `nic_select` looks up which NICs memory of a place wants, and where a region lies.
//! Deliberately only facts and their order: which NIC a slice takes is for `nic_select` to say.

mod matrix;
mod nearness;
mod ranking;
mod regions;
pub(crate) mod speeds;
mod sysfs;
#[cfg(test)]
pub(crate) mod tree;

use std::collections::BTreeSet;
use std::net::IpAddr;

use pipeline_configs::{Config, Interface, Location, SegmentKind, TransportConfig};
use pipeline_graph::Nanos;
use pipeline_transports::{RegionId, Regions};

pub use nearness::Nearness;
pub use ranking::Ranking;
pub use sysfs::Sysfs;

use nearness::{NicPlace, Nodes, nearness};
use regions::RegionPlaces;
use speeds::Speed;
use sysfs::GpuDevice;

/// Index of a place in the list of those there are; 0: nobody knows where.
pub(crate) type PlaceId = u16;

/// Memory may lie in so many places; what is beyond counts as unknown.
const MOST_PLACES: usize = 4096;

/// One NIC of a transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its name in the file.
    pub name: String,
    /// The interface or device behind it; `None`: the system's routing chooses.
    pub device: Option<String>,
    /// Source address that the file says.
    pub address: Option<IpAddr>,
    /// Its rail.
    pub rail: Option<u16>,
    /// Bits per second of its link, from the file or the system.
    pub bits_per_s: Option<u64>,
    place: NicPlace,
}

impl Nic {
    /// NUMA node it is attached to, from the file or the system.
    pub fn numa(&self) -> Option<u16> {
        self.place.numa
    }
}

/// The NICs of one transport.
struct Wires {
    nics: Vec<Nic>,
    /// By place of memory.
    rankings: Vec<Ranking>,
    /// What a byte counts for on each NIC by the speed of its link, in 1/1024 of one on the fastest.
    costs: Vec<u64>,
    speeds: Vec<Speed>,
}

/// See the file's head.
pub struct Topology {
    places: Vec<Location>,
    transports: Vec<Wires>,
    regions: RegionPlaces,
    /// The only NUMA node there is: where all memory lies that nobody says anything else of.
    only: PlaceId,
    /// Whether the kernel has several nodes to tell of.
    asks: bool,
}

impl Topology {
    /// Of the machine that `sys` tells of, for this file.
    pub fn of(config: &Config, sys: &Sysfs) -> Self {
        let (nodes, gpus) = (Nodes(sys.nodes()), sys.gpus());
        let wires: Vec<Vec<Nic>> = config.transports.iter().map(|t| nics(t, sys)).collect();
        let places = places(config, &nodes, &gpus, &wires);
        let rank = |nics: &[Nic], location: &Location| {
            matrix::rank(config, *location, nics, |nic| nearness(nic, *location, &gpus, &nodes))
        };
        let transports = wires.into_iter().map(|nics| Wires {
            rankings: places.iter().map(|location| rank(&nics, location)).collect(),
            costs: costs(&nics),
            speeds: nics.iter().map(|_| Speed::default()).collect(),
            nics,
        });
        let transports = transports.collect();
        let index = |location| places.iter().position(|place| *place == location).unwrap_or(0) as PlaceId;
        let only = if let [(node, _)] = nodes.0.as_slice() { index(Location::Cpu(*node)) } else { 0 };
        let regions = RegionPlaces::new(usize::try_from(config.limits.regions).unwrap_or(usize::MAX));
        Self { only, asks: nodes.0.len() > 1, transports, regions, places }
    }

    /// Places that memory can lie in, the unknown one first.
    pub fn places(&self) -> &[Location] {
        &self.places
    }

    /// The NICs of a transport, in the order of the file.
    pub fn nics(&self, transport: u16) -> &[Nic] {
        self.transports.get(usize::from(transport)).map_or(&[], |wires| &wires.nics)
    }

    /// The order in which memory of a place, by its index in [`Self::places`], wants the NICs of a transport.
    #[inline]
    pub fn ranking(&self, transport: u16, place: u16) -> &Ranking {
        &self.transports[usize::from(transport)].rankings[usize::from(place)]
    }

    pub(crate) fn costs(&self, transport: u16) -> &[u64] {
        &self.transports[usize::from(transport)].costs
    }

    /// Measured speeds of the NICs of a transport.
    pub(crate) fn speeds(&self, transport: u16) -> &[Speed] {
        self.transports.get(usize::from(transport)).map_or(&[], |wires| &wires.speeds)
    }

    /// Says where a region lies, for as long as it lives. A place that the machine does not have counts as unknown.
    pub fn place(&self, region: RegionId, location: Location) {
        match self.index(location) {
            0 => {}
            place => self.regions.set(region, place),
        }
    }

    /// Where a region lies, as far as is known.
    pub fn location(&self, regions: &Regions, region: RegionId, now: Nanos) -> Location {
        self.places[usize::from(self.place_of(regions, region, now))]
    }

    /// As before, as an index. Looks at a word; a region that is not known yet is asked for now and then.
    #[inline]
    pub(crate) fn place_of(&self, regions: &Regions, region: RegionId, now: Nanos) -> PlaceId {
        self.regions.get(region, now, || match self.asks {
            true => regions.node_of(region).map_or(0, |node| self.index(Location::Cpu(node))),
            false => self.only,
        })
    }

    fn index(&self, location: Location) -> PlaceId {
        self.places.iter().position(|place| *place == location).unwrap_or(0) as PlaceId
    }
}

/// Of which nothing is known, and which has no NICs.
impl Default for Topology {
    fn default() -> Self {
        let (places, transports) = (vec![Location::Any], Vec::new());
        Self { places, transports, regions: RegionPlaces::new(0), only: 0, asks: false }
    }
}

/// All places that anybody speaks of: those of the machine, and those that only the file names.
fn places(config: &Config, nodes: &Nodes, gpus: &[GpuDevice], wires: &[Vec<Nic>]) -> Vec<Location> {
    let nics = || wires.iter().flatten();
    let of_segment = |segment: &pipeline_configs::SegmentConfig| match segment.kind {
        SegmentKind::Cuda { device, .. } => u16::try_from(device).ok().map(Location::Gpu),
        _ => segment.numa.map(Location::Cpu),
    };
    let mut all: BTreeSet<Location> = nodes.0.iter().map(|(node, _)| Location::Cpu(*node)).collect();
    all.extend((0..gpus.len() as u16).map(Location::Gpu));
    all.extend(nics().filter_map(|nic| nic.place.numa).map(Location::Cpu));
    all.extend(nics().flat_map(|nic| nic.place.gpus.iter().flatten()).copied().map(Location::Gpu));
    all.extend(config.topology.gpu_nics.keys().copied().map(Location::Gpu));
    all.extend(config.topology.matrix.iter().flat_map(|matrix| matrix.0.keys()));
    all.extend(config.segments.iter().filter_map(of_segment));
    all.remove(&Location::Any);
    std::iter::once(Location::Any).chain(all).take(MOST_PLACES).collect()
}

/// The NICs of a transport: what the file says of each beats what the system tells of its device.
fn nics(transport: &TransportConfig, sys: &Sysfs) -> Vec<Nic> {
    let one = |(name, said): (&String, &Interface)| {
        let told = said.device.as_deref().map(|device| sys.nic(device)).unwrap_or_default();
        Nic {
            name: name.clone(),
            device: said.device.clone(),
            address: said.address,
            rail: said.rail,
            bits_per_s: said.bits_per_s.or(told.bits_per_s),
            place: NicPlace { numa: said.numa.or(told.numa), gpus: said.gpus.clone(), path: told.path },
        }
    };
    transport.nics.iter().zip(&transport.interfaces).map(one).collect()
}

/// What a byte counts for on each NIC. One whose speed nobody knows counts as the mean of the others.
fn costs(nics: &[Nic]) -> Vec<u64> {
    let known: Vec<u64> = nics.iter().filter_map(|nic| nic.bits_per_s).collect();
    let Some(fastest) = known.iter().copied().max() else { return vec![1024; nics.len()] };
    let mean = (known.iter().map(|n| u128::from(*n)).sum::<u128>() / known.len() as u128) as u64;
    let cost = |nic: &Nic| {
        let speed = nic.bits_per_s.unwrap_or(mean).max(1);
        (1024 * u128::from(fastest) / u128::from(speed)).min(1 << 20) as u64
    };
    nics.iter().map(cost).collect()
}

#[cfg(test)]
mod tests {
    use pipeline_configs::{Options, load_str};

    use super::tree::Tree;
    use super::*;

    fn topology(file: &str, sys: &Sysfs) -> Topology {
        let text = format!("version = 1\nuse = \"tcp\"\n{file}");
        let loaded = load_str("t.toml", &text, &crate::catalog::catalog(), &Options::default());
        Topology::of(&loaded.unwrap_or_else(|findings| panic!("{findings}")).config, sys)
    }

    const EIGHT: &str = "transports.tcp.nics = [\"mlx5_0\", \"mlx5_1\", \"mlx5_2\", \"mlx5_3\", \"mlx5_4\", \"mlx5_5\", \"mlx5_6\", \"mlx5_7\"]\n";

    fn groups(topology: &Topology, location: Location) -> Vec<Vec<u16>> {
        let place = topology.index(location);
        topology.ranking(0, place).groups().map(|(_, nics)| nics.to_vec()).collect()
    }

    /// Eight NICs and eight GPUs on two nodes: memory of a node wants its four NICs, a GPU the one behind its switch, then those
    /// of its node, then the others; memory of which nobody knows where it lies wants all alike. As Mooncake's matrix it is
    /// what Mooncake finds on such a machine.
    #[test]
    fn eight_by_eight() {
        let topology = topology(EIGHT, &Tree::eight_by_eight().sysfs());
        assert_eq!(topology.places().len(), 1 + 2 + 8);
        assert_eq!(groups(&topology, Location::Any), [(0..8).collect::<Vec<_>>()]);
        assert_eq!(groups(&topology, Location::Cpu(1)), [vec![4, 5, 6, 7], vec![0, 1, 2, 3]]);
        for gpu in 0..8 {
            let mut near: Vec<u16> = (0..4).map(|n| gpu / 4 * 4 + n).collect();
            near.retain(|nic| *nic != gpu);
            let far: Vec<u16> = (0..4).map(|n| 4 - gpu / 4 * 4 + n).collect();
            assert_eq!(groups(&topology, Location::Gpu(gpu)), [vec![gpu], near, far]);
        }
        let matrix = topology.matrix(0);
        let cpu0 = &matrix.0[&Location::Cpu(0)];
        assert_eq!(cpu0.preferred, ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]);
        assert_eq!(cpu0.others, ["mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7"]);
        assert_eq!(matrix.0[&Location::Gpu(5)].preferred, ["mlx5_5"]);
        assert_eq!(topology.nics(0)[3].bits_per_s, Some(200_000_000_000));
        assert_eq!(topology.costs(0), [1024; 8]);
    }

    /// What the file says of NICs beats the system, `gpu_nics` beats what it says of GPUs, and a matrix ranks the places that it
    /// names, with those first that it prefers and those last that it does not know.
    #[test]
    fn the_file_wins() {
        let tree = Tree::eight_by_eight();
        let more = "nics.mlx5_0 = { numa = 1, speed = \"100Gbit/s\", rail = 3 }\nnics.mlx5_7 = { gpus = [\"cuda:1\"] }\n";
        let told = topology(&format!("{EIGHT}{more}"), &tree.sysfs());
        assert_eq!(groups(&told, Location::Cpu(0)), [vec![1, 2, 3], vec![0, 4, 5, 6, 7]]);
        assert_eq!((told.nics(0)[0].rail, told.costs(0)[0], told.costs(0)[1]), (Some(3), 2048, 1024));
        // The one that is said, the one behind the switch, the others of the node.
        assert_eq!(groups(&told, Location::Gpu(1))[..3], [vec![7], vec![1], vec![2, 3]]);
        // What is next to another GPU by word of the file is not next to this one by its switch.
        assert_eq!(groups(&told, Location::Gpu(7))[0], [0, 4, 5, 6, 7]);
        let over = "topology.gpu_nics = { \"cuda:1\" = [\"mlx5_5\", \"mlx5_6\"] }\n";
        let told = topology(&format!("{EIGHT}{more}{over}"), &tree.sysfs());
        assert_eq!(groups(&told, Location::Gpu(1))[..2], [vec![5, 6], vec![1]]);
        let json = r#"{"cpu:0":[["mlx5_4"],["mlx5_0","mlx5_5"]],"*":[["mlx5_1"],[]]}"#;
        tree.file("matrix.json", json);
        let at = tree.path("matrix.json");
        let told = topology(&format!("{EIGHT}topology.matrix = \"{}\"\n", at.display()), &tree.sysfs());
        assert_eq!(groups(&told, Location::Cpu(0)), [vec![4], vec![0, 5], vec![1, 2, 3, 6, 7]]);
        assert_eq!(groups(&told, Location::Any), [vec![1], vec![0, 2, 3, 4, 5, 6, 7]]);
        assert_eq!(groups(&told, Location::Cpu(1))[0], [4, 5, 6, 7]);
    }

    /// B38: a node that the machine does not have is a place like any other, far from all; a NIC of which nobody knows where it
    /// lies comes between near and far; nothing of it fails.
    #[test]
    fn impossible_nodes() {
        let file = "transports.tcp.nics = [\"a\", \"b\", \"c\", \"d\"]\n\
                    nics = { a = { numa = 7 }, b = { numa = 1 }, d = { numa = 0 } }\n";
        for sys in [Tree::eight_by_eight().sysfs(), Sysfs::silent()] {
            let topology = topology(file, &sys);
            assert_eq!(groups(&topology, Location::Cpu(0))[..2], [vec![3], vec![2]]);
            let last = groups(&topology, Location::Cpu(0)).concat();
            assert_eq!(last.len(), 4);
            assert_eq!(groups(&topology, Location::Cpu(7))[..2], [vec![0], vec![2]]);
        }
        let two = topology(file, &Tree::eight_by_eight().sysfs());
        assert_eq!(groups(&two, Location::Cpu(0)), [vec![3], vec![2], vec![1], vec![0]]);
    }

    /// Where memory lies is what was said of it; with one node everything lies there, and without any nobody knows.
    #[test]
    fn where_regions_lie() {
        let regions = Regions::new(4);
        let memory = pipeline_transports::Memory::allocate(4096).unwrap();
        let region = regions.add(memory, pipeline_transports::Access::Local).unwrap();
        let one = Tree::new(&[("devices/system/node/node3/distance", "10")]);
        assert_eq!(topology("", &one.sysfs()).location(&regions, region, 0), Location::Cpu(3));
        let none = topology("nics.tcp.numa = 1\n", &Sysfs::silent());
        assert_eq!(none.location(&regions, region, 0), Location::Any);
        none.place(region, Location::Cpu(9));
        assert_eq!(none.location(&regions, region, 0), Location::Any, "there is no such place");
        none.place(region, Location::Cpu(1));
        assert_eq!(none.location(&regions, region, 0), Location::Cpu(1));
    }
}
