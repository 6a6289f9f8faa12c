//! One seed: two nodes, what happens to them, and what must hold whatever happens.

use std::collections::VecDeque;

use pipeline_graph::State;
use pipeline_graph::sim::{Dice, Simulation, Stepped};
use pipeline_stages::{Batch, Key, Options, Reason, Request, Status};
use pipeline_transports::{Op, RegionId};
use std::time::Duration;

use crate::genes;
use crate::node::{HALF, Node};
use crate::rig::{bytes, pattern};

/// More steps than this are a livelock: a story takes some ten thousand.
const STEPS: u64 = 4_000_000;
/// How long after its deadline a batch may end: two looks at a lost completion, ticks of the wheels, and slow workers.
const LATE_NS: u64 = 60_000_000;
/// How long a cancelled WRITE may still be answered.
const RESPITE_NS: u64 = 100_000_000;

/// What happens at a time.
enum Act {
    Submit,
    Cancel,
    Kill,
    Panic,
}

/// A batch that has been accepted.
struct Open {
    batch: Batch,
    requests: Vec<Asked>,
    /// When its time is over. A cancel leaves it a respite.
    by: u64,
    node: usize,
}

/// A request, and the bytes that it may change.
struct Asked {
    op: Op,
    from: u64,
    to: u64,
    len: u64,
    /// What its destination held when its batch had ended, if nothing may change it any more.
    after: Option<Vec<u8>>,
}

/// What a seed came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub steps: u64,
    pub ended_at: u64,
    pub done: u64,
    pub failed: u64,
    pub panics: u64,
    /// The longest that a batch was not over after its deadline, or after it was cancelled.
    pub late_ns: u64,
    /// Of everything that happened, in order.
    pub hash: u64,
}

pub struct Story {
    seed: u64,
    dice: Dice,
    sim: Simulation<Key>,
    nodes: Vec<Node>,
    agenda: VecDeque<(u64, Act)>,
    open: Vec<Open>,
    ended: Vec<Open>,
    /// The next free place of each node's written half, at the other side and here.
    used: [(u64, u64); 2],
    told: Told,
    trace: bool,
}

impl Story {
    pub fn new(seed: u64, trace: bool) -> Self {
        let mut dice = Dice::new(seed ^ 0x5EED);
        let mut sim = Simulation::new(seed);
        let mut nodes = Vec::new();
        for name in ["left", "right"] {
            let text = genes::file(&mut dice, seed, name);
            if trace {
                eprintln!("{text}");
            }
            nodes.push(Node::start(&mut sim, &text, &mut dice));
        }
        for (one, other) in [(0, 1), (1, 0)] {
            nodes[one].meet(nodes[other].view());
        }
        let agenda = agenda(&mut dice, sim.now());
        let (open, ended, used) = (Vec::new(), Vec::new(), [(HALF, HALF); 2]);
        Self { seed, dice, sim, nodes, agenda, open, ended, used, told: Told::default(), trace }
    }

