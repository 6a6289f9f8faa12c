//! The walker: one worker's loop over the stages it hosts.
//!
//! A turn takes in first what waits before the stages it hosts, downstream stages first, so that room is there before it is
//! needed: one batch of each input, return edges first. Then it polls, upstream first and what comes from outside the graph
//! last; again, a few times, who brings whole batches. So what came in with a turn is posted and sent in that turn, and is
//! back in it if its transport carries it out at once. What a stage puts on an inline port is run at once, after it has
//! returned: no recursion. Deliberately no queue of ready stages: a worker hosts few, and a word says which to look at.

use crate::agenda::{Agenda, Nodes, each, each_back};
use crate::bell::{Sleeper, Woken};
use crate::clock::{Nanos, thread_cpu_ns};
use crate::drain::Report;
use crate::engine::Shared;
use crate::fault::Fault;
use crate::instance::{Beat, Ran};
use crate::item::{BATCH, Item};
use crate::mark::Inside;
use crate::node::Node;
use crate::stage::{Arming, Polled};
use crate::stats::cell::WorkerCell;
use crate::stats::sched;
use crate::sync::{Arc, Ordering};
use crate::wait::{Pause, Slept, Waiting};

/// Most stages on one worker: one bit each.
pub(crate) const STAGES_MAX: usize = 64;

/// Inline inputs of a node are told apart by so many bits; those beyond share them.
pub(crate) const SLOTS: usize = 64;

/// Longest sleep of a worker that nothing comes to but by its bell.
const UNASKED_NS: Nanos = 1_000_000_000;

/// Most polls of one stage in a turn.
const POLLS: usize = 4;

/// One worker, before and while it runs.
pub(crate) struct Worker<T: Item> {
    pub name: String,
    pub cpu: Option<usize>,
    pub pool: usize,
    /// Upstream first.
    pub nodes: Vec<Node<T>>,
    pub agenda: Agenda,
    /// The node and input at which submissions come in, if they do here.
    pub entrance: Option<(usize, usize)>,
    pub beat: Beat,
    /// When the last turn began.
    pub looked_at: Nanos,
    pub waiting: Waiting,
    pub sleeper: Sleeper,
    pub cell: Arc<WorkerCell>,
    pub report: Arc<Report>,
    pub shared: Arc<Shared<T>>,
    pub condemned: bool,
}

impl<T: Item> Worker<T> {
    /// Works until the engine stops; then fails what it still has in its hands.
    pub(crate) fn run(mut self) {
        let _inside = Inside::enter();
        self.cell.thread.set(sched::this_thread());
        while !self.shared.stopping.load(Ordering::Acquire) {
            if self.turn() {
                if self.found() {
                    let from = self.beat.read();
                    std::thread::yield_now();
                    self.cell.yields.add(1);
                    self.waiting.gave(from, self.beat.read());
                }
                continue;
            }
            match self.waiting.next(self.beat.now) {
                Pause::Spin | Pause::Yield if self.agenda.is_unasked() => self.park(),
                Pause::Spin => {
                    self.cell.spins.add(1);
                    std::hint::spin_loop();
                }
                Pause::Yield => {
                    self.cell.yields.add(1);
                    std::thread::yield_now();
                }
                Pause::Park => self.park(),
            }
        }
        self.end();
    }

    /// The engine has stopped: fails what is still in hand, and lets the stages go.
    pub(crate) fn end(mut self) {
        let shared = self.shared.clone();
        for node in &mut self.nodes {
            node.sweep(&mut |item| shared.faults.mark(item, &Fault::Stopped, false));
        }
        self.nodes.iter_mut().for_each(|node| node.instance.condemn());
    }

    /// The last turn moved something. Answers as [`Waiting::found`] does.
    #[inline]
    pub(crate) fn found(&mut self) -> bool {
        self.waiting.found(self.looked_at, self.beat.now)
    }

    /// One look at everything. Answers whether anything moved.
    pub(crate) fn turn(&mut self) -> bool {
        let start = self.beat.read();
        self.looked_at = start;
        self.notice();
        let mut moved = false;
        for n in each_back(self.agenda.going_on()) {
            moved |= self.go_on(n);
        }
        for n in each_back(self.agenda.rings()) {
            moved |= self.take_in(n);
        }
        for n in each(self.agenda.polled()) {
            moved |= self.poll(n);
        }
        // Last: what was posted may have come back already.
        for n in each(self.agenda.polled_sources()) {
            moved |= self.poll(n);
        }
        for n in each(self.agenda.senders()) {
            let outlet = &mut self.nodes[n].instance.outlet;
            if outlet.waiting() > 0 {
                moved |= outlet.flush(self.beat.now, !moved);
            }
        }
        if self.beat.draining {
            moved = self.tell(moved);
        }
        self.cell.turns.add(1);
        if moved {
            let end = self.beat.read();
            self.cell.busy_ns.add(end - start);
        }
        moved
    }

