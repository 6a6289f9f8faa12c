//! One cell on the real path: an engine from a file, a target of our own on loopback, one shape of work; and what the kernel
//! says that each thread has used meanwhile. Deliberately more than a table needs and less than a verdict: a calibration is
//! fitted from it, and a prediction is held against it.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use pipeline_configs::Config;
use pipeline_node::{Engine, Observation, Peer, Region, Segment};

use super::speed::speed;
use super::work::Shape;
use crate::cli::exit::Failure;
use crate::cli::failures::engine;
use crate::cli::file;
use crate::cli::load::Waiting;
use crate::cli::load::target::Target;
use crate::cli::load::timed::{Load, Round, Until};

/// The target's segment.
const SEGMENT: &str = "bench";
/// How it waits: asleep, so that it takes no CPU from what is measured unless it has work.
const TARGET: &str = "pools.nic.wait='park'";
/// Before each cell: links open, thresholds settle.
const WARM_UP: Duration = Duration::from_millis(50);
/// How long the target may take to be reached.
const OPEN: Duration = Duration::from_secs(10);

/// Says on a terminal how long it will take; nothing in a pipe.
pub fn announce(what: &str, about_s: f64) {
    if std::io::stderr().is_terminal() {
        eprintln!("{what}: about {about_s:.0} s");
    }
}

/// A target process with memory for all shapes.
pub struct Opposite {
    target: Target,
}

impl Opposite {
    /// Starts it.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(shapes: &[Shape]) -> Result<Self, Failure> {
        let bytes = shapes.iter().map(|shape| shape.layout.bytes()).max().unwrap_or(1);
        Ok(Self { target: Target::start(None, &[TARGET.into()], SEGMENT, bytes)? })
    }

    /// Sleeps of its threads so far.
    fn sleeps(&self) -> u64 {
        let root = format!("/proc/{}/task", self.target.pid());
        let tasks = std::fs::read_dir(root).into_iter().flatten().flatten();
        let sleeps = tasks.filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("status")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        });
        sleeps.sum()
    }
}

/// What a cell came to.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// 10⁹ bytes a second.
    pub gb_per_s: f64,
    /// Microseconds from submit to done of a batch.
    pub p50_us: f64,
    /// And what one in a hundred exceeds.
    pub p99_us: f64,
    /// Payload.
    pub bytes: f64,
    /// Batches that were submitted.
    pub batches: f64,
    /// Requests.
    pub requests: f64,
    /// CPU time of the application's thread.
    pub caller_ns: f64,
    /// CPU time of the target process, and how often its threads slept.
    pub target_ns: f64,
    /// See there.
    pub target_sleeps: f64,
    /// CPU time of the whole machine, and of processes that have nothing to do with it.
    pub machine_ns: f64,
    /// See there.
    pub others_ns: f64,
    /// How fast the CPUs were, before or after: the slower moment; see [`super::speed`].
    pub speed: f64,
    /// CPU time of each thread of the engine, by name.
    pub threads: BTreeMap<String, f64>,
    /// What the engine says.
    pub seen: Observation,
}

/// An engine that has reached the target.
pub struct Subject<'a> {
    engine: Engine,
    peer: Peer,
    segment: Segment,
    region: Region,
    waits: Waiting,
    opposite: &'a Opposite,
}

impl<'a> Subject<'a> {
    /// Starts it.
    ///
    /// # Errors
    /// 71 when it cannot be started, 69 when the target cannot be reached.
    pub fn start(
        config: &Config,
        waits: Waiting,
        opposite: &'a Opposite,
        shapes: &[Shape],
    ) -> Result<Self, Failure> {
        let mut config = file::unpublished(config.clone());
        // Out of the way of a node that may run from the same file, and with nothing that a target of ours lacks.
        config.segments.clear();
        config.node.listen = "127.0.0.1:0".into();
        config.node.advertise.clear();
        config.auth_key_file = None;
        let engine = Engine::start(config).map_err(|e| crate::cli::failures::engine(&e))?;
        let bytes = shapes.iter().map(|shape| shape.layout.bytes()).max().unwrap_or(1);
        let region = engine.allocate(bytes).map_err(|e| self::engine(&e))?;
        let peer = engine.open_within(&opposite.target.address, OPEN).map_err(|e| self::engine(&e))?;
        let segment = peer.segment(SEGMENT).map_err(|e| self::engine(&e))?;
        Ok(Self { engine, peer, segment, region, waits, opposite })
    }

    fn load<'s>(&'s self, shape: &Shape, duration: Duration) -> Load<'s> {
        Load {
            engine: &self.engine,
            region: &self.region,
            segment: &self.segment,
            op: shape.op,
            layout: shape.layout,
            size: shape.bytes,
            batch: shape.batch,
            depth: shape.depth,
            threads: 1,
            rate: None,
            until: Until::Time(duration),
            waits: self.waits,
        }
    }

    /// Gives every page memory of its own, here and there.
    ///
    /// # Errors
    /// When the target cannot be written to.
    pub fn touch(&self, shapes: &[Shape]) -> Result<(), Failure> {
        let largest = shapes.iter().max_by_key(|shape| shape.layout.bytes());
        let touched = largest.map_or(Ok(()), |shape| self.load(shape, Duration::ZERO).touch(true));
        touched.map_err(Failure::failed)
    }

    /// One shape for so long.
    ///
    /// # Errors
    /// The first request that failed.
    pub fn cell(&self, shape: &Shape, duration: Duration) -> Result<Cell, Failure> {
        self.whole(self.load(shape, WARM_UP.min(duration)).run())?;
        let target = |e: pipeline_node::Error| engine(&e);
        let fast = speed();
        let (machine, others) = (machine_ns(), others_ns(self.opposite.target.pid()));
        let (target_ns, sleeps) = (self.peer.cpu_ns().map_err(target)?, self.opposite.sleeps());
        let (seen, threads, caller) = (self.engine.observe(), thread_times(), caller_ns());
        let round = self.whole(self.load(shape, duration).run())?;
        let caller = caller_ns() - caller;
        let (machine, others) = (machine_ns() - machine, others_ns(self.opposite.target.pid()) - others);
        let after = thread_times();
        let seen = self.engine.observe().since(&seen);
        let target_ns = self.peer.cpu_ns().map_err(target)?.saturating_sub(target_ns);
        let used = |(name, ns): (String, f64)| {
            let before = threads.get(&name).copied().unwrap_or(0.0);
            (name, ns - before)
        };
        let tally = &round.tally;
        Ok(Cell {
            gb_per_s: tally.gb_per_s(),
            p50_us: tally.latency_us(50.0),
            p99_us: tally.latency_us(99.0),
            bytes: tally.bytes as f64,
            batches: (tally.requests / shape.batch.max(1)) as f64,
            requests: tally.requests as f64,
            caller_ns: caller,
            target_ns: target_ns as f64,
            target_sleeps: self.opposite.sleeps().saturating_sub(sleeps) as f64,
            machine_ns: machine,
            others_ns: others.max(0.0),
            speed: fast.min(speed()),
            threads: after.into_iter().map(used).collect(),
            seen,
        })
    }

    fn whole(&self, round: Round) -> Result<Round, Failure> {
        match round.trouble {
            Some(trouble) => Err(Failure::failed(trouble)),
            None => Ok(round),
        }
    }
}

impl Drop for Subject<'_> {
    fn drop(&mut self) {
        // Before the next one starts: the last handle may live on in a peer.
        self.engine.stop();
    }
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
