//! Where a stage puts what it made: one set of ports, each behind it an inline neighbour or a ring.
//! Deliberately mute about which: a stage only sees room.
//!
//! What goes inline is written straight into the batch that the neighbour is run on next. What goes to
//! another worker is staged, one batch a destination, and leaves when full, when the ring has run empty, or
//! when the worker finds nothing more to do. There are no timers.

use crate::blueprint::{Dispatch, WhenFull};
use crate::clock::Nanos;
use crate::edge::back::Back;
use crate::edge::dispatch::destination;
use crate::edge::queue::{Parcel, Ring};
use crate::item::{BATCH, Batch, Item};
use crate::stage::{Fault, Faults, PortId, Spec};
use crate::stats::cell::EdgeCell;
use crate::sync::Arc;

/// The output side of one stage instance.
pub struct Outlet<T: Item> {
    ports: Box<[PortOut<T>]>,
    failed: Option<usize>,
    faults: Arc<dyn Faults<T>>,
    /// The stage boundary's time: what parcels are stamped with.
    pub(crate) now: Nanos,
    /// Items staged for rings, over all ports.
    waiting: usize,
    /// Counts accepted pushes, so that the walker sees whether a stage brought something forth.
    pushes: u32,
    /// Inline ports that something was put on since [`Outlet::take_touched`], by the lowest bits of their index.
    touched: u64,
    strays: u64,
}

/// Where a port leads.
pub(crate) enum Wire<T: Item> {
    /// Nowhere.
    Open,
    /// To a neighbour of the same worker (or, detached, to a test).
    Inline,
    /// To rings, one a destination.
    Queue(Box<[Arc<Ring<Parcel<T>>>]>),
    /// To return rings, one a destination.
    Back(Box<[Arc<Back<T>>]>),
}

#[repr(align(128))]
pub(crate) struct PortOut<T: Item> {
    wire: Wire<T>,
    /// One batch a destination. An inline neighbour is run on the first.
    staged: Box<[Staged<T>]>,
    /// Items staged for rings.
    waiting: usize,
    /// Batches that left because they were full, the last one a destination: what a panicking stage had already sent.
    sent: Box<[Sent<T>]>,
    dispatch: Dispatch,
    when_full: WhenFull,
    target: Option<Arc<dyn Spec<T>>>,
    unwired: Fault,
    rejected: Fault,
    cell: Arc<EdgeCell>,
}

/// A staged batch, on lines of its own: its neighbour in memory may be another worker's.
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Staged<T: Item> {
    batch: Batch<T>,
    /// Since when its ring is known to have no room for it, or up to when that has been counted. 0: it has some.
    full_at: Nanos,
}

impl<T: Item> Staged<T> {
    fn empty() -> Self {
        Self { batch: Batch::new(), full_at: 0 }
    }
}

/// See [`PortOut::sent`].
#[derive(Clone, Copy)]
struct Sent<T: Item> {
    batch: Batch<T>,
    /// Count of [`Outlet::pushes`] when it left, and when the one before it did.
    at: u32,
    before: u32,
}

/// Whether a stage had passed an item on, as far as its outlet knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// It waits here, or has left.
    Yes,
    /// It was not pushed.
    No,
    /// More has left than is remembered.
    Unknown,
}

impl<T: Item> Outlet<T> {
    /// How many more items that go where `item` would go fit now. With `dispatch = "owner" | "hash"` this
    /// answers for that item's own worker, so that one stopped worker starves nobody. As many pushes of
    /// such items as this answers succeed.
    #[inline]
    pub fn room(&self, port: PortId, item: T) -> usize {
        let Some(p) = self.ports.get(usize::from(port.0)) else { return BATCH };
        match p.wire {
            Wire::Inline => p.staged[0].batch.room(),
            Wire::Open => BATCH,
            _ => {
                let room = p.staged[p.destination(item)].batch.room();
                if room > 0 || p.when_full == WhenFull::Wait { room } else { self.room_of_failed(port, item) }
            }
        }
    }

