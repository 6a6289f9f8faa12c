//! The table a reader sees: cells of all workers summed by stage, edge and worker.
//! Deliberately plain data: two snapshots subtract to the interval between them.

use super::cell::Histogram;
use crate::clock::Nanos;

/// The engine's counters at one moment, or (after [`Snapshot::since`]) over one interval.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When it was taken.
    pub at: Nanos,
    /// Time it covers: since the start, or since the earlier snapshot.
    pub elapsed_ns: Nanos,
    /// Stages, in the order of the blueprint.
    pub stages: Vec<StageStats>,
    /// Edges, in the order of the blueprint.
    pub edges: Vec<EdgeStats>,
    /// Workers, pool by pool.
    pub workers: Vec<WorkerStats>,
}

/// One stage over all of its workers.
#[derive(Clone, Debug, Default)]
pub struct StageStats {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Its pool; `None` when it runs where it is reached.
    pub pool: Option<String>,
    /// Workers that have an instance; on a `stealing` pool the threads that carry it out.
    pub threads: usize,
    /// Batches its input queues hold, over all rings; 0 when it is only reached inline.
    pub cap: usize,
    /// Items taken from its inputs.
    pub items: u64,
    /// Of those, the items of each worker that has an instance, in the order of [`Snapshot::workers`].
    pub worker_items: Vec<u64>,
    /// Batches it was run on.
    pub batches: u64,
    /// Polls, and how many of them found something.
    pub polls: u64,
    /// Polls that found something.
    pub busy_polls: u64,
    /// Time inside it. Batches under 4 items are timed 1 in 16, and count 16-fold.
    pub busy_ns: Nanos,
    /// Time with input but without room or a resource to go on.
    pub blocked_ns: Nanos,
    /// Panics caught.
    pub panics: u64,
    /// Items it pushed to a port without wire.
    pub strays: u64,
    /// Largest depth of an input queue's ring seen since the start or [`crate::Engine::reset_peaks`], in batches.
    pub depth_max: u64,
    /// Time that items waited before it: in its queues and on its return edges, from the push to the pop; on an inline edge
    /// from the moment they were there until it was run on them, which is 0 unless something came between.
    pub wait: Histogram,
    /// Time of one run or busy poll.
    pub service: Histogram,
    /// Time that items were inside it, neither waiting before it nor in its hands: of a stage that holds what cannot go on
    /// yet, from the run that took an item in to the moment it let the item go (0 if it did so in the same run); of one that
    /// hands items to something outside the graph and takes them back, the time outside. On a `stealing` pool: until a thread
    /// of the pool took the item up. Empty for a stage that does none of this.
    pub held: Histogram,
    /// Sum of what its workers found in a ring of an input queue, each time they took something out, in batches.
    pub depth_sum: u64,
    /// How often they did.
    pub depth_samples: u64,
    pub(super) elapsed_ns: Nanos,
}

/// One edge.
#[derive(Clone, Debug, Default)]
pub struct EdgeStats {
    /// As it is written: `a -> b`, or `a.port -> b`.
    pub name: String,
    /// `inline`, `queue` or `return`.
    pub mode: &'static str,
    /// Rings: 1, or one a consumer worker. 0 for inline.
    pub rings: usize,
    /// What each ring holds: batches, or items on a return edge.
    pub capacity: usize,
    /// Items pushed by producers (inline: taken by the neighbour).
    pub pushed: u64,
    /// Items popped by consumers.
    pub popped: u64,
    /// Batches pushed.
    pub batches: u64,
    /// Items that found it full and were rejected.
    pub rejected: u64,
    /// How often a return edge was found full: 0, or there is a bug.
    pub overflows: u64,
    /// Items pushed and not yet popped: how it is now, not subtracted.
    pub depth_items: u64,
    /// What its rings hold now, counted as [`Self::capacity`] is: batches, or items on a return edge.
    pub depth_now: u64,
    /// Most that a consumer found in one ring since the start or [`crate::Engine::reset_peaks`], counted likewise.
    pub depth_max: u64,
    /// Time that batches were ready to go and their ring had no room, over all producers and rings. Of `submit -> ..`
    /// always 0: whoever submits is told and keeps nothing here.
    pub blocked_ns: Nanos,
    /// Sum of what consumers found in a ring, each time they took something out, counted likewise.
    pub depth_sum: u64,
    /// How often they did.
    pub depth_samples: u64,
}

