//! The walker: one worker's loop over the stages it hosts.
//!
//! Downstream stages come first, so that room is there before it is needed; each gets one batch of each
//! input a visit, return edges first, and a few polls if they bring whole batches. What a stage puts on an inline port is run at once, after it has
//! returned: no recursion. Deliberately no queue of ready stages: a worker hosts few, and looks at all.

use crate::bell::{Sleeper, Woken};
use crate::clock::{Nanos, thread_cpu_ns};
use crate::drain::Report;
use crate::engine::Shared;
use crate::fault::Fault;
use crate::instance::Beat;
use crate::item::{BATCH, Item};
use crate::mark::Inside;
use crate::node::Node;
use crate::stage::Arming;
use crate::stats::cell::WorkerCell;
use crate::sync::{Arc, Ordering};
use crate::wait::{Pause, Slept, Waiting};

/// Most stages on one worker: one bit each.
pub(crate) const STAGES_MAX: usize = 64;

/// Most polls of one stage in a turn.
const POLLS: usize = 4;

/// One worker, before and while it runs.
pub(crate) struct Worker<T: Item> {
    pub name: String,
    pub cpu: Option<usize>,
    pub pool: usize,
    /// Upstream first.
    pub nodes: Vec<Node<T>>,
    /// Nodes that have something before them on an inline port.
    pub ready: u64,
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
        for n in (0..self.nodes.len()).rev() {
            moved |= self.visit(n);
        }
        for node in &mut self.nodes {
            if node.instance.outlet.waiting() > 0 {
                moved |= node.instance.outlet.flush(!moved);
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

    fn visit(&mut self, n: usize) -> bool {
        let mut moved = false;
        if self.nodes[n].instance.outlet.waiting() > 0 {
            moved |= self.nodes[n].instance.outlet.flush(false);
        }
        if self.ready & (1 << n) != 0 && self.run_inline(n) {
            self.cascade(n);
            moved = true;
        }
        for input in 0..self.nodes[n].inputs.len() {
            if self.beat.draining {
                let from = &self.nodes[n].inputs[input];
                if from.pending.is_empty() && from.is_dry() {
                    // What comes now is popped at the next look, after it was told.
                    continue;
                }
                self.report.begin();
            }
            if self.nodes[n].run_input(input, &mut self.beat) {
                self.cascade(n);
                moved = true;
            }
        }
        if self.nodes[n].polls {
            moved |= self.poll(n);
        }
        moved
    }

    /// Polls a node and runs what lies behind it; again while it brings whole batches, so that the price of a turn is
    /// shared by more of them.
    fn poll(&mut self, n: usize) -> bool {
        for round in 0..POLLS {
            let before = self.nodes[n].instance.outlet.pushes();
            if !self.nodes[n].instance.poll(&mut self.beat) {
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

    /// The neighbours that have something from `n`, as bits.
    #[inline]
    fn fed_by(&mut self, n: usize) -> u64 {
        let mut fed = 0;
        let node = &mut self.nodes[n];
        for hop in &node.hops_out {
            if !node.instance.outlet.inline(hop.port).is_empty() {
                fed |= 1 << hop.to;
            }
        }
        self.ready |= fed;
        fed
    }

    /// Runs a node on each of its inline inputs once.
    #[inline]
    fn run_inline(&mut self, n: usize) -> bool {
        let (mut moved, mut left) = (false, false);
        for i in 0..self.nodes[n].hops_in.len() {
            let hop = self.nodes[n].hops_in[i];
            let (node, batch) = hop.split(&mut self.nodes);
            if batch.is_empty() {
                continue;
            }
            let before = batch.len();
            moved |= node.instance.run(batch, &mut self.beat);
            left |= !batch.is_empty();
            let taken = before.saturating_sub(batch.len()) as u64;
            let edge = self.nodes[hop.from].instance.outlet.cell(hop.port);
            edge.pushed.add(taken);
            edge.popped.add(taken);
            edge.batches.add(1);
        }
        if !left {
            self.ready &= !(1 << n);
        }
        moved
    }

    /// While draining: lets stages flush, and publishes what is left once nothing moves.
    #[cold]
    fn tell(&mut self, mut moved: bool) -> bool {
        let beat = &mut self.beat;
        let mut all = 0;
        for n in 0..self.nodes.len() {
            let pending = self.nodes[n].pending();
            let (flushed, holds) = self.nodes[n].instance.drain(beat);
            let held = pending + holds;
            moved |= flushed;
            self.nodes[n].instance.cell.held.set(held as u64);
            all += held;
            if flushed {
                self.ready |= self.nodes[n].hops_out.iter().fold(0, |bits, hop| bits | 1 << hop.to);
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
        let woken = self.sleeper.sleep(slept, slept.saturating_add(self.waiting.park_ns()));
        let (awake, timed) = (self.beat.read(), woken == Woken::Timed);
        let wake_ns = self.sleeper.rung_at().map(|at| awake.saturating_sub(at));
        let cpu_ns = cpu.map(|before| thread_cpu_ns() - before);
        // First what has come, then the books: after a sleep each line of them is a cache miss.
        let piled = self.look_after_sleep();
        self.waiting.woke(&Slept { from: slept, to: awake, wake_ns, cpu_ns, timed });
        self.cell.parked(awake - slept, timed);
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
        let outlets = self.nodes.iter_mut().map(|node| &mut node.instance.outlet);
        outlets.filter(|outlet| outlet.waiting() > 0).fold(false, |moved, outlet| outlet.flush(true) | moved)
    }
}
