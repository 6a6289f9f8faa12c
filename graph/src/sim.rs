//! A simulator: the workers of an engine without threads, stepped one at a time in an order that a seed draws, under
//! a clock that stands still between two steps.
//!
//! A worker runs the very turn, arming and bell of production; only the sleep itself is a state here instead of a
//! system call. It is over when the bell was rung or the armed deadline has come, never by the longest sleep of the
//! pool: whoever relies on that has lost a wake-up. When all sleep the simulator wakes each of them once for
//! nothing, as a kernel may: one that finds work, and has not armed a deadline that is as good as here, slept beside
//! it. Then time may leap.
//!
//! Deliberately without descriptors and without anybody else who acts: what submits, dials or cancels is for the
//! caller, between two steps, and so is the leap.

use crate::assembly;
use crate::bell::Woken;
use crate::blueprint::Blueprint;
use crate::check::check;
use crate::clock::{Clock, Hands, Nanos, Time};
use crate::drain::Report;
use crate::edge::track::Track;
use crate::engine::{Shared, StartError, State, is_empty};
use crate::fault::{Fault, Faults};
use crate::inlet::Inlet;
use crate::instance::Beat;
use crate::item::Item;
use crate::stage::Spec;
use crate::stats::Snapshot;
use crate::stats::board::Board;
use crate::stealing::Crews;
use crate::sync::Arc;
use crate::wait::Pause;
use crate::worker::Worker;

/// Most and least time that a step takes.
const STEP_NS: (u64, u64) = (50, 1_500);

/// Stages arm deadlines rounded up to the tick of a coarse clock: work that is due by then may be found that much early.
const COARSE_NS: Nanos = 1 << 20;

/// Splitmix64: the same numbers for a seed, everywhere and for ever.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The dice of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Evenly from `0..n`; 0 for `n` = 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.roll()) * u128::from(n)) >> 64) as u64
    }

    /// Evenly from `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1))
    }

    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    ///
    /// # Panics
    /// When there are none.
    pub fn one_of<'a, X>(&mut self, of: &'a [X]) -> &'a X {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// Names an engine of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineId(usize);

/// What a step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// A worker did something, or looked whether there is something.
    Worker {
        /// Its name, with that of its engine's number before it.
        worker: String,
        /// What it did.
        what: &'static str,
    },
    /// All workers sleep, and each rightly so. The earliest armed deadline, if any is.
    Quiet(Option<Nanos>),
    /// A worker slept beside work that nobody had rung it for.
    LostWakeUp {
        /// Its name.
        worker: String,
    },
}

/// Where a worker stands between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Awake,
    /// It will announce a sleep.
    Tired,
    /// It has announced it, and will look once more.
    Announced,
    /// It found nothing, and arms this stage next.
    Arming(usize),
    Asleep,
}

struct Walker<T: Item> {
    worker: Worker<T>,
    name: String,
    stand: Stand,
    /// How much more often than others it is chosen.
    weight: u64,
}

struct Simulated<T: Item> {
    shared: Arc<Shared<T>>,
    board: Board,
    tracks: Vec<Track<T>>,
    reports: Vec<Arc<Report>>,
    walkers: Vec<Walker<T>>,
    stopped: bool,
}

/// See the file's head. All of its engines live in one time.
pub struct Simulation<T: Item> {
    dice: Dice,
    clock: Clock,
    hands: Hands,
    engines: Vec<Simulated<T>>,
}

impl<T: Item> Simulation<T> {
    /// Without engines yet. Its time starts at a second.
    pub fn new(seed: u64) -> Self {
        let (clock, hands) = Clock::simulated(1_000_000_000);
        Self { dice: Dice::new(seed), clock, hands, engines: Vec::new() }
    }

    /// The simulated time, for what else reads it.
    pub fn time(&self) -> Time {
        self.hands.time()
    }

    /// Now.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Lets time pass until `at`; nothing if that is past.
    pub fn leap(&self, at: Nanos) {
        self.hands.advance(at.saturating_sub(self.now()));
    }

