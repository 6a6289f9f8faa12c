//! What queueing theory knows in closed form, the model must come to: single servers, Little's law, closed networks,
//! deterministic lines, shared processors.

use pipeline_graph::Wait;

use super::costs::{Costs, Service, Sleep, Variation};
use super::setup::{Application, Arrival, Edge, Nic, Peers, Role, Setup, Stage, Waits, Way, Window, Worker};
use super::{Outcome, simulate};

const SPIN: Wait = Wait { spin_ns: 1, yield_ns: 0, park_ns: 0, adaptive: false, price_percent: 50 };

/// A line of stages, each with a worker of its own and a ring before it; slices of a byte; nothing else costs anything.
fn line(services_ns: &[f64], variation: &Variation, cores: f64, arrival: Arrival) -> Setup {
    let n = services_ns.len();
    let stage = |(i, ns): (usize, &f64)| Stage {
        name: format!("s{i}"),
        role: if i == 0 {
            Role::Split
        } else if i + 1 == n {
            Role::Notify
        } else {
            Role::Pass
        },
        workers: vec![i],
        input: Edge::Shared(1_000_000),
        next: (i + 1 < n).then_some(i + 1),
        service: Service { item_ns: *ns, ..Service::default() },
        variation: variation.clone(),
    };
    let worker = |i| Worker {
        name: format!("w{i}"),
        pool: format!("w{i}"),
        wait: SPIN,
        is_pinned: false,
        is_caller: false,
    };
    Setup {
        cores,
        stages: services_ns.iter().enumerate().map(stage).collect(),
        workers: (0..n).map(worker).collect(),
        nics: vec![Nic { bytes_per_s: None, latency_ns: 0.0 }],
        memory_bytes_per_s: None,
        is_per_nic: false,
        lanes: 0,
        peers: Peers { count: 1, are_here: false, wait: SPIN },
        slice_bytes: 1,
        frame_items: 64,
        frame_bytes: 1 << 22,
        window: Window { bytes: u64::MAX / 1000, slices: u64::MAX / 1000, share_percent: 100 },
        application: Application {
            threads: 1,
            batch: 1,
            bytes: 1,
            way: Way::Write,
            arrival,
            waits: Waits::Looking,
        },
        costs: Costs { sleep: Sleep::default(), ..Costs::default() },
        batch: 1,
        seed: 42,
    }
}

fn run(setup: &Setup, run_s: f64) -> Outcome {
    simulate(setup, 0.05 * run_s * 1e9, run_s * 1e9)
}

fn close(got: f64, want: f64, within: f64, what: &str) {
    assert!((got - want).abs() <= within * want, "{what}: {got}, theory says {want}");
}

/// A single server with Poisson arrivals: the mean time in it is that of M/D/1 and M/M/1 (Pollaczek–Khinchine), at three loads,
/// and its p99 that of M/M/1; and Little's law holds.
#[test]
fn single_servers() {
    let service_ns = 10_000.0;
    for load in [0.3, 0.6, 0.8] {
        let rate = load / service_ns * 1e9;
        for (variation, cv2) in [(Variation::None, 0.0), (Variation::Exponential, 1.0)] {
            // The stages around it take no time, and are on CPUs of their own.
            let mut setup = line(&[0.0, service_ns, 0.0], &variation, 100.0, Arrival::Poisson(rate));
            setup.stages[0].variation = Variation::None;
            let outcome = run(&setup, 1.0);
            let wait_ns = service_ns * load * (1.0 + cv2) / (2.0 * (1.0 - load));
            close(outcome.latency_ns, service_ns + wait_ns, 0.06, &format!("load {load}, cv² {cv2}"));
            close(outcome.requests_per_s, rate, 0.02, "throughput");
            close(outcome.stages[1].util_pct, 100.0 * load, 0.03, "utilisation");
            if cv2 == 1.0 {
                close(outcome.p99_ns, 100f64.ln() * service_ns / (1.0 - load), 0.1, "p99 of M/M/1");
            }
            // Little: what is waited for at the stage by its arrivals, and by its clock.
            close(outcome.stages[1].wait_ns, wait_ns, 0.1, "wait");
        }
    }
}

/// A line of fixed services with enough in flight goes as fast as its slowest stage; with one in flight as the sum of all.
#[test]
fn deterministic_lines() {
    let services = [3_000.0, 7_000.0, 5_000.0];
    let full = run(&line(&services, &Variation::None, 100.0, Arrival::Closed(16)), 0.2);
    close(full.requests_per_s, 1e9 / 7_000.0, 0.01, "bottleneck");
    close(full.latency_ns, 16.0 * 7_000.0, 0.02, "Little");
    let one = run(&line(&services, &Variation::None, 100.0, Arrival::Closed(1)), 0.2);
    close(one.requests_per_s, 1e9 / 15_000.0, 0.01, "one at a time");
}

/// Exact mean value analysis of a closed network of queues: throughput and time of a round with `n` in it.
fn mva(services_ns: &[f64], n: usize) -> (f64, f64) {
    let mut queues = vec![0.0; services_ns.len()];
    let (mut throughput, mut round) = (0.0, 0.0);
    for k in 1..=n {
        let times: Vec<f64> = services_ns.iter().zip(&queues).map(|(s, q)| s * (1.0 + q)).collect();
        round = times.iter().sum();
        throughput = k as f64 / round;
        queues = times.iter().map(|time| throughput * time).collect();
    }
    (throughput * 1e9, round)
}

/// A closed network of exponential servers comes to what mean value analysis says, for one to eight in flight.
#[test]
fn closed_networks() {
    let services = [4_000.0, 9_000.0, 6_000.0];
    for n in [1, 2, 4, 8] {
        let outcome = run(&line(&services, &Variation::Exponential, 100.0, Arrival::Closed(n)), 1.0);
        let (throughput, round_ns) = mva(&services, n);
        close(outcome.requests_per_s, throughput, 0.03, &format!("throughput with {n}"));
        close(outcome.latency_ns, round_ns, 0.03, &format!("round with {n}"));
    }
}

/// Four threads that always have work and two CPUs: the line goes at the speed that the CPUs have for all of its work.
#[test]
fn shared_processors() {
    let services = [6_000.0; 4];
    let outcome = run(&line(&services, &Variation::None, 2.0, Arrival::Closed(64)), 0.2);
    close(outcome.requests_per_s, 2e9 / 24_000.0, 0.02, "two CPUs for four threads");
    close(outcome.cpus, 2.0, 0.01, "both busy");
    let outcome = run(&line(&services, &Variation::None, 4.0, Arrival::Closed(64)), 0.2);
    close(outcome.requests_per_s, 1e9 / 6_000.0, 0.02, "a CPU for each");
}

/// The same seed, the same run, to the last digit; another seed, another run.
#[test]
fn repeatable() {
    let setup = line(&[1_000.0, 5_000.0, 1_000.0], &Variation::Exponential, 2.0, Arrival::Poisson(100_000.0));
    let (a, b) = (run(&setup, 0.05), run(&setup, 0.05));
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
    let other = Setup { seed: 43, ..setup };
    assert_ne!(format!("{a:?}"), format!("{:?}", run(&other, 0.05)));
}
