//! What workers cost each other where each carries its requests from end to end: slices a second of 1, 2, … workers of one
//! node, against as many wholly independent processes of one worker each, which is what the machine can do at best.
//! Deliberately no harness: `cargo bench -p pipeline-stages --bench scaling` prints one line a case, medians of interleaved
//! rounds. `ROUNDS=31` more of them; `WORKERS=4` how many at most, else as many as there are CPUs, up to 8.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to clean up")]

mod bed;
#[path = "../slices/line.rs"]
mod line;
#[path = "../../tests/rig/mod.rs"]
mod rig;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bed::{Bed, LOADS, Load, Price, REGIONS};
use pipeline_graph::Cpus;

/// Somebody who runs rounds.
enum Runner {
    /// Workers of one node in this process.
    Node(Box<Bed>),
    /// Processes of one worker each.
    Apart(Vec<Apart>),
}

/// Another process, which runs a round for each line that it reads.
struct Apart {
    child: Child,
    say: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Apart {
    fn start(load: usize, cpu: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--apart", &load.to_string(), &cpu.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (say, hear) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, say, hear }
    }

    fn hear(&mut self) -> Price {
        let mut line = String::new();
        self.hear.read_line(&mut line).unwrap();
        let mut numbers = line.split_whitespace().map(|n| n.parse().unwrap());
        Price { wall_ns: numbers.next().unwrap(), cpu_ns: numbers.next().unwrap() }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other end of [`Apart`].
fn apart(load: Load, cpu: usize) {
    let bed = Bed::new(load, 1, &[cpu]);
    for _ in std::io::stdin().lines() {
        let Price { wall_ns, cpu_ns } = bed.round();
        println!("{wall_ns} {cpu_ns}");
    }
}

impl Runner {
    fn round(&mut self) -> Price {
        match self {
            Self::Node(bed) => bed.round(),
            Self::Apart(all) => {
                all.iter_mut().for_each(|one| one.say.write_all(b"go\n").unwrap());
                let prices: Vec<Price> = all.iter_mut().map(Apart::hear).collect();
                let n = prices.len() as f64;
                // As fast together as the slowest of them.
                let wall_ns = prices.iter().map(|p| p.wall_ns).fold(0.0, f64::max) / n;
                Price { wall_ns, cpu_ns: prices.iter().map(|p| p.cpu_ns).sum::<f64>() / n }
            }
        }
    }
}

fn median(prices: &[Price], of: fn(&Price) -> f64) -> f64 {
    let mut all: Vec<f64> = prices.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|a| a == "--apart") {
        return apart(LOADS[args[at + 1].parse::<usize>().unwrap()], args[at + 2].parse().unwrap());
    }
    // `cargo test --benches` runs this with `--test`: one short round shows that it works.
    let smoke = args.iter().any(|a| a == "--test");
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let rounds = number("ROUNDS").unwrap_or(if smoke { 1 } else { 15 });
    let cpus = &Cpus::of_process().allowed;
    let most = number("WORKERS").unwrap_or(cpus.len()).clamp(1, REGIONS as usize);
    let place = |n: usize| -> Vec<usize> { cpus.iter().copied().cycle().take(n).collect() };
    for (at, load) in LOADS.into_iter().enumerate() {
        let mut runners = Vec::new();
        for n in 1..=most {
            runners.push((
                format!("{n} workers"),
                n,
                Runner::Node(Box::new(Bed::new(load, n, &place(n.min(cpus.len()))))),
            ));
        }
        for n in 2..=most {
            let all = place(n).into_iter().map(|cpu| Apart::start(at, cpu)).collect();
            runners.push((format!("{n} processes"), n, Runner::Apart(all)));
        }
        let mut prices = vec![Vec::new(); runners.len()];
        // A first round touches all tables, and does not count.
        for round in 0..=rounds {
            for ((_, _, runner), prices) in runners.iter_mut().zip(&mut prices) {
                let price = runner.round();
                if round > 0 || smoke {
                    prices.push(price);
                }
            }
        }
        let one = median(&prices[0], |p| p.wall_ns);
        for ((name, n, _), prices) in runners.iter().zip(&prices) {
            let (wall, cpu) = (median(prices, |p| p.wall_ns), median(prices, |p| p.cpu_ns));
            println!(
                "{:18} {name:12} {:6.2} M slices/s, {:5.1} % of ideal   CPU ns/slice: {cpu:6.1}",
                load.name,
                1e3 / wall,
                100.0 * one / wall / *n as f64
            );
        }
    }
}
