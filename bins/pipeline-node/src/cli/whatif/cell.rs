//! What one cell on the real path came to: throughput, latency, and what the kernel and the engine say of it. Deliberately plain data
//! with neither engine nor clock: a calibration is fitted from it, and a prediction is held against it.

use std::collections::BTreeMap;

use pipeline_graph::Snapshot;

/// Equally likely services that a stage's histogram is told by.
const PARTS: usize = 20;
/// Fewer services make no distribution.
const ENOUGH: u64 = 100;

/// What others may use of all CPUs meanwhile; its figures are theirs otherwise.
const OTHERS_MOST: f64 = 0.05;

/// See the file's head.
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
    /// CPU time of each thread of the engine, by name.
    pub threads: BTreeMap<String, f64>,
    /// What the engine says of its stages.
    pub stages: Vec<Stage>,
    /// And of its workers.
    pub workers: Vec<Worker>,
}

/// A stage over all of its workers.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Runs and polls that did something.
    pub calls: f64,
    /// Items that it took.
    pub items: f64,
    /// Time within it.
    pub busy_ns: f64,
    /// Equally likely services, in the order of their length, nanoseconds; empty where there were few.
    pub services_ns: Vec<f64>,
}

/// A worker.
#[derive(Clone, Debug, Default)]
pub struct Worker {
    /// As its thread is called.
    pub name: String,
    /// Turns in which it did something.
    pub turns: f64,
    /// Sleeps.
    pub parks: f64,
}

impl Cell {
    /// Takes in what an engine counted meanwhile.
    pub fn count(&mut self, seen: &Snapshot) {
        self.stages = seen
            .stages
            .iter()
            .map(|stage| Stage {
                name: stage.name.clone(),
                kind: stage.kind.clone(),
                calls: (stage.batches + stage.busy_polls) as f64,
                items: stage.items as f64,
                busy_ns: stage.busy_ns as f64,
                services_ns: match stage.service.count() >= ENOUGH {
                    true => (0..PARTS)
                        .map(|i| stage.service.quantile((i as f64 + 0.5) / PARTS as f64) as f64)
                        .collect(),
                    false => Vec::new(),
                },
            })
            .collect();
        let worker = |worker: &pipeline_graph::WorkerStats| Worker {
            name: worker.name.clone(),
            turns: worker.turns as f64,
            parks: worker.parks as f64,
        };
        self.workers = seen.workers.iter().map(worker).collect();
    }

    /// Whether it had so many CPUs to itself.
    pub fn is_alone(&self, cores: f64) -> bool {
        let elapsed_ns = self.bytes / self.gb_per_s.max(1e-9);
        self.others_ns <= OTHERS_MOST * cores * elapsed_ns
    }

    /// A stage by its name.
    pub fn stage(&self, name: &str) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.name == name)
    }

    /// Slices that have ended.
    pub fn slices(&self) -> f64 {
        let ends = self.stages.iter().filter(|stage| stage.kind == "completion_notify");
        ends.map(|stage| stage.items).sum()
    }

    /// CPU time of workers that had something to do.
    pub fn worked_ns(&self) -> f64 {
        let busy = self.workers.iter().filter(|worker| worker.turns > 0.0);
        busy.filter_map(|worker| self.threads.get(&worker.name)).sum()
    }

    /// CPU time of both ends, seconds for 10⁹ bytes.
    pub fn cpu_s_per_gb(&self) -> f64 {
        (self.threads.values().sum::<f64>() + self.target_ns) / self.bytes.max(1.0)
    }
}

/// Those that had so many CPUs to themselves; all of them, if none had.
pub fn alone<'a>(cells: impl Iterator<Item = &'a Cell>, cores: f64) -> Vec<&'a Cell> {
    let all: Vec<&Cell> = cells.collect();
    let alone: Vec<&Cell> = all.iter().copied().filter(|cell| cell.is_alone(cores)).collect();
    if alone.is_empty() { all } else { alone }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell beside which others have used more than a twentieth of the CPUs does not count, unless all are like that.
    #[test]
    fn cells_that_count() {
        let cell = |others_ns| Cell { gb_per_s: 2.0, bytes: 1e9, others_ns, ..Cell::default() };
        // Half a second on two CPUs.
        let (calm, busy) = (cell(4e7), cell(6e7));
        assert!(calm.is_alone(2.0) && !busy.is_alone(2.0));
        assert_eq!(alone([&calm, &busy, &calm].into_iter(), 2.0).len(), 2);
        assert_eq!(alone([&busy, &busy].into_iter(), 2.0).len(), 2);
    }
}
