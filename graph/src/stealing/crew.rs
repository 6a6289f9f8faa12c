//! The threads of one `stealing` pool: ours, named, pinned on request, with signals blocked, in a rayon pool.
//! Deliberately without stages: a job is a function. Rayon's pool does not wait for its threads when it is dropped, so
//! whoever drops the last handle of a crew does, once every job that was given has been carried out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded};
use rayon_core::{ThreadBuilder, ThreadPool, ThreadPoolBuilder};

use crate::blueprint::{Blueprint, PoolDecl, PoolKind};
use crate::clock::now;
use crate::cpus::{self, Cpus};
use crate::engine::StartError;
use crate::mark::Inside;
use crate::signals;
use crate::stats::cell::WorkerCell;
use crate::stats::sched;
use crate::sync::Arc;

/// See the head of the file.
pub struct Crew {
    name: String,
    /// `None` once it is being dropped.
    pool: Option<ThreadPool>,
    threads: Vec<JoinHandle<()>>,
    /// One a thread.
    cells: Box<[Arc<WorkerCell>]>,
}

impl Crew {
    /// Starts the threads that a pool declares.
    ///
    /// # Errors
    /// [`StartError::Thread`] or [`StartError::Pin`]; no thread is left then.
    pub fn start(decl: &PoolDecl) -> Result<Self, StartError> {
        let count = decl.workers();
        let (ready, readies) = bounded(count);
        let (mut threads, mut failed) = (Vec::with_capacity(count), None);
        let cells: Box<[Arc<WorkerCell>]> = (0..count).map(|_| Arc::default()).collect();
        let spawn = |thread: ThreadBuilder| {
            let name = decl.thread_name(thread.index());
            let cell = cells[thread.index()].clone();
            match start(name.clone(), decl.cpu(thread.index()), ready.clone(), (thread, cell)) {
                Ok(handle) => threads.push(handle),
                Err(source) => {
                    let why = std::io::Error::from(source.kind());
                    failed = Some(StartError::Thread { worker: name, source });
                    return Err(why);
                }
            }
            Ok(())
        };
        // Jobs catch their panics themselves; what panics beside them must not abort the process.
        let panicked =
            |_| tracing::error!("a job of a stealing pool panicked outside of a stage: this is a bug");
        let built = ThreadPoolBuilder::new().num_threads(count).spawn_handler(spawn).panic_handler(panicked);
        let pool = match built.build() {
            Ok(pool) => Some(pool),
            Err(error) => {
                let other = || StartError::Thread {
                    worker: decl.name.clone(),
                    source: std::io::Error::other(error.to_string()),
                };
                failed = failed.or_else(|| Some(other()));
                None
            }
        };
        drop(ready);
        let crew = Self { name: decl.name.clone(), pool, threads, cells };
        // Each thread tells once. One that could not be pinned is already gone, the others go with the crew.
        let pinned = readies.iter().take(crew.threads.len()).find_map(Result::err);
        failed.or(pinned).map_or(Ok(crew), Err)
    }

    /// Name of its pool.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.cells.len()
    }

    /// Calls `work` with each of `0..count` on its threads, and comes back when all calls have. For threads outside of
    /// engines: a worker would stand still meanwhile. Called on a thread of this crew it works as well: while it waits,
    /// that thread carries out other jobs.
    ///
    /// # Panics
    /// When `work` did, after all other calls have ended.
    pub fn each(&self, count: usize, work: impl Fn(usize) + Sync) {
        let Some(pool) = &self.pool else { return };
        let (work, cells) = (&work, &self.cells);
        pool.scope(|scope| {
            for at in 0..count {
                scope.spawn(move |_| {
                    let began = now();
                    work(at);
                    count_job(cells, now() - began);
                });
            }
        });
    }

    /// Hands a job to the crew; never blocks. It must not wait for anything, other jobs included.
    pub(crate) fn give(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(pool) = &self.pool {
            pool.spawn(job);
        }
    }

    /// What its threads measure of themselves: one a thread, written by it alone.
    pub(crate) fn cells(&self) -> &[Arc<WorkerCell>] {
        &self.cells
    }
}

/// Counts a job in the cell of the thread that carried it out.
pub(crate) fn count_job(cells: &[Arc<WorkerCell>], took_ns: u64) {
    if let Some(cell) = rayon_core::current_thread_index().and_then(|at| cells.get(at)) {
        cell.turns.add(1);
        cell.busy_ns.add(took_ns);
    }
}

fn start(
    name: String,
    cpu: Option<usize>,
    ready: Sender<Result<(), StartError>>,
    (thread, cell): (ThreadBuilder, Arc<WorkerCell>),
) -> std::io::Result<JoinHandle<()>> {
    let worker = name.clone();
    let body = move || {
        let pinned = cpu.map_or(Ok(()), |cpu| {
            let allowed = || Cpus::of_process().allowed.clone();
            cpus::pin(cpu).map_err(|source| StartError::Pin { worker, cpu, allowed: allowed(), source })
        });
        let is_ready = pinned.is_ok();
        let _ = ready.send(pinned); // There is room for all.
        if is_ready {
            let _inside = Inside::enter();
            cell.thread.set(sched::this_thread());
            thread.run();
        }
    };
    let _signals = signals::block();
    std::thread::Builder::new().name(name).spawn(body)
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Rayon ends its threads after the last job, and does not wait for that.
        drop(self.pool.take());
        let me = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|t| t.thread().id() != me) {
            if catch_unwind(AssertUnwindSafe(|| thread.join())).is_err() {
                tracing::error!("a thread of a stealing pool died outside of a job: this is a bug");
            }
        }
    }
}

/// The crews of a blueprint, by the index of their pool.
#[derive(Clone, Default)]
pub struct Crews(Vec<Option<Arc<Crew>>>);

impl Crews {
    /// Starts the threads of all `stealing` pools.
    ///
    /// # Errors
    /// As [`Crew::start`]; no thread is left then.
    pub fn start(blueprint: &Blueprint) -> Result<Self, StartError> {
        let crew = |pool: &PoolDecl| match pool.kind {
            PoolKind::Stealing => Crew::start(pool).map(|crew| Some(Arc::new(crew))),
            PoolKind::Resident | PoolKind::Caller => Ok(None),
        };
        Ok(Self(blueprint.pools.iter().map(crew).collect::<Result<_, _>>()?))
    }

    /// The crew of the pool with this name.
    pub fn named(&self, pool: &str) -> Option<&Arc<Crew>> {
        self.iter().find(|crew| crew.name == pool)
    }

    pub(crate) fn of(&self, pool: usize) -> Option<&Arc<Crew>> {
        self.0.get(pool)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Crew>> {
        self.0.iter().flatten()
    }
}
