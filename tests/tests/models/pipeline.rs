//! Pipeline: each stage on a thread of its own, bounded queues between them, and a slow stage that is felt at the entrance.

use std::collections::HashSet;
use std::time::Instant;

use pipeline_node::{Options, Request, SubmitError};

use crate::files::{engine, over_sim, target, these, watched};
use crate::rig::{PATIENCE, bytes_of, done, nothing_left, open, pattern, region_of};

const STAGES: [&str; 8] = ["admit", "split", "route", "select", "post", "reap", "retry", "notify"];

/// Every stage runs on one thread, no two share one, and none is the caller's; `retry` with them, where the wire fails.
#[test]
fn each_stage_has_a_thread_of_its_own() {
    let mut set = over_sim("pipeline", "error_ppm = 100000");
    set.push("stages.retry.attempts=20".into());
    let (client, watch) = watched("pipeline", &these(&set));
    let target = target("8MiB");
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 8 << 20));
    for i in 0..40 {
        let len = [4096, 5 << 20][i % 2];
        done(&client, &[Request::write(&local, 0, kv.at(0), len)]);
    }
    let mut all = HashSet::from([std::thread::current().id()]);
    for stage in STAGES {
        let threads = watch.threads(stage);
        assert_eq!(threads.len(), 1, "{stage}: {threads:?}");
        assert!(threads.into_iter().all(|thread| all.insert(thread)), "{stage} shares its thread");
    }
    nothing_left(&client, [local]);
}

/// No edge is inline: each is a ring of so many batches as the file says, and the way back holds every key that can exist.
#[test]
fn every_queue_is_bounded() {
    let client = engine("pipeline", &[]);
    let limits = &client.config().limits;
    for edge in client.stats().edges {
        let expected = match edge.name.as_str() {
            "submit -> admit" => ("queue", 1024),
            "retry -> select" => ("return", (limits.slices + limits.requests) as usize),
            _ => ("queue", 64),
        };
        assert_eq!((edge.mode, edge.capacity, edge.rings), (expected.0, expected.1, 1), "{}", edge.name);
    }
}

/// Whichever stage stands still, those before it fill up and no further, `submit` answers `Busy`, and when it goes on every
/// request that was taken is done: nothing is lost, and every byte is right.
#[test]
fn a_slow_stage_pushes_back_to_admission() {
    for slow in ["admit", "split", "route", "select", "post", "reap", "notify"] {
        push_back(slow);
    }
}

fn push_back(slow: &str) {
    let set = [
        "limits.slices=1024",
        "limits.requests=600",
        "limits.batches=600",
        "limits.bytes_in_flight='64KiB'",
        "stages.split.slice='1KiB'",
        "edges.'submit -> admit'={ queue = 2, dispatch = 'hash' }",
        "edges.'admit -> split -> route -> select'={ queue = 2 }",
        "edges.'select -> post'={ queue = 2, dispatch = 'owner' }",
        "edges.'reap -> notify'={ queue = 2 }",
    ];
    let (client, watch) = watched("pipeline", &set);
    let target = target("1MiB");
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(7, 1 << 20));
    // Links are there: `reap` is held on items of its own, not on its first look.
    done(&client, &[Request::write(&local, 0, kv.at(0), 1)]);
    watch.hold(slow);
    let len = 3000;
    // Behind `split`, which holds requests that wait for their turn, it is the tables that fill up; the first queue may be
    // full for a moment before.
    let full = if matches!(slow, "admit" | "split") { "the edge from `submit`" } else { "limits.batches" };
    let (mut batches, begin) = (Vec::new(), Instant::now());
    loop {
        let at = batches.len() as u64 % 300 * len;
        match client.submit(&[Request::write(&local, at, kv.at(at), len)], Options::default()) {
            Ok(batch) => batches.push(batch),
            Err(SubmitError::Busy { what, asked: 1, free: 0 }) if what == full => break,
            Err(SubmitError::Busy { .. }) => {
                assert!(begin.elapsed() < PATIENCE, "{slow}: {full} is not full")
            }
            Err(error) => panic!("{slow}: {error}"),
        }
        assert!(batches.len() <= 600, "{slow}: more than there are slots for");
        std::thread::yield_now();
    }
    for edge in client.stats().edges.iter().filter(|edge| edge.mode == "queue") {
        assert!(
            edge.depth_items <= (edge.capacity * edge.rings * 32) as u64,
            "{slow}: {}: {}",
            edge.name,
            edge.depth_items
        );
    }
    assert!(batches.iter().all(|batch| batch.poll().is_none()), "{slow}: it has let one pass");
    watch.let_go(slow);
    for batch in &batches {
        assert!(batch.wait(PATIENCE).unwrap().is_done(), "{slow}");
    }
    let taken = batches.len() as u64;
    drop(batches);
    let back = client.allocate(1 << 20).unwrap();
    let written = taken.min(300) * len;
    done(&client, &[Request::read(&back, 0, kv.at(0), written)]);
    let (there, here) = (bytes_of(&back), bytes_of(&local));
    assert!(there[..written as usize] == here[..written as usize], "{slow}: bytes differ");
    nothing_left(&client, [local, back]);
}
