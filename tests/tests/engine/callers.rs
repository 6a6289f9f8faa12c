//! Pools of kind `caller`: the threads that submit and wait do all of the initiator's work, one or many of them.

use std::time::{Duration, Instant};

use pipeline_node::{Engine, Options, Request, Source};

use crate::layouts::exercise;
use crate::rig::{PATIENCE, bytes_of, done, engine, nothing_left, open, pattern, region_of, target, until};

/// Everything but `serve` on the callers' threads.
pub const CALLERS: &str = r#"
version = 1
use = "tcp"
[pools]
nic = { threads = 1, wait = "park" }
app = { kind = "caller" }
[stages]
admit = { pool = "app" }
split = { pool = "app" }
route = { pool = "app" }
select = { pool = "app" }
post = { pool = "app" }
reap = { pool = "app" }
retry = { pool = "app" }
[edges]
"select -> post" = "inline"
"#;

pub fn callers(more: &str) -> Engine {
    Engine::from_source(&Source::text("callers", format!("{CALLERS}{more}")))
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Reads, writes, failures, cancels and batches in flight end as with threads of the engine's own, by one caller.
#[test]
fn one_caller() {
    let (target, client) = (target("2MiB"), callers(""));
    exercise(&client, &open(&client, &target), 2 << 20);
    assert_eq!(client.counts().stale, 0, "no key came twice or late");
    let stats = client.stats();
    let app = stats.workers.iter().find(|w| w.pool == "app").unwrap();
    assert!(app.turns > 0 && stats.workers.iter().all(|w| w.pool != "app" || w.name == "app"));
}

/// Eight callers at once, each with batches of its own and one it shares: every wait ends, every byte is right.
#[test]
fn eight_callers() {
    let (target, client) = (target("8MiB"), callers(""));
    let kv = open(&client, &target).segment("kv").unwrap();
    std::thread::scope(|scope| {
        for t in 0..8_u64 {
            let (client, kv) = (&client, &kv);
            scope.spawn(move || {
                let len = 64 << 10;
                let at = |i: u64| t * (1 << 20) + i * len;
                for round in 0..20 {
                    let bytes = pattern(t * 100 + round + 1, len as usize);
                    let (from, to) = (region_of(client, &bytes), client.allocate(len).unwrap());
                    let i = round % 16;
                    done(client, &[Request::write(&from, 0, kv.at(at(i)), len)]);
                    done(client, &[Request::read(&to, 0, kv.at(at(i)), len)]);
                    assert!(bytes_of(&to) == bytes, "caller {t}, round {round}");
                    client.unregister_within(from, PATIENCE).map_err(|(_, e)| e).unwrap();
                    client.unregister_within(to, PATIENCE).map_err(|(_, e)| e).unwrap();
                }
            });
        }
    });
    let local = client.allocate(1 << 20).unwrap();
    let many: Vec<_> = (0..256).map(|i| Request::write(&local, i << 12, kv.at(i << 12), 1 << 12)).collect();
    for _ in 0..20 {
        let batch = client.submit(&many, Options::default()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert!(batch.wait(PATIENCE).unwrap().is_done()));
            }
        });
    }
    nothing_left(&client, [local]);
}

/// A caller that only submits and polls needs steps, and is told when by the descriptor; a timeout and a deadline
/// need nobody else either.
#[test]
fn steps_by_descriptor() {
    let (target, client) = (target("1MiB"), callers(""));
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = client.allocate(1 << 16).unwrap();
    let fd = client.fd().unwrap();
    for i in 0..200 {
        let request = Request::write(&local, 0, kv.at(i << 8), 1 << 8);
        let batch = client.submit(&[request], Options::default()).unwrap();
        let begin = Instant::now();
        while batch.poll().is_none() {
            let limit = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
            let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
            let told = rustix::event::poll(&mut fds, Some(&limit)).unwrap();
            assert!(told > 0, "round {i}: nothing told for {:?}", begin.elapsed());
            while client.step() {}
        }
    }
    nothing_left(&client, [local]);
    assert!(engine(&[]).fd().unwrap_err().to_string().contains("nothing to step"));
}

/// A peer that does not answer: the wait runs out at its time, the deadline ends the batch while it is waited for, and
/// an engine that nobody steps is drained and stopped all the same.
#[test]
fn deadlines_fire_while_somebody_waits() {
    let client = callers("");
    let local = client.allocate(4096).unwrap();
    let peer = {
        let target = target("1MiB");
        let peer = open(&client, &target);
        target.stop();
        peer
    };
    let kv = peer.segment("kv").unwrap();
    let within = Options { deadline: Some(Duration::from_millis(300)), ..Options::default() };
    let begin = Instant::now();
    let batch = client.submit(&[Request::write(&local, 0, kv.at(0), 4096)], within).unwrap();
    let end = batch.wait(PATIENCE).unwrap();
    assert!(end.failed == 1 && begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    drop(batch);
    let report = client.drain(PATIENCE);
    assert!(report.empty, "{report}");
    client.stop();
    until("the region", || client.usage().requests == 0);
}
