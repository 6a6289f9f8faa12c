//! The model itself: threads that share CPUs walk stages, stages pass batches over rings, lanes carry them to peers.
//! Deliberately one struct with its behaviour in files by theme, each an `impl World`: `thread` (who runs when), `turns`
//! (what a worker does), `wire` (lanes and NICs), `application` (who submits).

use std::collections::VecDeque;

use pipeline_graph::Wait;

use super::agenda::{Agenda, Time};
use super::cpus::Cpus;
use super::dice::Dice;
use super::outcome::Counts;
use super::setup::{Edge, Role, Setup, Waits};
use super::stream::Stream;
use super::thread::{Thread, Whose};
use super::window::Window;

/// How often queues of CPUs are balanced: at a kernel's tick.
const BALANCE_NS: Time = 4e6;
/// Who sleeps at once.
const SLEEPS: Wait = Wait { spin_ns: 0, yield_ns: 0, park_ns: 1, adaptive: false, price_percent: 0 };

/// What happens by itself.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Work on somebody else's CPU is over.
    Done(usize),
    /// A thread that was rung for is awake.
    Awake(usize),
    /// A thread has looked long enough.
    Lapse(usize, u64),
    /// Bytes reach the other end of a lane.
    Arrive { lane: usize, backward: bool, bytes: u64 },
    /// A batch comes to the application.
    Arrival(usize),
    /// The clock starts.
    Begin,
    /// The kernel looks for threads that wait while a CPU idles.
    Balance,
}

/// A slice or a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Token {
    pub request: u32,
    pub bytes: u64,
    pub lane: u32,
    /// It was cut: its window is charged.
    pub is_slice: bool,
    pub since: Time,
}

/// A request that has not ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    pub batch: u32,
    pub peer: u32,
    pub uncut: u64,
    pub open: u32,
}

/// A batch that has not ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    pub application: u32,
    pub left: u32,
    pub since: Time,
}

/// Places that are used again.
pub struct Slab<T> {
    all: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }

    pub fn add(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.all[at as usize] = value;
                at
            }
            None => {
                self.all.push(value);
                self.all.len() as u32 - 1
            }
        }
    }

    pub fn free(&mut self, at: u32) {
        self.free.push(at);
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, at: u32) -> &T {
        &self.all[at as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.all[at as usize]
    }
}

/// A stage with one worker.
#[derive(Default)]
pub struct Place {
    /// Before it: what came inline.
    pub inbox: VecDeque<u32>,
    /// Behind it: what waits for a ring, by ring.
    pub staged: Vec<VecDeque<u32>>,
    /// What the split stage has open, by peer, and the peers in turn.
    pub open: Vec<VecDeque<u32>>,
    pub peers: VecDeque<usize>,
    /// Lanes with something to write, or to read.
    pub lanes: VecDeque<usize>,
}

/// A ring before a stage.
#[derive(Default)]
pub struct Ring {
    pub batches: VecDeque<Vec<u32>>,
    pub capacity: usize,
    /// Threads that found it full.
    pub awaited: Vec<usize>,
}

/// A lane: a stream each way, and who is at its ends.
pub struct Lane {
    pub nic: usize,
    pub streams: [Stream; 2],
    pub post_worker: usize,
    pub reap_worker: usize,
    pub peer: usize,
    pub outstanding: u32,
    /// Whether it is in the list of the poster, of the peer, of the reaper.
    pub listed: [bool; 3],
    /// The peer shall answer now.
    pub answers: bool,
    /// Bytes that answers stand for which have not been written.
    pub applied: u64,
}

/// See the file's head.
pub struct World<'a> {
    pub setup: &'a Setup,
    pub now: Time,
    pub agenda: Agenda<Event>,
    pub cpus: Cpus,
    pub dice: Dice,
    pub threads: Vec<Thread>,
    /// The thread that runs a worker.
    pub thread_of: Vec<usize>,
    /// The thread of a peer.
    pub peer_thread: Vec<usize>,
    /// Stage by worker.
    pub places: Vec<Vec<Place>>,
    /// Rings by stage.
    pub rings: Vec<Vec<Ring>>,
    pub lanes: Vec<Lane>,
    /// Lanes of each peer.
    pub lanes_of: Vec<Vec<usize>>,
    /// When each NIC is free again, by direction.
    pub nic_free: Vec<[Time; 2]>,
    /// The same of memory.
    pub memory_free: Time,
    /// Lanes with requests to read, by peer.
    pub served: Vec<VecDeque<usize>>,
    pub window: Window,
    pub tokens: Slab<Token>,
    pub requests: Slab<Request>,
    pub batches: Slab<Batch>,
    pub applications: Vec<super::application::Desk>,
    pub counts: Counts,
    pub measuring: bool,
    /// The NIC whose turn it is.
    pub turn: usize,
    /// The kernel's thread, and what waits for it.
    pub kernel: usize,
    pub kernel_ns: f64,
    /// What the turn of each worker may still write.
    pub budgets: Vec<u64>,
}