    /// What other threads have asked for.
    #[inline]
    fn notice(&mut self) {
        self.beat.draining = self.shared.draining.load(Ordering::Acquire);
        if self.beat.draining && !self.condemned && self.shared.pools[self.pool].failed() {
            self.condemned = true;
            // Stages that run where they are reached are not the pool's: they still end items.
            for node in self.nodes.iter_mut().filter(|n| !n.instance.guest) {
                node.instance.condemn();
            }
        }
    }

    /// What a node could not pass on, or was left with, in an earlier turn.
    #[inline]
    fn go_on(&mut self, n: usize) -> bool {
        let mut moved = false;
        if self.nodes[n].instance.outlet.waiting() > 0 {
            moved |= self.nodes[n].instance.outlet.flush(self.beat.now, false);
        }
        if self.agenda.is_ready(n) && self.run_inline(n) {
            self.cascade(n);
            moved = true;
        }
        moved
    }

    /// A batch of each ring that a node reads.
    #[inline]
    fn take_in(&mut self, n: usize) -> bool {
        let mut moved = false;
        for input in 0..self.nodes[n].inputs.len() {
            if self.beat.draining {
                let from = &self.nodes[n].inputs[input];
                if from.pending.is_empty() && from.is_dry() {
                    // What comes now is popped at the next look, after it was told.
                    continue;
                }
                self.report.begin();
            }
            if let Some(ran) = self.nodes[n].run_input(input, &mut self.beat) {
                self.agenda.ran(n, ran.rests);
                if ran.moved {
                    self.cascade(n);
                    moved = true;
                }
            }
        }
        moved
    }

    /// A submission comes in without its ring, if nothing waits there. Whether it did; the turn that follows takes it on.
    pub(crate) fn accept(&mut self, item: T) -> bool {
        let closed = self.shared.draining.load(Ordering::Acquire);
        let Some((n, input)) = self.entrance.filter(|_| !closed) else { return false };
        self.nodes[n].hand(input, item)
    }

    /// Polls a node and runs what lies behind it; again while it brings whole batches, so that the price of a turn is
    /// shared by more of them.
    fn poll(&mut self, n: usize) -> bool {
        for round in 0..POLLS {
            let before = self.nodes[n].instance.outlet.pushes();
            let polled = self.nodes[n].instance.poll(&mut self.beat);
            self.agenda.note(n, polled == Polled::Resting, polled == Polled::Unasked);
            if polled != Polled::Busy {
                return round > 0;
            }
            self.cascade(n);
            if self.nodes[n].instance.outlet.pushes().wrapping_sub(before) < BATCH as u32 {
                break;
            }
        }
        true
    }

    /// Runs whatever lies behind `n`, which just moved something: nearest first, each neighbour once.
    #[inline]
    fn cascade(&mut self, n: usize) {
        let mut todo = self.fed_by(n);
        while todo != 0 {
            let k = todo.trailing_zeros() as usize;
            todo &= todo - 1;
            // Hops lead forward only, so every bit that is set here is above `k`: this ends.
            if self.run_inline(k) {
                todo |= self.fed_by(k);
            }
        }
    }

    /// The neighbours that have something new from `n`, as bits.
    #[inline]
    fn fed_by(&mut self, n: usize) -> Nodes {
        let touched = self.nodes[n].instance.outlet.take_touched();
        if touched == 0 {
            return 0;
        }
        let (mut fed, at) = (0, self.beat.boundary());
        // Hops lead forward only.
        let (before, behind) = self.nodes.split_at_mut(n + 1);
        for hop in &before[n].hops_out {
            if touched >> (hop.port % SLOTS) & 1 != 0 {
                fed |= 1 << hop.to;
                behind[hop.to - n - 1].feed(hop.slot, at);
            }
        }
        self.agenda.feed(fed);
        fed
    }

