//! The cheapest stages there can be, so that what is measured is the engine: no lock, no shared counter but
//! one a batch at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pipeline_graph::{
    Batch, BuildError, Context, Contract, Flow, Outlet, Polled, Port, PortId, Seat, Spec, Stage, Waker,
};

/// Counts what ends, keeps the times of the first and the last item, and wakes who waits for the last.
pub struct Tally {
    want: u64,
    seen: AtomicU64,
    first: OnceLock<Instant>,
    last: OnceLock<Instant>,
    waiter: Thread,
}

impl Tally {
    pub fn new(want: u64) -> Arc<Self> {
        let waiter = std::thread::current();
        Arc::new(Self {
            want,
            seen: AtomicU64::new(0),
            first: OnceLock::new(),
            last: OnceLock::new(),
            waiter,
        })
    }

    pub fn add(&self, items: u64) {
        let before = self.seen.fetch_add(items, Ordering::Relaxed);
        if before == 0 {
            let _ = self.first.set(Instant::now());
        }
        if before + items >= self.want {
            let _ = self.last.set(Instant::now());
            self.waiter.unpark();
        }
    }

    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Waits for the last item; `None` when the watchdog barks first.
    pub fn wait(&self, limit: Duration) -> Option<Duration> {
        let until = Instant::now() + limit;
        while self.last.get().is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            std::thread::park_timeout(left);
        }
        Some(*self.last.get()? - *self.first.get()?)
    }
}

/// Lets a feed make items, in bursts.
#[derive(Default)]
pub struct Gate {
    open: AtomicU64,
    waker: OnceLock<Waker>,
}

impl Gate {
    /// Open for so many items from the start.
    pub fn open(items: u64) -> Arc<Self> {
        Arc::new(Self { open: AtomicU64::new(items), waker: OnceLock::new() })
    }

    /// Lets so many more through, and wakes the feed.
    pub fn release(&self, items: u64) {
        self.open.fetch_add(items, Ordering::Release);
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }
}

/// What a bare stage does.
#[derive(Clone)]
pub enum Bare {
    /// Makes items of this value, as many as the gate lets through, on its one worker.
    Feed(Arc<Gate>, u64),
    /// Passes items from its input to port 0.
    Relay,
    /// Sends an item to port 1, one less, until it is 0; then to port 0.
    Laps,
    /// Ends items.
    Tally(Arc<Tally>),
}

impl Bare {
    pub fn spec(self) -> BareSpec {
        let ports = match self {
            Self::Feed(..) | Self::Relay => vec![Port::required("out")],
            Self::Laps => vec![Port::required("out"), Port::required("again")],
            Self::Tally(_) => vec![],
        };
        BareSpec { bare: self, ports }
    }
}

/// Spec of a bare stage.
pub struct BareSpec {
    bare: Bare,
    ports: Vec<Port>,
}

impl Spec<u64> for BareSpec {
    fn ports(&self) -> &[Port] {
        &self.ports
    }
    fn contract(&self) -> Contract {
        let source = matches!(self.bare, Bare::Feed(..));
        Contract { source, polls: source, sink: matches!(self.bare, Bare::Tally(_)), ..Contract::default() }
    }
    fn key(&self, item: u64) -> u64 {
        item
    }
    fn build(&self, seat: &Seat) -> Result<Box<dyn Stage<u64>>, BuildError> {
        Ok(match self.bare.clone() {
            Bare::Feed(gate, value) => {
                let _ = gate.waker.set(seat.waker.clone());
                Box::new(Feed { gate, made: 0, value })
            }
            Bare::Relay => Box::new(Relay),
            Bare::Laps => Box::new(Laps),
            Bare::Tally(tally) => Box::new(End(tally)),
        })
    }
}

struct Feed {
    gate: Arc<Gate>,
    made: u64,
    value: u64,
}

/// Items that a feed makes in one poll at most.
const BUDGET: u64 = 64;

impl Stage<u64> for Feed {
    fn run(&mut self, _input: &mut Batch<u64>, _out: &mut Outlet<u64>, _cx: &mut Context) -> Flow {
        Flow::Done
    }
    fn poll(&mut self, out: &mut Outlet<u64>, _cx: &mut Context) -> Polled {
        let before = self.made;
        let until = self.gate.open.load(Ordering::Acquire).min(before + BUDGET);
        while self.made < until && out.push(PortId(0), self.value).is_ok() {
            self.made += 1;
        }
        if self.made > before { Polled::Busy } else { Polled::Idle }
    }
}

struct Relay;

impl Stage<u64> for Relay {
    fn run(&mut self, input: &mut Batch<u64>, out: &mut Outlet<u64>, _cx: &mut Context) -> Flow {
        while let Some(item) = input.peek() {
            if out.push(PortId(0), item).is_err() {
                return Flow::More;
            }
            input.pop();
        }
        Flow::Done
    }
}

struct Laps;

impl Stage<u64> for Laps {
    fn run(&mut self, input: &mut Batch<u64>, out: &mut Outlet<u64>, _cx: &mut Context) -> Flow {
        while let Some(item) = input.peek() {
            let port = PortId(u16::from(item > 0));
            if out.push(port, item.saturating_sub(1)).is_err() {
                return Flow::More;
            }
            input.pop();
        }
        Flow::Done
    }
}

struct End(Arc<Tally>);

impl Stage<u64> for End {
    fn run(&mut self, input: &mut Batch<u64>, _out: &mut Outlet<u64>, _cx: &mut Context) -> Flow {
        self.0.add(input.len() as u64);
        input.clear();
        Flow::Done
    }
}