impl<'a> World<'a> {
    /// A world in which nothing has happened.
    pub fn new(setup: &'a Setup) -> Self {
        let mut threads = Vec::new();
        let mut thread_of = vec![0; setup.workers.len()];
        for app in 0..setup.application.threads {
            let park_ns = if setup.application.waits == Waits::Looking { 0 } else { 1 };
            let wait = Wait { park_ns, ..SLEEPS };
            threads.push(Thread::new(format!("application {app}"), Whose::Application(app), wait, true));
        }
        for (w, worker) in setup.workers.iter().enumerate() {
            if worker.is_caller {
                // One thread holds a seat at a time: here the same one all the time, and it waits as the pool says.
                let seat = w % setup.application.threads.max(1);
                thread_of[w] = seat;
                threads[seat].seats.push(w);
                threads[seat].wait = worker.wait;
                continue;
            }
            let mut thread = Thread::new(worker.name.clone(), Whose::Worker, worker.wait, true);
            (thread.seats, thread.is_pinned) = (vec![w], worker.is_pinned);
            thread_of[w] = threads.len();
            threads.push(thread);
        }
        let peers = setup.peers;
        let peer_thread = (0..peers.count).map(|peer| {
            threads.push(Thread::new(format!("peer {peer}"), Whose::Peer(peer), peers.wait, peers.are_here));
            threads.len() - 1
        });
        let peer_thread = peer_thread.collect();
        let kernel = threads.len();
        threads.push(Thread::new("kernel".into(), Whose::Kernel, SLEEPS, true));
        let mut world = Self {
            setup,
            now: 0.0,
            agenda: Agenda::new(),
            cpus: Cpus::new(setup.cores as usize, threads.len(), setup.costs.sharing.lost),
            dice: Dice::new(setup.seed),
            counts: Counts::new(setup),
            threads,
            thread_of,
            peer_thread,
            places: Vec::new(),
            rings: Vec::new(),
            lanes: Vec::new(),
            lanes_of: vec![Vec::new(); peers.count],
            nic_free: vec![[0.0; 2]; setup.nics.len()],
            memory_free: 0.0,
            served: vec![VecDeque::new(); peers.count],
            window: Window::new(setup.window, peers.count),
            tokens: Slab::new(),
            requests: Slab::new(),
            batches: Slab::new(),
            applications: Vec::new(),
            measuring: false,
            turn: 0,
            kernel,
            kernel_ns: 0.0,
            budgets: vec![0; setup.workers.len()],
        };
        world.furnish();
        world
    }

    fn furnish(&mut self) {
        let setup = self.setup;
        for stage in &setup.stages {
            let rings = match stage.input {
                Edge::Inline => Vec::new(),
                Edge::Shared(capacity) => vec![Ring { capacity, ..Ring::default() }],
                Edge::Owner(capacity) | Edge::Hash(capacity) => {
                    (0..stage.workers.len()).map(|_| Ring { capacity, ..Ring::default() }).collect()
                }
            };
            self.rings.push(rings);
        }
        for stage in &setup.stages {
            let behind = stage.next.map_or(0, |next| self.rings[next].len());
            let place = |_| Place {
                staged: vec![VecDeque::new(); behind],
                open: if stage.role == Role::Split {
                    vec![VecDeque::new(); setup.peers.count]
                } else {
                    Vec::new()
                },
                ..Place::default()
            };
            self.places.push((0..setup.workers.len()).map(place).collect());
        }
        self.lay_lanes();
        self.applications =
            (0..setup.application.threads).map(|_| super::application::Desk::default()).collect();
    }

    /// Runs for `warm_ns` without counting and then for `run_ns`.
    pub fn run(&mut self, warm_ns: f64, run_ns: f64) {
        self.agenda.enter(warm_ns, Event::Begin);
        self.agenda.enter(BALANCE_NS, Event::Balance);
        self.open();
        for t in 0..self.threads.len() {
            self.go(t);
        }
        let end = warm_ns + run_ns;
        loop {
            let (event_at, cpu_at) = (self.agenda.next_at(), self.cpus.next_at());
            if event_at.min(cpu_at) > end {
                break;
            }
            if cpu_at <= event_at {
                let Some(t) = self.cpus.end_next() else { break };
                self.now = cpu_at;
                self.done(t);
                self.cpus.decided(t);
            } else {
                let Some((at, event)) = self.agenda.pop() else { break };
                self.now = at;
                self.cpus.advance(at);
                self.happen(event);
            }
        }
        self.now = end;
        self.cpus.advance(end);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Done(t) => self.done(t),
            Event::Awake(t) => self.awake(t),
            Event::Lapse(t, period) => self.lapse(t, period),
            Event::Arrive { lane, backward, bytes } => self.arrive(lane, backward, bytes, None),
            Event::Arrival(application) => self.arrival(application),
            Event::Balance => {
                self.cpus.balance();
                self.agenda.enter(self.now + BALANCE_NS, Event::Balance);
            }
            Event::Begin => {
                self.measuring = true;
                self.counts.begin(self.now, self.cpus.used());
                self.window.refusals = 0;
                self.threads.iter_mut().for_each(|thread| thread.tally = Default::default());
            }
        }
    }
}