    /// What a full edge with `reject` can take: as much as the way of the rejected.
    #[cold]
    fn room_of_failed(&self, port: PortId, item: T) -> usize {
        match self.failed {
            Some(f) if f != usize::from(port.0) => self.room(PortId(f as u16), item),
            _ => BATCH,
        }
    }

    /// Puts `item` on `port`.
    ///
    /// # Errors
    /// Gives the item back when there is no room.
    #[inline]
    pub fn push(&mut self, port: PortId, item: T) -> Result<(), T> {
        // Short enough to become part of the stage's own loop; everything else is a call.
        match self.ports.get_mut(usize::from(port.0)) {
            Some(PortOut { wire: Wire::Inline, staged, .. }) => {
                staged[0].batch.push(item)?;
                self.touched |= 1 << (port.0 % 64);
                self.pushes = self.pushes.wrapping_add(1);
                Ok(())
            }
            _ => self.push_away(usize::from(port.0), item),
        }
    }

    /// How many more items fit whatever they are: with several destinations, as many as into the fullest.
    #[inline]
    pub fn room_for_all(&self, port: PortId) -> usize {
        let Some(p) = self.ports.get(usize::from(port.0)) else { return BATCH };
        match p.wire {
            Wire::Inline => p.staged[0].batch.room(),
            Wire::Open => BATCH,
            _ => p.staged.iter().map(|staged| staged.batch.room()).min().unwrap_or(0),
        }
    }

    /// Puts items on `port` in order, up to the first for which there is no room: how many. The same as so many
    /// [`Outlet::push`]es, for less.
    #[inline]
    pub fn push_all(&mut self, port: PortId, items: &[T]) -> usize {
        match self.ports.get_mut(usize::from(port.0)) {
            Some(PortOut { wire: Wire::Inline, staged, .. }) => {
                let n = match items {
                    // Without a call for so little.
                    [item] => usize::from(staged[0].batch.push(*item).is_ok()),
                    _ => staged[0].batch.extend(items),
                };
                self.touched |= u64::from(n > 0) << (port.0 % 64);
                self.pushes = self.pushes.wrapping_add(n as u32);
                n
            }
            _ => items.iter().take_while(|item| self.push_away(usize::from(port.0), **item).is_ok()).count(),
        }
    }

    /// To a ring, or to where no wire is.
    #[inline(never)]
    fn push_away(&mut self, at: usize, item: T) -> Result<(), T> {
        let now = self.now;
        let Some(p) = self.ports.get_mut(at) else { return self.stray(at, item) };
        if matches!(p.wire, Wire::Open) {
            return self.stray(at, item);
        }
        let before = p.waiting;
        let staged = p.stage(item, now, self.pushes);
        self.waiting = self.waiting + p.waiting - before;
        match staged {
            Err(item) if p.when_full == WhenFull::Reject => self.reject(at, item),
            Err(item) => Err(item),
            Ok(()) => {
                self.pushes = self.pushes.wrapping_add(1);
                Ok(())
            }
        }
    }

    /// An outlet of `ports` ports without an engine, for the unit tests of stages: each port takes up to
    /// [`BATCH`] items, which [`Outlet::take`] gives back.
    pub fn detached(ports: usize) -> Self {
        let port = |_| PortOut::new(Wire::Inline, 1, "test", "test");
        Self::new((0..ports).map(port).collect(), None, Arc::new(()))
    }

    /// Takes what a detached outlet, or an inline port, has got.
    pub fn take(&mut self, port: PortId) -> Batch<T> {
        match self.ports.get_mut(usize::from(port.0)) {
            Some(p) if matches!(p.wire, Wire::Inline) => std::mem::take(&mut p.staged[0].batch),
            _ => Batch::new(),
        }
    }

    pub(crate) fn new(ports: Box<[PortOut<T>]>, failed: Option<usize>, faults: Arc<dyn Faults<T>>) -> Self {
        Self { ports, failed, faults, now: 0, waiting: 0, pushes: 0, touched: 0, strays: 0 }
    }

    /// The batch that the neighbour behind an inline port is run on.
    #[inline]
    pub(crate) fn inline(&mut self, port: usize) -> &mut Batch<T> {
        &mut self.ports[port].staged[0].batch
    }

