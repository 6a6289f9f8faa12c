//! One request at a time, through the engine as a program has it: submit, wait, done. In process (the copy is made by the
//! thread that submits) and over TCP on loopback, by the files of the models and with stats on, as always.
//!
//! Two engines of one process: the initiator's stages are on the calling thread (`kind = "caller"`), the target is a node
//! of its own with a segment. A sample is from before `submit` until `wait` has answered, with two reads of the clock in it,
//! which are not taken off; `all` is the loop over everything, with the handle dropped.
//!
//! `cargo bench -p pipeline-node --bench single`; `CASES=process` runs those whose names begin so, `ROUNDS=9` and
//! `REQUESTS=200000` say how much, `PARTS=1` also says where the time goes, `SINGLE_NS_MAX=500` fails if the first
//! case's p50 is above. Deliberately no harness.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to clean up")]

use std::time::{Duration, Instant};

use pipeline_graph::{Clock, Snapshot};
use pipeline_node::{Batch, Engine, Options, Peer, Region, Request, Source};

const PATIENCE: Duration = Duration::from_secs(30);
const SEGMENT: u64 = 1 << 20;

const TO_COMPLETION: &str = include_str!("../../../configs/models/run_to_completion.toml");
const SPIN: [&str; 2] = ["pools.app.wait='spin'", "pools.nic.wait='spin'"];

/// A line of the table.
struct Case {
    name: &'static str,
    /// Whether both ends are reached by copying, in place of TCP.
    in_process: bool,
    set: &'static [&'static str],
    write: bool,
    bytes: u64,
    /// How many requests of `REQUESTS` one of this case stands for.
    slower: usize,
}

const CASES: [Case; 7] = [
    Case { name: "process: write 64 B", in_process: true, set: &SPIN, write: true, bytes: 64, slower: 1 },
    Case { name: "process: read 64 B", in_process: true, set: &SPIN, write: false, bytes: 64, slower: 1 },
    Case { name: "process: write 4 KiB", in_process: true, set: &SPIN, write: true, bytes: 4096, slower: 1 },
    Case {
        name: "tcp spinning: write 4 KiB",
        in_process: false,
        set: &SPIN,
        write: true,
        bytes: 4096,
        slower: 20,
    },
    Case {
        name: "tcp spinning: read 4 KiB",
        in_process: false,
        set: &SPIN,
        write: false,
        bytes: 4096,
        slower: 20,
    },
    Case {
        name: "tcp parked: write 4 KiB",
        in_process: false,
        set: &[],
        write: true,
        bytes: 4096,
        slower: 100,
    },
    Case {
        name: "tcp parked: read 4 KiB",
        in_process: false,
        set: &[],
        write: false,
        bytes: 4096,
        slower: 100,
    },
];

/// Two nodes, and a request from one to the other.
struct Bed {
    engine: Engine,
    request: Request,
    _local: Region,
    _peer: Peer,
    _target: Engine,
}

impl Bed {
    fn new(case: &Case) -> Self {
        let (tcp, mem) = ("type = \"tcp\"\nlanes = 2\n", "type = \"loopback\"\n");
        assert!(TO_COMPLETION.contains(tcp), "the model's transport is declared otherwise now");
        let text = if case.in_process { TO_COMPLETION.replace(tcp, mem) } else { TO_COMPLETION.into() };
        let node = |more: &[&str]| {
            let source = Source::text("run_to_completion", text.clone());
            Engine::from_source(&source.set(case.set.iter().chain(more).copied()))
                .unwrap_or_else(|e| panic!("{e}"))
        };
        let target = node(&["segments.kv={ kind='dram', size='1MiB', access='read_write' }"]);
        let engine = node(&[]);
        let local = engine.allocate(SEGMENT).unwrap();
        let peer = engine.open(&target.local_address().to_string()).unwrap_or_else(|e| panic!("{e}"));
        let there = peer.segment("kv").unwrap().at(0);
        let make = if case.write { Request::write } else { Request::read };
        let request = make(&local, 0, there, case.bytes);
        Self { engine, request, _local: local, _peer: peer, _target: target }
    }

    fn submit(&self) -> Batch {
        self.engine.submit(&[self.request], Options::default()).unwrap()
    }
}

