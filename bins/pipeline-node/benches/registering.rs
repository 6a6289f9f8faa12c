//! What registering many regions costs, on one thread and on several: 64 regions whose pages are brought in and locked by
//! each registration, as a device does, and of which each takes a device so long besides.
//!
//! `cargo bench -p pipeline-node --bench registering`; `REGIONS=64`, `MIB=4`, `DEVICE_US=2000`,
//! `ROUNDS=5`, `THREADS=1,2,4,8` say how much. Medians, with the spread. Deliberately no harness.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to clean up")]

use std::time::{Duration, Instant};

use pipeline_node::faults::{self, Effect, Plan, Rule, Site, When};
use pipeline_node::{Access, Engine, Memory, Source};

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |said| said.parse().unwrap())
}

/// Time to register all of them once.
fn round(node: &Engine, regions: u64, bytes: u64) -> Duration {
    let memories = (0..regions).map(|_| (Memory::allocate(bytes).unwrap(), Access::ReadWrite)).collect();
    let began = Instant::now();
    let registered = node.register_all(memories).unwrap();
    let took = began.elapsed();
    registered.into_iter().for_each(|region| drop(node.unregister(region).map_err(|(_, e)| e).unwrap()));
    took
}

fn main() {
    let (regions, mib, device_us) = (number("REGIONS", 64), number("MIB", 4), number("DEVICE_US", 2000));
    let rounds = number("ROUNDS", 5);
    let threads = std::env::var("THREADS").unwrap_or_else(|_| "1,2,4,8".into());
    let plan = Plan::default();
    plan.add(Rule::new(Site::Registration, When::Every(1), Effect::Lock));
    if device_us > 0 {
        let delay = Effect::Delay(Duration::from_micros(device_us));
        plan.add(Rule::new(Site::Registration, When::Every(1), delay));
    }
    let start = |set: &[String]| {
        let source =
            Source::text("bench", "version = 1\nuse = \"tcp\"\n").set(set.iter().map(String::as_str));
        faults::start(&source, &plan).unwrap_or_else(|e| panic!("{e}"))
    };
    let crew = |n: &str| {
        [format!("pools.register={{ kind='stealing', threads={n} }}"), "limits.register='register'".into()]
    };
    let mut cases = vec![("without a pool".to_owned(), start(&[]), Vec::new())];
    cases.extend(threads.split(',').map(|n| (format!("{n} threads"), start(&crew(n)), Vec::new())));
    for _ in 0..rounds {
        for (_, node, took) in &mut cases {
            took.push(round(node, regions, mib << 20));
        }
    }
    println!("{regions} regions of {mib} MiB, {device_us} us of a device each, {rounds} rounds");
    println!("{:<16} {:>9} {:>9} {:>9} {:>7}", "", "median", "least", "most", "times");
    let mut first = None;
    for (name, _, took) in &mut cases {
        took.sort_unstable();
        let ms = |at: usize| took[at].as_secs_f64() * 1e3;
        let median = ms(took.len() / 2);
        let base = *first.get_or_insert(median);
        println!(
            "{name:<16} {median:>6.1} ms {:>6.1} ms {:>6.1} ms {:>6.2}x",
            ms(0),
            ms(took.len() - 1),
            base / median
        );
    }
}
