//! Stages whose work is a pure function of the item.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pipeline_graph::{
    Arming, Batch, BuildError, Context, Contract, Drained, Flow, Nanos, Outlet, Polled, Port, PortId, Seat,
    Spec, Stage,
};

/// Most items that one item may become.
pub const FAN_MAX: usize = 4;

/// What becomes of an item: up to [`FAN_MAX`] items, each with its port.
#[derive(Clone, Copy, Default)]
pub struct Fate {
    items: [(u16, u64); FAN_MAX],
    len: usize,
}

impl Fate {
    pub fn one(port: u16, item: u64) -> Self {
        Self::default().and(port, item)
    }

    pub fn and(mut self, port: u16, item: u64) -> Self {
        self.items[self.len] = (port, item);
        self.len += 1;
        self
    }

    pub fn as_slice(&self) -> &[(u16, u64)] {
        &self.items[..self.len]
    }
}

/// A pure stage.
pub trait Act: Send + Sync + 'static {
    /// What becomes of `item`.
    fn fate(&self, item: u64) -> Fate;
}

impl<F: Fn(u64) -> Fate + Send + Sync + 'static> Act for F {
    fn fate(&self, item: u64) -> Fate {
        self(item)
    }
}

/// Where items end, and how one waits for that.
#[derive(Default)]
pub struct Ends {
    ended: Mutex<Vec<(usize, u64)>>,
    more: Condvar,
}

impl Ends {
    pub fn put(&self, sink: usize, item: u64) {
        self.ended.lock().unwrap().push((sink, item));
        self.more.notify_all();
    }

    pub fn len(&self) -> usize {
        self.ended.lock().unwrap().len()
    }

    /// Waits until `count` items have ended; false when the watchdog barks first.
    pub fn wait(&self, count: usize, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut ended = self.ended.lock().unwrap();
        while ended.len() < count {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            ended = self.more.wait_timeout(ended, left).unwrap().0;
        }
        true
    }

    /// What ended where, sorted.
    pub fn sorted(&self) -> Vec<(usize, u64)> {
        let mut ended = self.ended.lock().unwrap().clone();
        ended.sort_unstable();
        ended
    }
}

/// What a stage of the rig is.
#[derive(Clone)]
pub enum Role {
    /// Passes each item's fate on.
    Pass(Arc<dyn Act>),
    /// The same, but keeps items for a while and passes them on when polled.
    Hold(Arc<dyn Act>),
    /// Makes the items `0..count`, shared evenly by its workers, each with its fate.
    Source(Arc<dyn Act>, u64),
    /// Ends items.
    Sink(usize, Arc<Ends>),
    /// Ends items by counting them: no lock, for measurements.
    Count(Arc<AtomicU64>),
}

/// Spec of a rig's stage.
#[derive(Clone)]
pub struct Actor {
    pub role: Role,
    pub ports: Vec<Port>,
    pub contract: Contract,
    /// Workers of its pool: the range of `owner`.
    pub workers: usize,
    /// Items pushed to each port, over all workers.
    pub pushed: Arc<Vec<AtomicU64>>,
}

impl Actor {
    pub fn new(role: Role, ports: usize, workers: usize) -> Self {
        let contract = Contract {
            source: matches!(role, Role::Source(..)),
            sink: matches!(role, Role::Sink(..) | Role::Count(_)),
            holds: matches!(role, Role::Hold(_)),
            polls: matches!(role, Role::Hold(_) | Role::Source(..)),
            ..Contract::default()
        };
        let port = |i| Port::required(if i == 0 { "out".to_owned() } else { format!("p{i}") });
        let pushed = Arc::new((0..ports).map(|_| AtomicU64::new(0)).collect());
        Self { role, ports: (0..ports).map(port).collect(), contract, workers, pushed }
    }

    pub fn pass(ports: usize, act: impl Act) -> Self {
        Self::new(Role::Pass(Arc::new(act)), ports, 1)
    }

    pub fn count(ended: &Arc<AtomicU64>) -> Self {
        Self::new(Role::Count(ended.clone()), 0, 1)
    }

    pub fn sink(ends: &Arc<Ends>) -> Self {
        Self::new(Role::Sink(0, ends.clone()), 0, 1)
    }
}