    /// Builds an engine, as [`crate::Engine::start`] does, without threads.
    ///
    /// # Errors
    /// [`StartError`], as there.
    pub fn start(
        &mut self,
        blueprint: &Blueprint,
        specs: &[Arc<dyn Spec<T>>],
        faults: Arc<dyn Faults<T>>,
    ) -> Result<EngineId, StartError> {
        let complaints = check(blueprint);
        if !complaints.is_empty() {
            return Err(StartError::Refused { complaints });
        }
        let id = self.engines.len();
        if let Some(stage) = (0..blueprint.stages.len()).find(|s| blueprint.is_stolen(*s)) {
            let what = "runs in a `stealing` pool, whose threads no simulation steps".into();
            return Err(StartError::Mismatch { stage: blueprint.stages[stage].name.clone(), what });
        }
        let built = assembly::assemble(blueprint, specs, faults, &Crews::default())?;
        if built.callers.is_some() {
            let what = "runs in a `caller` pool, and nobody submits and waits in a simulation".into();
            return Err(StartError::Mismatch { stage: blueprint.stages[0].name.clone(), what });
        }
        let mut walkers = Vec::new();
        for mut worker in built.workers {
            worker.beat = Beat::new(self.clock.clone(), worker.beat.timed);
            let name = format!("{id}:{}", worker.name);
            let weight = self.dice.between(1, 6);
            walkers.push(Walker { worker, name, stand: Stand::Awake, weight });
        }
        let (shared, board, tracks, reports) = (built.shared, built.board, built.tracks, built.reports);
        self.engines.push(Simulated { shared, board, tracks, reports, walkers, stopped: false });
        Ok(EngineId(id))
    }

    /// A handle for submitting to the edge `submit -> STAGE`.
    pub fn inlet(&self, engine: EngineId) -> Inlet<T> {
        Inlet { entry: self.engines[engine.0].shared.entry.clone(), callers: None }
    }

    /// Where an engine stands.
    pub fn state(&self, engine: EngineId) -> State {
        let engine = &self.engines[engine.0];
        if engine.stopped { State::Stopped } else { engine.shared.state() }
    }

    /// All counters of an engine.
    pub fn snapshot(&self, engine: EngineId) -> Snapshot {
        let engine = &self.engines[engine.0];
        let mut snapshot = engine.board.snapshot();
        for track in &engine.tracks {
            track.add_to(&mut snapshot.edges[track.edge], engine.shared.entry.as_deref());
        }
        snapshot
    }

    /// Closes an engine's inlet and tells its stages to drain.
    pub fn drain(&mut self, engine: EngineId) {
        self.engines[engine.0].shared.close();
    }

    /// Whether nothing is left anywhere in an engine that drains.
    pub fn is_empty(&self, engine: EngineId) -> bool {
        let engine = &self.engines[engine.0];
        is_empty(&engine.tracks, &engine.reports)
    }

    /// Ends an engine's workers where they stand and fails what is left between stages.
    pub fn stop(&mut self, engine: EngineId) {
        let engine = &mut self.engines[engine.0];
        engine.stopped = true;
        engine.shared.close();
        engine.walkers.drain(..).for_each(|walker| walker.worker.end());
        for track in &engine.tracks {
            track.sweep(&mut |item| engine.shared.faults.mark(item, &Fault::Stopped, false));
        }
    }

    /// Lets one worker that is not asleep take its next step. Each step takes some time.
    pub fn step(&mut self) -> Stepped {
        let now = self.now();
        let mut total = 0;
        for walker in self.engines.iter_mut().flat_map(|e| &mut e.walkers) {
            if walker.can_go_on(now) {
                total += walker.weight;
            }
        }
        if total == 0 {
            return self.wake_for_nothing();
        }
        let mut at = self.dice.below(total);
        let took = self.dice.between(STEP_NS.0, STEP_NS.1);
        for walker in self.engines.iter_mut().flat_map(|e| &mut e.walkers) {
            if !walker.can_go_on(now) {
                continue;
            }
            if at < walker.weight {
                let what = walker.step(now);
                self.hands.advance(took);
                return Stepped::Worker { worker: walker.name.clone(), what };
            }
            at -= walker.weight;
        }
        Stepped::Quiet(None)
    }

