//! What a run is counted by, and what came of it: throughput, latency, and how busy everything was.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::agenda::Time;
use super::setup::{Arrival, Role, Setup};
use super::world::World;

/// Batches that make a distribution.
const ENOUGH: u64 = 50;

/// Counters of a run, from when the clock starts.
pub struct Counts {
    begun: Time,
    cpu_before: f64,
    requests: u64,
    /// Of slices that ended: batches may take longer than the run.
    bytes: u64,
    batches: u64,
    latency: Histogram<u64>,
    latency_sum: f64,
    stages: Vec<StageCount>,
    /// By NIC and direction: payload with its requests, and what comes back.
    nics: Vec<[f64; 2]>,
    memory: f64,
}

#[derive(Clone, Copy, Default)]
struct StageCount {
    items: u64,
    work_ns: f64,
    waited_ns: f64,
    fulls: u64,
}

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Payload of slices that ended.
    pub bytes: f64,
    /// The same, 10⁹ bytes a second.
    pub gb_per_s: f64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Batches a second.
    pub batches_per_s: f64,
    /// Mean from submit to done of a batch, nanoseconds.
    pub latency_ns: f64,
    /// Its median.
    pub p50_ns: f64,
    /// And what one in a hundred exceeds.
    pub p99_ns: f64,
    /// CPUs that work took, on average.
    pub cpus: f64,
    /// By stage.
    pub stages: Vec<StageOutcome>,
    /// By thread of this machine.
    pub threads: Vec<ThreadOutcome>,
    /// Share of time that memory was moving.
    pub memory: f64,
    /// Share of time that each NIC was sending, or receiving, whichever is more.
    pub nics: Vec<f64>,
    /// Slices in flight at the end, of the window of slices and bytes.
    pub window_share: f64,
    /// How often a slice found no window, for each that was cut.
    pub refusals: f64,
}

/// A stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageOutcome {
    /// Its name.
    pub name: String,
    /// CPU time an item, nanoseconds.
    pub item_ns: f64,
    /// Share of the time of its workers, percent.
    pub util_pct: f64,
    /// Mean wait in its rings, nanoseconds.
    pub wait_ns: f64,
    /// How often its ring was found full, a second.
    pub fulls_per_s: f64,
}

/// A thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadOutcome {
    /// Its name.
    pub name: String,
    /// CPU time of its work, of the time, percent.
    pub cpu_pct: f64,
    /// The same with the time that it waited for a CPU.
    pub busy_pct: f64,
    /// Sleeps a second.
    pub parks_per_s: f64,
}

impl Counts {
    pub fn new(setup: &Setup) -> Self {
        let latency = Histogram::new_with_bounds(1, 3_600_000_000_000, 3)
            .expect("constant bounds are valid: low >= 1, high >= 2 * low, digits <= 5");
        Self {
            begun: 0.0,
            cpu_before: 0.0,
            requests: 0,
            bytes: 0,
            batches: 0,
            latency,
            latency_sum: 0.0,
            stages: vec![StageCount::default(); setup.stages.len()],
            nics: vec![[0.0; 2]; setup.nics.len()],
            memory: 0.0,
        }
    }

    pub fn begin(&mut self, now: Time, cpu_used: f64) {
        (self.begun, self.cpu_before, self.bytes) = (now, cpu_used, 0);
        self.stages.iter_mut().for_each(|stage| *stage = StageCount::default());
        self.nics.iter_mut().for_each(|nic| *nic = [0.0; 2]);
        self.memory = 0.0;
    }

    pub fn stage(&mut self, stage: usize, items: usize, ns: f64) {
        self.stages[stage].items += items as u64;
        self.stages[stage].work_ns += ns;
    }

    pub fn memory(&mut self, ns: f64) {
        self.memory += ns;
    }

    pub fn waited(&mut self, stage: usize, ns: f64) {
        self.stages[stage].waited_ns += ns;
    }

