//! The contract between a stage and the engine: what a stage may do, and what it must not know.
//! Deliberately no edges, pools or threads in here: a stage cannot tell whether its neighbour runs inline
//! or across a queue, and that is why one set of stages expresses every threading model.

use std::borrow::Cow;
use std::os::fd::RawFd;

use crate::clock::Nanos;
use crate::item::{Batch, Item};
use crate::outlet::Outlet;
use crate::stats::cell::StageCell;
use crate::sync::Arc;

pub use crate::fault::{Fault, Faults};

/// What a stage answers after it was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The input is consumed.
    Done,
    /// The input is consumed, and the stage holds nothing: as [`Polled::Resting`].
    Rests,
    /// A port had no room (or a resource ran out); what is left stays in the input and comes again.
    More,
}

/// What a stage answers after it was polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Nothing happened: the worker may think of sleeping.
    Idle,
    /// Something happened: poll again soon.
    Busy,
    /// Nothing happened, and it holds nothing: only what an edge brings makes work for it. Until it is run again it is not
    /// polled.
    Resting,
    /// Nothing happened, and only a ring of its worker's bell can bring it something: a worker whose stages all say so
    /// sleeps, however its pool waits.
    Unasked,
}

/// What a stage answers while the engine drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// It holds nothing.
    Empty,
    /// It still holds this many items.
    Holds(usize),
}

/// One instance per worker. `&mut self`, no locks; never blocks, never sleeps.
pub trait Stage<T: Item>: Send {
    /// Consumes from `input`, pushes to `out`. What it cannot push for lack of room stays in `input`
    /// (answer [`Flow::More`]); it will be run again when room may have come.
    ///
    /// What stays comes again, but not always next: a stage with several inputs may be run on another one's
    /// batch first. So an item must be pushed whole or not at all; ask [`Outlet::room`] before the first of
    /// several pushes, or keep the item inside (a stage that `holds`).
    fn run(&mut self, input: &mut Batch<T>, out: &mut Outlet<T>, cx: &mut Context) -> Flow;

    /// Looks at what no edge brings: completion queues, sockets, mailboxes, timers. Budgeted; never blocks.
    fn poll(&mut self, _out: &mut Outlet<T>, _cx: &mut Context) -> Polled {
        Polled::Idle
    }

    /// Names what a sleep of this worker must wait for on behalf of this stage. Called before each sleep.
    fn arm(&mut self, _on: &mut dyn Arming) {}

    /// Asked while the engine drains: flush what can be flushed, and say how much is still held.
    fn drain(&mut self, _out: &mut Outlet<T>, _cx: &mut Context) -> Drained {
        Drained::Empty
    }
}

/// What a sleeping worker waits for, besides its bell. `pipeline-transports` has a twin of this trait so
/// that neither crate sees the other; stages adapt one to the other.
pub trait Arming {
    /// Wake when `fd` is readable. A transport half hands over one epoll set or completion channel, not one
    /// descriptor per connection.
    fn fd(&mut self, fd: RawFd);
    /// Wake no later than this.
    fn deadline(&mut self, at: Nanos);
    /// Do not sleep at all this time: something came between the poll and the arming.
    fn busy(&mut self);
}

/// Frozen description of a stage, shared by all of its workers. `Send + Sync`, immutable.
pub trait Spec<T: Item>: Send + Sync {
    /// Its output ports, in the order of their [`PortId`]s. May depend on the file.
    fn ports(&self) -> &[Port];
    /// What the engine must know to prove that the graph cannot stop for ever.
    fn contract(&self) -> Contract;
    /// `dispatch = "hash"`: items of equal key meet the same worker. Asked of the *target's* spec.
    fn key(&self, _item: T) -> u64 {
        0
    }
    /// `dispatch = "hash"`: items of one key and of ranks that follow each other go to workers that follow each other, so
    /// that N of them load N workers, which a hash alone only does by chance. Asked of the *target's* spec.
    fn rank(&self, _item: T) -> u64 {
        0
    }
    /// `dispatch = "owner"`: index among the workers of the target's pool. Asked of the *target's* spec.
    fn owner(&self, _item: T) -> usize {
        0
    }
    /// Makes the instance for one worker.
    ///
    /// # Errors
    /// [`BuildError`] with the reason and what to do next; the engine then starts nothing.
    fn build(&self, seat: &Seat) -> Result<Box<dyn Stage<T>>, BuildError>;
}

/// Index of an output port in [`Spec::ports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

