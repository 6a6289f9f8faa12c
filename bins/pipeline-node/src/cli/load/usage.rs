//! What this process has used so far: CPU time and wake-ups, with and without some of its threads.
//! Deliberately what the kernel counts, not what the engine says of itself: the application's own thread is in it.

use std::collections::BTreeMap;

/// CPU time of all its threads, those that have ended included, nanoseconds.
pub fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Threads of this process that live now, by the kernel's number.
pub fn threads() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// CPU time of these threads, nanoseconds; of one that has ended, nothing. A thread that runs just now is told up to the
/// last tick of the kernel.
pub fn cpu_ns_of(threads: &[u32]) -> u64 {
    let run = |thread: &u32| {
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    threads.iter().filter_map(run).sum()
}

/// How often each thread has slept and been woken.
#[derive(Clone, Debug, Default)]
pub struct Wakeups(BTreeMap<u32, u64>);

impl Wakeups {
    /// Of all threads that live now.
    pub fn now() -> Self {
        // A switch that a thread did not ask for, or a yield, is no sleep and counts as involuntary.
        let count = |thread: u32| {
            let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
            let line = text.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
            Some((thread, line.trim().parse().ok()?))
        };
        Self(threads().into_iter().filter_map(count).collect())
    }

    /// Since `earlier`, without those of `others`. A thread that ended meanwhile has taken its own with it.
    pub fn since(&self, earlier: &Self, others: &[u32]) -> u64 {
        let ours = self.0.iter().filter(|(thread, _)| !others.contains(thread));
        ours.map(|(thread, count)| count - earlier.0.get(thread).copied().unwrap_or(0).min(*count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A thread that sleeps is counted once for each sleep, and not if it is one of the others; its CPU time is told.
    #[test]
    fn sleeps_are_counted() {
        let (tell, hear) = crossbeam_channel::bounded(0);
        let before = Wakeups::now();
        let thread = std::thread::spawn(move || {
            (0..20).for_each(|_| std::thread::sleep(Duration::from_micros(100)));
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            tell.send(0).unwrap();
        });
        let id = hear.recv().unwrap();
        let after = Wakeups::now();
        let (all, mine) = (after.since(&before, &[]), after.since(&before, &threads()));
        assert!(all >= 20, "{all}");
        assert!(!threads().contains(&id) || after.since(&before, &[id]) + 20 <= all, "{all} {mine}");
        assert!(cpu_ns_of(&[id]) > 0 && cpu_ns_of(&[id]) <= cpu_ns());
        hear.recv().unwrap();
        thread.join().unwrap();
    }
}
