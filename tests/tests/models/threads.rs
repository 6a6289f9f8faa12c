//! What the kernel knows of the threads of this process: their CPU time, their sleeps, the CPUs that they may run on.
//! Deliberately by name: names are what the plan promises. A test whose engines share names must ask for one engine's.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// CPU time of the thread that asks.
pub fn own_cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// How often the thread that asks has given up its CPU to wait.
pub fn own_sleeps() -> u64 {
    field(&fs::read_to_string("/proc/thread-self/status").unwrap(), "voluntary_ctxt_switches")
        .parse()
        .unwrap()
}

/// The threads of this process by number, with their names as the kernel cuts them, to 15 bytes.
pub fn all() -> BTreeMap<u32, String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = |task: fs::DirEntry| {
        let id = task.file_name().to_string_lossy().parse().ok()?;
        // It may have ended meanwhile.
        Some((id, fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned()))
    };
    tasks.filter_map(named).collect()
}

/// The threads that were started between two looks and are called so.
pub fn started(before: &BTreeMap<u32, String>, name: &str) -> Vec<u32> {
    let name = &name[..name.len().min(15)];
    let new = all().into_iter().filter(|(id, _)| !before.contains_key(id));
    new.filter(|(_, called)| called == name).map(|(id, _)| id).collect()
}

/// CPU time of a thread.
pub fn cpu(id: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Whether a thread waits for something, rather than runs or wants to.
pub fn is_asleep(id: u32) -> bool {
    field(&fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap(), "State").starts_with('S')
}

/// The CPUs that a thread may run on, as the kernel writes them: `0-3`.
pub fn mask(id: u32) -> String {
    field(&fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap(), "Cpus_allowed_list")
}

fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
}
