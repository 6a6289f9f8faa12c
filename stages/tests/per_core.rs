//! Thread-per-core: whoever a request comes in at carries it to its end, over links of its own.
#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use pipeline_graph::{
    Arming, Batch, BuildError, Context, Contract, Drained, Flow, Outlet, Polled, Port, Seat, Spec, Stage,
};
use pipeline_stages::peer::PeerId;
use pipeline_stages::{Key, Options, Request, World};
use pipeline_transports::{Access, RegionId};
use rig::{PER_CORE, Rig, Target, file, pattern, target};

const LONG: Duration = Duration::from_secs(60);
const LIMITS: &str = "requests = 4096\nslices = 1024\nbatches = 16\npeers = 8\nbytes_in_flight = \"16MiB\"";
/// Bytes of a region of the target.
const REGION: u64 = 64 << 10;

/// Which workers were run on slices to which region of the target, in whatever stage.
#[derive(Default)]
struct Seen {
    world: OnceLock<Arc<World>>,
    workers: Mutex<BTreeMap<RegionId, BTreeSet<usize>>>,
    /// Where the instances of each worker lie: lines of 128 bytes, which processors fetch as pairs.
    lines: Mutex<BTreeMap<usize, usize>>,
}

/// A spec around a spec that notes who is run on what.
struct Watched {
    inner: Arc<dyn Spec<Key>>,
    seen: Arc<Seen>,
}

struct Instance {
    inner: Box<dyn Stage<Key>>,
    worker: usize,
    seen: Arc<Seen>,
}

impl Spec<Key> for Watched {
    fn ports(&self) -> &[Port] {
        self.inner.ports()
    }
    fn contract(&self) -> Contract {
        self.inner.contract()
    }
    fn key(&self, item: Key) -> u64 {
        self.inner.key(item)
    }
    fn rank(&self, item: Key) -> u64 {
        self.inner.rank(item)
    }
    fn owner(&self, item: Key) -> usize {
        self.inner.owner(item)
    }
    fn build(&self, seat: &Seat) -> Result<Box<dyn Stage<Key>>, BuildError> {
        let (inner, worker) = (self.inner.build(seat)?, seat.worker);
        let start = std::ptr::from_ref(&*inner).cast::<u8>().addr();
        let mut lines = self.seen.lines.lock().unwrap();
        for line in start / 128..=(start + size_of_val(&*inner) - 1) / 128 {
            let before = lines.insert(line, worker);
            assert!(
                before.is_none_or(|other| other == worker),
                "{} shares a line with worker {before:?}",
                seat.stage
            );
        }
        drop(lines);
        Ok(Box::new(Instance { inner, worker, seen: self.seen.clone() }))
    }
}

impl Stage<Key> for Instance {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, cx: &mut Context) -> Flow {
        let (world, mut workers) = (self.seen.world.get().unwrap(), self.seen.workers.lock().unwrap());
        let regions = input.iter().filter_map(|key| Some(world.ledger.live(key)?.remote().region));
        regions.for_each(|region| _ = workers.entry(region).or_default().insert(self.worker));
        drop(workers);
        self.inner.run(input, out, cx)
    }
    fn poll(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Polled {
        self.inner.poll(out, cx)
    }
    fn arm(&mut self, on: &mut dyn Arming) {
        self.inner.arm(on);
    }
    fn drain(&mut self, out: &mut Outlet<Key>, cx: &mut Context) -> Drained {
        self.inner.drain(out, cx)
    }
}

struct Bed {
    rig: Rig,
    there: Target,
    peer: PeerId,
    source: RegionId,
    seen: Arc<Seen>,
}

