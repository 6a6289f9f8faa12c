//! The threads of a pool that steals are ours: announced, named, masked, pinned, asleep when idle, and gone at the end.

use std::sync::Arc;
use std::time::Duration;

use pipeline_graph::{Crew, Mode, Plan};

use crate::rig::{OUT, Rig, Seen, in_seconds, queue, submit, until};

/// Threads of this process by name, with what the kernel says of them.
fn threads() -> Vec<(String, std::path::PathBuf)> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name = |task: std::fs::DirEntry| {
        let comm = std::fs::read_to_string(task.path().join("comm")).ok()?;
        Some((comm.trim().to_owned(), task.path()))
    };
    tasks.filter_map(name).collect()
}

fn of(name: &str) -> Vec<(String, std::path::PathBuf)> {
    threads().into_iter().filter(|(is, _)| is.split('/').next() == Some(name)).collect()
}

fn rig(crew: &str, seen: &Arc<Seen>) -> Rig {
    Rig::new()
        .pool("p", 1)
        .crew(crew, 2)
        .stage("a", Some("p"), &["out"], |_, i| Some((OUT, i)))
        .stage("job", Some(crew), &["out"], |_, i| Some((OUT, i)))
        .sink("end", None, seen)
        .edge("submit -> a", queue(8))
        .edge("a -> job", Mode::Inline)
        .edge("job -> end", Mode::Inline)
}

/// The plan names exactly the threads that run; signals are blocked in them; one is pinned where the file says so. Rayon's
/// pool does not wait for its threads: when the engine has stopped, none of them is left all the same.
#[test]
fn announced_masked_pinned_and_gone() {
    let cpu = pipeline_graph::Cpus::of_process().allowed[0];
    let mut rig = rig("named", &Arc::new(Seen::default()));
    rig.blueprint.pools[1].cpus = vec![cpu];
    let planned = |rig: &Rig| {
        let threads = Plan::new(&rig.blueprint).threads.into_iter();
        let mut names: Vec<_> = threads.filter(|t| t.pool == "named").map(|t| t.name).collect();
        names.sort();
        names
    };
    let running = || {
        let mut names: Vec<_> = of("named").into_iter().map(|(name, _)| name).collect();
        names.sort();
        names
    };
    for (into, names) in
        [(Mode::Inline, vec!["named/0", "named/1"]), (queue(1), vec!["named/0", "named/1", "named/desk"])]
    {
        rig.blueprint.edges[1].mode = into;
        let mut engine = rig.start();
        until("the threads", || running().len() == names.len());
        assert_eq!(
            (planned(&rig), running()),
            (names.iter().map(|n| (*n).to_owned()).collect(), planned(&rig))
        );
        for (name, task) in of("named").iter().filter(|(name, _)| name != "named/desk") {
            let status = std::fs::read_to_string(task.join("status")).unwrap();
            let line =
                |key: &str| status.lines().find_map(|l| l.strip_prefix(key)).unwrap().trim().to_owned();
            let blocked = u64::from_str_radix(&line("SigBlk:"), 16).unwrap();
            assert_eq!(blocked >> 14 & 1, 1, "{name}: SIGTERM is open");
            assert_eq!(line("Cpus_allowed_list:"), cpu.to_string(), "{name}");
        }
        engine.stop();
        assert_eq!(running(), Vec::<String>::new());
    }
}

/// A CPU that does not exist is an error that names it, and no thread is left.
#[test]
fn pinned_or_refused() {
    let mut rig = rig("astray", &Arc::new(Seen::default()));
    rig.blueprint.pools[1].cpus = vec![1023];
    let error = rig.try_start().err().expect("no machine has 1024 CPUs").to_string();
    assert!(error.contains("`astray/") && error.contains("CPU 1023"), "{error}");
    assert!(of("astray").is_empty());
}

/// When there are no jobs, the threads of a crew and who gives to them sleep.
#[test]
fn idle_costs_nothing() {
    let seen = Arc::new(Seen::default());
    let engine = rig("idle", &seen).start();
    submit(&engine, 1..=500);
    until("the items", || seen.count() == 500);
    let cpu_ns = |name: &str| -> u64 {
        let times = of(name).into_iter().filter_map(|(_, task)| {
            let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        times.sum()
    };
    let mut before = cpu_ns("idle");
    // They look around for a moment after the last job.
    until("sleep", || {
        std::thread::sleep(Duration::from_millis(50));
        let now = cpu_ns("idle");
        std::mem::replace(&mut before, now) == now
    });
    std::thread::sleep(Duration::from_millis(500));
    let used = cpu_ns("idle") - before;
    assert!(used < 2_000_000, "{used} ns of half a second");
    assert!(engine.drain(in_seconds(30)).empty);
}

/// Work beside a graph is spread over a crew and waited for; a panic in it is the caller's, once everything else is done.
#[test]
fn work_beside_a_graph() {
    let rig = rig("beside", &Arc::new(Seen::default()));
    let crew = Crew::start(&rig.blueprint.pools[1]).unwrap();
    let called: Vec<_> = (0..100).map(|_| std::sync::atomic::AtomicU64::new(0)).collect();
    let names = std::sync::Mutex::new(std::collections::HashSet::new());
    crew.each(100, |i| {
        called[i].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        names.lock().unwrap().insert(std::thread::current().name().unwrap().to_owned());
        std::thread::sleep(Duration::from_millis(1));
    });
    assert!(called.iter().all(|c| c.load(std::sync::atomic::Ordering::Relaxed) == 1));
    assert_eq!(names.lock().unwrap().len(), 2, "both threads took part");
    let done = std::sync::atomic::AtomicU64::new(0);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        crew.each(10, |i| {
            assert_ne!(i, 3, "a panic that the test wants");
            done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
    }));
    assert!(panicked.is_err() && done.load(std::sync::atomic::Ordering::Relaxed) == 9);
}
