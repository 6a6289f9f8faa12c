//! One stage instance with its outlet and its counters: how it is run, polled and measured, and what happens
//! when it panics. Deliberately without inputs and order: a batch is handed in, the walker decides when.
//!
//! A panic fails what the stage had in its hands: of the batch it was run on, all that it neither passed on nor
//! kept. What it kept inside is its own to end, when it is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::clock::{Clock, Nanos};
use crate::fault::{Fault, Faults};
use crate::item::{Batch, Item, Mark};
use crate::outlet::{Outlet, Passed};
use crate::stage::{Arming, Context, Drained, Flow, Polled, Seat, Spec, Stage};
use crate::stats::cell::StageCell;
use crate::sync::Arc;

/// Batches below this are timed one in [`SAMPLE`]: two clock reads cost as much as they do.
const SMALL: usize = 4;
const SAMPLE: u32 = 16;

/// The time at the last stage boundary, shared by the stages on both sides of it.
pub(crate) struct Beat {
    clock: Clock,
    pub now: Nanos,
    /// Something ran since `now` was read.
    stale: bool,
    pub draining: bool,
    /// Whether times are measured for their own sake.
    pub timed: bool,
}

impl Beat {
    pub(crate) fn new(clock: Clock, timed: bool) -> Self {
        let now = clock.now();
        Self { clock, now, stale: false, draining: false, timed }
    }

    /// The time at this stage boundary; [`Nanos::MAX`] if nobody has read the clock at it: whoever does, does so for both of
    /// its sides.
    #[inline]
    pub(crate) fn boundary(&self) -> Nanos {
        if self.stale { Nanos::MAX } else { self.now }
    }

    #[inline]
    pub(crate) fn read(&mut self) -> Nanos {
        self.now = self.clock.now();
        self.stale = false;
        self.now
    }

    #[inline]
    fn start(&mut self) -> Nanos {
        if self.stale { self.read() } else { self.now }
    }
}

/// What came of a run.
#[derive(Clone, Copy)]
pub(crate) struct Ran {
    /// Anything moved.
    pub moved: bool,
    /// The stage holds nothing, and need not be polled until it is run again.
    pub rests: bool,
}

/// What is told to the engine about panics; answers whether the pool has had too many.
pub(crate) trait Alarm: Send + Sync {
    fn panicked(&self, seat: &Seat, now: Nanos) -> bool;

    /// Whether the pool of a seat has had too many.
    fn has_failed(&self, seat: &Seat) -> bool;
}

/// See the head of the file.
pub(crate) struct Instance<T: Item> {
    /// `None`: it panicked too often, or could not be rebuilt. Its items fail from then on.
    pub stage: Option<Box<dyn Stage<T>>>,
    pub outlet: Outlet<T>,
    pub spec: Arc<dyn Spec<T>>,
    pub seat: Seat,
    pub cell: Arc<StageCell>,
    pub faults: Arc<dyn Faults<T>>,
    pub alarm: Arc<dyn Alarm>,
    /// What a panic left over and the `failed` port had no room for yet; already marked.
    pub orphans: Batch<T>,
    pub small: u32,
    /// The last poll that brought something brought no small batch.
    pub large: bool,
    pub blocked_at: Option<Nanos>,
    /// As [`Beat::timed`].
    pub timed: bool,
    /// Has no pool of its own: it outlives the failure of its host's.
    pub guest: bool,
}

