//! A node of so many pinned workers, each with all stages, over a transport that moves nothing; and what is submitted to it.
//! Deliberately one batch a round that loads all workers alike: what is measured is what workers cost each other.

use std::time::{Duration, Instant};

use pipeline_stages::{Options, Request};
use pipeline_transports::{Access, Memory, Transport};

use crate::line::Line;
use crate::rig::{PER_CORE, Rig, file, target};

const KIB: u64 = 1 << 10;
/// Regions of the target: as many workers can be loaded alike.
pub const REGIONS: u64 = 8;
const REGION: u64 = 32 << 20;
const SLICE: u64 = 4 * KIB;

/// What a round is.
#[derive(Clone, Copy)]
pub struct Load {
    pub name: &'static str,
    /// Requests to each region, and bytes of each.
    requests: u64,
    len: u64,
}

/// All loads: one where slices are cut, and one where each request is one.
pub const LOADS: [Load; 2] = [
    Load { name: "slices of 4 KiB", requests: 1, len: REGION },
    Load { name: "requests of 64 B", requests: 8_000, len: 64 },
];

impl Load {
    /// Slices of a round.
    pub fn slices(self) -> u64 {
        REGIONS * self.requests * self.len.div_ceil(SLICE)
    }
}

/// What a slice costs.
#[derive(Clone, Copy, Default)]
pub struct Price {
    pub wall_ns: f64,
    pub cpu_ns: f64,
}

/// A node under one load.
pub struct Bed {
    rig: Rig,
    requests: Vec<Request>,
    load: Load,
}

impl Bed {
    pub fn new(load: Load, workers: usize, cpus: &[usize]) -> Self {
        let cores = cpus.iter().take(workers).map(ToString::to_string).collect::<Vec<_>>().join(",");
        let threads = format!("{workers}, cores = \"{cores}\"");
        let limits =
            "requests = 131072\nslices = 65536\nbatches = 16\npeers = 64\nbytes_in_flight = \"256MiB\"";
        let config = file("type = \"loopback\"", &PER_CORE.replace("WORKERS", &threads), limits, "4KiB");
        let mut there = target(&config, &[REGION; REGIONS as usize], Access::ReadWrite);
        let line = Line::keeping(0, 1);
        there.view.offers = vec![line.offer()];
        let rig = Rig::start_over(&config, |_, _, _| line.clone());
        let peer = rig.meet("peer", &there);
        rig.link(peer, &there);
        let source = rig.world.regions.add(Memory::allocate(REGION).unwrap(), Access::Local).unwrap();
        // Small ones do not touch each other: those that do would travel as one.
        let request = |n: u64, region: u64| {
            let at = n * 2 * load.len % REGION;
            Request::write(source, at, rig.remote(peer, &there, region * REGION + at), load.len)
        };
        let rows = (0..load.requests).flat_map(|n| (0..REGIONS).map(move |region| (n, region)));
        let requests = rows.map(|(n, region)| request(n, region)).collect();
        Self { rig, requests, load }
    }

    /// Submits all, and waits for the end.
    pub fn round(&self) -> Price {
        let (start, cpu) = (Instant::now(), cpu_time());
        let batch =
            self.rig.client.submit_wait(&self.requests, Options::default(), Duration::from_secs(5)).unwrap();
        assert!(batch.wait(Duration::from_secs(60)).unwrap().is_done());
        let ns = |t: Duration| t.as_secs_f64() * 1e9 / self.load.slices() as f64;
        Price { wall_ns: ns(start.elapsed()), cpu_ns: ns(cpu_time() - cpu) }
    }
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