    /// The `failed` port, if it is wired.
    pub(crate) fn failed(&self) -> Option<PortId> {
        self.failed.map(|f| PortId(f as u16))
    }

    pub(crate) fn cell(&self, port: usize) -> &EdgeCell {
        &self.ports[port].cell
    }

    /// Sends on what waits for rings: full batches always, others when their ring is empty or `all` is set.
    /// Answers whether anything moved.
    pub(crate) fn flush(&mut self, now: Nanos, all: bool) -> bool {
        self.now = now;
        let mut moved = false;
        for port in &mut self.ports {
            if port.waiting > 0 {
                let before = port.waiting;
                moved |= port.flush(self.now, all);
                self.waiting = self.waiting + port.waiting - before;
            }
        }
        moved
    }

    /// How many ports there are.
    pub(crate) fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Whether any port leads to a ring.
    pub(crate) fn sends(&self) -> bool {
        self.ports.iter().any(|port| matches!(port.wire, Wire::Queue(_) | Wire::Back(_)))
    }

    /// Whether there is no port at all.
    #[inline]
    pub(crate) fn is_end(&self) -> bool {
        self.ports.is_empty()
    }

    /// Items staged for rings; those before inline neighbours are their inputs.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Inline ports that something was put on since the last call, as bits.
    #[inline]
    pub(crate) fn take_touched(&mut self) -> u64 {
        std::mem::take(&mut self.touched)
    }

    /// A number that changes with every accepted push.
    #[inline]
    pub(crate) fn pushes(&self) -> u32 {
        self.pushes
    }

    /// Whether `item` was pushed since [`Self::pushes`] was `since`. Sends on nothing and asks no ring: for a panic.
    pub(crate) fn passed(&self, item: T, since: u32) -> Passed {
        let mut forgotten = false;
        for port in &self.ports {
            if port.staged.iter().any(|staged| staged.batch.contains(item)) {
                return Passed::Yes;
            }
            for sent in &port.sent {
                // Counted from `since`, whatever wraps around.
                let lately = |at: u32| at.wrapping_sub(since) <= self.pushes.wrapping_sub(since);
                if lately(sent.at) && sent.batch.contains(item) {
                    return Passed::Yes;
                }
                forgotten |= lately(sent.at) && lately(sent.before);
            }
        }
        if forgotten { Passed::Unknown } else { Passed::No }
    }

    /// Items pushed to ports without wire since the last call.
    pub(crate) fn take_strays(&mut self) -> u64 {
        std::mem::take(&mut self.strays)
    }

    /// Takes everything out, inline batches included: the engine stops.
    pub(crate) fn sweep(&mut self, each: &mut dyn FnMut(T)) {
        for port in &mut self.ports {
            for staged in &mut port.staged {
                std::iter::from_fn(|| staged.batch.pop()).for_each(&mut *each);
            }
            port.waiting = 0;
        }
        self.waiting = 0;
    }

    #[cold]
    fn stray(&mut self, port: usize, item: T) -> Result<(), T> {
        self.strays += 1;
        self.pushes = self.pushes.wrapping_add(1);
        let unknown = Fault::Unwired { port: "a port that its spec does not name".into() };
        let fault = self.ports.get(port).map_or(&unknown, |p| &p.unwired);
        self.faults.mark(item, fault, false);
        Ok(())
    }

    #[cold]
    fn reject(&mut self, port: usize, item: T) -> Result<(), T> {
        let way = self.failed.filter(|f| *f != port).map(|f| PortId(f as u16));
        if way.is_some_and(|failed| self.room(failed, item) == 0) {
            return Err(item);
        }
        let p = &self.ports[port];
        p.cell.rejected.add(1);
        self.faults.mark(item, &p.rejected, way.is_some());
        match way {
            Some(failed) => self.push(failed, item),
            None => {
                self.pushes = self.pushes.wrapping_add(1);
                Ok(())
            }
        }
    }
}

