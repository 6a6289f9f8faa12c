//! What others cost whoever shares an engine with them, and what a submission costs by its length: the table of
//! `docs/performance.md`, by `cargo bench -p pipeline-node --bench isolation`. Deliberately no harness: `ROUNDS=9` sets the
//! number of interleaved rounds, and it fails when a target is missed only with `STRICT=1`.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to clean up")]

#[path = "../tests/isolation/folded.rs"]
mod folded;
#[path = "../tests/isolation/measure.rs"]
mod measure;
#[allow(dead_code, reason = "each program uses some of it")]
#[path = "../tests/cli/node.rs"]
mod node;
#[allow(dead_code, reason = "each program uses some of it")]
#[path = "../../../tests/tests/engine/rig.rs"]
mod rig;

use measure::{Beside, Giant, To, frozen_neighbour, submission};

fn main() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(9);
    let mut missed = 0;
    let mut line = |what: &str, b: &Beside, most: f64, more: String| {
        missed += u32::from(b.ratio > most);
        let verdict = if b.ratio > most { "**missed**" } else { "met" };
        println!("| {what} | {b} | ≤ {most} | {verdict} | {more} |");
    };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "Medians of {rounds} interleaved rounds (least–most); load average at the start {}",
        load.trim()
    );
    println!("\n| | alone µs | beside µs | ratio | target | | |\n|---|---|---|---|---|---|---|");
    let (submits, ns) = submission(rounds);
    line("`submit` of 10 000 and 150 000 requests", &submits, 15.0, format!("{ns:.0} ns a request"));
    line("1 000 × 64 KiB beside a frozen peer", &frozen_neighbour(rounds), 1.2, String::new());
    let giant = Giant::new(&[]);
    let counting = giant.beside_counting(rounds, 2_000);
    line(
        "p99 of 4 KiB writes beside a thread a CPU that only counts",
        &counting,
        f64::INFINITY,
        "for comparison".into(),
    );
    for (to, name) in [(To::OtherPeer, "another peer"), (To::SamePeer, "the same peer")] {
        for (write, op) in [(true, "write"), (false, "read")] {
            let (beside, gb_per_s) = giant.beside(rounds, 2_000, to, write);
            let what = format!("p99 of 4 KiB {op}s to {name} beside a {op} of 1 TiB");
            line(&what, &beside, 3.0, format!("which moves {gb_per_s:.2} GB/s meanwhile"));
        }
    }
    if missed > 0 && std::env::var_os("STRICT").is_some() {
        eprintln!("{missed} targets missed");
        std::process::exit(1);
    }
}
