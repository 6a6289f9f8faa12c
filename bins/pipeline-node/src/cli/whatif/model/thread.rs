//! Threads: what one does now, what it will do next, and how it waits when there is nothing. Those of the engine wait as
//! their pool says (`graph/src/wait`), an application's sleep or look.

use std::collections::VecDeque;

use pipeline_graph::Wait;

use super::agenda::Time;
use super::world::{Event, World};

/// By what share of itself one gap moves the middle of gaps, at most.
const GAP_STEP: f64 = 0.1;

/// Whose thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A worker of the engine.
    Worker,
    /// The application's: which one.
    Application(usize),
    /// A peer's: which one.
    Peer(usize),
    /// The kernel's, beside all others.
    Kernel,
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has work in hand.
    Working,
    /// It looks, and nobody else has its CPU.
    Spinning,
    /// It looks, and whoever has work goes first.
    Yielding,
    /// It sleeps.
    Parked,
    /// It was rung for and is not awake yet.
    Waking,
}

/// What it will do; stages on behalf of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Take a batch from the ring of a stage.
    TakeIn { worker: usize, stage: usize },
    /// Run a stage on what lies before it.
    Run { worker: usize, stage: usize },
    /// Poll a stage, for the so-manieth time this turn.
    Poll { worker: usize, stage: usize, round: usize },
    /// Send on what was not a full batch.
    Flush { worker: usize },
    /// Read and answer requests.
    Serve,
    /// Submit a batch.
    Submit,
    /// Find a batch ended.
    Collect,
}

/// What it has in hand, until its CPU time is over.
#[derive(Clone, Debug)]
pub enum Doing {
    /// Noticing what came, falling asleep, waking.
    Coming,
    /// A stage, with what it was given.
    Stage { worker: usize, stage: usize, tokens: Vec<u32> },
    /// Writing to a lane: what is written with this piece, and what is left of the call.
    Write { lane: usize, backward: bool, piece: u64, left: u64 },
    /// Reading from a lane.
    Read { lane: usize, backward: bool, bytes: u64 },
    /// A batch that is being submitted, since when.
    Submit { since: Time },
    /// A batch that has ended.
    Collect { batch: u32 },
}

/// See the file's head.
pub struct Thread {
    pub name: String,
    pub whose: Whose,
    /// Workers whose turns it takes.
    pub seats: Vec<usize>,
    /// Whether it is on our CPUs.
    pub is_here: bool,
    pub wait: Wait,
    pub is_pinned: bool,
    pub state: State,
    pub ops: VecDeque<Op>,
    pub doing: Option<Doing>,
    /// Something came since it last looked.
    pub bell: bool,
    /// This turn has moved something.
    pub moved: bool,
    /// The price of the turn was not paid yet.
    pub turn_due: bool,
    /// CPU time that its next work takes on top.
    pub debt_ns: f64,
    /// Tells idle periods apart.
    pub period: u64,
    pub idle_since: Time,
    /// Middle of the gaps to the next work.
    pub gap_ns: f64,
    pub busy_since: Time,
    pub tally: Tally,
}

/// What is counted of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// CPU time of its work.
    pub work_ns: f64,
    /// Time between the beginning and the end of work: more than that if it waited for a CPU.
    pub busy_ns: f64,
    /// Sleeps.
    pub parks: u64,
}

impl Thread {
    pub fn new(name: String, whose: Whose, wait: Wait, is_here: bool) -> Self {
        Self {
            name,
            whose,
            seats: Vec::new(),
            is_here,
            wait,
            is_pinned: false,
            state: State::Working,
            ops: VecDeque::new(),
            doing: None,
            bell: true,
            moved: false,
            turn_due: false,
            debt_ns: 0.0,
            period: 0,
            idle_since: 0.0,
            gap_ns: 20_000.0,
            busy_since: 0.0,
            tally: Tally::default(),
        }
    }
}