/// ns, sorted where they are many.
struct Samples {
    whole: Vec<u64>,
    submit: Vec<u64>,
    all: f64,
}

fn measure(bed: &Bed, requests: usize, clock: &Clock) -> Samples {
    let (mut whole, mut submit) = (Vec::with_capacity(requests), Vec::with_capacity(requests));
    let split = std::env::var_os("PARTS").is_some();
    let begin = Instant::now();
    for _ in 0..requests {
        let start = clock.now();
        let batch = bed.submit();
        let submitted = if split { clock.now() } else { start };
        let summary = batch.wait(PATIENCE).unwrap();
        let end = clock.now();
        assert!(summary.is_done());
        drop(batch);
        whole.push(end - start);
        submit.push(submitted - start);
    }
    let all = begin.elapsed().as_nanos() as f64 / requests as f64;
    whole.sort_unstable();
    submit.sort_unstable();
    Samples { whole, submit, all }
}

fn at(sorted: &[u64], share: f64) -> u64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// What the initiator's own counters say of one request.
fn parts(delta: &Snapshot, requests: f64) {
    for worker in delta.workers.iter().filter(|w| w.turns > 0) {
        let (turns, spins) = (worker.turns as f64 / requests, worker.spins as f64 / requests);
        println!(
            "    {:8} {turns:.2} turns, {spins:.2} spins, {:.2} parks a request",
            worker.name,
            worker.parks as f64 / requests
        );
    }
    for stage in delta.stages.iter().filter(|s| s.polls + s.batches > 0) {
        let a = |n: u64| n as f64 / requests;
        println!(
            "    {:8} {:.2} runs, {:.2} polls ({:.2} busy) a request; p50 of one {} ns",
            stage.name,
            a(stage.batches),
            a(stage.polls),
            a(stage.busy_polls),
            stage.service.quantile(0.5),
        );
    }
}

fn main() {
    // `cargo test --benches` runs this with `--test`: one short round shows that it works.
    let smoke = std::env::args().any(|a| a == "--test");
    let number = |name| std::env::var(name).ok().and_then(|r| r.parse::<usize>().ok());
    let rounds = number("ROUNDS").unwrap_or(if smoke { 1 } else { 5 });
    let requests = number("REQUESTS").unwrap_or(if smoke { 2_000 } else { 200_000 });
    let wanted = std::env::var("CASES").unwrap_or_default();
    let clock = Clock::monotonic();
    let mut overhead: Vec<u64> = (0..10_000).map(|_| clock.now().abs_diff(clock.now())).collect();
    overhead.sort_unstable();
    println!("a read of the clock: {} ns; medians of {rounds} rounds", at(&overhead, 0.5));
    let mut missed = false;
    for (i, case) in CASES.iter().enumerate().filter(|(_, c)| c.name.starts_with(&wanted)) {
        let bed = Bed::new(case);
        let requests = (requests / case.slower).max(1);
        // What is touched for the first time, windows of TCP included.
        measure(&bed, requests.div_ceil(10), &clock);
        let before = bed.engine.stats();
        let samples: Vec<Samples> = (0..rounds).map(|_| measure(&bed, requests, &clock)).collect();
        let delta = bed.engine.stats().since(&before);
        let middle = |of: fn(&Samples) -> f64| median(&mut samples.iter().map(of).collect::<Vec<_>>());
        let p50 = middle(|s| at(&s.whole, 0.5) as f64);
        let (p99, submit) = (middle(|s| at(&s.whole, 0.99) as f64), middle(|s| at(&s.submit, 0.5) as f64));
        println!(
            "{:26} p50 {p50:6.0} ns  p99 {p99:6.0} ns  (submit {submit:5.0})  all {:6.0} ns",
            case.name,
            middle(|s| s.all)
        );
        if std::env::var_os("PARTS").is_some() {
            parts(&delta, (requests * rounds) as f64);
        }
        missed |= i == 0 && number("SINGLE_NS_MAX").is_some_and(|most| p50 > most as f64);
    }
    if missed {
        eprintln!("missed: at most {} ns", number("SINGLE_NS_MAX").unwrap_or_default());
        std::process::exit(1);
    }
}
