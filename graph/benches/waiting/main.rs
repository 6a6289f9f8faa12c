//! Adaptive polling against its rivals: park at once, spin for ever, and spin 100 ms, then sleep a second.
//!
//! One real worker, one real producer, unpinned; messages come one at a time at gaps that are fixed, exponential or
//! bimodal. cost = p50 µs + price × CPU µs of the worker a message, after the first messages. Rounds are interleaved:
//! within a round a case is run by every variant, one after the other, with the same gaps; what is judged are the
//! ratios of a round, by their median. Targets: ≤ 1.25 times the cheaper of spinning and parking on fixed gaps, ≤ 2
//! times on the others, and < 2 % of a core from 10 ms on.
//!
//! `ROUNDS=5` for more of them, `GAPS=1us,10us` for some of the gaps, `PRICE=100` for another price in percent, `APART=1`
//! to keep producer and worker on a CPU each: then it is not up to the scheduler whether a worker that is woken has
//! to wait for the producer's CPU.
//! Prints markdown. About 80 seconds with 3 rounds.

mod pace;
mod run;
mod table;

use std::time::Duration;

use pace::Shape;
use pipeline_graph::{Cpus, Wait};
use run::{Figure, run};
use table::Row;

const SECOND_NS: u64 = 1_000_000_000;
const PRICE_PERCENT: u64 = 25;

/// One line of the table.
#[derive(Clone, Copy)]
pub struct Case {
    gap: Duration,
    name: &'static str,
    /// Messages that do not count: at most 100.
    warm: usize,
    /// Those that do.
    counted: usize,
    /// Rounds for one that is asked for.
    repeat: usize,
}

const fn case(name: &'static str, gap_us: u64, warm: usize, counted: usize, repeat: usize) -> Case {
    Case { gap: Duration::from_micros(gap_us), name, warm, counted, repeat }
}

const CASES: [Case; 6] = [
    case("1us", 1, 100, 20_000, 2),
    case("10us", 10, 100, 4_000, 2),
    case("100us", 100, 100, 1_000, 2),
    case("1ms", 1_000, 100, 150, 1),
    case("10ms", 10_000, 20, 30, 1),
    case("100ms", 100_000, 4, 8, 1),
];

const SHAPES: [Shape; 3] = [Shape::Fixed, Shape::Exponential, Shape::Bimodal];

/// A number from the environment.
fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(or)
}

/// Who waits how. The first two are what adaptive is held against.
fn variants(price_percent: u64) -> [(&'static str, Wait); 4] {
    let wait =
        |spin_ns, yield_ns, park_ns, adaptive| Wait { spin_ns, yield_ns, park_ns, adaptive, price_percent };
    [
        ("spin", wait(u64::MAX, 0, 0, false)),
        ("park at once", wait(0, 0, SECOND_NS, false)),
        ("100 ms, then 1 s", wait(SECOND_NS / 10, 0, SECOND_NS, false)),
        ("adaptive", wait(20_000, 180_000, SECOND_NS, true)),
    ]
}

fn main() {
    // `cargo test --benches` runs this with `--test`: a short run shows that it works.
    let smoke = std::env::args().any(|a| a == "--test");
    let rounds = number("ROUNDS", if smoke { 1 } else { 3 }) as usize;
    let price = number("PRICE", PRICE_PERCENT);
    let only = std::env::var("GAPS").unwrap_or(if smoke { "10us".into() } else { String::new() });
    let cases = CASES.iter().filter(|c| only.is_empty() || only.split(',').any(|name| name == c.name));
    let variants = variants(price);
    let cpus = (number("APART", 0) != 0).then(|| [1, 0].map(|i| Cpus::of_process().allowed[i]));
    let mut rows: Vec<Row> =
        cases.flat_map(|case| SHAPES.map(|shape| Row::new(*case, shape, variants.len()))).collect();
    let repeat = rows.iter().map(|row| row.case.repeat).max().unwrap_or(1);
    for round in 0..rounds * repeat {
        for row in rows.iter_mut().filter(|row| round < rounds * row.case.repeat) {
            row.figures.push(in_turns(row.case, row.shape, round, &variants, cpus));
        }
    }
    println!("{}", table::markdown(&rows, &variants.map(|(name, _)| name), price as f64 / 100.0));
}

/// One round of a case: every variant once, with the same gaps; each round begins with another one.
fn in_turns(
    case: Case,
    shape: Shape,
    round: usize,
    variants: &[(&str, Wait); 4],
    cpus: Option<[usize; 2]>,
) -> Vec<Figure> {
    let mut figures = vec![Figure::default(); variants.len()];
    for turn in 0..variants.len() {
        let which = (turn + round) % variants.len();
        figures[which] = run(case, shape, round as u64, variants[which].1, cpus);
    }
    figures
}
