//! What an edge costs, without any I/O: nanoseconds per item and edge.
//!
//! Rounds of all cases are interleaved, because a noisy machine favours whoever runs in its quiet moments;
//! each line gives the median and the spread. `ROUNDS=21` for more of them. Targets: inline ≤ 5 ns, a queue at
//! batch 32 ≤ 20 ns. Judged by CPU time, that of both ends together: the stricter clock on a quiet machine, and
//! the only fair one on a busy machine, where the wall counts what others run as well.
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
const BUSY: Wait =
    Wait { spin_ns: 50_000, yield_ns: 200_000, park_ns: 1_000_000_000, adaptive: false, price_percent: 50 };

/// What a run took, ns per item and edge.
#[derive(Clone, Copy)]
struct Price {
    cpu: f64,
    wall: f64,
}

/// One way to price an edge.
struct Case {
    name: &'static str,
    target_ns: Option<f64>,
    run: fn() -> Price,
}

const CPU: fn(&Price) -> f64 = |price| price.cpu;
const WALL: fn(&Price) -> f64 = |price| price.wall;

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
    let mut prices = vec![Vec::new(); CASES.len()];
    for _ in 0..rounds {
        for (case, prices) in CASES.iter().zip(&mut prices) {
            prices.push((case.run)());
        }
    }
    println!("{:<34} {:^26}  {:^26}", "ns per item and edge", "CPU time", "wall");
    println!(
        "{:<34} {:>8} {:>8} {:>8}  {:>8} {:>8} {:>8}",
        "", "median", "least", "most", "median", "least", "most"
    );
    for (case, prices) in CASES.iter().zip(&prices) {
        let [cpu, wall] = [CPU, WALL].map(|by| spread(prices, by));
        let judged = cpu[0];
        let target = match case.target_ns {
            Some(target) if judged <= target => format!("≤ {target} met"),
            Some(target) => format!("≤ {target} MISSED"),
            None => String::new(),
        };
        let line = [cpu, wall].map(|[median, least, most]| format!("{median:>8.2} {least:>8.2} {most:>8.2}"));
        println!("{:<34} {}  {}  {target}", case.name, line[0], line[1]);
    }
}

/// Median, least and most.
fn spread(prices: &[Price], by: fn(&Price) -> f64) -> [f64; 3] {
    let mut figures: Vec<f64> = prices.iter().map(by).collect();
    figures.sort_by(f64::total_cmp);
    [figures[figures.len() / 2], figures[0], figures[figures.len() - 1]]
}

/// What all items take, from the release of the first to the end of the last, for so many edges each.
fn measure(draw: impl FnOnce(Bare, Bare) -> Rig, value: u64) -> Price {
    let (gate, tally) = (Gate::open(0), Tally::new(ITEMS));
    let rig = draw(Bare::Feed(gate.clone(), value), Bare::Tally(tally.clone()));
    let engine = rig.start().expect("a sound graph");
    let (cpu, wall) = (cpu_ns(), Instant::now());
    gate.release(ITEMS);
    tally.wait(Duration::from_secs(120)).expect("two million items in two minutes");
    let (cpu, wall) = (cpu_ns() - cpu, wall.elapsed().as_nanos());
    actors::stop(engine);
    Price { cpu: cpu as f64 / ITEMS as f64, wall: wall as f64 / ITEMS as f64 }
}

fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

impl Price {
    /// The price of one of `edges`, after the price of what is not an edge.
    fn each(self, edges: u64, rest: Self) -> Self {
        let each = |all: f64, rest: f64| (all - rest) / edges as f64;
        Self { cpu: each(self.cpu, rest.cpu), wall: each(self.wall, rest.wall) }
    }
}

const NOTHING: Price = Price { cpu: 0.0, wall: 0.0 };

/// A chain with so many edges of `mode` in one pool.
fn chain(edges: u64, mode: Mode) -> Price {
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
    measure(draw, 0)
}

fn inline() -> Price {
    chain(1 + HOPS, Mode::Inline).each(HOPS, chain(1, Mode::Inline))
}

fn queue_within() -> Price {
    chain(1 + HOPS, queue(64)).each(HOPS, chain(1, queue(64)))
}

fn queue_across() -> Price {
    let draw = |feed: Bare, end: Bare| {
        Rig::default()
            .pool_waiting("p", 1, BUSY)
            .pool_waiting("q", 1, BUSY)
            .stage("feed", Some("p"), feed.spec())
            .stage("end", Some("q"), end.spec())
            .edge("feed -> end", queue(64))
    };
    measure(draw, 0)
}

fn three_pools() -> Price {
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
    measure(draw, 0).each(2, NOTHING)
}

fn laps() -> Price {
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
    measure(draw, LAPS).each(LAPS, NOTHING)
}
