//! What all stages together cost a slice, without any I/O: medians of interleaved rounds over a transport that
//! completes at once. Deliberately no harness: `cargo bench -p pipeline-stages` prints one line a case, and fails
//! when `SLICES_NS_MAX` is set and missed.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to clean up")]

#[path = "../tests/rig/mod.rs"]
mod rig;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline_stages::{Options, Request};
use pipeline_transports::{Access, Memory, Transport};
use rig::null::Null;
use rig::{INLINE, QUEUES, Rig, file, target};

/// CPU time of this process: unlike the wall's, it says the same on a busy machine.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// One case: how many slices a round has, and the round.
type Case<'a> = (&'static str, u64, Box<dyn Fn() + 'a>);

fn main() {
    const MIB: u64 = 1 << 20;
    let limits = "requests = 65536\nslices = 8192\nbatches = 16\npeers = 4\nbytes_in_flight = \"64MiB\"";
    let rigs = [INLINE, QUEUES].map(|model| {
        let config = file("type = \"loopback\"", model, limits, "4KiB");
        let mut there = target(&config, &[256 * MIB], Access::ReadWrite);
        let null = Arc::new(Null::default());
        there.view.offers = vec![null.offer()];
        let rig = Rig::start_over(&config, |_, _, _| null.clone());
        let peer = rig.meet("b", &there);
        rig.link(peer, &there);
        let source = rig.world.regions.add(Memory::allocate(256 * MIB).unwrap(), Access::Local).unwrap();
        (rig, there, peer, source)
    });
    let run = |rig: &Rig, requests: &[Request]| {
        let batch = rig.client.submit_wait(requests, Options::default(), Duration::from_secs(5)).unwrap();
        assert!(batch.wait(Duration::from_secs(30)).unwrap().is_done());
    };
    let mut cases: Vec<Case> = Vec::new();
    for ((rig, there, peer, source), names) in rigs.iter().zip([
        ["inline: 256 MiB in slices of 4 KiB", "inline: 60 000 requests of 64 B"],
        ["queues: 256 MiB in slices of 4 KiB", "queues: 60 000 requests of 64 B"],
    ]) {
        let write = |at, len| Request::write(*source, at, rig.remote(*peer, there, at), len);
        let (one, many) =
            (vec![write(0, 256 * MIB)], (0..60_000).map(|i| write(i * 64, 64)).collect::<Vec<_>>());
        cases.push((names[0], 65_536, Box::new(move || run(rig, &one))));
        cases.push((names[1], 60_000, Box::new(move || run(rig, &many))));
    }
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(15);
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for ((_, slices, round), times) in cases.iter().zip(&mut times) {
            let (start, cpu) = (Instant::now(), cpu_time());
            round();
            let ns = |t: Duration| t.as_secs_f64() * 1e9 / *slices as f64;
            times.push((ns(cpu_time() - cpu), ns(start.elapsed())));
        }
    }
    let limit = std::env::var("SLICES_NS_MAX").ok().and_then(|ns| ns.parse::<f64>().ok());
    for ((name, _, _), times) in cases.iter().zip(&mut times) {
        let middle = times.len() / 2;
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        let wall = times[middle].1;
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, median) = (times[0].0, times[middle].0);
        println!("{name:36} CPU ns/slice: median {median:6.1}, least {least:6.1}   wall: median {wall:6.1}");
        if limit.is_some_and(|limit| name.starts_with("inline") && median > limit) {
            eprintln!("missed: at most {} ns/slice", limit.unwrap_or_default());
            std::process::exit(1);
        }
    }
}