    fn note(&mut self, what: &str) {
        for byte in what.bytes() {
            self.told.hash = (self.told.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.trace {
            eprintln!("{:>14.6} ms  {what}", self.sim.now() as f64 / 1e6);
        }
    }

    #[track_caller]
    fn must(&self, holds: bool, what: &str) {
        assert!(holds, "SIM_SEED={}: at {} ns, step {}: {what}", self.seed, self.sim.now(), self.told.steps);
    }

    /// Lets everything happen, and checks what must hold.
    pub fn run(mut self) -> Told {
        while !(self.agenda.is_empty() && self.open.is_empty()) {
            self.once();
        }
        self.settle();
        self.end();
        self.told.ended_at = self.sim.now();
        self.told
    }

    /// One thing: somebody outside acts, or a worker steps, or time leaps.
    fn once(&mut self) {
        self.told.steps += 1;
        self.must(self.told.steps < STEPS, "no end: a livelock");
        let now = self.sim.now();
        while self.agenda.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, act)) = self.agenda.pop_front() else { break };
            self.act(&act);
        }
        for n in 0..self.nodes.len() {
            if self.nodes[n].has_duties(now) && self.dice.percent(10) {
                let did = self.nodes[n].do_duty(now, &mut self.dice);
                self.note(&format!("{n}: control: {did}"));
            }
        }
        match self.sim.step() {
            Stepped::Worker { worker, what } => self.note(&format!("{worker} {what}")),
            Stepped::LostWakeUp { worker } => {
                self.must(false, &format!("`{worker}` slept beside work: a lost wake-up"));
            }
            Stepped::Quiet(next) => self.leap(next),
        }
        self.look();
    }

    /// All sleep: on to whatever comes first.
    fn leap(&mut self, armed: Option<u64>) {
        let now = self.sim.now();
        if self.nodes.iter().any(|node| node.has_duties(now)) {
            return;
        }
        let duties = self.nodes.iter().filter_map(Node::next_duty).min();
        let act = self.agenda.front().map(|(at, _)| *at);
        let Some(next) = [armed, duties, act].into_iter().flatten().min() else {
            self.must(
                self.open.is_empty(),
                "all sleep, nothing is armed, and batches are open: a lost wake-up",
            );
            return;
        };
        self.note("all sleep");
        self.sim.leap(next);
    }

    fn act(&mut self, act: &Act) {
        let n = self.dice.below(self.nodes.len() as u64) as usize;
        match act {
            Act::Submit => self.submit(n),
            Act::Cancel if self.open.is_empty() => {}
            Act::Cancel => {
                let at = self.dice.below(self.open.len() as u64) as usize;
                let now = self.sim.now();
                let open = &mut self.open[at];
                open.batch.cancel();
                open.by = open.by.min(now + RESPITE_NS);
                self.note("cancels a batch");
            }
            Act::Kill => {
                self.nodes[n].kill_a_link(&mut self.dice);
                self.note(&format!("{n}: a link is killed"));
            }
            Act::Panic => {
                let (stage, wire) = self.dice.one_of(&self.nodes[n].wires).clone();
                wire.set(self.dice.below(40) as usize);
                self.note(&format!("{n}: `{stage}` shall panic"));
            }
        }
    }

    fn submit(&mut self, n: usize) {
        let asked = self.draw_requests(n);
        if asked.is_empty() {
            return;
        }
        let node = &self.nodes[n];
        let request = |a: &Asked| match a.op {
            Op::Write => Request::write(node.local, a.from, node.remote(a.to), a.len),
            Op::Read => Request::read(node.local, a.to, node.remote(a.from), a.len),
        };
        let requests: Vec<Request> = asked.iter().map(request).collect();
        let within = *self.dice.one_of(&[2, 20, 300, 3_000]);
        let options = Options { deadline: Some(Duration::from_millis(within)), ..Options::default() };
        let submitted = node.client.submit(&requests, options);
        self.note(&format!(
            "{n}: submits {} requests within {within} ms: {}",
            requests.len(),
            submitted.is_ok()
        ));
        if let Ok(batch) = submitted {
            let by = self.sim.now() + within * 1_000_000;
            self.open.push(Open { batch, requests: asked, by, node: n });
        }
    }

    /// Requests whose destinations nobody else has.
    fn draw_requests(&mut self, n: usize) -> Vec<Asked> {
        let most = *self.dice.one_of(&[1, 4, 30]);
        let largest = *self.dice.one_of(&[1, 700, 5_000, 40_000]);
        let mut asked = Vec::new();
        for _ in 0..self.dice.between(1, most) {
            let (op, len) = (*self.dice.one_of(&[Op::Write, Op::Read]), self.dice.between(1, largest));
            let used = if op == Op::Write { &mut self.used[n].0 } else { &mut self.used[n].1 };
            if *used + len > 2 * HALF {
                break;
            }
            let from = self.dice.below(HALF - len);
            asked.push(Asked { op, from, to: *used, len, after: None });
            *used += len;
        }
        asked
    }

    /// Looks after the batches.
    fn look(&mut self) {
        let now = self.sim.now();
        let mut at = 0;
        while at < self.open.len() {
            let over = self.open[at].batch.poll().is_some();
            let late_ns = now.saturating_sub(self.open[at].by);
            self.told.late_ns = self.told.late_ns.max(late_ns);
            if !over && late_ns > LATE_NS {
                let usage = self.nodes[self.open[at].node].world.ledger.usage();
                self.must(false, &format!("a batch is late: {:?} {usage:?}", self.open[at].batch));
            }
            if over {
                let mut open = self.open.swap_remove(at);
                self.judge(&mut open);
                self.ended.push(open);
            } else {
                at += 1;
            }
        }
    }

    /// The destination of a request: its region's table and the bytes it holds now.
    fn destination(&self, node: usize, asked: &Asked) -> Vec<u8> {
        let (at, region): (usize, RegionId) = match asked.op {
            Op::Write => (1 - node, self.nodes[1 - node].shared),
            Op::Read => (node, self.nodes[node].local),
        };
        bytes(&self.nodes[at].world.regions, region, asked.to, asked.len)
    }

    /// What each request of a batch that has ended says of itself must be so.
    fn judge(&mut self, open: &mut Open) {
        let statuses: Vec<Status> = open.batch.results().collect();
        let mut failed = 0;
        for (asked, status) in open.requests.iter_mut().zip(statuses) {
            let source = pattern(HALF, if asked.op == Op::Write { 2 } else { 1 });
            let source = &source[asked.from as usize..(asked.from + asked.len) as usize];
            let holds = self.destination(open.node, asked);
            let whole = holds.iter().zip(source).all(|(is, new)| is == new || *is == 0);
            self.must(whole, "bytes at a destination that nobody sent there");
            let undetermined = match status {
                Status::Pending => {
                    self.must(false, "a request is pending in a batch that is done");
                    false
                }
                Status::Done => {
                    self.must(holds == source, "done, and not all of it has been applied");
                    false
                }
                Status::Failed(failure) => {
                    failed += 1;
                    let known = matches!(
                        failure.reason,
                        Reason::Deadline
                            | Reason::Cancelled
                            | Reason::Undetermined
                            | Reason::Transport(_)
                            | Reason::PeerGone
                            | Reason::StagePanic
                    );
                    self.must(known, &format!("an odd reason: {failure}"));
                    failure.reason == Reason::Undetermined && asked.op == Op::Write
                }
            };
            asked.after = (!undetermined).then_some(holds);
        }
        let summary = open.batch.poll().unwrap_or_default();
        self.must(summary.failed == failed, "the summary counts other failures than there are");
        self.told.failed += u64::from(failed);
        self.told.done += u64::from(summary.requests - failed);
        self.note(&format!("{}: a batch has ended: {summary:?}", open.node));
    }

    /// Time goes on for a while; nothing may change what has ended.
    fn settle(&mut self) {
        let until = self.sim.now() + 300_000_000;
        while self.sim.now() < until {
            self.agenda.push_back((until, Act::Cancel));
            while !self.agenda.is_empty() {
                self.once();
            }
        }
        for open in &self.ended {
            for asked in &open.requests {
                let Some(after) = &asked.after else { continue };
                let holds = self.destination(open.node, asked);
                self.must(holds == *after, &format!("{:?} changed bytes after it had ended", asked.op));
            }
        }
    }

    /// Nothing is left, and both drain.
    fn end(&mut self) {
        self.ended.clear();
        for n in 0..self.nodes.len() {
            let usage = self.nodes[n].world.ledger.usage();
            self.must(usage.is_idle(), &format!("left behind: {usage:?}"));
            self.told.panics +=
                self.sim.snapshot(self.nodes[n].engine).stages.iter().map(|s| s.panics).sum::<u64>();
            self.must(self.sim.state(self.nodes[n].engine) == State::Running, "a pool has failed");
            let removed = self.nodes[n].world.regions.remove(self.nodes[n].local);
            self.must(removed.is_ok(), "a pin was left");
            self.sim.drain(self.nodes[n].engine);
        }
        for _ in 0..100_000 {
            if self.nodes.iter().all(|node| self.sim.is_empty(node.engine)) {
                break;
            }
            self.once();
        }
        for n in 0..self.nodes.len() {
            self.must(self.sim.is_empty(self.nodes[n].engine), "it does not drain");
            self.nodes[n].world.ledger.close();
            self.sim.stop(self.nodes[n].engine);
        }
    }
}

/// What will happen, and when.
fn agenda(dice: &mut Dice, start: u64) -> VecDeque<(u64, Act)> {
    let span = *dice.one_of(&[2_000_000, 50_000_000, 1_000_000_000]);
    let mut acts = Vec::new();
    let mut add = |dice: &mut Dice, n: u64, act: fn() -> Act| {
        for _ in 0..n {
            acts.push((start + dice.below(span), act()));
        }
    };
    let n = dice.between(1, 25);
    add(dice, n, || Act::Submit);
    let n = if dice.percent(50) { dice.below(6) } else { 0 };
    add(dice, n, || Act::Cancel);
    let n = if dice.percent(50) { dice.below(6) } else { 0 };
    add(dice, n, || Act::Kill);
    let n = if dice.percent(40) { dice.between(1, 4) } else { 0 };
    add(dice, n, || Act::Panic);
    acts.sort_by_key(|(at, _)| *at);
    acts.into()
}