    /// Runs a node on each of its inline inputs that has something, once.
    #[inline]
    fn run_inline(&mut self, n: usize) -> bool {
        let (mut moved, mut rests) = (false, true);
        let (fed, inputs) = (std::mem::take(&mut self.nodes[n].fed), self.nodes[n].hops_in.len());
        for slot in each(fed) {
            // As a rule one.
            let mut i = slot;
            while i < inputs {
                if let Some(ran) = self.run_hop(n, i) {
                    moved |= ran.moved;
                    rests &= ran.rests;
                }
                i += SLOTS;
            }
        }
        self.agenda.ran(n, rests);
        if self.nodes[n].fed == 0 {
            self.agenda.done(n);
        }
        moved
    }

    /// Runs a node on one of its inline inputs, if there is something; what is left comes again.
    #[inline]
    fn run_hop(&mut self, n: usize, i: usize) -> Option<Ran> {
        let hop = self.nodes[n].hops_in[i];
        let (node, batch) = hop.split(&mut self.nodes);
        let before = batch.len();
        if before == 0 {
            return None;
        }
        let ran = node.instance.run(batch, Some(node.fed_at[i]), &mut self.beat);
        if !batch.is_empty() {
            node.leave(i, self.beat.now);
        }
        let taken = before.saturating_sub(batch.len()) as u64;
        let edge = self.nodes[hop.from].instance.outlet.cell(hop.port);
        edge.pushed.add(taken);
        edge.popped.add(taken);
        edge.batches.add(1);
        Some(ran)
    }

    /// While draining: lets stages flush, and publishes what is left once nothing moves.
    #[cold]
    fn tell(&mut self, mut moved: bool) -> bool {
        let mut all = 0;
        for n in 0..self.nodes.len() {
            let pending = self.nodes[n].pending();
            let (flushed, holds) = self.nodes[n].instance.drain(&mut self.beat);
            let held = pending + holds;
            moved |= flushed;
            self.nodes[n].instance.cell.left.set(held as u64);
            all += held;
            if flushed {
                self.fed_by(n);
            }
        }
        if !moved {
            self.report.idle(all);
        }
        moved
    }

    /// Announces a sleep, looks once more, and sleeps.
    fn park(&mut self) {
        let cpu = self.waiting.meters().then(thread_cpu_ns);
        self.sleeper.announce();
        if self.shared.stopping.load(Ordering::Acquire) || self.turn() {
            self.sleeper.stay();
            self.found();
            return;
        }
        for node in &mut self.nodes {
            node.instance.arm(&mut self.sleeper, &mut self.beat);
        }
        let slept: Nanos = self.beat.read();
        let limit = if self.agenda.is_unasked() { UNASKED_NS } else { self.waiting.park_ns() };
        self.cell.asleep.begin(slept);
        let woken = self.sleeper.sleep(slept, slept.saturating_add(limit));
        let (awake, timed) = (self.beat.read(), woken == Woken::Timed);
        let wake_ns = self.sleeper.rung_at().map(|at| awake.saturating_sub(at));
        let cpu_ns = cpu.map(|before| thread_cpu_ns() - before);
        self.cell.asleep.end(awake);
        // First what has come, then the books: after a sleep each line of them is a cache miss.
        let piled = self.look_after_sleep();
        self.waiting.woke(&Slept { from: slept, to: awake, wake_ns, cpu_ns, timed });
        self.cell.slept(timed);
        self.cell.refused_fds.set(self.sleeper.refused());
        if let Some(items) = piled {
            self.waiting.piled(items);
            self.found();
        }
    }

    /// A turn. If it moved something, it answers how many items had waited: as many as the busiest stage took.
    fn look_after_sleep(&mut self) -> Option<u64> {
        if self.shared.stopping.load(Ordering::Acquire) {
            return None;
        }
        let mut before = [0; STAGES_MAX];
        for (before, node) in before.iter_mut().zip(&self.nodes) {
            *before = node.instance.cell.items.get();
        }
        if !self.turn() {
            return None;
        }
        self.nodes.iter().zip(before).map(|(node, before)| node.instance.cell.items.get() - before).max()
    }

    /// Lets the stages name what to wait for, on behalf of whoever sleeps for this worker.
    pub(crate) fn arm(&mut self, on: &mut dyn Arming) {
        for node in &mut self.nodes {
            node.instance.arm(on, &mut self.beat);
        }
    }

    /// Sends on what stages have put out for other workers, full batch or not. Answers whether anything moved.
    pub(crate) fn send_staged(&mut self) -> bool {
        let mut moved = false;
        for n in each(self.agenda.senders()) {
            let outlet = &mut self.nodes[n].instance.outlet;
            moved |= outlet.waiting() > 0 && outlet.flush(self.beat.now, true);
        }
        moved
    }
}
