//! Thread per core: a pinned worker on each CPU, and what one of them has it shares with no other.

use std::collections::{HashMap, HashSet};
use std::thread::ThreadId;

use pipeline_graph::Cpus;
use pipeline_node::watch::Watch;
use pipeline_node::{Access, Engine, Memory, Options, Region, Request};
use pipeline_transports::LinkId;

use crate::files::{engine, watched};
use crate::rig::{PATIENCE, nothing_left, open, pattern, region_of};
use crate::threads;

const REGIONS: u64 = 8;
const LEN: u64 = 1 << 20;

/// Each worker may run on one CPU and no other, no two on the same, and each CPU that this process may use has one.
#[test]
fn each_worker_has_a_cpu() {
    let before = threads::all();
    let client = engine("thread_per_core", &[]);
    let workers: Vec<_> = client.stats().workers.into_iter().filter(|worker| worker.pool == "core").collect();
    let mut cpus = Vec::new();
    for worker in &workers {
        let ids = threads::started(&before, &worker.name);
        assert_eq!(ids.len(), 1, "{}: {ids:?}", worker.name);
        let mask = threads::mask(ids[0]);
        assert_eq!(Some(&mask), worker.cpu.map(|cpu| cpu.to_string()).as_ref(), "{}", worker.name);
        cpus.push(mask.parse::<usize>().unwrap());
    }
    cpus.sort_unstable();
    assert_eq!(cpus, Cpus::of_process().allowed);
}

/// A target whose segment `kv` has eight regions of a mebibyte, one after the other.
fn eight_regions() -> (Engine, Vec<Region>) {
    let target = crate::rig::engine(&[]);
    target.add_segment("kv").unwrap();
    let make = |_| {
        let region = target.register(Memory::allocate(LEN).unwrap(), Access::ReadWrite).unwrap();
        target.publish("kv", &region).unwrap();
        region
    };
    let regions = (0..REGIONS).map(make).collect();
    (target, regions)
}

/// Fifty rounds of reads and writes to each of the eight regions of one peer, of one slice and of several.
fn load(client: &Engine, target: &Engine) {
    let kv = open(client, target).segment("kv").unwrap();
    let local = region_of(client, &pattern(5, (REGIONS * LEN) as usize));
    for round in 0..50 {
        let len = [64, 9_000, LEN / 2][round % 3];
        let request = |region: u64| match round % 2 {
            0 => Request::write(&local, region * LEN, kv.at(region * LEN), len),
            _ => Request::read(&local, region * LEN, kv.at(region * LEN), len),
        };
        let requests: Vec<_> = (0..REGIONS).map(request).collect();
        let batch = client.submit_wait(&requests, Options::default(), PATIENCE).unwrap();
        assert!(batch.wait(PATIENCE).unwrap().is_done());
    }
    nothing_left(client, [local]);
}

/// The worker that a key and rank met in a stage; more than one is wrong.
fn worker_of(watch: &Watch, stage: &str) -> HashMap<(u64, u64), ThreadId> {
    let mut workers = HashMap::new();
    for (thread, key, _) in watch.items(stage) {
        assert_eq!(*workers.entry(key).or_insert(thread), thread, "{stage}: {key:?} met two workers");
    }
    workers
}

/// A region of a peer meets one worker, the same in every stage from entry to end, and eight regions of one peer load all
/// workers, none with more than one more than another.
#[test]
fn a_region_meets_one_worker_and_eight_load_all() {
    let (client, watch) = watched("thread_per_core", &[]);
    let (target, _regions) = eight_regions();
    load(&client, &target);
    let owners = worker_of(&watch, "split");
    assert_eq!(owners.len() as u64, REGIONS, "{owners:?}");
    for stage in ["route", "select", "post", "notify"] {
        assert_eq!(worker_of(&watch, stage), owners, "{stage}");
    }
    // It takes chains, one a worker and submission: their heads.
    for (key, worker) in worker_of(&watch, "admit") {
        assert_eq!(owners.get(&key), Some(&worker), "{key:?}");
    }
    let workers: HashSet<ThreadId> = owners.values().copied().collect();
    assert_eq!(watch.threads("reap"), workers);
    assert_eq!(workers.len(), Cpus::of_process().allowed.len().min(REGIONS as usize));
    let mut load: HashMap<ThreadId, u64> = HashMap::new();
    owners.values().for_each(|worker| *load.entry(*worker).or_default() += 1);
    let (least, most) = (load.values().min().unwrap(), load.values().max().unwrap());
    assert!(most - least <= 1, "{load:?}");
}

/// Links belong to workers: each is posted on and reaped by one of them, the same, and every worker has some.
#[test]
fn a_link_has_one_worker() {
    let (client, watch) = watched("thread_per_core", &[]);
    let (target, _regions) = eight_regions();
    load(&client, &target);
    let of = |pairs: HashSet<(LinkId, ThreadId)>| {
        let mut workers = HashMap::new();
        for (link, thread) in pairs {
            assert_eq!(workers.insert(link, thread), None, "{link:?} has two workers");
        }
        workers
    };
    let (posters, reapers) = (of(watch.posters()), of(watch.reapers()));
    assert_eq!(posters, reapers);
    let workers: HashSet<ThreadId> = posters.values().copied().collect();
    assert_eq!(workers, watch.threads("admit"));
}
