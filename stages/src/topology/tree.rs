//! A `/sys` of a test: files and links in a folder that goes away with it.

use std::path::{Path, PathBuf};

use super::Sysfs;

/// See the file's head.
pub(crate) struct Tree(tempfile::TempDir);

impl Tree {
    /// With these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().expect("tests may make folders"));
        for (path, text) in files {
            tree.file(path, text);
        }
        tree
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(path)
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().expect("it is below the root"))
            .expect("tests may make folders");
        path
    }

    pub(crate) fn file(&self, path: impl AsRef<Path>, text: &str) {
        std::fs::write(self.at(path), format!("{text}\n")).expect("tests may write files");
    }

    /// `path` leads to `target`, both below the root.
    pub(crate) fn link(&self, path: impl AsRef<Path>, target: impl AsRef<Path>) {
        let target = self.0.path().join(target);
        std::os::unix::fs::symlink(target, self.at(path)).expect("tests may make links");
    }

    pub(crate) fn sysfs(&self) -> Sysfs {
        Sysfs::below(self.0.path())
    }

    /// Two sockets: on each four switches, and on each switch a NIC of 200 Gbit/s (`mlx5_0` …) and a GPU, all as such machines
    /// of eight cards show them.
    pub(crate) fn eight_by_eight() -> Self {
        let tree = Self::new(&[
            ("devices/system/node/node0/distance", "10 21"),
            ("devices/system/node/node1/distance", "21 10"),
        ]);
        for i in 0..8 {
            let (node, bus) = (i / 4, 0x10 * (i + 1));
            let switch = format!("devices/pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{:02x}:00.0", bus + 1);
            let (nic, gpu) = (format!("0000:{:02x}:00.0", bus + 3), format!("0000:{:02x}:00.0", bus + 4));
            let devices = [(&nic, "00.0", "0x020700", "0x15b3"), (&gpu, "01.0", "0x030200", "0x10de")];
            for (name, port, class, vendor) in devices {
                let folder = format!("{switch}/0000:{:02x}:{port}/{name}", bus + 2);
                for (file, text) in
                    [("class", class), ("vendor", vendor), ("numa_node", node.to_string().as_str())]
                {
                    tree.file(format!("{folder}/{file}"), text);
                }
                tree.link(format!("bus/pci/devices/{name}"), &folder);
                if *name == nic {
                    tree.file(format!("class/infiniband/mlx5_{i}/ports/1/rate"), "200 Gb/sec (4X HDR)");
                    tree.link(format!("class/infiniband/mlx5_{i}/device"), &folder);
                }
            }
        }
        tree
    }
}