impl<T: Item> Instance<T> {
    /// Runs on a batch; what is left in it comes again. `fed_at`: since when it was there, unless its wait is known already.
    #[inline]
    pub(crate) fn run(&mut self, batch: &mut Batch<T>, fed_at: Option<Nanos>, beat: &mut Beat) -> Ran {
        let Some(stage) = self.stage.as_mut().filter(|_| self.orphans.is_empty()) else {
            return Ran { moved: self.bury(batch), rests: false };
        };
        let (before, pushes, mark) = (batch.len(), self.outlet.pushes(), batch.mark());
        let weight = if !self.timed {
            0
        } else if before >= SMALL {
            1
        } else {
            self.small = self.small.wrapping_add(1);
            if self.small.is_multiple_of(SAMPLE) { u64::from(SAMPLE) } else { 0 }
        };
        let start = if weight > 0 { beat.start() } else { beat.now };
        self.outlet.now = beat.now;
        let mut cx = Context { now: beat.now, draining: beat.draining };
        let ran = catch_unwind(AssertUnwindSafe(|| stage.run(batch, &mut self.outlet, &mut cx)));
        beat.stale = true;
        let taken = (before - batch.len().min(before)) as u64;
        if weight > 0 {
            let service = beat.read() - start;
            self.cell.service.record(service, weight);
            self.cell.busy_ns.add(service * weight);
            if let Some(fed_at) = fed_at
                && taken > 0
            {
                self.cell.wait.record(start.saturating_sub(fed_at), weight * taken);
            }
        }
        self.cell.batches.add(1);
        self.cell.items.add(taken);
        let Ok(flow) = ran else {
            self.panicked(batch, mark, pushes, beat);
            return Ran { moved: true, rests: false };
        };
        let moved = batch.len() != before || self.outlet.pushes() != pushes;
        self.account(moved, beat.now);
        Ran { moved, rests: flow == Flow::Rests }
    }

    /// Polls. What it brings is timed as batches are: small ones one in [`SAMPLE`]. A stage without ports (one that serves
    /// peers) tells by nothing how much it did, so all of what it does is.
    pub(crate) fn poll(&mut self, beat: &mut Beat) -> Polled {
        let pushes = self.outlet.pushes();
        if !self.orphans.is_empty() {
            self.bury(&mut Batch::new());
        }
        let Some(stage) = self.stage.as_mut() else {
            return if self.outlet.pushes() == pushes { Polled::Idle } else { Polled::Busy };
        };
        let sampled = self.small.wrapping_add(1).is_multiple_of(SAMPLE);
        let timed = self.timed && (self.large || sampled || self.outlet.is_end());
        let start = if timed { beat.start() } else { beat.now };
        self.outlet.now = beat.now;
        let mut cx = Context { now: beat.now, draining: beat.draining };
        let polled = catch_unwind(AssertUnwindSafe(|| stage.poll(&mut self.outlet, &mut cx)));
        beat.stale = true;
        self.cell.polls.add(1);
        let Ok(polled) = polled else {
            self.panicked_idle(beat);
            return Polled::Busy;
        };
        let brought = self.outlet.pushes().wrapping_sub(pushes) as usize;
        if polled != Polled::Busy && brought == 0 {
            // What waits for room to fail is for the next poll.
            return if self.orphans.is_empty() { polled } else { Polled::Idle };
        }
        self.cell.busy_polls.add(1);
        self.large = brought >= SMALL;
        let weight = match self.large || self.outlet.is_end() {
            _ if !self.timed => 0,
            true => 1,
            false => {
                self.small = self.small.wrapping_add(1);
                if sampled { u64::from(SAMPLE) } else { 0 }
            }
        };
        if weight > 0 {
            let service = beat.read() - start;
            self.cell.service.record(service, weight);
            self.cell.busy_ns.add(service * weight);
        }
        Polled::Busy
    }

    /// Lets the stage flush, and asks what it still holds, its outlet included. Answers too whether it
    /// pushed.
    pub(crate) fn drain(&mut self, beat: &mut Beat) -> (bool, usize) {
        let pushes = self.outlet.pushes();
        let mut held = self.orphans.len() + self.outlet.waiting();
        if let Some(stage) = self.stage.as_mut() {
            self.outlet.now = beat.now;
            let mut cx = Context { now: beat.now, draining: true };
            match catch_unwind(AssertUnwindSafe(|| stage.drain(&mut self.outlet, &mut cx))) {
                Ok(Drained::Empty) => {}
                Ok(Drained::Holds(n)) => held += n,
                Err(_) => self.panicked_idle(beat),
            }
        }
        (self.outlet.pushes() != pushes, held)
    }

    /// Lets the stage name what a sleep must wait for.
    pub(crate) fn arm(&mut self, on: &mut dyn Arming, beat: &mut Beat) {
        let Some(stage) = self.stage.as_mut() else { return };
        if catch_unwind(AssertUnwindSafe(|| stage.arm(on))).is_err() {
            on.busy();
            self.panicked_idle(beat);
        }
    }

