//! Whether what a file asks for fits into the machine's memory. The system gives it page by page, when it is written to: so a node starts
//! with segments that are too large, and is killed when its peers have filled them.

use std::path::Path;

use pipeline_configs::Config;

use super::Verdict;
use crate::cli::footprint::Footprint;
use crate::cli::quantity::human;

/// The machine's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All there is.
    pub total: u64,
    /// What can be had now without swapping.
    pub available: u64,
    /// What the groups of this process allow.
    pub limit: Option<u64>,
}

impl Memory {
    /// As the files below `root` tell; `None`: they do not.
    pub fn below(root: &Path) -> Option<Self> {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let told = read("proc/meminfo");
        let kib = |name: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().strip_suffix(" kB")?.parse::<u64>().ok()
        };
        let total = kib("MemTotal")? << 10;
        let available = kib("MemAvailable").map_or(total, |kib| kib << 10);
        Some(Self { total, available, limit: limit(&root.join("sys/fs/cgroup"), &read("proc/self/cgroup")) })
    }
}

/// The tightest limit on the way from the process's group to the root.
fn limit(root: &Path, cgroup: &str) -> Option<u64> {
    let limits = cgroup.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or("-"), fields.next().unwrap_or_default());
        let (mounts, file) = match controllers {
            "" => (vec![root.to_path_buf(), root.join("unified")], "memory.max"),
            other if other.split(',').any(|one| one == "memory") => {
                (vec![root.join(other)], "memory.limit_in_bytes")
            }
            _ => (Vec::new(), ""),
        };
        // In a container the path may be the host's; what is mounted then is our own group as root.
        let groups = Path::new(path.trim_start_matches('/')).ancestors().map(Path::to_owned);
        let groups: Vec<_> = groups.collect();
        mounts.into_iter().flat_map(move |mount| {
            let files: Vec<_> = groups.iter().map(|group| mount.join(group).join(file)).collect();
            files
        })
    });
    // "max" is no number, and no limit.
    limits.filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// The check; none where the machine does not tell.
pub fn look(config: &Config, memory: Option<Memory>) -> Option<Verdict> {
    let Memory { total, available, limit } = memory?;
    let footprint = Footprint::of(config);
    let asks = format!(
        "segments and buffers of {}, tables of {}",
        human(footprint.segments),
        human(footprint.tables)
    );
    let smaller = || {
        let largest = config.segments.iter().max_by_key(|segment| segment.kind.host_bytes());
        let largest = largest.filter(|segment| segment.kind.host_bytes() > footprint.tables);
        largest.map_or("lower [limits] slices and requests".to_owned(), |segment| {
            format!("make segment `{}` smaller, which has {}", segment.name, human(segment.kind.host_bytes()))
        })
    };
    let bytes = footprint.bytes();
    Some(match limit.filter(|limit| *limit < total) {
        Some(limit) if bytes > limit => Verdict::ill(
            "memory",
            format!("{asks}; this process may have {}", human(limit)),
            format!(
                "{}; or raise the limit (memory.max of the cgroup, --memory of the container)",
                smaller()
            ),
        ),
        _ if bytes > total => Verdict::ill(
            "memory",
            format!("{asks}; this machine has {}", human(total)),
            format!("{}; a node that is filled beyond what there is gets killed", smaller()),
        ),
        _ if bytes > available => Verdict::could_be_better(
            "memory",
            format!("{asks}; of {} only {} can be had now", human(total), human(available)),
            format!("see what has the rest: ps -eo rss,comm --sort=-rss | head; or {}", smaller()),
        ),
        _ => Verdict::well("memory", format!("{asks}; {} can be had", human(available))),
    })
}

#[cfg(test)]
mod tests {
    use pipeline_configs::{Options, load_str};
    use pipeline_stages::catalog::catalog;

    use super::*;

    const GIB: u64 = 1 << 30;

    /// A file that asks for more than the machine, its group or the moment has is told so, with the largest segment; one that fits is
    /// well, and memory of a GPU does not count.
    #[test]
    fn what_does_not_fit() {
        let judged = |text: &str, memory: Memory| {
            let text = format!("version = 1\nuse = \"tcp\"\n{text}");
            let loaded =
                load_str("t", &text, &catalog(), &Options::default()).unwrap_or_else(|f| panic!("{f}"));
            look(&loaded.config, Some(memory)).unwrap()
        };
        let kv = "segments.a = { kind = \"dram\", size = \"3GiB\" }\nsegments.b = { kind = \"dram\", size = \"2GiB\" }\n";
        let of = |total, available, limit| Memory { total: total * GIB, available: available * GIB, limit };
        let ill = judged(kv, of(4, 4, None));
        assert!(!ill.ok && ill.found.contains("this machine has 4.00 GiB"), "{ill:?}");
        assert!(ill.mend.contains("make segment `a` smaller, which has 3.00 GiB"), "{ill:?}");
        let held = judged(kv, of(64, 64, Some(4 * GIB)));
        assert!(!held.ok && held.found.contains("this process may have 4.00 GiB"), "{held:?}");
        assert!(held.mend.contains("raise the limit"), "{held:?}");
        let now = judged(kv, of(64, 4, Some(u64::MAX)));
        assert!(
            now.ok && now.found.contains("of 64.00 GiB only 4.00 GiB") && !now.mend.is_empty(),
            "{now:?}"
        );
        let well = judged(kv, of(64, 60, None));
        assert!(well.ok && well.mend.is_empty(), "{well:?}");
        let tables = judged("", Memory { total: 1 << 10, available: 1 << 10, limit: None });
        assert!(!tables.ok && tables.mend.contains("[limits]"), "{tables:?}");
    }

    /// Memory is read from where the system tells it, and of limits the tightest on the way up counts, of both kinds of groups.
    #[test]
    fn what_there_is() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Memory::below(root.path()), None);
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("proc/meminfo", "MemTotal:       1024 kB\nMemFree:  1 kB\nMemAvailable:    512 kB\n");
        let found = || Memory::below(root.path()).unwrap();
        assert_eq!(found(), Memory { total: 1 << 20, available: 1 << 19, limit: None });
        put("proc/self/cgroup", "0::/a/b\n");
        put("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(found().limit, None);
        put("sys/fs/cgroup/a/memory.max", "4096\n");
        assert_eq!(found().limit, Some(4096));
        put("proc/self/cgroup", "3:cpu,cpuacct:/x\n2:memory:/x\n");
        put("sys/fs/cgroup/memory/memory.limit_in_bytes", "8192\n");
        assert_eq!(found().limit, Some(8192));
    }
}
