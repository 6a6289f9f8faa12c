//! A stage of a `stealing` pool as the worker that reaches it has it: a stage like any other, which gives away each batch
//! as a job and passes on what has come back, oldest first.
//!
//! What it holds is bounded by its places: with a job in each, its input waits, and so does whoever feeds it. A job is
//! done with when all that it pushed is passed on; one that had not enough room goes again before those behind it. So
//! order is kept, from each of its inputs to each of its ports, as if the stage ran here.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::crew::Crew;
use super::job::{Bench, Job};
use super::landing::Landing;
use crate::clock::now;
use crate::fault::{Fault, Faults};
use crate::instance::Alarm;
use crate::item::{Batch, Item};
use crate::outlet::Outlet;
use crate::stage::{BuildError, Context, Drained, Flow, Polled, PortId, Seat, Spec, Stage};
use crate::stats::cell::StageCell;
use crate::sync::Arc;

/// Jobs that one worker may have given for each thread of the crew: one that is carried out, and one that is next.
const JOBS_PER_THREAD: usize = 2;

/// What a farm is made of.
pub(crate) struct Ground<T: Item> {
    pub crew: Arc<Crew>,
    pub bench: Bench,
    pub spec: Arc<dyn Spec<T>>,
    /// Its pool is the one that steals, whoever hosts the farm.
    pub seat: Seat,
    pub faults: Arc<dyn Faults<T>>,
    pub alarm: Arc<dyn Alarm>,
    /// Of the worker that hosts it.
    pub cell: Arc<StageCell>,
    /// The port `failed`, if it is wired.
    pub failed: Option<PortId>,
}

/// See the head of the file.
pub(crate) struct Farm<T: Item> {
    ground: Ground<T>,
    landing: Arc<Landing<Job<T>>>,
    idle: Vec<Box<Job<T>>>,
    /// Place of the oldest job that was given, and how many were.
    oldest: usize,
    given: usize,
    /// The oldest, once it has landed.
    landed: Option<Box<Job<T>>>,
    /// Marked as failed, and waiting for room on the port `failed`.
    orphans: Batch<T>,
    /// Items in jobs.
    held: usize,
    /// No instance is left, or the pool has failed: what comes fails.
    dead: bool,
}

impl<T: Item> Farm<T> {
    /// Builds an instance for each job that it may give.
    pub(crate) fn new(ground: Ground<T>) -> Result<Self, BuildError> {
        let jobs = ground.crew.threads().max(1) * JOBS_PER_THREAD;
        let ports = ground.spec.ports().len();
        let job = |_| Ok(Box::new(Job::new(ground.spec.build(&ground.seat)?, ports)));
        let idle = (0..jobs).map(job).collect::<Result<Vec<_>, BuildError>>()?;
        let landing = Arc::new(Landing::new(jobs, ground.seat.waker.clone()));
        let (landed, orphans) = (None, Batch::new());
        Ok(Self { ground, landing, idle, oldest: 0, given: 0, landed, orphans, held: 0, dead: false })
    }

    /// Gives a job from a place.
    fn give(&self, at: usize, mut job: Box<Job<T>>) {
        let (landing, bench) = (self.landing.clone(), self.ground.bench.clone());
        self.ground.crew.give(move || {
            if !landing.is_recalled() {
                job.run(&bench);
            }
            landing.land(at, job);
        });
    }

    /// Passes on what has come back, as far as there is room. Whether anything moved.
    fn deliver(&mut self, out: &mut Outlet<T>) -> bool {
        let mut moved = false;
        loop {
            moved |= self.bury(out);
            if !self.orphans.is_empty() {
                return moved;
            }
            if self.landed.is_none() && self.given > 0 {
                self.landed = self.landing.take(self.oldest);
                if self.landed.is_some() {
                    moved = true;
                    self.account();
                    continue;
                }
            }
            let Some(mut job) = self.landed.take() else { return moved };
            let pushes = out.pushes();
            let is_done = pass_on(&mut job, out);
            moved |= out.pushes() != pushes;
            if !is_done {
                self.landed = Some(job);
                return moved;
            }
            self.finish(job);
            moved = true;
        }
    }

    /// All that a job pushed is passed on: it goes again with what it left, or makes room for the next.
    fn finish(&mut self, job: Box<Job<T>>) {
        if !job.input.is_empty() {
            return self.give(self.oldest, job);
        }
        self.held -= job.given;
        self.oldest = (self.oldest + 1) % self.landing.jobs();
        self.given -= 1;
        if !self.dead && job.stage.is_some() {
            self.idle.push(job);
        }
    }