    /// Ends the instance for good: its pool has failed.
    pub(crate) fn condemn(&mut self) {
        let stage = self.stage.take();
        // What its drop does is as untrusted as what its run did.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(stage)));
    }

    /// Takes out what is in its outlet.
    pub(crate) fn sweep(&mut self, each: &mut dyn FnMut(T)) {
        std::iter::from_fn(|| self.orphans.pop()).for_each(&mut *each);
        self.outlet.sweep(each);
    }

    #[inline]
    fn account(&mut self, moved: bool, now: Nanos) {
        if let Some(since) = self.blocked_at {
            self.cell.blocked_ns.add(now.saturating_sub(since));
            self.blocked_at = None;
        }
        if !moved {
            self.blocked_at = Some(now);
        }
        let strays = self.outlet.take_strays();
        if strays > 0 {
            self.cell.strays.add(strays);
        }
    }

    /// As [`Self::panicked`], without a batch in hand.
    #[cold]
    fn panicked_idle(&mut self, beat: &mut Beat) {
        self.panicked(&mut Batch::new(), Mark::default(), self.outlet.pushes(), beat);
    }

    /// What the stage had in hand fails; the instance is built anew, unless there have been too many. `mark` and
    /// `pushes` are from before the run.
    #[cold]
    fn panicked(&mut self, batch: &mut Batch<T>, mark: Mark, pushes: u32, beat: &mut Beat) {
        self.cell.panics.add(1);
        let name = self.seat.stage.clone();
        tracing::error!(stage = &*name, worker = self.seat.worker, "a stage panicked");
        self.condemn();
        if self.alarm.panicked(&self.seat, beat.read()) {
            tracing::error!(stage = &*name, pool = &*self.seat.pool, "too many panics: the pool has failed");
        } else {
            let built = catch_unwind(AssertUnwindSafe(|| self.spec.build(&self.seat)));
            match built {
                Ok(Ok(stage)) => self.stage = Some(stage),
                Ok(Err(error)) => tracing::error!(%error, "a stage that panicked could not be rebuilt"),
                Err(_) => tracing::error!(stage = &*name, "a stage panicked while it was rebuilt"),
            }
        }
        let mut lost = self.in_hand(batch, mark, pushes);
        batch.clear();
        self.orphan(&mut lost);
    }

    /// Of the batch at `mark`, what was not passed on. What the stage kept has ended by now, and is stale to the
    /// items' owner.
    fn in_hand(&self, batch: &Batch<T>, mark: Mark, pushes: u32) -> Batch<T> {
        let mut lost = Batch::new();
        let popped = batch.popped_since(mark).filter(|i| self.outlet.passed(*i, pushes) == Passed::No);
        // An item that is passed on before it is popped is in doubt for a moment only: its push is the last one.
        let left = batch.iter().filter(|i| self.outlet.passed(*i, pushes) != Passed::Yes);
        for item in popped.chain(left) {
            // Both together were one batch.
            let _ = lost.push(item);
        }
        lost
    }

    /// In place of a run: sends what earlier panics left over; a dead stage's new input follows it.
    #[cold]
    fn bury(&mut self, batch: &mut Batch<T>) -> bool {
        let moved = self.send_orphans();
        if self.stage.is_some() || !self.orphans.is_empty() || batch.is_empty() {
            return moved;
        }
        self.orphan(batch);
        true
    }

    /// Marks a batch that will not be run, and sends it to `failed` as far as there is room; the rest waits
    /// among the orphans, which are empty before: nothing is run while there are any.
    fn orphan(&mut self, batch: &mut Batch<T>) {
        let fault = Fault::Panic { stage: self.seat.stage.clone() };
        let travels = self.outlet.failed().is_some();
        while let Some(item) = batch.pop() {
            self.faults.mark(item, &fault, travels);
            if travels && self.orphans.push(item).is_err() {
                break; // A batch fits into an empty batch.
            }
        }
        self.send_orphans();
    }

    fn send_orphans(&mut self) -> bool {
        let Some(failed) = self.outlet.failed() else { return false };
        let mut moved = false;
        while let Some(item) = self.orphans.peek() {
            if self.outlet.push(failed, item).is_err() {
                break;
            }
            self.orphans.pop();
            moved = true;
        }
        moved
    }
}