/// One worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerStats {
    /// Its thread's name.
    pub name: String,
    /// Its pool.
    pub pool: String,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Turns of its loop.
    pub turns: u64,
    /// Time in turns that did something.
    pub busy_ns: Nanos,
    /// Time asleep, a sleep that goes on included.
    pub parked_ns: Nanos,
    /// Sleeps.
    pub parks: u64,
    /// Rings that found it asleep.
    pub wakes: u64,
    /// Sleeps that a limit or deadline ended.
    pub timed_wakes: u64,
    /// Idle looks with a pause between.
    pub spins: u64,
    /// Idle looks with a yield between.
    pub yields: u64,
    /// Descriptors that could not be armed.
    pub refused_fds: u64,
    /// Middle of the gaps from running dry to the next work, as an adaptive worker weighs them; 0 for others.
    pub gap_ns: Nanos,
    /// How long it spins now before anything else. Fixed unless it is adaptive.
    pub spin_budget_ns: Nanos,
    /// How long it then yields now.
    pub yield_budget_ns: Nanos,
    /// Whether it parks as soon as it runs dry: because that is cheapest now, or because the machine is crowded.
    pub parks_at_once: bool,
    /// Time from a ring to awake after a sleep as long as the last one, as an adaptive worker has measured it.
    pub wake_ns: Nanos,
    /// CPU time of such a sleep.
    pub wake_cpu_ns: Nanos,
    /// How often an adaptive worker has changed how long it spins and yields.
    pub decisions: u64,
    /// Whether the kernel has told of its thread: not everywhere, and not of a worker without one. Without it
    /// [`Self::cpu_ns`] and [`Self::cpu_wait_ns`] are 0 and say nothing; with it they may be 0 over an interval.
    pub cpu_told: bool,
    /// Time its thread was on a CPU.
    pub cpu_ns: Nanos,
    /// Time it could have run and had none.
    pub cpu_wait_ns: Nanos,
}

impl Snapshot {
    /// What happened between `earlier` and this one, both of the same engine. Peaks, what lies in edges now, and how workers
    /// wait now, stay as they are.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let elapsed_ns = self.at.saturating_sub(earlier.at);
        let mut delta = self.clone();
        delta.elapsed_ns = elapsed_ns;
        for (now, old) in delta.stages.iter_mut().zip(&earlier.stages) {
            now.subtract(old, elapsed_ns);
        }
        for (now, old) in delta.edges.iter_mut().zip(&earlier.edges) {
            now.subtract(old);
        }
        for (now, old) in delta.workers.iter_mut().zip(&earlier.workers) {
            now.subtract(old);
        }
        delta
    }

    /// The stage of that name.
    pub fn stage(&self, name: &str) -> Option<&StageStats> {
        self.stages.iter().find(|s| s.name == name)
    }

    /// The edge of that name, as [`crate::Blueprint::edge_name`] writes it.
    pub fn edge(&self, name: &str) -> Option<&EdgeStats> {
        self.edges.iter().find(|e| e.name == name)
    }
}

fn take(now: &mut u64, old: u64) {
    *now = now.saturating_sub(old);
}

fn mean(sum: u64, samples: u64) -> f64 {
    if samples == 0 { 0.0 } else { sum as f64 / samples as f64 }
}

impl StageStats {
    /// Mean depth of its input rings, in batches, as consumers found them.
    pub fn depth_avg(&self) -> f64 {
        mean(self.depth_sum, self.depth_samples)
    }

    /// Share of its workers' time spent in it, in percent.
    pub fn util_pct(&self) -> f64 {
        self.share(self.busy_ns)
    }

    /// Share of its workers' time it could not go on for lack of room or a resource, in percent.
    pub fn blocked_pct(&self) -> f64 {
        self.share(self.blocked_ns)
    }

    fn share(&self, ns: Nanos) -> f64 {
        let all = self.elapsed_ns as f64 * self.threads as f64;
        if all > 0.0 { (100.0 * ns as f64 / all).min(100.0) } else { 0.0 }
    }

