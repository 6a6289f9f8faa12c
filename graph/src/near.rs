//! Which CPUs are near to a NUMA node or to a network interface, as the kernel tells in `/sys`.
//! Deliberately asked anew each time: it is asked while a file is read, and interfaces come and go.

use std::path::{Path, PathBuf};

/// What a `/sys` tells: that of this machine, or one that a test has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    sys: PathBuf,
}

impl Near {
    /// That of this machine.
    pub fn of_machine() -> Self {
        Self::below("/sys")
    }

    /// What this folder tells in place of `/sys`.
    pub fn below(sys: impl Into<PathBuf>) -> Self {
        Self { sys: sys.into() }
    }

    /// The CPUs of a NUMA node; `None`: there is no such node.
    pub fn numa(&self, node: u32) -> Option<Vec<usize>> {
        self.read(format!("devices/system/node/node{node}/cpulist"))
    }

    /// Numbers of the NUMA nodes that there are, ascending.
    pub fn numa_nodes(&self) -> Vec<u32> {
        let entries = std::fs::read_dir(self.sys.join("devices/system/node")).into_iter().flatten().flatten();
        let number = |name: &str| name.strip_prefix("node")?.parse().ok();
        let mut nodes: Vec<u32> = entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        nodes.sort_unstable();
        nodes
    }

    /// The CPUs near a network interface or an RDMA device; `None`: there is no such device, or it is in no slot of the
    /// machine, as virtual ones are.
    pub fn device(&self, name: &str) -> Option<Vec<usize>> {
        // The name comes from a file of the user: it names an entry, not a way to somewhere else.
        if name.is_empty() || name.contains('/') || name == ".." {
            return None;
        }
        // A virtio NIC hangs below the slot, not in it.
        let of = |class: &str| {
            let slot = |up: &str| self.read(format!("class/{class}/{name}/device/{up}local_cpulist"));
            slot("").or_else(|| slot("../"))
        };
        of("net").or_else(|| of("infiniband"))
    }

    fn read(&self, path: impl AsRef<Path>) -> Option<Vec<usize>> {
        parse(&std::fs::read_to_string(self.sys.join(path)).ok()?)
    }
}

/// A list as the kernel writes it: `0-3,8`. A node of memory only has an empty one.
fn parse(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // No machine has more, and a file that says so is not one of the kernel's.
        cpus.extend((last < 1 << 16).then_some(first..=last)?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that goes away with the test.
    struct Sys(PathBuf);

    impl Sys {
        fn new(files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("pipeline-near-{}", std::process::id()));
            for (file, text) in files {
                let path = root.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Sys {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Nodes, interfaces and RDMA devices are found with their CPUs; what is not there, is virtual, or would lead elsewhere is
    /// not; a node without CPUs has none.
    #[test]
    fn nodes_and_devices() {
        let sys = Sys::new(&[
            ("devices/system/node/node0/cpulist", "0-3,8\n"),
            ("devices/system/node/node1/cpulist", "4-7\n"),
            ("devices/system/node/node10/cpulist", "\n"),
            ("devices/system/node/possible", "0-1\n"),
            ("class/net/eth0/device/local_cpulist", "4-5\n"),
            ("class/net/lo/mtu", "65536\n"),
            ("class/net/eth2/device/vendor", "0x1af4\n"),
            ("class/net/eth2/local_cpulist", "7\n"),
            ("class/infiniband/mlx5_0/device/local_cpulist", "6\n"),
        ]);
        let near = Near::below(&sys.0);
        assert_eq!(near.numa_nodes(), [0, 1, 10]);
        assert_eq!(
            [near.numa(0), near.numa(10), near.numa(2)],
            [Some(vec![0, 1, 2, 3, 8]), Some(vec![]), None]
        );
        assert_eq!([near.device("eth0"), near.device("mlx5_0")], [Some(vec![4, 5]), Some(vec![6])]);
        assert_eq!(near.device("eth2"), Some(vec![7]), "in what its device hangs below");
        let none = ["lo", "eth1", "", "..", "../net/eth0"];
        assert!(none.iter().all(|name| near.device(name).is_none()));
        assert_eq!([parse("1-"), parse("x"), parse("0-99999999999")], [None, None, None]);
    }
}
