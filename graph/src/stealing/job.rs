//! One batch on its way through a stage on a thread of a crew: its own instance, its own outlet, and what came of it.
//! Deliberately without wires: what the stage pushes is kept until the worker that gave the job passes it on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::clock::{Nanos, thread_now};
use crate::item::{Batch, Item};
use crate::outlet::{Outlet, Passed};
use crate::stage::{Context, Stage};
use crate::stats::cell::{StageCell, WorkerCell};
use crate::stealing::crew::count_job;
use crate::sync::Arc;

/// See the head of the file.
pub(crate) struct Job<T: Item> {
    /// `None`: it has panicked, and is not built anew yet.
    pub stage: Option<Box<dyn Stage<T>>>,
    pub input: Batch<T>,
    pub outlet: Outlet<T>,
    /// What the stage had in hand when it panicked.
    pub lost: Batch<T>,
    pub draining: bool,
    /// Items that were given.
    pub given: usize,
    /// When they were.
    pub given_at: Nanos,
}

/// Cells that the threads of a crew write about one stage and about themselves, by their index.
#[derive(Clone)]
pub(crate) struct Bench {
    pub stages: Arc<[Arc<StageCell>]>,
    pub workers: Arc<[Arc<WorkerCell>]>,
    /// Whether times are measured for their own sake.
    pub timed: bool,
}

impl<T: Item> Job<T> {
    pub(crate) fn new(stage: Box<dyn Stage<T>>, ports: usize) -> Self {
        let (input, lost) = (Batch::new(), Batch::new());
        Self {
            stage: Some(stage),
            input,
            outlet: Outlet::detached(ports),
            lost,
            draining: false,
            given: 0,
            given_at: 0,
        }
    }

    /// Runs the stage, once. On a thread of the crew.
    pub(crate) fn run(&mut self, bench: &Bench) {
        let Some(stage) = &mut self.stage else { return };
        let began = thread_now();
        let (before, pushes, mark) = (self.input.len(), self.outlet.pushes(), self.input.mark());
        let mut cx = Context { now: began, draining: self.draining };
        let ran = catch_unwind(AssertUnwindSafe(|| stage.run(&mut self.input, &mut self.outlet, &mut cx)));
        let taken = before - self.input.len().min(before);
        let moved = taken > 0 || self.outlet.pushes() != pushes;
        if ran.is_err() || !moved {
            // One that has all the room there is, and takes nothing, never will.
            self.fail(mark, pushes);
        }
        let took_ns = if bench.timed { thread_now() - began } else { 0 };
        if let Some(cell) = rayon_core::current_thread_index().and_then(|at| bench.stages.get(at)) {
            cell.items.add(taken as u64);
            cell.batches.add(1);
            if bench.timed {
                cell.busy_ns.add(took_ns);
                cell.service.record(took_ns, 1);
                cell.held.record(began.saturating_sub(self.given_at), taken as u64);
            }
        }
        count_job(&bench.workers, took_ns);
    }

    /// What is neither passed on nor kept is lost, and so is the instance.
    #[cold]
    fn fail(&mut self, mark: crate::item::Mark, pushes: u32) {
        let stage = self.stage.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(stage)));
        let passed = |item: &T| self.outlet.passed(*item, pushes) != Passed::No;
        let popped = self.input.popped_since(mark).filter(|item| !passed(item));
        for item in popped.chain(self.input.iter().filter(|item| !passed(item))) {
            // Both together were one batch.
            let _ = self.lost.push(item);
        }
        self.input.clear();
    }

    /// Takes out everything that is in it.
    pub(crate) fn sweep(&mut self, each: &mut dyn FnMut(T)) {
        for batch in [&mut self.input, &mut self.lost] {
            std::iter::from_fn(|| batch.pop()).for_each(&mut *each);
        }
        self.outlet.sweep(each);
    }
}