    fn subtract(&mut self, old: &Self, elapsed_ns: Nanos) {
        self.elapsed_ns = elapsed_ns;
        take(&mut self.items, old.items);
        self.worker_items.iter_mut().zip(&old.worker_items).for_each(|(now, old)| take(now, *old));
        take(&mut self.batches, old.batches);
        take(&mut self.polls, old.polls);
        take(&mut self.busy_polls, old.busy_polls);
        take(&mut self.busy_ns, old.busy_ns);
        take(&mut self.blocked_ns, old.blocked_ns);
        take(&mut self.panics, old.panics);
        take(&mut self.strays, old.strays);
        take(&mut self.depth_sum, old.depth_sum);
        take(&mut self.depth_samples, old.depth_samples);
        self.wait = self.wait.since(&old.wait);
        self.service = self.service.since(&old.service);
        self.held = self.held.since(&old.held);
    }

    pub(crate) fn add(&mut self, cell: &super::cell::StageCell, elapsed_ns: Nanos) {
        self.elapsed_ns = elapsed_ns;
        self.items += cell.items.get();
        self.worker_items.push(cell.items.get());
        self.batches += cell.batches.get();
        self.polls += cell.polls.get();
        self.busy_polls += cell.busy_polls.get();
        self.busy_ns += cell.busy_ns.get();
        self.service.add_cell(&cell.service);
        self.add_host(cell);
    }

    /// What a worker knows of a stage that it reads the rings of, whoever carries it out.
    pub(crate) fn add_host(&mut self, cell: &super::cell::StageCell) {
        self.blocked_ns += cell.blocked_ns.get();
        self.panics += cell.panics.get();
        self.strays += cell.strays.get();
        self.wait.add_cell(&cell.wait);
        self.held.add_cell(&cell.held);
    }

    /// One of the queues that lead to it.
    pub(crate) fn add_queue(&mut self, edge: &EdgeStats) {
        self.depth_sum += edge.depth_sum;
        self.depth_samples += edge.depth_samples;
        self.depth_max = self.depth_max.max(edge.depth_max);
    }
}

impl EdgeStats {
    /// Mean of what consumers found in a ring, counted as [`Self::capacity`] is. 0 for inline.
    pub fn depth_avg(&self) -> f64 {
        mean(self.depth_sum, self.depth_samples)
    }

    fn subtract(&mut self, old: &Self) {
        take(&mut self.pushed, old.pushed);
        take(&mut self.popped, old.popped);
        take(&mut self.batches, old.batches);
        take(&mut self.rejected, old.rejected);
        take(&mut self.overflows, old.overflows);
        take(&mut self.blocked_ns, old.blocked_ns);
        take(&mut self.depth_sum, old.depth_sum);
        take(&mut self.depth_samples, old.depth_samples);
    }

    pub(crate) fn add_popped(&mut self, cell: &super::cell::EdgeCell) {
        self.popped += cell.popped.get();
        self.depth_sum += cell.depth_sum.get();
        self.depth_samples += cell.depth_samples.get();
        self.depth_max = self.depth_max.max(cell.depth_max.get());
    }

    /// After what was popped: see [`Self::depth_items`].
    pub(crate) fn add_pushed(&mut self, cell: &super::cell::EdgeCell) {
        self.add_entered(cell.pushed.get(), cell.batches.get(), cell.rejected.get());
        self.blocked_ns += cell.blocked_ns.get();
    }

    /// What entered it, from producers or from outside of the graph, and what was turned away.
    pub(crate) fn add_entered(&mut self, pushed: u64, batches: u64, rejected: u64) {
        self.pushed += pushed;
        self.batches += batches;
        self.rejected += rejected;
        self.depth_items = self.pushed.saturating_sub(self.popped);
    }
}

impl WorkerStats {
    fn subtract(&mut self, old: &Self) {
        take(&mut self.turns, old.turns);
        take(&mut self.busy_ns, old.busy_ns);
        take(&mut self.parked_ns, old.parked_ns);
        take(&mut self.parks, old.parks);
        take(&mut self.wakes, old.wakes);
        take(&mut self.timed_wakes, old.timed_wakes);
        take(&mut self.spins, old.spins);
        take(&mut self.yields, old.yields);
        take(&mut self.refused_fds, old.refused_fds);
        take(&mut self.decisions, old.decisions);
        take(&mut self.cpu_ns, old.cpu_ns);
        take(&mut self.cpu_wait_ns, old.cpu_wait_ns);
    }
}
