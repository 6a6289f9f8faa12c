//! What `/sys/class/net` says of an interface beyond what netlink does: speed of its port, NUMA node of its device.
//! Deliberately believed only where the folder is that of the same interface: `/sys` may be mounted in another network
//! namespace than this process is in.

use std::path::{Path, PathBuf};

use super::Interface;

/// The kernel's word for a speed that nobody knows (-1), as some drivers print it.
const UNKNOWN_MBIT: u64 = u32::MAX as u64;

fn folder(of: &Interface, root: &Path) -> Option<PathBuf> {
    let folder = root.join("class/net").join(&of.name);
    let index: u32 = number(&folder.join("ifindex"))?;
    (index == of.index).then_some(folder)
}

fn number<T: std::str::FromStr>(file: &Path) -> Option<T> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Bits per second; 0 where nobody knows.
pub(super) fn bits_per_s(of: &Interface) -> u64 {
    bits_per_s_at(of, Path::new("/sys"))
}

fn bits_per_s_at(of: &Interface, root: &Path) -> u64 {
    let mbit: Option<u64> = folder(of, root).and_then(|folder| number(&folder.join("speed")));
    mbit.filter(|mbit| *mbit < UNKNOWN_MBIT).unwrap_or(0) * 1_000_000
}

/// The node, unless the system says -1 or there is no device.
pub(super) fn numa(of: &Interface) -> Option<u16> {
    numa_at(of, Path::new("/sys"))
}

fn numa_at(of: &Interface, root: &Path) -> Option<u16> {
    folder(of, root).and_then(|folder| number(&folder.join("device/numa_node")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speed and node are read where they are known; of another interface of the same name nothing is believed.
    #[test]
    fn known_and_unknown() {
        let root = std::env::temp_dir().join(format!("interfaces-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let file = root.join("class/net").join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        put("eth0/ifindex", "3\n");
        put("eth0/speed", "25000\n");
        put("eth0/device/numa_node", "1\n");
        put("eth1/ifindex", "4\n");
        put("eth1/speed", "-1\n");
        put("eth1/device/numa_node", "-1\n");
        let told = |name: &str, index| {
            let of = Interface { name: name.into(), index, ..Interface::default() };
            (bits_per_s_at(&of, &root), numa_at(&of, &root))
        };
        assert_eq!(told("eth0", 3), (25_000_000_000, Some(1)));
        assert_eq!([told("eth0", 9), told("eth1", 4), told("eth2", 5)], [(0, None); 3]);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
