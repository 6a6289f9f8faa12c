//! Run to completion: one thread through all hops, and it is the caller's.

use std::collections::HashSet;

use pipeline_node::{Options, Request};

use crate::files::{over_sim, target, these, watched};
use crate::rig::{PATIENCE, done, nothing_left, open, pattern, region_of};
use crate::threads;

/// The stages that a request meets here. `retry` only where something fails.
const HOPS: [&str; 7] = ["admit", "split", "route", "select", "post", "reap", "notify"];

/// The thread that submits and waits runs every stage of its requests, `retry` included, over TCP and over a wire that fails;
/// the engine has no thread for any of them.
#[test]
fn one_thread_through_all_hops() {
    for (set, retries) in [(vec![], false), (over_sim("run_to_completion", "error_ppm = 100000"), true)] {
        let before = threads::all();
        let (client, watch) =
            watched("run_to_completion", &[&these(&set)[..], &["stages.retry.attempts=20"]].concat());
        assert!(threads::started(&before, "app").is_empty(), "a pool of callers has threads");
        let target = target("8MiB");
        let kv = open(&client, &target).segment("kv").unwrap();
        let local = region_of(&client, &pattern(1, 8 << 20));
        for i in 0..100 {
            // From one slice to many: the transport prefers a mebibyte, or a quarter of one.
            let len = [1, 4096, 1 << 20, 5 << 20][i % 4];
            done(&client, &[Request::write(&local, 0, kv.at(0), len)]);
            done(&client, &[Request::read(&local, 0, kv.at(0), len)]);
        }
        let me = HashSet::from([std::thread::current().id()]);
        for stage in HOPS {
            assert_eq!(watch.threads(stage), me, "{stage}");
        }
        assert_eq!(watch.threads("retry"), if retries { me } else { HashSet::new() });
        nothing_left(&client, [local]);
    }
}

/// Behind the entrance no item is handed over: every edge but `submit -> admit` is inline, or the way back.
#[test]
fn no_queue_behind_the_entrance() {
    let (client, _) = watched("run_to_completion", &[]);
    let target = target("1MiB");
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 1 << 20));
    for i in 0..64 {
        done(&client, &[Request::write(&local, 0, kv.at(0), 1 + (i << 13))]);
    }
    let stats = client.stats();
    for edge in &stats.edges {
        let expected = match edge.name.as_str() {
            "submit -> admit" => ("queue", 64),
            "retry -> select" => ("return", 0),
            name if name.contains("failed") || name.contains("retry") => ("inline", 0),
            _ => ("inline", edge.pushed.max(64)),
        };
        assert_eq!((edge.mode, edge.pushed), expected, "{}", edge.name);
    }
    let app = stats.workers.iter().find(|worker| worker.pool == "app").unwrap();
    assert_eq!(app.cpu, None);
    nothing_left(&client, [local]);
}

/// A thread that submits carries its request to the wire before `submit` returns, and the one that waits brings back what
/// became of it: also where these are two.
#[test]
fn who_waits_brings_it_back() {
    let set = over_sim("run_to_completion", "delay_min = '50ms', delay_max = '60ms'");
    let (client, watch) = watched("run_to_completion", &these(&set));
    let target = target("1MiB");
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 1 << 20));
    // The first one waits for its link, whoever waits for that.
    done(&client, &[Request::write(&local, 0, kv.at(0), 4096)]);
    let fresh =
        |stage: &str, of: &HashSet<_>| watch.threads(stage).difference(of).copied().collect::<HashSet<_>>();
    let me = HashSet::from([std::thread::current().id()]);
    let (submitter, waiter) = std::thread::scope(|scope| {
        let submit = || {
            let batch =
                client.submit(&[Request::write(&local, 0, kv.at(0), 4096)], Options::default()).unwrap();
            let posted = watch.threads("post").contains(&std::thread::current().id());
            assert!(posted, "`submit` has returned, and its request is not on the wire");
            (batch, std::thread::current().id())
        };
        let (batch, submitter) = scope.spawn(submit).join().unwrap();
        let wait = move || {
            assert!(batch.wait(PATIENCE).unwrap().is_done());
            std::thread::current().id()
        };
        (submitter, scope.spawn(wait).join().unwrap())
    });
    for stage in ["admit", "split", "route", "select", "post"] {
        // Who has run it on items: others may look whether a socket has taken all that was posted.
        let mut carried: HashSet<_> = watch.items(stage).into_iter().map(|(thread, ..)| thread).collect();
        carried.retain(|thread| !me.contains(thread));
        assert_eq!(carried, HashSet::from([submitter]), "{stage}");
    }
    for stage in ["reap", "notify"] {
        assert_eq!(fresh(stage, &me), HashSet::from([waiter]), "{stage}");
    }
    nothing_left(&client, [local]);
}
