//! Which CPUs this process may use, how much of them, and pinning.
//! Deliberately read once, before anything is pinned: a pinned thread's children inherit its mask, so who
//! asks later is told of one CPU.

use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::sync::OnceLock;

/// The CPUs of this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpus {
    /// CPUs of the main thread's affinity mask, ascending.
    pub allowed: Vec<usize>,
    /// CPUs' worth of time that the cgroup (v1 or v2, the tightest ancestor) grants.
    pub quota: Option<f64>,
}

impl Cpus {
    /// Those of this process, as they were at the first call.
    pub fn of_process() -> &'static Cpus {
        static CPUS: OnceLock<Cpus> = OnceLock::new();
        CPUS.get_or_init(|| {
            let cgroup = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
            Cpus { allowed: allowed(), quota: quota(Path::new("/sys/fs/cgroup"), &cgroup) }
        })
    }

    /// How many threads can run at once: the default of pools.
    pub fn budget(&self) -> usize {
        let quota = self.quota.map_or(usize::MAX, |q| q.ceil() as usize);
        self.allowed.len().min(quota).max(1)
    }
}

fn allowed() -> Vec<usize> {
    let main = rustix::process::getpid();
    match sched_getaffinity(Some(main)) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        // A kernel with more CPUs than the mask has bits: count on one.
        Err(_) => vec![0],
    }
}

/// Pins the calling thread.
pub(crate) fn pin(cpu: usize) -> std::io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// The tightest quota on the way from the process's cgroup to the root.
fn quota(root: &Path, cgroup: &str) -> Option<f64> {
    let mut tightest: Option<f64> = None;
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (mounts, read): (Vec<_>, fn(&Path) -> Option<f64>) = if controllers.is_empty() {
            (vec![root.to_path_buf(), root.join("unified")], quota_v2)
        } else if controllers.split(',').any(|c| c == "cpu") {
            (vec![root.join(controllers), root.join("cpu")], quota_v1)
        } else {
            continue;
        };
        for mount in mounts {
            // In a container the path may be the host's; what is mounted then is our own group as root.
            for group in Path::new(path.trim_start_matches('/')).ancestors() {
                if let Some(quota) = read(&mount.join(group)) {
                    tightest = Some(tightest.map_or(quota, |t| t.min(quota)));
                }
            }
        }
    }
    tightest
}

fn quota_v2(dir: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(dir.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?; // "max" is no number: no quota
    let period: f64 = words.next().map_or(Some(100_000.0), |p| p.parse().ok())?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn quota_v1(dir: &Path) -> Option<f64> {
    let read = |name| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<f64>().ok();
    let (quota, period) = (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that goes away with the test.
    struct Tree(std::path::PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("pipeline-cpus-{name}-{}", std::process::id()));
            for (file, text) in files {
                let path = root.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// v2: the tightest of all ancestors counts, and "max" is no quota.
    #[test]
    fn quota_of_cgroup_v2() {
        let tree = Tree::new("v2", &[("a/b/cpu.max", "max 100000\n"), ("a/cpu.max", "150000 100000\n")]);
        assert_eq!(quota(&tree.0, "0::/a/b\n"), Some(1.5));
        assert_eq!(quota(&tree.0, "0::/other\n"), None);
    }

    /// v1: quota over period; -1 is no quota.
    #[test]
    fn quota_of_cgroup_v1() {
        let files = [
            ("cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n"),
            ("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
            ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ];
        let tree = Tree::new("v1", &files);
        assert_eq!(quota(&tree.0, "7:memory:/x\n4:cpu,cpuacct:/x\n"), Some(0.5));
        let cpus = Cpus { allowed: vec![0, 1, 2], quota: Some(0.5) };
        assert_eq!(cpus.budget(), 1);
    }

    /// A thread is pinned to the CPU that was asked for, and an impossible CPU is an error.
    #[test]
    fn pins_or_says_so() {
        let cpu = *Cpus::of_process().allowed.last().unwrap();
        std::thread::spawn(move || {
            pin(cpu).unwrap();
            assert_eq!(rustix::thread::sched_getcpu(), cpu);
        })
        .join()
        .unwrap();
        assert!(pin(usize::MAX).is_err());
    }
}
