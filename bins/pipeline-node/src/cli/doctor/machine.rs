//! What this machine is, as far as a file can depend on it. Read once; deliberately plain data, so that the checks can
//! be tried on machines that are not here.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use pipeline_configs::{Config, TransportConfig};
use pipeline_graph::Cpus;
use pipeline_transports::interfaces::Interfaces;
use rustix::process::{Resource, getrlimit};
use rustix::thread::CapabilitySet;

use super::memory::Memory;
use crate::cli::idle::Idle;

/// See the file's head.
pub struct Machine {
    /// Bytes that may be locked; `None`: no limit, or the right to pass it.
    pub memlock: Option<u64>,
    /// How much there is; `None`: the system does not tell.
    pub memory: Option<Memory>,
    /// Open files, now and at most; `None`: no limit.
    pub nofile: (Option<u64>, Option<u64>),
    /// CPUs and quota of this process.
    pub cpus: Cpus,
    /// `/proc/sys/kernel/yama/ptrace_scope`; `None`: the kernel has no such rule.
    pub ptrace_scope: Option<u32>,
    /// Whether the kernel lets us use io_uring.
    pub io_uring: bool,
    /// What idle CPUs do.
    pub idle: Idle,
    /// The root of `/sys` and `/dev`.
    pub root: PathBuf,
    /// Network interfaces; `None`: the kernel does not tell.
    pub interfaces: Option<Interfaces>,
    /// Tries an address; the reason when it cannot be listened on.
    pub bind: fn(&str) -> Result<(), String>,
    /// Asks the directories that the file names.
    pub directory: fn(&Config) -> Vec<super::Verdict>,
    /// Looks at what a transport of type `rdma` needs.
    pub rdma: fn(&TransportConfig) -> Vec<super::Verdict>,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u32>().ok();
        let nofile = getrlimit(Resource::Nofile);
        // 0 allows it, 1 only the privileged and a group, 2 nobody; older kernels have no switch and allow it.
        let forbidden = number("/proc/sys/kernel/io_uring_disabled").unwrap_or(0);
        // Whoever may lock memory at will is not held to the limit.
        let own = rustix::thread::capabilities(None);
        let locks_at_will = own.is_ok_and(|own| own.effective.contains(CapabilitySet::IPC_LOCK));
        Self {
            memlock: if locks_at_will { None } else { getrlimit(Resource::Memlock).current },
            memory: Memory::below(Path::new("/")),
            nofile: (nofile.current, nofile.maximum),
            cpus: Cpus::of_process().clone(),
            ptrace_scope: number("/proc/sys/kernel/yama/ptrace_scope"),
            io_uring: forbidden == 0 || (forbidden == 1 && rustix::process::geteuid().is_root()),
            idle: Idle::of(Path::new("/")),
            root: PathBuf::from("/"),
            interfaces: Interfaces::now().ok(),
            bind: |address| TcpListener::bind(address).map(drop).map_err(|e| e.to_string()),
            directory: super::directory::look,
            rdma: super::rdma::look,
        }
    }

    /// Whether something is there, below the root.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.root.join(path).exists()
    }

    /// Names in a folder below the root.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}
