//! What all stages together cost a slice, without any I/O: medians of interleaved rounds over a transport that moves
//! nothing. Deliberately no harness: `cargo bench -p pipeline-stages` prints one line a case, and fails when
//! `SLICES_NS_MAX` is set and missed. `CASES=inline` runs those whose names begin so; `ROUNDS=31` more of them.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to clean up")]

mod cases;
mod line;
#[path = "../../tests/rig/mod.rs"]
mod rig;

use std::time::{Duration, Instant};

use cases::{Bed, Case};

/// CPU time of this process: unlike the wall's, it says the same on a busy machine.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// ns a slice: CPU time and the wall's.
#[derive(Clone, Copy)]
struct Price {
    cpu: f64,
    wall: f64,
}

fn measure(case: &Case, bed: &Bed) -> Price {
    let (start, cpu) = (Instant::now(), cpu_time());
    bed.round(case);
    let ns = |t: Duration| t.as_secs_f64() * 1e9 / case.slices() as f64;
    Price { cpu: ns(cpu_time() - cpu), wall: ns(start.elapsed()) }
}

fn median(prices: &[Price], of: fn(&Price) -> f64) -> (f64, f64) {
    let mut all: Vec<f64> = prices.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    (all[0], all[all.len() / 2])
}

fn main() {
    // `cargo test --benches` runs this with `--test`: one short round shows that it works.
    let smoke = std::env::args().any(|a| a == "--test");
    let number = |name| std::env::var(name).ok().and_then(|r| r.parse::<f64>().ok());
    let rounds = number("ROUNDS").map_or(if smoke { 1 } else { 15 }, |r| r as usize);
    let wanted = std::env::var("CASES").unwrap_or_default();
    let limit = number("SLICES_NS_MAX");
    let mut missed = false;
    for group in cases::groups() {
        let cases: Vec<_> =
            group.into_iter().filter(|c| c.name.starts_with(&wanted) && !(smoke && c.large)).collect();
        let beds: Vec<Bed> = cases.iter().map(Bed::new).collect();
        let mut prices = vec![Vec::new(); cases.len()];
        // A first round touches all tables, and does not count.
        for round in 0..=rounds {
            for ((case, bed), prices) in cases.iter().zip(&beds).zip(&mut prices) {
                let price = measure(case, bed);
                if round > 0 || smoke {
                    prices.push(price);
                }
            }
        }
        for (case, prices) in cases.iter().zip(&prices) {
            let ((least, cpu), (_, wall)) = (median(prices, |p| p.cpu), median(prices, |p| p.wall));
            let rate = 1e3 / wall;
            println!(
                "{:38} CPU ns/slice: median {cpu:6.1}, least {least:6.1}   wall: {wall:6.1}, {rate:5.2} M slices/s",
                case.name
            );
            missed |= limit.is_some_and(|limit| case.judged && cpu > limit);
        }
    }
    if missed {
        eprintln!("missed: at most {} ns/slice", limit.unwrap_or_default());
        std::process::exit(1);
    }
}
