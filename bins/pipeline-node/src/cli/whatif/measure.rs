//! One cell on the real path: a turn of an engine at one shape against a target of our own on loopback, as `tune` and `compare`
//! have it; and beside that what the kernel says that each thread has used meanwhile.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use pipeline_configs::Config;

use super::cell::Cell;
use super::trials::{Trial, shapes, subjects};
use crate::cli::exit::Failure;
use crate::cli::load::Waiting;
use crate::cli::work::{Against, Course, Over, Session, Shape, Whom, beside};

/// The target's segment.
const SEGMENT: &str = "bench";

/// What an engine takes to start, to be warmed and to stop.
pub const START_S: f64 = 0.3;

/// Says on a terminal how long it will take; nothing in a pipe.
pub fn announce(what: &str, about_s: f64) {
    if std::io::stderr().is_terminal() {
        eprintln!("{what}: about {about_s:.0} s");
    }
}

/// A target process with memory for all shapes.
///
/// # Errors
/// When it does not start.
pub fn opposite(shapes: &[Shape]) -> Result<Against, Failure> {
    let bytes = shapes.iter().map(|shape| shape.layout.bytes()).max().unwrap_or(1);
    Against::start(Whom { peer: None, segment: SEGMENT, over: Over::Tcp }, bytes)
}

/// An engine of this file that has reached the target, with memory on both sides.
///
/// # Errors
/// 71 when it cannot be started, 69 when the target cannot be reached, 1 when that cannot be written to.
pub fn start<'a>(
    config: &Config,
    waits: Waiting,
    against: &'a Against,
    shapes: &[Shape],
) -> Result<Session<'a>, Failure> {
    let course = Course { shapes: shapes.to_vec(), ..Course::default() };
    let session = Session::start(beside(config.clone(), false), waits, against, SEGMENT, &course)?;
    session.touch(shapes, true).map_err(Failure::failed)?;
    Ok(session)
}

/// One shape for so long.
///
/// # Errors
/// The first request that failed.
pub fn cell(
    session: &Session<'_>,
    against: &Against,
    shape: &Shape,
    duration: Duration,
) -> Result<Cell, Failure> {
    session.warm(shape, duration).map_err(Failure::failed)?;
    let target = against.process().unwrap_or(0);
    let (machine, others, sleeps) = (machine_ns(), others_ns(target), sleeps(target));
    let (seen, threads, caller) = (session.observe(), thread_times(), caller_ns());
    let (measured, done) = session.timed(shape, duration).map_err(Failure::failed)?;
    let caller = caller_ns() - caller;
    let (machine, others) = (machine_ns() - machine, others_ns(target) - others);
    let used = |(name, ns): (String, f64)| {
        let before = threads.get(&name).copied().unwrap_or(0.0);
        (name, ns - before)
    };
    let bytes = done.bytes as f64;
    let mut cell = Cell {
        gb_per_s: measured.gb_per_s,
        p50_us: measured.p50_us,
        p99_us: measured.p99_us,
        bytes,
        batches: (done.requests / shape.batch.max(1)) as f64,
        requests: done.requests as f64,
        caller_ns: caller,
        // Seconds for 10⁹ bytes are nanoseconds a byte.
        target_ns: measured.cpu_target.unwrap_or(0.0) * bytes,
        target_sleeps: self::sleeps(target).saturating_sub(sleeps) as f64,
        machine_ns: machine,
        others_ns: others.max(0.0),
        threads: thread_times().into_iter().map(used).collect(),
        ..Cell::default()
    };
    cell.count(&session.observe().since(&seen).graph);
    Ok(cell)
}

/// How long a round of trials takes, with cells of this length.
pub fn about_s(trials: &[Trial], cell: Duration) -> f64 {
    subjects(trials).count() as f64 * START_S + trials.len() as f64 * cell.as_secs_f64()
}

/// All trials once, each subject with a fresh engine.
///
/// # Errors
/// As of [`start`] and [`cell`].
pub fn round(trials: &[Trial], against: &Against, duration: Duration) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for same in subjects(trials) {
        let shapes = shapes(same);
        let session = start(&same[0].config, Waiting::Wait, against, &shapes)?;
        for shape in &shapes {
            cells.push(cell(&session, against, shape, duration)?);
        }
    }
    Ok(cells)
}

/// Sleeps of the threads of a process so far.
fn sleeps(process: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let sleeps = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    });
    sleeps.sum()
}

/// CPU time of each thread of this process by its name; of several of one name together.
fn thread_times() -> BTreeMap<String, f64> {
    let mut times = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).ok();
        let (Some(name), Some(stat)) = (read("comm"), read("schedstat")) else { continue };
        let ns = stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0);
        *times.entry(name.trim().to_owned()).or_insert(0.0) += ns;
    }
    times
}

/// One tick of the kernel's books.
const TICK_NS: f64 = 1e7;

/// CPU time of all CPUs for anything: also what interrupts do while nobody runs, which is in no thread's time.
fn machine_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
    // user nice system idle iowait irq softirq
    [0, 1, 2, 5, 6].iter().filter_map(|i| ticks.get(*i)).sum::<f64>() * TICK_NS
}

/// CPU time of processes that live now, without this one and the target.
fn others_ns(target: u32) -> f64 {
    let own = std::process::id();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let ticks = |id: u32| {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // Behind the name, which may have anything in it: state is the first, user time the twelfth, then system time, and both
        // of children that have ended.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11..15)?.iter().filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>())
    };
    ids.filter(|id| *id != own && *id != target).filter_map(ticks).sum::<f64>() * TICK_NS
}

/// CPU time of the calling thread, which is the application.
fn caller_ns() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}