#[cfg(all(test, not(pipeline_loom)))]
impl<T: Item> Outlet<T> {
    /// Everything that a push writes.
    pub(crate) fn each_memory(&self, mut each: impl FnMut(&'static str, &dyn std::any::Any)) {
        for port in &self.ports {
            each("a port", port);
            each("the cell of an edge", &*port.cell);
            port.staged.iter().for_each(|staged| each("a staged batch", staged));
        }
    }
}

impl<T: Item> PortOut<T> {
    /// A port named `port` (`stage.port`) whose edge is named `edge` (`stage.port -> stage`).
    pub(crate) fn new(wire: Wire<T>, destinations: usize, port: &str, edge: &str) -> Self {
        let sends = if matches!(wire, Wire::Queue(_) | Wire::Back(_)) { destinations } else { 0 };
        Self {
            wire,
            staged: vec![Staged::empty(); destinations].into(),
            waiting: 0,
            sent: vec![Sent { batch: Batch::new(), at: u32::MAX, before: u32::MAX }; sends].into(),
            dispatch: Dispatch::Any,
            when_full: WhenFull::Wait,
            target: None,
            unwired: Fault::Unwired { port: port.into() },
            rejected: Fault::Rejected { edge: edge.into() },
            cell: Arc::default(),
        }
    }

    /// How its items find their worker.
    pub(crate) fn dispatched(mut self, dispatch: Dispatch, target: Arc<dyn Spec<T>>) -> Self {
        (self.dispatch, self.target) = (dispatch, Some(target));
        self
    }

    pub(crate) fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    pub(crate) fn counted(mut self, cell: Arc<EdgeCell>) -> Self {
        self.cell = cell;
        self
    }

    #[inline]
    fn destination(&self, item: T) -> usize {
        match &self.target {
            Some(spec) if self.staged.len() > 1 => {
                destination(self.dispatch, &**spec, item, self.staged.len())
            }
            _ => 0,
        }
    }

    /// Stages an item for its ring, and sends the batch as soon as it is full, so that room comes at once
    /// if the ring has it.
    #[inline]
    fn stage(&mut self, item: T, now: Nanos, pushes: u32) -> Result<(), T> {
        let to = self.destination(item);
        if self.staged[to].batch.room() == 0 && !self.send_full(to, now, pushes) {
            return Err(item);
        }
        self.staged[to].batch.push(item)?;
        self.waiting += 1;
        if self.staged[to].batch.room() == 0 {
            self.send_full(to, now, pushes);
        }
        Ok(())
    }

    /// Sends a full batch in the middle of a run, and remembers it in case that run panics.
    fn send_full(&mut self, to: usize, now: Nanos, pushes: u32) -> bool {
        let full = self.staged[to].batch;
        let went = self.send(to, now);
        if went {
            let sent = &mut self.sent[to];
            (sent.before, sent.at, sent.batch) = (sent.at, pushes, full);
        }
        went
    }

    fn flush(&mut self, now: Nanos, all: bool) -> bool {
        let mut moved = false;
        for to in 0..self.staged.len() {
            let batch = &self.staged[to].batch;
            if batch.is_empty() {
                continue;
            }
            let hungry = match &self.wire {
                Wire::Queue(rings) => rings[to].is_empty(),
                _ => true,
            };
            if all || hungry || batch.room() == 0 {
                moved |= self.send(to, now);
            }
        }
        moved
    }

    /// Sends one staged batch; answers whether its room is free again. What could not go stays, and the
    /// consumer's next pop rings our bell.
    fn send(&mut self, to: usize, now: Nanos) -> bool {
        let Staged { batch, full_at } = &mut self.staged[to];
        let sent = match &self.wire {
            Wire::Queue(rings) => {
                let full =
                    rings[to].is_full() || rings[to].push(Parcel { pushed_at: now, batch: *batch }).is_err();
                if *full_at != 0 {
                    self.cell.blocked_ns.add(now.saturating_sub(*full_at));
                }
                *full_at = if full { now } else { 0 };
                if full {
                    return false;
                }
                let sent = batch.len();
                batch.clear();
                sent
            }
            Wire::Back(rings) => rings[to].push(batch, now),
            Wire::Open | Wire::Inline => 0,
        };
        self.waiting -= sent;
        if sent > 0 {
            self.cell.pushed.add(sent as u64);
            self.cell.batches.add(1);
        }
        sent > 0
    }
}
