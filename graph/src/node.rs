//! A stage instance in its place on a worker: the rings it reads, and its neighbours on inline edges.
//! Deliberately without any order: the walker ([`crate::worker`]) decides who runs when.

use crate::clock::Nanos;
use crate::edge::back::Back;
use crate::edge::inline::{HasOutlet, Hop};
use crate::edge::queue::{Parcel, Ring};
use crate::inlet::Gate;
use crate::instance::{Beat, Instance, Ran};
use crate::item::{BATCH, Batch, Item};
use crate::outlet::Outlet;
use crate::stats::cell::{EdgeCell, StageCell};
use crate::sync::Arc;
use crate::worker::SLOTS;

/// See the head of the file.
#[repr(align(128))]
pub(crate) struct Node<T: Item> {
    pub instance: Instance<T>,
    /// Return rings first.
    pub inputs: Vec<Input<T>>,
    pub hops_in: Vec<Hop>,
    pub hops_out: Vec<Hop>,
    /// Which of the inline inputs have something, by the lowest bits of their index.
    pub fed: u64,
    /// Since when each of them has, as [`Beat::boundary`] tells.
    pub fed_at: Box<[Nanos]>,
    pub polls: bool,
    /// Its polls bring items from outside the graph.
    pub brings: bool,
}

impl<T: Item> HasOutlet<T> for Node<T> {
    #[inline]
    fn outlet(&mut self) -> &mut Outlet<T> {
        &mut self.instance.outlet
    }
}

impl<T: Item> Node<T> {
    /// Runs on one of its rings, popping first if nothing is left of the last batch; `None` if nothing is there.
    #[inline]
    pub(crate) fn run_input(&mut self, input: usize, beat: &mut Beat) -> Option<Ran> {
        let from = &mut self.inputs[input];
        if from.pending.is_empty() && !from.pop(beat, &self.instance.cell) {
            return None;
        }
        Some(self.instance.run(&mut from.pending, None, beat))
    }

    /// An inline input was put something on, behind what may be there already.
    #[inline]
    pub(crate) fn feed(&mut self, slot: usize, at: Nanos) {
        let bit = 1 << (slot % SLOTS);
        if self.fed & bit == 0 {
            self.fed_at[slot] = at;
        }
        self.fed |= bit;
    }

    /// A run has left something on an inline input.
    #[inline]
    pub(crate) fn leave(&mut self, slot: usize, at: Nanos) {
        self.fed |= 1 << (slot % SLOTS);
        if self.fed_at[slot] == Nanos::MAX {
            self.fed_at[slot] = at;
        }
    }

    /// Takes an item as if it had come off its ring `input` at once, if nothing waits there. Whether it did.
    pub(crate) fn hand(&mut self, input: usize, item: T) -> bool {
        let into = &mut self.inputs[input];
        let is_free = into.pending.is_empty() && into.is_dry();
        if is_free {
            let _ = into.pending.push(item); // An empty batch has room.
            into.cell.popped.add(1);
            into.cell.found(0);
            if self.instance.timed {
                self.instance.cell.wait.record(0, 1);
            }
        }
        is_free
    }

    /// Items between rings and stage, and between stage and inline neighbours.
    pub(crate) fn pending(&mut self) -> usize {
        let rings = self.inputs.iter().map(|i| i.pending.len() + i.spare.len()).sum::<usize>();
        let outlet = &mut self.instance.outlet;
        rings + self.hops_out.iter().map(|h| outlet.inline(h.port).len()).sum::<usize>()
    }

    /// Takes out everything that is neither in a ring nor inside the stage.
    pub(crate) fn sweep(&mut self, each: &mut dyn FnMut(T)) {
        for input in &mut self.inputs {
            std::iter::from_fn(|| input.pending.pop()).for_each(&mut *each);
            std::iter::from_fn(|| input.spare.pop()).for_each(&mut *each);
        }
        self.instance.sweep(each);
    }
}

/// A ring that a node reads, and the batch it is run on next.
#[repr(align(128))]
pub(crate) struct Input<T: Item> {
    pub source: Source<T>,
    pub pending: Batch<T>,
    /// What came off the ring with the last batch and did not fit into it.
    pub spare: Batch<T>,
    pub cell: Arc<EdgeCell>,
    /// On a return edge: items since the last one of which the wait is known.
    pub unmeasured: u64,
    /// On the edge from `submit`: where a popped entry is given back.
    pub gate: Option<Arc<Gate>>,
}

#[derive(Clone)]
pub(crate) enum Source<T: Item> {
    Back(Arc<Back<T>>),
    Queue(Arc<Ring<Parcel<T>>>),
}

impl<T: Item> Source<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Back(ring) => ring.is_empty(),
            Self::Queue(ring) => ring.is_empty(),
        }
    }
}

impl<T: Item> Input<T> {
    /// Whether the ring itself has something.
    #[inline]
    pub(crate) fn ring_is_empty(&self) -> bool {
        self.source.is_empty()
    }

    /// Whether a pop would bring nothing.
    #[inline]
    pub(crate) fn is_dry(&self) -> bool {
        self.spare.is_empty() && self.ring_is_empty()
    }

    /// Takes the next batch from the ring; small ones that wait there are merged into one. Under load a
    /// producer of single items (a submitter, an eager neighbour) thus costs a run a batch, not a run an item.
    #[inline]
    fn pop(&mut self, beat: &Beat, stage: &StageCell) -> bool {
        let waited = |pushed_at: Nanos, items: u64| {
            if beat.timed {
                stage.wait.record(beat.now.saturating_sub(pushed_at), items);
            }
        };
        match &self.source {
            Source::Back(ring) => {
                let depth = ring.len();
                let (came, pushed_at) = ring.pop(&mut self.pending);
                if came == 0 {
                    return false;
                }
                self.unmeasured += came as u64;
                if let Some(pushed_at) = pushed_at {
                    waited(pushed_at, std::mem::take(&mut self.unmeasured));
                }
                self.cell.popped.add(came as u64);
                self.cell.found(depth);
                true
            }
            Source::Queue(ring) => {
                if !self.spare.is_empty() {
                    self.pending = std::mem::take(&mut self.spare);
                }
                let depth = ring.len();
                // Workers that share a ring leave each other their parts.
                let share = if ring.consumers() == 1 { depth } else { depth.div_ceil(ring.consumers()) };
                for _ in 0..share.min(BATCH) {
                    if self.pending.room() == 0 || !self.spare.is_empty() {
                        break;
                    }
                    let Some(parcel) = ring.pop() else { break };
                    if let Some(gate) = &self.gate {
                        gate.refund();
                    }
                    let came = parcel.batch.len() as u64;
                    waited(parcel.pushed_at, came);
                    self.cell.popped.add(came);
                    merge(&mut self.pending, &mut self.spare, parcel.batch);
                }
                if self.pending.is_empty() {
                    return false;
                }
                self.cell.found(depth);
                true
            }
        }
    }
}

/// Adds `more` to `batch`; what does not fit goes to `spare`, which is empty.
#[inline]
fn merge<T: Item>(batch: &mut Batch<T>, spare: &mut Batch<T>, mut more: Batch<T>) {
    if batch.is_empty() {
        *batch = more;
        return;
    }
    while let Some(item) = more.peek() {
        if batch.push(item).is_err() {
            *spare = more;
            return;
        }
        more.pop();
    }
}