    pub fn full(&mut self, stage: usize) {
        self.stages[stage].fulls += 1;
    }

    pub fn nic(&mut self, nic: usize, backward: bool, ns: f64) {
        self.nics[nic][usize::from(backward)] += ns;
    }

    pub fn slice(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub fn batch(&mut self, now: Time, since: Time, requests: u64) {
        (self.batches, self.requests) = (self.batches + 1, self.requests + requests);
        self.latency_sum += now - since;
        self.latency.saturating_record((now - since) as u64);
    }
}

impl World<'_> {
    /// What came of the run.
    pub fn outcome(&mut self) -> Outcome {
        let used = self.cpus.used();
        let (counts, setup) = (&self.counts, self.setup);
        let passed = (self.now - counts.begun).max(1.0);
        let per_s = |n: f64| n / passed * 1e9;
        let stages = counts.stages.iter().zip(&setup.stages).map(|(count, stage)| StageOutcome {
            name: stage.name.clone(),
            item_ns: count.work_ns / count.items.max(1) as f64,
            util_pct: 100.0 * count.work_ns / passed / stage.workers.len().max(1) as f64,
            wait_ns: count.waited_ns / count.items.max(1) as f64,
            fulls_per_s: per_s(count.fulls as f64),
        });
        let here = self.threads.iter().filter(|thread| thread.is_here);
        let threads = here.map(|thread| ThreadOutcome {
            name: thread.name.clone(),
            cpu_pct: 100.0 * thread.tally.work_ns / passed,
            busy_pct: (100.0 * thread.tally.busy_ns / passed).min(100.0),
            parks_per_s: per_s(thread.tally.parks as f64),
        });
        let cut: u64 = counts
            .stages
            .iter()
            .zip(&setup.stages)
            .map(|(c, s)| if s.role == Role::Notify { c.items } else { 0 })
            .sum();
        let share = |used: u64, of: u64| used as f64 / of.max(1) as f64;
        let (latency_ns, p50_ns, p99_ns) = self.latencies(passed);
        Outcome {
            bytes: counts.bytes as f64,
            gb_per_s: counts.bytes as f64 / passed,
            requests_per_s: per_s(counts.bytes as f64 / setup.application.bytes as f64),
            batches_per_s: per_s(counts.batches as f64),
            latency_ns,
            p50_ns,
            p99_ns,
            cpus: (used - counts.cpu_before) / passed,
            stages: stages.collect(),
            threads: threads.collect(),
            memory: counts.memory / passed,
            nics: counts.nics.iter().map(|[forth, back]| forth.max(*back) / passed).collect(),
            window_share: share(self.window.bytes(), setup.window.bytes)
                .max(share(self.window.slices(), setup.window.slices)),
            refusals: self.window.refusals as f64 / cut.max(1) as f64,
        }
    }
}

impl World<'_> {
    /// Mean, median and p99 of a batch. Of batches that take longer than the run, by Little's law: what is in flight, by how
    /// fast it goes.
    fn latencies(&self, passed: f64) -> (f64, f64, f64) {
        let (counts, application) = (&self.counts, &self.setup.application);
        if let Arrival::Closed(depth) = application.arrival
            && counts.batches < ENOUGH
        {
            let in_flight =
                (depth * application.threads * application.batch) as f64 * application.bytes as f64;
            let ns = in_flight * passed / (counts.bytes as f64).max(1.0);
            return (ns, ns, ns);
        }
        let at = |quantile| counts.latency.value_at_quantile(quantile) as f64;
        (counts.latency_sum / counts.batches.max(1) as f64, at(0.5), at(0.99))
    }
}

/// Runs a setup for `run_ns` after `warm_ns` that do not count.
pub fn simulate(setup: &Setup, warm_ns: f64, run_ns: f64) -> Outcome {
    let mut world = World::new(setup);
    world.run(warm_ns, run_ns);
    world.outcome()
}
