//! What an edge costs, without any I/O: nanoseconds per item and edge.
//!
//! Rounds of all cases are interleaved, because a noisy machine favours whoever runs in its quiet moments;
//! each line gives the median and the spread. `ROUNDS=21` for more of them. Targets: inline ≤ 5 ns, a queue at
//! batch 32 ≤ 20 ns. What one worker does is measured by the process's CPU time, which others on the machine
//! cannot stretch; what two pools do together by the wall, since both may be busy at once.
//!
//! An inline edge is priced by the difference between a chain of many and a chain of one: the stages' own
//! work (take, look, push) is part of the price, feed and end are not.

#[path = "../tests/actors/mod.rs"]
mod actors;

use std::time::{Duration, Instant};

use actors::{Bare, Gate, Rig, Tally, back, queue};
use pipeline_graph::Mode;
use pipeline_graph::blueprint::Wait;

const ITEMS: u64 = 2_000_000;
const HOPS: u64 = 8;
const LAPS: u64 = 8;
const BUSY: Wait = Wait { spin_ns: 50_000, yield_ns: 200_000, park_ns: 1_000_000_000, adaptive: false };

/// One way to price an edge: runs once and gives ns per item and edge.
struct Case {
    name: &'static str,
    target_ns: Option<f64>,
    run: fn() -> f64,
}

const CASES: [Case; 5] = [
    Case { name: "inline edge", target_ns: Some(5.0), run: inline },
    Case { name: "queue edge, batch 32, one worker", target_ns: Some(20.0), run: queue_within },
    Case { name: "queue edge, batch 32, two pools", target_ns: Some(20.0), run: queue_across },
    Case { name: "queue edges in a row, three pools", target_ns: None, run: three_pools },
    Case { name: "return edge, a lap", target_ns: None, run: laps },
];

fn main() {
    // `cargo test --benches` runs this with `--test`: one short round shows that it works.
    let smoke = std::env::args().any(|a| a == "--test");
    let rounds =
        std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(if smoke { 1 } else { 9 });
    let mut figures = vec![Vec::new(); CASES.len()];
    for _ in 0..rounds {
        for (case, figures) in CASES.iter().zip(&mut figures) {
            figures.push((case.run)());
        }
    }
    println!("{:<36} {:>8} {:>8} {:>8}   target", "ns/item, of a round", "median", "least", "most");
    for (case, mut figures) in CASES.iter().zip(figures) {
        figures.sort_by(f64::total_cmp);
        let (least, median, most) = (figures[0], figures[figures.len() / 2], figures[figures.len() - 1]);
        let target = match case.target_ns {
            Some(target) if median <= target => format!("≤ {target} met"),
            Some(target) => format!("≤ {target} MISSED"),
            None => String::new(),
        };
        println!("{:<36} {median:>8.2} {least:>8.2} {most:>8.2}   {target}", case.name);
    }
}

/// By which clock a case is priced.
#[derive(Clone, Copy)]
enum By {
    Cpu,
    Wall,
}

/// Nanoseconds for all items, from the release of the first to the end of the last.
fn measure(by: By, draw: impl FnOnce(Bare, Bare) -> Rig, value: u64) -> f64 {
    let (gate, tally) = (Gate::open(0), Tally::new(ITEMS));
    let rig = draw(Bare::Feed(gate.clone(), value), Bare::Tally(tally.clone()));
    let engine = rig.start().expect("a sound graph");
    let (cpu, wall) = (cpu_ns(), Instant::now());
    gate.release(ITEMS);
    tally.wait(Duration::from_secs(120)).expect("two million items in two minutes");
    let ns = match by {
        By::Cpu => cpu_ns() - cpu,
        By::Wall => wall.elapsed().as_nanos() as u64,
    };
    actors::stop(engine);
    ns as f64
}

fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// A chain with so many edges of `mode` in one pool.
fn chain(edges: u64, mode: Mode) -> f64 {
    let draw = |feed: Bare, end: Bare| {
        let mut rig = Rig::default().pool_waiting("p", 1, BUSY).stage("s0", Some("p"), feed.spec());
        for i in 1..edges {
            rig = rig.stage(&format!("s{i}"), Some("p"), Bare::Relay.spec());
        }
        rig = rig.stage(&format!("s{edges}"), Some("p"), end.spec());
        for i in 0..edges {
            rig = rig.edge(&format!("s{i} -> s{}", i + 1), mode);
        }
        rig
    };
    measure(By::Cpu, draw, 0)
}

fn inline() -> f64 {
    (chain(1 + HOPS, Mode::Inline) - chain(1, Mode::Inline)) / (ITEMS * HOPS) as f64
}

fn queue_within() -> f64 {
    (chain(1 + HOPS, queue(64)) - chain(1, queue(64))) / (ITEMS * HOPS) as f64
}

fn queue_across() -> f64 {
    let draw = |feed: Bare, end: Bare| {
        Rig::default()
            .pool_waiting("p", 1, BUSY)
            .pool_waiting("q", 1, BUSY)
            .stage("feed", Some("p"), feed.spec())
            .stage("end", Some("q"), end.spec())
            .edge("feed -> end", queue(64))
    };
    measure(By::Wall, draw, 0) / ITEMS as f64
}

fn three_pools() -> f64 {
    let draw = |feed: Bare, end: Bare| {
        Rig::default()
            .pool_waiting("p", 1, BUSY)
            .pool_waiting("q", 1, BUSY)
            .pool_waiting("r", 1, BUSY)
            .stage("feed", Some("p"), feed.spec())
            .stage("relay", Some("q"), Bare::Relay.spec())
            .stage("end", Some("r"), end.spec())
            .edge("feed -> relay", queue(64))
            .edge("relay -> end", queue(64))
    };
    measure(By::Wall, draw, 0) / (ITEMS * 2) as f64
}

fn laps() -> f64 {
    let draw = |feed: Bare, end: Bare| {
        Rig::default()
            .pool_waiting("p", 1, BUSY)
            .stage("feed", Some("p"), feed.spec())
            .stage("work", Some("p"), Bare::Laps.spec())
            .stage("end", Some("p"), end.spec())
            .edge("feed -> work", Mode::Inline)
            .edge("work -> end", Mode::Inline)
            .edge("work.1 -> work", back())
            .tokens(ITEMS as usize)
    };
    measure(By::Cpu, draw, LAPS) / (ITEMS * LAPS) as f64
}
