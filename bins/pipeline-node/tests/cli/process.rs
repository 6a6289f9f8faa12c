//! What the system says of a running process: descriptors, memory, CPU time.

use std::fs;
use std::time::{Duration, Instant};

/// Open descriptors.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Open sockets.
pub fn sockets(pid: u32) -> usize {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|to| to.to_string_lossy().starts_with("socket:")).count()
}

/// As [`sockets`], once all of its threads sleep: a node that has just started may still have one for a moment, such as to
/// ask the kernel for its interfaces.
pub fn sockets_at_rest(pid: u32) -> usize {
    let sleeps = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in brackets and may hold anything.
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
    };
    let begin = Instant::now();
    while !fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten().all(sleeps) {
        assert!(begin.elapsed() < Duration::from_secs(30), "it never rests");
        std::thread::sleep(Duration::from_millis(2));
    }
    sockets(pid)
}

/// Resident memory, bytes.
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

/// CPU time of all its threads so far.
pub fn cpu_time(pid: u32) -> Duration {
    let per_thread = |entry: fs::DirEntry| {
        // Nanoseconds on a CPU are the first number.
        let text = fs::read_to_string(entry.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    Duration::from_nanos(tasks.map(|task| per_thread(task.unwrap())).sum())
}