    /// Looks whether the job that has landed panicked: what it lost fails, and its instance is built anew.
    fn account(&mut self) {
        let Some(job) = self.landed.as_mut().filter(|job| job.stage.is_none()) else { return };
        let mut lost = std::mem::take(&mut job.lost);
        let seat = &self.ground.seat;
        self.ground.cell.panics.add(1);
        tracing::error!(stage = &*seat.stage, pool = &*seat.pool, "a stage panicked in a job");
        if self.ground.alarm.panicked(seat, now()) {
            tracing::error!(stage = &*seat.stage, pool = &*seat.pool, "too many panics: the pool has failed");
            self.dead = true;
            self.idle.clear();
        } else {
            match catch_unwind(AssertUnwindSafe(|| self.ground.spec.build(seat))) {
                Ok(Ok(stage)) => job.stage = Some(stage),
                Ok(Err(error)) => tracing::error!(%error, "a stage that panicked could not be rebuilt"),
                Err(_) => tracing::error!(stage = &*seat.stage, "a stage panicked while it was rebuilt"),
            }
            self.dead |= job.stage.is_none() && self.idle.is_empty() && self.given == 1;
        }
        self.orphan(&mut lost);
    }

    /// Marks a batch as failed; there are no orphans.
    fn orphan(&mut self, batch: &mut Batch<T>) {
        let fault = Fault::Panic { stage: self.ground.seat.stage.clone() };
        let travels = self.ground.failed.is_some();
        while let Some(item) = batch.pop() {
            self.ground.faults.mark(item, &fault, travels);
            if travels && self.orphans.push(item).is_err() {
                break; // A batch fits into an empty batch.
            }
        }
    }

    /// Sends orphans on while there is room. Whether any went.
    fn bury(&mut self, out: &mut Outlet<T>) -> bool {
        let (Some(failed), before) = (self.ground.failed, self.orphans.len()) else { return false };
        while let Some(item) = self.orphans.peek() {
            if out.push(failed, item).is_err() {
                break;
            }
            self.orphans.pop();
        }
        self.orphans.len() != before
    }

    fn is_empty(&self) -> bool {
        self.given == 0 && self.orphans.is_empty()
    }
}

/// Passes on what a job has pushed, port by port. Whether that was all.
fn pass_on<T: Item>(job: &mut Job<T>, out: &mut Outlet<T>) -> bool {
    let mut all = true;
    for port in 0..job.outlet.ports() {
        let batch = job.outlet.inline(port);
        while let Some(item) = batch.peek() {
            if out.push(PortId(port as u16), item).is_err() {
                all = false;
                break;
            }
            batch.pop();
        }
    }
    all
}

impl<T: Item> Stage<T> for Farm<T> {
    fn run(&mut self, input: &mut Batch<T>, out: &mut Outlet<T>, cx: &mut Context) -> Flow {
        self.deliver(out);
        if cx.draining && !self.dead && self.ground.alarm.has_failed(&self.ground.seat) {
            self.dead = true;
            self.idle.clear();
        }
        if self.dead {
            if !self.orphans.is_empty() {
                return Flow::More;
            }
            self.orphan(input);
            self.bury(out);
            return if self.is_empty() { Flow::Rests } else { Flow::Done };
        }
        let Some(mut job) = self.idle.pop() else { return Flow::More };
        job.input = std::mem::take(input);
        (job.given, job.given_at, job.draining) = (job.input.len(), cx.now, cx.draining);
        self.held += job.given;
        self.give((self.oldest + self.given) % self.landing.jobs(), job);
        self.given += 1;
        Flow::Done
    }

    fn poll(&mut self, out: &mut Outlet<T>, _: &mut Context) -> Polled {
        if self.deliver(out) {
            return Polled::Busy;
        }
        match self.is_empty() {
            true => Polled::Resting,
            // What waits for room is rung for by who makes it; a job rings when it lands.
            false => Polled::Unasked,
        }
    }

    fn drain(&mut self, out: &mut Outlet<T>, _: &mut Context) -> Drained {
        self.deliver(out);
        match self.held + self.orphans.len() {
            0 if self.given == 0 => Drained::Empty,
            held => Drained::Holds(held.max(1)),
        }
    }
}

/// The worker ends: jobs that have begun are waited for, and what is in all of them fails.
impl<T: Item> Drop for Farm<T> {
    fn drop(&mut self) {
        self.landing.recall();
        let faults = self.ground.faults.clone();
        let mut fail = |item| faults.mark(item, &Fault::Stopped, false);
        std::iter::from_fn(|| self.orphans.pop()).for_each(&mut fail);
        if let Some(mut job) = self.landed.take() {
            job.sweep(&mut fail);
            (self.oldest, self.given) = ((self.oldest + 1) % self.landing.jobs(), self.given - 1);
        }
        for at in 0..self.given {
            self.landing.wait((self.oldest + at) % self.landing.jobs()).sweep(&mut fail);
        }
    }
}
