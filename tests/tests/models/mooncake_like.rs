//! `mooncake_like`: not one of the seven, but Mooncake's mixture of them, and it runs.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use pipeline_node::{Access, Memory, Options, Request};

use crate::files::{engine, target, watched};
use crate::rig::{PATIENCE, bytes_of, done, nothing_left, open, pattern, region_of};
use crate::threads;

/// Requests to eight regions go to eight shards, each by its own ring; two workers of the NIC post and reap what comes from
/// them, in slices of 64 KiB; every byte arrives, and the ends wake nobody.
#[test]
fn eight_shards_two_workers() {
    let (client, watch) = watched("mooncake_like", &[]);
    let target = crate::rig::engine(&[]);
    target.add_segment("kv").unwrap();
    let len = 1 << 20;
    let regions: Vec<_> = (0..8)
        .map(|_| {
            let region = target.register(Memory::allocate(len).unwrap(), Access::ReadWrite).unwrap();
            target.publish("kv", &region).unwrap();
            region
        })
        .collect();
    let kv = open(&client, &target).segment("kv").unwrap();
    let bytes = pattern(9, 8 << 20);
    let local = region_of(&client, &bytes);
    for _ in 0..8 {
        let requests: Vec<_> = (0..8).map(|i| Request::write(&local, i * len, kv.at(i * len), len)).collect();
        let batch = client.submit_wait(&requests, Options::default(), PATIENCE).unwrap();
        while batch.poll().is_none() {
            std::thread::yield_now();
        }
        assert!(batch.poll().unwrap().is_done());
    }
    let there: Vec<u8> = regions.iter().flat_map(bytes_of).collect();
    assert!(there == bytes);
    let stats = client.stats();
    let edge = |name: &str| stats.edges.iter().find(|edge| edge.name == name).unwrap();
    assert_eq!((edge("submit -> admit").rings, edge("select -> post").rings), (8, 2));
    assert_eq!(edge("select -> post").pushed, 8 * (8 << 20 >> 16), "slices of 64 KiB");
    for stage in ["admit", "split", "route", "select"] {
        assert_eq!(watch.threads(stage).len(), 8, "{stage}");
    }
    let workers = watch.threads("post");
    assert_eq!(workers.len(), 2);
    let reapers: HashSet<_> = watch.reapers().into_iter().map(|(_, thread)| thread).collect();
    assert_eq!(reapers, workers);
    assert_eq!(client.counts().wakes, 0);
    nothing_left(&client, [local]);
}

/// Workers that have had work look for more for a tenth of a second, as the kernel sees it, and then sleep.
#[test]
fn a_tenth_of_a_second_awake() {
    let before = threads::all();
    let (client, target) = (engine("mooncake_like", &[]), target("1MiB"));
    let names: Vec<_> =
        client.stats().workers.into_iter().filter(|w| w.pool == "workers").map(|w| w.name).collect();
    let ids: Vec<u32> = names.iter().flat_map(|name| threads::started(&before, name)).collect();
    assert_eq!(ids.len(), 2, "{names:?}");
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 1 << 16));
    for _ in 0..5 {
        done(&client, &[Request::write(&local, 0, kv.at(0), 4096)]);
        let end = Instant::now();
        while ids.iter().any(|id| !threads::is_asleep(*id)) {
            assert!(end.elapsed() < PATIENCE, "they never sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
        // A little less: the work was found before its end was.
        assert!(end.elapsed() >= Duration::from_millis(95), "{:?}", end.elapsed());
    }
    nothing_left(&client, [local]);
}
