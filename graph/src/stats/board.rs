//! Which cells belong to which stage, edge and worker; made once at start, summed on every snapshot.

use super::cell::{EdgeCell, StageCell, WorkerCell};
use super::sched;
use super::table::{EdgeStats, Snapshot, StageStats, WorkerStats};
use crate::bell::Bell;
use crate::blueprint::{Blueprint, Dispatch, Mode};
use crate::clock::{Nanos, now};
use crate::sync::{Arc, AtomicU64, Ordering};

/// All cells of an engine.
pub(crate) struct Board {
    started_at: Nanos,
    stages: Vec<(StageStats, Vec<Arc<StageCell>>)>,
    /// Cells of workers that give away what a stage does: index of the stage, and what they alone know of it.
    hosts: Vec<(usize, Arc<StageCell>)>,
    /// With the stage that each leads to.
    edges: Vec<(EdgeStats, usize, Vec<Arc<EdgeCell>>)>,
    workers: Vec<Told>,
}

/// A worker, and what was told of it.
struct Told {
    line: WorkerStats,
    cell: Arc<WorkerCell>,
    bell: Arc<Bell>,
    /// Most time asleep that anybody was told of: it never becomes less, which would look like a restart.
    asleep_ns: AtomicU64,
    /// Likewise what the kernel has told of its thread: it tells nothing while descriptors are short, and of a thread that
    /// has ended.
    cpu_ns: AtomicU64,
    cpu_wait_ns: AtomicU64,
}

/// What a count has come to, and never less than anybody was told before.
fn at_least(told: &AtomicU64, now: u64) -> u64 {
    told.fetch_max(now, Ordering::Relaxed).max(now)
}

impl Told {
    fn new(line: WorkerStats, cell: Arc<WorkerCell>, bell: Arc<Bell>) -> Self {
        let zero = || AtomicU64::new(0);
        Self { line, cell, bell, asleep_ns: zero(), cpu_ns: zero(), cpu_wait_ns: zero() }
    }

    fn stats(&self, at: Nanos) -> WorkerStats {
        let cell = &self.cell;
        let (cpu_ns, cpu_wait_ns) = sched::of_thread(cell.thread.get()).unwrap_or_default();
        let (cpu_ns, cpu_wait_ns) =
            (at_least(&self.cpu_ns, cpu_ns), at_least(&self.cpu_wait_ns, cpu_wait_ns));
        WorkerStats {
            turns: cell.turns.get(),
            busy_ns: cell.busy_ns.get(),
            parked_ns: at_least(&self.asleep_ns, cell.asleep.at(at)),
            parks: cell.parks.get(),
            wakes: self.bell.wakes(),
            timed_wakes: cell.timed_wakes.get(),
            spins: cell.spins.get(),
            yields: cell.yields.get(),
            refused_fds: cell.refused_fds.get(),
            gap_ns: cell.gap_ns.get(),
            spin_budget_ns: cell.spin_budget_ns.get(),
            yield_budget_ns: cell.yield_budget_ns.get(),
            parks_at_once: cell.parks_at_once.get() != 0,
            wake_ns: cell.wake_ns.get(),
            wake_cpu_ns: cell.wake_cpu_ns.get(),
            decisions: cell.decisions.get(),
            // A thread that has said its number has run.
            cpu_told: cpu_ns + cpu_wait_ns > 0,
            cpu_ns,
            cpu_wait_ns,
            ..self.line.clone()
        }
    }
}

impl Board {
    /// A board with a line for each stage and edge, and no cells yet.
    pub(crate) fn new(blueprint: &Blueprint) -> Self {
        let pool_of = |stage: usize| blueprint.stages[stage].pool.map(|p| &blueprint.pools[p]);
        let edges: Vec<_> = blueprint
            .edges
            .iter()
            .map(|edge| {
                let consumers = pool_of(edge.to).map_or(1, |p| p.consumers());
                let rings = |d: Dispatch| if d == Dispatch::Any { 1 } else { consumers };
                let (mode, rings, capacity) = match edge.mode {
                    Mode::Inline => ("inline", 0, 0),
                    Mode::Queue { capacity, dispatch, .. } => ("queue", rings(dispatch), capacity),
                    Mode::Return { dispatch } => ("return", rings(dispatch), blueprint.tokens),
                };
                EdgeStats { name: blueprint.edge_name(edge), mode, rings, capacity, ..EdgeStats::default() }
            })
            .collect();
        let stages = blueprint.stages.iter().enumerate().map(|(s, stage)| {
            let queues =
                blueprint.edges.iter().zip(&edges).filter(|(e, line)| e.to == s && line.mode == "queue");
            let line = StageStats {
                name: stage.name.clone(),
                kind: stage.kind.clone(),
                pool: pool_of(s).map(|p| p.name.clone()),
                cap: queues.map(|(_, line)| line.rings * line.capacity).sum(),
                ..StageStats::default()
            };
            (line, Vec::new())
        });
        Self {
            started_at: now(),
            stages: stages.collect(),
            hosts: Vec::new(),
            edges: edges
                .into_iter()
                .zip(&blueprint.edges)
                .map(|(line, e)| (line, e.to, Vec::new()))
                .collect(),
            workers: Vec::new(),
        }
    }

