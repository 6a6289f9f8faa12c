//! A running graph: start, look, drain, stop.
//! Deliberately thin: what is built is in [`crate::assembly`], what runs is in [`crate::worker`].

use std::thread::JoinHandle;

use crate::assembly;
use crate::bell::Bell;
use crate::blueprint::Blueprint;
use crate::caller::Callers;
use crate::check::{Complaint, check};
use crate::clock::{Nanos, now};
use crate::drain::{DrainReport, Laggard, Report, all_empty};
use crate::edge::track::Track;
use crate::fault::{Fault, Faults};
use crate::inlet::{Entry, Inlet};
use crate::instance::Alarm;
use crate::item::Item;
use crate::pool;
use crate::stage::{BuildError, Seat, Spec};
use crate::stats::Snapshot;
use crate::stats::board::Board;
use crate::stealing::Crews;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};

/// More panics than this in [`PANIC_WINDOW_NS`] fail a pool.
const PANICS_MAX: usize = 5;
const PANIC_WINDOW_NS: Nanos = 10_000_000_000;

/// Why an engine did not start. Nothing runs then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The graph breaks rules of [`check()`].
    #[error("the graph cannot run: {}", complaints.iter().map(|c| format!("{} ({})", c.text, c.help)).collect::<Vec<_>>().join("; "))]
    Refused {
        /// All of them.
        complaints: Vec<Complaint>,
    },
    /// Specs and stages do not belong together.
    #[error("stage `{stage}`: {what}; give `Engine::start` the spec that the blueprint was made from")]
    Mismatch {
        /// Name of the stage.
        stage: String,
        /// What differs.
        what: String,
    },
    /// A worker would host more stages than there are bits in its word.
    #[error("worker `{worker}` would host {stages} stages; at most {max} can share one: use another pool")]
    TooManyStages {
        /// Name of the worker.
        worker: String,
        /// How many.
        stages: usize,
        /// The limit.
        max: usize,
    },
    /// A stage could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A worker could not be pinned.
    #[error("worker `{worker}` cannot be pinned to CPU {cpu} ({source}); this process may use {allowed:?}")]
    Pin {
        /// Name of the worker.
        worker: String,
        /// The CPU.
        cpu: usize,
        /// CPUs that may be used.
        allowed: Vec<usize>,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There is nothing for the threads of the application to sleep on, which step the workers of a `caller` pool.
    #[error("no epoll set for pool `{pool}`: {source}; raise the limit of open files")]
    Watch {
        /// Name of the pool.
        pool: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error(
        "thread `{worker}` cannot be started: {source}; raise the limit of processes or use fewer threads"
    )]
    Thread {
        /// Name of the worker.
        worker: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Where an engine stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It works.
    Running,
    /// It takes nothing new.
    Draining,
    /// Stages of this pool panicked too often. It takes nothing new, and what reaches the pool fails.
    Failed {
        /// Name of the pool.
        pool: String,
    },
    /// Its threads have ended.
    Stopped,
}

/// What all workers and handles share.
pub(crate) struct Shared<T: Item> {
    pub draining: AtomicBool,
    pub stopping: AtomicBool,
    pub pools: Box<[PoolHealth]>,
    pub faults: Arc<dyn Faults<T>>,
    pub bells: Box<[Arc<Bell>]>,
    pub entry: Option<Arc<Entry<T>>>,
}

/// How a pool is.
pub(crate) struct PoolHealth {
    name: String,
    failed: AtomicBool,
    /// Times of the last panics, oldest first.
    panics: Mutex<[Nanos; PANICS_MAX]>,
}

impl PoolHealth {
    pub(crate) fn new(name: &str) -> Self {
        let panics = Mutex::new([0; PANICS_MAX]);
        Self { name: name.into(), failed: AtomicBool::new(false), panics }
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Counts a panic; answers whether it is one too many.
    fn panicked(&self, at: Nanos) -> bool {
        let mut panics = lock(&self.panics);
        let oldest = panics[0];
        panics.rotate_left(1);
        panics[PANICS_MAX - 1] = at;
        oldest != 0 && at.saturating_sub(oldest) < PANIC_WINDOW_NS
    }
}

impl<T: Item> Shared<T> {
    /// Where the engine stands while its workers live.
    pub(crate) fn state(&self) -> State {
        match self.pools.iter().find(|p| p.failed()) {
            Some(pool) => State::Failed { pool: pool.name.clone() },
            None if self.draining.load(Ordering::Acquire) => State::Draining,
            None => State::Running,
        }
    }

    pub(crate) fn close(&self) {
        if let Some(entry) = &self.entry {
            entry.gates.iter().for_each(|gate| gate.close());
        }
        self.draining.store(true, Ordering::Release);
        Bell::ring_all(&self.bells);
    }
}

impl<T: Item> Alarm for Shared<T> {
    fn panicked(&self, seat: &Seat, now: Nanos) -> bool {
        let Some(pool) = self.pools.iter().find(|p| p.name == *seat.pool) else { return false };
        if !pool.panicked(now) {
            return false;
        }
        pool.failed.store(true, Ordering::Release);
        self.close();
        true
    }

    fn has_failed(&self, seat: &Seat) -> bool {
        self.pools.iter().any(|p| p.name == *seat.pool && p.failed())
    }
}

/// A running graph. Dropping it stops it.
pub struct Engine<T: Item> {
    shared: Arc<Shared<T>>,
    board: Board,
    tracks: Vec<Track<T>>,
    reports: Vec<Arc<Report>>,
    threads: Vec<JoinHandle<()>>,
    /// Workers without a thread.
    callers: Option<Callers<T>>,
    /// Threads of `stealing` pools. Their jobs end with the workers that gave them.
    crews: Crews,
    stopped: bool,
}

impl<T: Item> Engine<T> {
    /// Builds every stage, then starts every thread. `specs` are index-aligned with `blueprint.stages`.
    ///
    /// # Errors
    /// [`StartError`] with the reason and what to do; no thread is left then.
    pub fn start(
        blueprint: &Blueprint,
        specs: Vec<Arc<dyn Spec<T>>>,
        faults: Arc<dyn Faults<T>>,
    ) -> Result<Self, StartError> {
        let complaints = check(blueprint);
        if !complaints.is_empty() {
            return Err(StartError::Refused { complaints });
        }
        Self::start_with(blueprint, specs, faults, Crews::start(blueprint)?)
    }

    /// As [`Self::start`], with threads of its `stealing` pools that run already: for who has work for them before the
    /// graph is built.
    ///
    /// # Errors
    /// As there; the crews go when nobody else has them.
    pub fn start_with(
        blueprint: &Blueprint,
        specs: Vec<Arc<dyn Spec<T>>>,
        faults: Arc<dyn Faults<T>>,
        crews: Crews,
    ) -> Result<Self, StartError> {
        let complaints = check(blueprint);
        if !complaints.is_empty() {
            return Err(StartError::Refused { complaints });
        }
        let built = assembly::assemble(blueprint, &specs, faults, &crews)?;
        let (shared, board, tracks, reports) = (built.shared, built.board, built.tracks, built.reports);
        let mut engine = Self {
            shared,
            board,
            tracks,
            reports,
            threads: Vec::new(),
            callers: built.callers,
            crews,
            stopped: false,
        };
        engine.threads = pool::spawn(built.workers)?;
        Ok(engine)
    }

    /// A handle for submitting to the edge `submit -> STAGE`.
    pub fn inlet(&self) -> Inlet<T> {
        let entry = self.shared.entry.clone();
        let stepped = entry.as_ref().is_some_and(|e| e.stepped);
        Inlet { entry, callers: self.callers.clone().filter(|_| stepped) }
    }

    /// The workers of `caller` pools, if there are any: whoever submits and waits steps them.
    pub fn callers(&self) -> Option<&Callers<T>> {
        self.callers.as_ref()
    }

    /// [`Callers::step`]; `false` without a `caller` pool.
    pub fn step(&self) -> bool {
        self.callers.as_ref().is_some_and(Callers::step)
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        if self.stopped {
            return State::Stopped;
        }
        self.shared.state()
    }

    /// All counters now. Subtract two ([`Snapshot::since`]) for an interval.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.board.snapshot();
        for track in &self.tracks {
            track.add_to(&mut snapshot.edges[track.edge], self.shared.entry.as_deref());
        }
        snapshot
    }

    /// Forgets the largest depths seen so far, which an interval cannot subtract.
    pub fn reset_peaks(&self) {
        self.board.reset_peaks();
    }

    /// Closes the inlet, tells all stages, and waits until nothing is left anywhere or `until` has passed.
    /// The engine goes on draining afterwards; [`Engine::stop`] ends it.
    pub fn drain(&self, until: Nanos) -> DrainReport {
        let start = now();
        self.shared.close();
        let mut pause_us = 20;
        loop {
            while self.step() && now() < until {}
            if self.is_empty() {
                return DrainReport { empty: true, took_ns: now() - start, left: Vec::new() };
            }
            if now() >= until {
                return DrainReport { empty: false, took_ns: now() - start, left: self.laggards() };
            }
            // Emptiness is a property of all threads at once: there is no one bell that would tell it.
            std::thread::sleep(std::time::Duration::from_micros(pause_us));
            pause_us = (pause_us * 2).min(1_000);
        }
    }

    /// Ends all threads and fails what is left between stages. What stages hold inside is theirs to end.
    pub fn stop(&mut self) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        self.shared.close();
        self.shared.stopping.store(true, Ordering::Release);
        Bell::ring_all(&self.shared.bells);
        let me = std::thread::current().id();
        // Stopped from user code on one of our own threads: that one ends when it comes back.
        for thread in self.threads.drain(..).filter(|t| t.thread().id() != me) {
            if thread.join().is_err() {
                tracing::error!("a worker thread died outside of a stage: this is a bug");
            }
        }
        if let Some(callers) = &self.callers {
            callers.close();
        }
        // Waits for their threads, unless somebody else has work for them.
        self.crews = Crews::default();
        let faults = &self.shared.faults;
        for track in &self.tracks {
            track.sweep(&mut |item| faults.mark(item, &Fault::Stopped, false));
        }
    }

    fn is_empty(&self) -> bool {
        is_empty(&self.tracks, &self.reports)
    }

    fn laggards(&self) -> Vec<Laggard> {
        let edges = self.snapshot().edges;
        let mut left: Vec<Laggard> =
            self.board.left().map(|(stage, items)| Laggard { stage, items }).collect();
        for track in &self.tracks {
            left[track.to].items += edges[track.edge].depth_items;
        }
        left.retain(|l| l.items > 0);
        left.sort_by_key(|l| std::cmp::Reverse(l.items));
        left
    }
}

/// Two looks with nothing begun in between; see [`crate::drain`].
pub(crate) fn is_empty<T: Item>(tracks: &[Track<T>], reports: &[Arc<Report>]) -> bool {
    let look = || {
        let begun = all_empty(reports.iter().map(|r| &**r))?;
        tracks.iter().all(Track::is_empty).then_some(begun)
    };
    let first = look();
    first.is_some() && first == look()
}

impl<T: Item> Drop for Engine<T> {
    fn drop(&mut self) {
        self.stop();
    }
}