impl Spec<u64> for Actor {
    fn ports(&self) -> &[Port] {
        &self.ports
    }
    fn contract(&self) -> Contract {
        self.contract.clone()
    }
    fn key(&self, item: u64) -> u64 {
        item
    }
    fn owner(&self, item: u64) -> usize {
        (item % self.workers as u64) as usize
    }
    fn build(&self, seat: &Seat) -> Result<Box<dyn Stage<u64>>, BuildError> {
        let mine = match &self.role {
            Role::Source(_, count) => (seat.worker as u64, seat.workers as u64, *count),
            _ => (0, 1, 0),
        };
        let held = VecDeque::with_capacity(HELD_MAX);
        Ok(Box::new(Instance { spec: self.clone(), held, source: mine, due: 0, stuck: false }))
    }
}

const HELD_MAX: usize = 48;
const HOLD_NS: Nanos = 20_000;

struct Instance {
    spec: Actor,
    held: VecDeque<u64>,
    /// Next item, stride and end of a source.
    source: (u64, u64, u64),
    due: Nanos,
    stuck: bool,
}

impl Instance {
    /// Pushes an item's whole fate, or nothing of it: a stage with several inputs is run on another one next,
    /// so half a fate would have to be remembered for each. False when a port has no room.
    #[inline]
    fn push(&mut self, act: &dyn Act, item: u64, out: &mut Outlet<u64>) -> bool {
        let fate = act.fate(item);
        for &(port, next) in fate.as_slice() {
            let needed = fate.as_slice().iter().filter(|(other, _)| *other == port).count();
            if out.room(PortId(port), next) < needed {
                return false;
            }
        }
        for &(port, next) in fate.as_slice() {
            out.push(PortId(port), next).expect("room was promised");
            self.spec.pushed[port as usize].fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    fn release(&mut self, act: &dyn Act, out: &mut Outlet<u64>) -> bool {
        let before = self.held.len();
        while let Some(&item) = self.held.front() {
            if !self.push(act, item, out) {
                self.stuck = true;
                break;
            }
            self.held.pop_front();
        }
        before != self.held.len()
    }
}

impl Stage<u64> for Instance {
    fn run(&mut self, input: &mut Batch<u64>, out: &mut Outlet<u64>, cx: &mut Context) -> Flow {
        match self.spec.role.clone() {
            Role::Sink(sink, ends) => {
                while let Some(item) = input.pop() {
                    ends.put(sink, item);
                }
            }
            Role::Count(ended) => {
                ended.fetch_add(input.len() as u64, Ordering::Relaxed);
                input.clear();
            }
            Role::Hold(_) => {
                while self.held.len() < HELD_MAX {
                    let Some(item) = input.pop() else { break };
                    self.held.push_back(item);
                    self.due = cx.now + HOLD_NS;
                }
            }
            Role::Pass(act) | Role::Source(act, _) => {
                while let Some(item) = input.peek() {
                    if !self.push(&*act, item, out) {
                        return Flow::More;
                    }
                    input.pop();
                }
            }
        }
        if input.is_empty() { Flow::Done } else { Flow::More }
    }

    fn poll(&mut self, out: &mut Outlet<u64>, cx: &mut Context) -> Polled {
        self.stuck = false;
        let moved = match self.spec.role.clone() {
            Role::Hold(act) => (cx.now >= self.due || cx.draining) && self.release(&*act, out),
            Role::Source(act, _) => {
                let first = self.source.0;
                for _ in 0..64 {
                    let (next, stride, end) = self.source;
                    if next >= end || !self.push(&*act, next, out) {
                        break;
                    }
                    self.source.0 += stride;
                }
                first != self.source.0
            }
            _ => false,
        };
        if moved { Polled::Busy } else { Polled::Idle }
    }

    fn arm(&mut self, on: &mut dyn Arming) {
        // A stuck one is woken by the room it waits for.
        if !self.held.is_empty() && !self.stuck {
            on.deadline(self.due);
        }
    }

    fn drain(&mut self, out: &mut Outlet<u64>, _cx: &mut Context) -> Drained {
        if let Role::Hold(act) = self.spec.role.clone() {
            self.release(&*act, out);
        }
        if self.held.is_empty() { Drained::Empty } else { Drained::Holds(self.held.len()) }
    }
}