    /// A new cell of a stage, for one worker.
    pub(crate) fn stage(&mut self, stage: usize) -> Arc<StageCell> {
        let cell = Arc::new(StageCell::default());
        self.stages[stage].0.threads += 1;
        self.stages[stage].1.push(cell.clone());
        cell
    }

    /// A new cell of a stage, for a worker that hosts it and has others carry it out.
    pub(crate) fn host(&mut self, stage: usize) -> Arc<StageCell> {
        let cell = Arc::new(StageCell::default());
        self.hosts.push((stage, cell.clone()));
        cell
    }

    /// A new cell of an edge, for one worker's side of it.
    pub(crate) fn edge(&mut self, edge: usize) -> Arc<EdgeCell> {
        let cell = Arc::new(EdgeCell::default());
        self.edges[edge].2.push(cell.clone());
        cell
    }

    /// A new worker.
    pub(crate) fn worker(
        &mut self,
        name: &str,
        pool: &str,
        cpu: Option<usize>,
        bell: Arc<Bell>,
    ) -> Arc<WorkerCell> {
        let cell = Arc::new(WorkerCell::default());
        let line = WorkerStats { name: name.into(), pool: pool.into(), cpu, ..WorkerStats::default() };
        self.workers.push(Told::new(line, cell.clone(), bell));
        cell
    }

    /// A thread that carries out jobs, with its cell.
    pub(crate) fn thread(&mut self, name: &str, pool: &str, cpu: Option<usize>, cell: Arc<WorkerCell>) {
        let line = WorkerStats { name: name.into(), pool: pool.into(), cpu, ..WorkerStats::default() };
        self.workers.push(Told::new(line, cell, Arc::new(Bell::new())));
    }

    /// What each stage told is left in it, over all of its workers, while draining.
    pub(crate) fn left(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.stages.iter().enumerate().map(|(s, (line, cells))| {
            let left = cells.iter().chain(self.hosts_of(s)).map(|cell| cell.left.get()).sum();
            (line.name.clone(), left)
        })
    }

    /// Forgets the largest depths. A consumer may put one back that it saw just before.
    pub(crate) fn reset_peaks(&self) {
        self.edges.iter().flat_map(|(_, _, cells)| cells).for_each(|cell| cell.depth_max.set(0));
    }

    fn hosts_of(&self, stage: usize) -> impl Iterator<Item = &Arc<StageCell>> {
        self.hosts.iter().filter(move |(of, _)| *of == stage).map(|(_, cell)| cell)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let at = now();
        let elapsed_ns = at - self.started_at;
        let mut stages: Vec<StageStats> = self
            .stages
            .iter()
            .enumerate()
            .map(|(s, (line, cells))| {
                let mut line = line.clone();
                cells.iter().for_each(|cell| line.add(cell, elapsed_ns));
                self.hosts_of(s).for_each(|cell| line.add_host(cell));
                line
            })
            .collect();
        // Consumers before producers: a depth is then never negative, at most a little too deep.
        let edges: Vec<EdgeStats> = self
            .edges
            .iter()
            .map(|(line, _, cells)| {
                let mut line = line.clone();
                cells.iter().for_each(|cell| line.add_popped(cell));
                crate::sync::fence(Ordering::SeqCst);
                cells.iter().for_each(|cell| line.add_pushed(cell));
                line
            })
            .collect();
        for (edge, (_, to, _)) in edges.iter().zip(&self.edges).filter(|(edge, _)| edge.mode == "queue") {
            stages[*to].add_queue(edge);
        }
        let workers = self.workers.iter().map(|worker| worker.stats(at));
        Snapshot { at, elapsed_ns, stages, edges, workers: workers.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel has told of a thread stays told when it cannot be asked: counters do not fall to 0 and jump back.
    #[test]
    fn what_was_told_of_a_thread_stays() {
        let cell = Arc::new(WorkerCell::default());
        let told = Told::new(WorkerStats::default(), cell.clone(), Arc::new(Bell::new()));
        assert!(!told.stats(0).cpu_told, "it has no thread yet");
        cell.thread.set(sched::this_thread());
        let before = told.stats(0);
        cell.thread.set(u64::MAX);
        let after = told.stats(0);
        assert_eq!((after.cpu_ns, after.cpu_wait_ns), (before.cpu_ns, before.cpu_wait_ns));
        assert_eq!(after.cpu_told, sched::of_thread(sched::this_thread()).is_some());
    }
}