/// An output port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name in the file: `stage.name`. A stage's plain name in an edge means its port `out`.
    pub name: Cow<'static, str>,
    /// Whether `check` demands a wire.
    pub required: bool,
}

impl Port {
    /// A port that must be wired.
    pub fn required(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), required: true }
    }

    /// A port that may be left alone; pushing to it unwired is a bug of the stage and counted as a stray.
    pub fn optional(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), required: false }
    }
}

/// A bounded thing that is not an edge and that stages wait for: slice slots, link credits.
pub type Resource = &'static str;

/// What the deadlock rule and the planner must know of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// Makes items without input (`poll` pushes): needs no incoming edge.
    pub source: bool,
    /// Ends items: needs no outgoing edge and always accepts.
    pub sink: bool,
    /// May make more items than it takes.
    pub expands: bool,
    /// May keep items between runs.
    pub holds: bool,
    /// Wants `poll` in every turn of its worker.
    pub polls: bool,
    /// Stateless and CPU-bound: may run on a `stealing` pool.
    pub parallel: bool,
    /// Needs an instance per worker that reaches it instead of a pool of its own.
    pub anywhere: bool,
    /// Why it must run on a thread of the engine, which is always there, and not in a `caller` pool, where it goes on
    /// only while somebody calls: half a sentence for who tries. `None`: it may run in either.
    pub resident: Option<&'static str>,
    /// Resources it waits for.
    pub waits_for: Vec<Resource>,
    /// Resources it gives back.
    pub gives: Vec<Resource>,
}

/// Ports and contract together: all that `check` needs, without any [`Spec`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Output ports.
    pub ports: Vec<Port>,
    /// Contract.
    pub contract: Contract,
}

/// Where an instance will sit.
#[derive(Clone)]
pub struct Seat {
    /// Name of the stage.
    pub stage: Arc<str>,
    /// Name of the pool.
    pub pool: Arc<str>,
    /// Index among *all* workers of the pool, over all groups: what [`Spec::owner`] answers.
    pub worker: usize,
    /// Number of all workers of the pool.
    pub workers: usize,
    /// Group of a `per = "nic"` pool: index and name. Otherwise 0 and the pool's name.
    pub group: usize,
    /// Name of the group (the NIC).
    pub group_name: Arc<str>,
    /// Index within the group: the i-th post worker of a NIC pairs with its i-th reap and serve worker.
    pub pair: usize,
    /// Rings the bell of this worker.
    pub waker: Waker,
    /// Where the stage says how long it held items. For the thread that runs it only.
    pub held: Held,
}

/// How long a stage held items is only known to the stage: this is where it says so. Cheap to clone; all clones of one seat
/// count together, and one of them may write at a time. The default counts nothing.
#[derive(Clone, Default)]
pub struct Held(Option<Arc<StageCell>>);

impl Held {
    pub(crate) fn in_cell(cell: Arc<StageCell>) -> Self {
        Self(Some(cell))
    }

    /// One that counts, for unit tests of stages; nobody reads it.
    pub fn counting() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether anything is counted: if not, the stage need not remember times for it.
    #[inline]
    pub fn counts(&self) -> bool {
        self.0.is_some()
    }

    /// So many items were let go that had been held for so long: 0 for those that went on in the run that took them in.
    #[inline]
    pub fn record(&self, ns: Nanos, items: u64) {
        if let Some(cell) = &self.0
            && items > 0
        {
            cell.held.record(ns, items);
        }
    }
}

/// Rings the bell of one worker: cheap when the worker is awake, a wake-up when it sleeps. Any thread.
#[derive(Clone)]
pub struct Waker(pub(crate) Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker from a function: for tests and for adapters.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(ring))
    }

    /// Whether both are clones of one waker.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Wakes the worker. Idempotent; never blocks.
    pub fn wake(&self) {
        (self.0)();
    }
}

/// Why a stage could not be built.
#[derive(Debug, thiserror::Error)]
#[error("stage `{stage}` cannot start on worker {worker} of pool `{pool}`: {reason}")]
pub struct BuildError {
    /// Name of the stage.
    pub stage: String,
    /// Name of the pool.
    pub pool: String,
    /// Worker index.
    pub worker: usize,
    /// What is wrong and what to do next.
    pub reason: String,
}

/// What a stage may know while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The monotonic time at the stage boundary, read once for all neighbours.
    pub now: Nanos,
    /// Whether the engine is draining: sources bring nothing new.
    pub draining: bool,
}