impl World<'_> {
    /// A thread goes on: with its next work, or to wait.
    pub fn go(&mut self, t: usize) {
        loop {
            while let Some(op) = self.threads[t].ops.pop_front() {
                if self.perform(t, op) {
                    return;
                }
            }
            if let Some(op) = self.application_next(t) {
                self.threads[t].ops.push_back(op);
                continue;
            }
            if self.kernel_next(t) {
                return;
            }
            let thread = &mut self.threads[t];
            if thread.bell || thread.moved {
                (thread.bell, thread.moved) = (false, false);
                self.begin_turn(t);
                if !self.threads[t].ops.is_empty() {
                    continue;
                }
            }
            return self.idle(t);
        }
    }

    /// Begins work of so many nanoseconds.
    pub fn start(&mut self, t: usize, doing: Doing, ns: f64) {
        let thread = &mut self.threads[t];
        let ns = ns + std::mem::take(&mut thread.debt_ns);
        thread.doing = Some(doing);
        thread.moved = true;
        thread.tally.work_ns += ns;
        thread.busy_since = self.now;
        if thread.is_here {
            self.cpus.work(t, ns);
        } else {
            self.agenda.enter(self.now + ns, Event::Done(t));
        }
    }

    /// Its work is over.
    pub fn done(&mut self, t: usize) {
        self.threads[t].tally.busy_ns += self.now - self.threads[t].busy_since;
        if let Some(doing) = self.threads[t].doing.take()
            && !self.finish(t, doing)
        {
            self.go(t);
        }
    }

    /// Something is there for it. `ringer` pays for waking it.
    pub fn notify(&mut self, t: usize, ringer: Option<usize>) {
        let sleep = self.setup.costs.sleep;
        let thread = &mut self.threads[t];
        thread.bell = true;
        let gap = self.now - thread.idle_since;
        match thread.state {
            State::Working | State::Waking => {}
            State::Spinning | State::Yielding => {
                thread.learn(gap);
                self.looks(t, false);
                self.threads[t].state = State::Working;
                self.start(t, Doing::Coming, sleep.look_ns);
            }
            State::Parked => {
                thread.state = State::Waking;
                thread.learn(gap);
                // A CPU that somebody else has need not be woken, only waited for.
                let is_woken = !thread.is_here || self.cpus.call(t);
                if let Some(ringer) = ringer
                    && self.threads[ringer].is_here
                {
                    self.threads[ringer].debt_ns += sleep.ringer_ns;
                }
                let wake_ns = if is_woken { sleep.wake_ns } else { 0.0 };
                self.agenda.enter(self.now + wake_ns, Event::Awake(t));
            }
        }
    }

    /// It is awake.
    pub fn awake(&mut self, t: usize) {
        self.threads[t].state = State::Working;
        if self.threads[t].is_here {
            self.cpus.came(t);
        }
        let costs = &self.setup.costs;
        let ns = match self.threads[t].whose {
            Whose::Application(_) => costs.sleep.sleeper_ns,
            _ => costs.socket_sleeper_ns,
        };
        self.start(t, Doing::Coming, ns);
    }

    fn idle(&mut self, t: usize) {
        let thread = &mut self.threads[t];
        (thread.idle_since, thread.period) = (self.now, thread.period + 1);
        let sleep = self.setup.costs.sleep;
        let (spin_ns, yield_ns) = thread.patience(sleep.wake_ns, sleep.sleeper_ns, self.cpus.is_full());
        // Workers that are not pinned give way at every 16th look: to the others that is as good as a yield.
        let spins = spin_ns > 0.0 && thread.is_pinned;
        if spin_ns + yield_ns <= 0.0 {
            thread.state = State::Parked;
            thread.tally.parks += 1;
            return;
        }
        thread.state = if spins { State::Spinning } else { State::Yielding };
        self.looks(t, true);
        let ends = self.now + spin_ns + yield_ns;
        if ends.is_finite() {
            self.agenda.enter(ends, Event::Lapse(t, self.threads[t].period));
        }
    }

    /// It has looked as long as it will.
    pub fn lapse(&mut self, t: usize, period: u64) {
        let thread = &mut self.threads[t];
        if thread.period != period || !matches!(thread.state, State::Spinning | State::Yielding) {
            return;
        }
        thread.tally.parks += 1;
        self.looks(t, false);
        self.threads[t].state = State::Parked;
    }

    /// It begins or ends to look, with its CPU to itself or making room.
    fn looks(&mut self, t: usize, begins: bool) {
        let Thread { state, is_here: true, .. } = self.threads[t] else { return };
        match state {
            State::Spinning => self.cpus.spin(t, begins),
            State::Yielding => self.cpus.look(t, begins),
            _ => {}
        }
    }
}

impl Thread {
    /// Whether it waits for something to come.
    pub fn is_idle(&self) -> bool {
        !matches!(self.state, State::Working | State::Waking)
    }

    /// How long it spins and yields before it sleeps.
    fn patience(&self, wake_ns: f64, cpu_ns: f64, is_full: bool) -> (f64, f64) {
        let Wait { spin_ns, yield_ns, park_ns, adaptive, price_percent } = self.wait;
        if park_ns == 0 {
            return (f64::INFINITY, 0.0);
        }
        let (spin, yields) = (spin_ns as f64, yield_ns as f64);
        if !adaptive {
            return (spin, yields);
        }
        let price = price_percent as f64 / 100.0;
        let pays = price * self.gap_ns < wake_ns + price * cpu_ns && self.gap_ns < spin + yields;
        if pays && !is_full {
            (spin.min(2.0 * self.gap_ns), yields.min(2.0 * self.gap_ns))
        } else {
            (0.0, 0.0)
        }
    }

    /// A gap moves the middle a step towards it.
    fn learn(&mut self, gap: f64) {
        let step = GAP_STEP * self.gap_ns;
        self.gap_ns = (self.gap_ns + (gap - self.gap_ns).clamp(-step, step)).clamp(100.0, 1e9);
    }
}