/// A node of so many workers, and a peer with so many regions.
fn bed(workers: usize, regions: usize, transport: &str) -> Bed {
    let model = PER_CORE.replace("WORKERS", &workers.to_string());
    let config = file(transport, &model, LIMITS, "4KiB");
    let there = target(&config, &vec![REGION; regions], Access::ReadWrite);
    let seen = Arc::new(Seen::default());
    let make =
        |t: &_, incarnation, memory: &_| pipeline_stages::catalog::transport(t, incarnation, memory).unwrap();
    let around = |_: &str, inner| Arc::new(Watched { inner, seen: seen.clone() }) as Arc<dyn Spec<Key>>;
    let rig = Rig::start_around(&config, make, around);
    assert!(seen.world.set(rig.world.clone()).is_ok());
    let peer = rig.meet("b", &there);
    rig.link(peer, &there);
    let source = rig.memory(REGION, 1);
    Bed { rig, there, peer, source, seen }
}

impl Bed {
    /// Writes `len` bytes to the start of each of these regions, in one batch.
    fn write(&self, regions: std::ops::Range<u64>, len: u64) {
        let to =
            |r: u64| Request::write(self.source, 0, self.rig.remote(self.peer, &self.there, r * REGION), len);
        let requests: Vec<_> = regions.map(to).collect();
        let batch = self.rig.client.submit_wait(&requests, Options::default(), LONG).unwrap();
        assert!(batch.wait(LONG).unwrap().is_done());
    }

    /// Items of each worker of a stage.
    fn of_workers(&self, stage: &str) -> Vec<u64> {
        self.rig.engine.as_ref().unwrap().snapshot().stage(stage).unwrap().worker_items.clone()
    }
}

/// One peer with eight regions loads every worker, evenly, and each region always meets the same one.
#[test]
fn regions_find_their_workers() {
    for workers in [1, 2, 4, 8] {
        let bed = bed(workers, 8, "type = \"loopback\"");
        bed.write(0..8, 64);
        let all = vec![8 / workers as u64; workers];
        assert_eq!(bed.of_workers("split"), all, "{workers} workers");
        for region in 0..8 {
            let before = bed.of_workers("admit");
            (0..5).for_each(|_| bed.write(region..region + 1, 64));
            let after = bed.of_workers("admit");
            let met: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).filter(|n| *n > 0).collect();
            assert_eq!(met, [5], "region {region} meets one of {workers} workers");
        }
    }
}

/// From the first stage to the last every slice stays on the worker where its request came in, also when attempts fail
/// and it is sent again: it is posted on links of that worker only.
#[test]
fn slices_stay_at_home() {
    let flaky = "type = \"sim\"\nseed = 7\nerror_ppm = 200000\ndelay_min = \"1us\"\ndelay_max = \"30us\"";
    let bed = bed(3, 8, flaky);
    for _ in 0..10 {
        bed.write(0..8, REGION);
    }
    bed.rig.all_back();
    let bytes = rig::bytes(&bed.there.regions, bed.there.view.segments[0].regions[5].id, 0, REGION);
    assert!(bytes == pattern(REGION, 1));
    let retried: u64 = bed.of_workers("retry").iter().sum();
    assert!(retried > 50, "{retried} attempts have failed");
    let workers = bed.seen.workers.lock().unwrap();
    assert!(workers.len() == 8 && workers.values().all(|w| w.len() == 1), "{workers:?}");
    let posted = bed.of_workers("post");
    assert!(posted.iter().all(|n| *n > 0), "{posted:?}");
    // A worker counts what it was run on just after it has told who waits.
    let (ended, by) = (posted.iter().sum::<u64>() - retried, Instant::now() + LONG);
    while bed.of_workers("notify").iter().sum::<u64>() < ended {
        assert!(Instant::now() < by, "of {ended} slices have ended: {:?}", bed.of_workers("notify"));
        std::thread::yield_now();
    }
}

/// The instances of a worker's stages, with their wheels and what they count, lie on no cache line of another worker's.
#[test]
fn instances_share_no_line() {
    let bed = bed(8, 1, "type = \"loopback\"");
    let lines = bed.seen.lines.lock().unwrap();
    let of = |worker| lines.values().filter(|at| **at == worker).count();
    assert!((0..8).all(|worker| of(worker) > 50), "{lines:?}");
}