    /// All sleep: each is woken and sent back to sleep, which must bring nothing to light.
    fn wake_for_nothing(&mut self) -> Stepped {
        let now = self.now();
        for walker in self.engines.iter_mut().flat_map(|e| &mut e.walkers) {
            let armed = walker.worker.sleeper.armed_until();
            if !walker.finds_work(now) {
                continue;
            }
            let worker = walker.name.clone();
            if armed > now.saturating_add(COARSE_NS) {
                return Stepped::LostWakeUp { worker };
            }
            walker.worker.sleeper.stay();
            walker.stand = Stand::Awake;
            return Stepped::Worker { worker, what: "is woken for nothing and works" };
        }
        // What one did may have rung another: it found nothing before, and may find nothing now.
        let mut walkers = self.engines.iter_mut().flat_map(|e| &mut e.walkers);
        if walkers.any(|walker| walker.can_go_on(now)) {
            return self.step();
        }
        let walkers = self.engines.iter().flat_map(|e| &e.walkers);
        let next = walkers.map(|walker| walker.worker.sleeper.armed_until()).min();
        Stepped::Quiet(next.filter(|at| *at != Nanos::MAX))
    }
}

impl<T: Item> Walker<T> {
    fn can_go_on(&mut self, now: Nanos) -> bool {
        self.stand != Stand::Asleep || self.worker.sleeper.is_over(now)
    }

    fn step(&mut self, now: Nanos) -> &'static str {
        let (stand, what) = match self.stand {
            Stand::Awake => self.look(now),
            Stand::Tired => {
                self.worker.sleeper.announce();
                (Stand::Announced, "announces a sleep")
            }
            Stand::Announced => {
                if self.worker.turn() {
                    self.worker.sleeper.stay();
                    self.worker.found();
                    (Stand::Awake, "finds work before it sleeps")
                } else {
                    (Stand::Arming(0), "looks once more")
                }
            }
            Stand::Arming(n) => self.arm(n),
            Stand::Asleep => match self.worker.sleeper.wake(now) {
                Some(Woken::Rung) => (Stand::Awake, "wakes: rung"),
                Some(Woken::Timed) => (Stand::Awake, "wakes: in time"),
                None => (Stand::Asleep, "sleeps"),
            },
        };
        self.stand = stand;
        what
    }

    fn look(&mut self, now: Nanos) -> (Stand, &'static str) {
        if self.worker.turn() {
            self.worker.found();
            return (Stand::Awake, "works");
        }
        match self.worker.waiting.next(now) {
            Pause::Park => (Stand::Tired, "finds nothing: tired"),
            Pause::Spin | Pause::Yield => (Stand::Awake, "finds nothing: waits"),
        }
    }

    fn arm(&mut self, n: usize) -> (Stand, &'static str) {
        let Worker { nodes, sleeper, beat, .. } = &mut self.worker;
        match nodes.get_mut(n) {
            Some(node) => {
                node.instance.arm(sleeper, beat);
                (Stand::Arming(n + 1), "arms")
            }
            None => (Stand::Asleep, "falls asleep"),
        }
    }

    /// Wakes it for nothing and sends it back to sleep. Whether it found something to do.
    fn finds_work(&mut self, now: Nanos) -> bool {
        self.worker.sleeper.stay();
        let found = self.worker.turn();
        self.worker.sleeper.announce();
        let found = found || self.worker.turn();
        let mut stand = Stand::Arming(0);
        while let Stand::Arming(n) = stand {
            stand = self.arm(n).0;
        }
        self.stand = stand;
        found || (self.worker.sleeper.is_busy() && !self.worker.sleeper.is_rung() && now > 0)
    }
}
