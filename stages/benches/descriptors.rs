//! What a list of descriptors costs its caller: nanoseconds a request in `submit`, and of all threads until the batch
//! is done, over a transport that completes at once. Deliberately no harness and no threshold: medians of interleaved
//! rounds, one line a case. `ROUNDS` sets how many, `REGIONS` how many regions the peer's segment has.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to clean up")]

#[path = "../tests/rig/mod.rs"]
mod rig;

use std::sync::Arc;
use std::time::Duration;

use pipeline_stages::{Batch, Options, Request};
use pipeline_transports::{Access, Memory, Transport};
use rig::null::Null;
use rig::{INLINE, Rig, file, target};
use rustix::time::{ClockId, clock_gettime};

const REQUESTS: u64 = 60_000;
const BYTES: u64 = 64;
/// Bytes of the peer's segment.
const SEGMENT: u64 = 16 << 20;

/// CPU time of this thread, or of the process: unlike the wall's, it says the same on a busy machine.
fn cpu_ns(of: ClockId) -> f64 {
    let t = clock_gettime(of);
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

/// One case, and what its rounds cost: in the submitting call, and all in all.
struct Case<'a> {
    name: &'static str,
    submit: Box<dyn Fn() -> Batch + 'a>,
    costs: [Vec<f64>; 2],
}

impl Case<'_> {
    fn round(&mut self) {
        let (thread, process) = (cpu_ns(ClockId::ThreadCPUTime), cpu_ns(ClockId::ProcessCPUTime));
        let batch = (self.submit)();
        let submitted = cpu_ns(ClockId::ThreadCPUTime) - thread;
        assert!(batch.wait(Duration::from_secs(30)).unwrap().is_done());
        drop(batch);
        for (costs, ns) in self.costs.iter_mut().zip([submitted, cpu_ns(ClockId::ProcessCPUTime) - process]) {
            costs.push(ns / REQUESTS as f64);
        }
    }

    fn say(&mut self) {
        let [submit, whole] = self.costs.each_mut().map(|costs| {
            costs.sort_by(f64::total_cmp);
            format!("{:6.1} ({:.1}-{:.1})", costs[costs.len() / 2], costs[0], costs[costs.len() - 1])
        });
        println!("{:28} ns/request: submit {submit}, whole {whole}", self.name);
    }
}

fn main() {
    let limits = "requests = 65536\nslices = 8192\nbatches = 16\npeers = 4\nbytes_in_flight = \"64MiB\"";
    let config = file("type = \"loopback\"", INLINE, limits, "4KiB");
    let number = |key, default| std::env::var(key).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    // As a KV cache of pages has them, unless it is asked otherwise.
    let regions = number("REGIONS", 4096);
    let mut there = target(&config, &vec![SEGMENT / regions; regions as usize], Access::ReadWrite);
    let null = Arc::new(Null::default());
    there.view.offers = vec![null.offer()];
    let rig = Rig::start_over(&config, |_, _, _| null.clone());
    let peer = rig.meet("b", &there);
    rig.link(peer, &there);
    let source = rig.world.regions.add(Memory::allocate(64 << 20).unwrap(), Access::Local).unwrap();
    let write = |at: u64| Request::write(source, at, rig.remote(peer, &there, at), BYTES);
    let gaps: Vec<_> = (0..REQUESTS).map(|i| write(i * 2 * BYTES)).collect();
    let adjacent: Vec<_> = (0..REQUESTS).map(|i| write(i * BYTES)).collect();
    // A prime step: each is in another region than the one before it.
    let scattered: Vec<_> = (0..REQUESTS).map(|i| write(i * 40_009 % REQUESTS * 2 * BYTES)).collect();
    let rows = [write(0).strided(REQUESTS as u32, 2 * BYTES, 2 * BYTES)];
    let mut cases = Vec::new();
    let lists =
        [("with gaps", "with gaps, prepared", &gaps[..]), ("adjacent", "adjacent, prepared", &adjacent)];
    let lists = lists.into_iter().chain([("scattered", "scattered, prepared", &scattered[..])]);
    for (plain, again, requests) in lists {
        let prepared = rig.client.prepare(requests).unwrap();
        let submit = || rig.client.submit(requests, Options::default()).unwrap();
        cases.push(Case { name: plain, submit: Box::new(submit), costs: Default::default() });
        let client = &rig.client;
        let submit = move || client.submit_prepared(&prepared, .., Options::default()).unwrap();
        cases.push(Case { name: again, submit: Box::new(submit), costs: Default::default() });
    }
    let submit = || rig.client.submit(&rows, Options::default()).unwrap();
    cases.push(Case {
        name: "one request of as many rows",
        submit: Box::new(submit),
        costs: Default::default(),
    });
    for _ in 0..number("ROUNDS", 25) {
        cases.iter_mut().for_each(Case::round);
    }
    cases.iter_mut().for_each(Case::say);
}
