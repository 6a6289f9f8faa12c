//! One run: a worker that waits in one way, a producer that sends messages at the drawn gaps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeline_graph::clock::now;
use pipeline_graph::{
    Batch, Blueprint, BuildError, Context, Contract, Dispatch, EdgeDecl, Engine, Flow, Mode, Outlet,
    PoolDecl, PoolKind, Port, Seat, Shape as Ends, Spec, Stage, StageDecl, Wait, WhenFull, WorkerStats,
};

use crate::Case;
use crate::pace::{Shape, until};

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// From before the push to the worker's having it, µs.
    pub p50_us: f64,
    /// The same, of the slowest hundredth.
    pub p99_us: f64,
    /// CPU time of the worker a message, µs.
    pub cpu_us: f64,
    /// CPU time of the worker, in percent of a core.
    pub core_pct: f64,
    /// Wake-ups a message.
    pub wakes: f64,
    /// What the worker said of itself at the end.
    pub worker: WorkerStats,
}

impl Figure {
    /// What waiting in this way costs, µs of latency.
    pub fn cost(&self, price: f64) -> f64 {
        self.p50_us + price * self.cpu_us
    }
}

/// What producer and worker share. Index: the message.
struct Course {
    warm: usize,
    /// Where the worker shall go. It does not know that it stays there, so it waits as one that is not pinned.
    cpu: Option<usize>,
    sent: Vec<AtomicU64>,
    latency: Vec<AtomicU64>,
    /// The worker's CPU time and the time when the first message that counts was there, and the last.
    marks: [[AtomicU64; 2]; 2],
    done: AtomicU64,
}

struct Take {
    course: Arc<Course>,
}

impl Spec<u64> for Take {
    fn ports(&self) -> &[Port] {
        &[]
    }
    fn contract(&self) -> Contract {
        Contract { sink: true, ..Contract::default() }
    }
    fn build(&self, _: &Seat) -> Result<Box<dyn Stage<u64>>, BuildError> {
        Ok(Box::new(Take { course: self.course.clone() }))
    }
}

impl Stage<u64> for Take {
    fn run(&mut self, input: &mut Batch<u64>, _: &mut Outlet<u64>, _: &mut Context) -> Flow {
        let (course, at) = (&self.course, now());
        while let Some(message) = input.pop() {
            let i = message as usize;
            if let Some(cpu) = course.cpu.filter(|_| i == 0) {
                move_to(cpu);
            }
            course.latency[i]
                .store(at.saturating_sub(course.sent[i].load(Ordering::Relaxed)), Ordering::Relaxed);
            if i == course.warm {
                course.mark(0, at);
            }
            if i + 1 == course.sent.len() {
                course.mark(1, at);
            }
            course.done.store(message + 1, Ordering::Release);
        }
        Flow::Done
    }
}

impl Course {
    fn new(case: Case, cpu: Option<usize>) -> Arc<Self> {
        let zeros = |n: usize| (0..n).map(|_| AtomicU64::new(0)).collect();
        let all = case.warm + case.counted;
        let (sent, latency) = (zeros(all), zeros(all));
        Arc::new(Self {
            warm: case.warm,
            cpu,
            sent,
            latency,
            marks: Default::default(),
            done: AtomicU64::new(0),
        })
    }

    /// Called on the worker.
    fn mark(&self, which: usize, at: u64) {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        self.marks[which][0].store(cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64, Ordering::Relaxed);
        self.marks[which][1].store(at, Ordering::Relaxed);
    }

    fn figure(&self, wakes: u64, worker: WorkerStats) -> Figure {
        let mut latency: Vec<u64> =
            self.latency[self.warm..].iter().map(|l| l.load(Ordering::Relaxed)).collect();
        latency.sort_unstable();
        let counted = latency.len();
        let passed = |of: usize| {
            (self.marks[1][of].load(Ordering::Relaxed) - self.marks[0][of].load(Ordering::Relaxed)) as f64
        };
        Figure {
            p50_us: latency[counted / 2] as f64 / 1e3,
            p99_us: latency[(counted * 99 / 100).min(counted - 1)] as f64 / 1e3,
            cpu_us: passed(0) / (counted - 1) as f64 / 1e3,
            core_pct: 100.0 * passed(0) / passed(1),
            wakes: wakes as f64 / counted as f64,
            worker,
        }
    }
}

/// Keeps the calling thread on a CPU.
fn move_to(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).expect("one of the CPUs of this process");
}

/// A worker without anything but one sink.
fn engine(course: &Arc<Course>, wait: Wait) -> Engine<u64> {
    let take = Take { course: course.clone() };
    let shape = Ends { ports: vec![], contract: take.contract() };
    let mode = Mode::Queue { capacity: 1024, when_full: WhenFull::Wait, dispatch: Dispatch::Any };
    let blueprint = Blueprint {
        pools: vec![PoolDecl {
            name: "one".into(),
            kind: PoolKind::Resident,
            threads: 1,
            groups: vec![],
            wait,
            cpus: vec![],
            group_cpus: vec![],
            beside: false,
        }],
        stages: vec![StageDecl { name: "take".into(), kind: "take".into(), pool: Some(0), shape }],
        edges: vec![EdgeDecl { from: None, port: 0, to: 0, mode }],
        tokens: 1024,
        untimed: false,
    };
    Engine::start(&blueprint, vec![Arc::new(take)], Arc::new(())).expect("a sound graph")
}

/// Runs a case once. `cpus`: the worker's and the producer's, if they are to have their own.
pub fn run(case: Case, shape: Shape, seed: u64, wait: Wait, cpus: Option<[usize; 2]>) -> Figure {
    let course = Course::new(case, cpus.map(|[worker, _]| worker));
    let gaps = shape.draw(case.gap, course.sent.len(), seed);
    let mut engine = engine(&course, wait);
    if let Some([_, producer]) = cpus {
        move_to(producer);
    }
    let (inlet, mut wakes) = (engine.inlet(), 0);
    for (i, gap) in gaps.into_iter().enumerate() {
        until(now() + gap);
        if i == case.warm {
            wakes = engine.snapshot().workers[0].wakes;
        }
        course.sent[i].store(now(), Ordering::Relaxed);
        while inlet.push_all(&[i as u64]).is_err() {
            std::thread::yield_now();
        }
    }
    while course.done.load(Ordering::Acquire) < course.sent.len() as u64 {
        std::thread::yield_now();
    }
    let worker = engine.snapshot().workers.remove(0);
    engine.stop();
    course.figure(worker.wakes - wakes, worker)
}
