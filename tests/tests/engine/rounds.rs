//! Rounds of one request each, all threads on one CPU, every queue of one entry, and sleeps that end by a ring alone:
//! a lost wake-up would cost ten seconds, and be counted.

use std::process::Command;
use std::time::{Duration, Instant};

use pipeline_node::{Engine, Options, Request, Source};

use crate::rig::{engine, open};

/// Initiator and its reaper on threads of their own, which never spin.
const RESIDENT: &str = r#"
version = 1
use = "tcp"
[pools]
nic = { threads = 1, wait = { spin = "0us", yield = "0us", park = "10s" } }
front = { threads = 1, wait = { spin = "0us", yield = "0us", park = "10s" } }
back = { threads = 1, wait = { spin = "0us", yield = "0us", park = "10s" } }
[transports]
tcp = false
loopback = { type = "loopback" }
[stages]
admit = { pool = "front" }
split = { pool = "front" }
route = { pool = "front", prefer = ["loopback"] }
select = { pool = "front" }
notify = { pool = "back" }
[edges]
"submit -> admit" = { queue = 1 }
"select -> post" = { queue = 1, dispatch = "owner" }
"reap -> notify" = { queue = 1 }
"*.failed -> notify" = { queue = 1 }
"#;

/// The same work on the caller's thread.
const CALLER: &str = r#"
version = 1
use = "tcp"
[pools]
nic = { threads = 1, wait = "park" }
app = { kind = "caller", wait = { spin = "0us", yield = "0us", park = "10s" } }
[transports]
tcp = false
loopback = { type = "loopback" }
[stages]
admit = { pool = "app" }
split = { pool = "app" }
route = { pool = "app", prefer = ["loopback"] }
select = { pool = "app" }
post = { pool = "app" }
reap = { pool = "app" }
retry = { pool = "app" }
[edges]
"submit -> admit" = { queue = 1 }
"select -> post" = "inline"
"#;

fn run(layout: &str, path: &[&str], rounds: u64) {
    let start =
        |text: &str| Engine::from_source(&Source::text("rounds", text)).unwrap_or_else(|e| panic!("{e}"));
    let client = start(layout);
    let target = engine(&[
        "transports.tcp=false",
        "transports.loopback={ type = 'loopback' }",
        "stages.route.prefer=['loopback']",
        "segments.kv={ kind='dram', size='1MiB', access='read_write' }",
    ]);
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = client.allocate(64).unwrap();
    let request = [Request::write(&local, 0, kv.at(0), 64)];
    let (before, begin) = (client.stats(), Instant::now());
    for round in 0..rounds {
        let batch =
            client.submit(&request, Options::default()).unwrap_or_else(|e| panic!("round {round}: {e}"));
        let end = batch.wait(Duration::from_secs(60)).unwrap_or_else(|e| panic!("round {round}: {e}"));
        assert!(end.is_done(), "round {round}");
    }
    let took = begin.elapsed();
    let stats = client.stats().since(&before);
    let on_path = stats.workers.iter().filter(|w| path.contains(&w.pool.as_str()));
    let (timed, parks) = on_path.fold((0, 0), |(t, p), w| (t + w.timed_wakes, p + w.parks));
    println!("{rounds} rounds in {took:?}, {parks} sleeps, {timed} ended by their limit");
    assert_eq!(timed, 0, "a worker on the way slept until its limit");
}

/// Not a test of its own: what the tests below run in a process that has one CPU.
#[test]
#[ignore = "run by the others in a process of its own"]
fn child() {
    let Ok(rounds) = std::env::var("ROUNDS") else { return };
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
    let mut one = rustix::thread::CpuSet::new();
    one.set(first);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    let rounds = rounds.parse().unwrap();
    run(RESIDENT, &["nic", "front", "back"], rounds);
    run(CALLER, &["app"], rounds);
}

fn rounds(count: u64) {
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", "rounds::child", "--ignored", "--nocapture"];
    let done = Command::new(program).args(args).env("ROUNDS", count.to_string()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    print!("{said}");
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(said.matches(&format!("{count} rounds in")).count(), 2, "both layouts ran: {said}");
}

/// Fifty thousand rounds: no wake-up is lost, and none is made up for by a limit.
#[test]
fn no_wake_up_is_lost() {
    rounds(50_000);
}

/// The same, a million times.
#[test]
#[ignore = "a minute: `scripts/test large` runs it"]
fn no_wake_up_is_lost_in_a_million() {
    rounds(1_000_000);
}
