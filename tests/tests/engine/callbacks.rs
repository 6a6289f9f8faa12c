//! Functions left with batches: run once, in their own pool, whatever they do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pipeline_node::{Engine, OnDoneError, Options, Request, Source, SubmitError, Summary, WaitError};

use crate::rig::{PATIENCE, engine, nothing_left, open, target, until};

/// Every stage on one thread, functions on another.
const CALLS: &str = r#"
version = 1
use = "tcp"
[limits]
batches = 64
[pools]
calls = { threads = 1, wait = "park" }
[stages]
notify = { via = ["event", "callback"] }
calls = { type = "callbacks", pool = "calls" }
"#;

fn calling() -> Engine {
    Engine::from_source(&Source::text("callbacks", CALLS)).unwrap_or_else(|e| panic!("{e}"))
}

/// A function runs once with what its batch came to: left before the end or after it, with the handle kept or dropped;
/// on a thread of its pool. A second one is refused, and so is one that nobody would run.
#[test]
fn runs_once_in_its_pool() {
    let (target, client) = (target("1MiB"), calling());
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = client.allocate(1 << 16).unwrap();
    let (send, hear) = mpsc::channel();
    let request = Request::write(&local, 0, kv.at(0), 1 << 16);
    for round in 0..200 {
        let batch = client.submit(&[request], Options::default()).unwrap();
        if round % 3 == 0 {
            batch.wait(PATIENCE).unwrap();
        }
        let send = send.clone();
        let told = move |summary: Summary| {
            let name = std::thread::current().name().map(str::to_owned);
            send.send((round, summary, name)).unwrap();
        };
        batch.on_done(told).unwrap();
        assert_eq!(batch.on_done(|_| panic!("must not run")), Err(OnDoneError::Taken));
        if round % 2 == 0 {
            drop(batch);
        } else {
            assert!(batch.wait(PATIENCE).unwrap().is_done());
        }
        let (of, summary, name) = hear.recv_timeout(PATIENCE).unwrap();
        assert_eq!((of, summary.bytes, name.as_deref()), (round, 1 << 16, Some("calls")));
    }
    assert!(hear.try_recv().is_err(), "none ran twice");
    nothing_left(&client, [local]);
    let plain = engine(&[]);
    let kv = open(&plain, &target).segment("kv").unwrap();
    let local = plain.allocate(1 << 16).unwrap();
    let batch = plain.submit(&[Request::write(&local, 0, kv.at(0), 8)], Options::default()).unwrap();
    assert_eq!(batch.on_done(|_| ()), Err(OnDoneError::NotDeclared));
}

/// A function that panics is counted, its batch freed, and the next ones run.
#[test]
fn a_panic_costs_nobody() {
    let (target, client) = (target("1MiB"), calling());
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = client.allocate(4096).unwrap();
    let ran = Arc::new(AtomicU64::new(0));
    for i in 0..40 {
        let request = Request::write(&local, 0, kv.at(0), 4096);
        let batch = client.submit_wait(&[request], Options::default(), PATIENCE).unwrap();
        let ran = ran.clone();
        let panics = move |_| {
            ran.fetch_add(1, Ordering::Relaxed);
            assert!(i % 4 != 0, "a function of the application panics");
        };
        batch.on_done(panics).unwrap();
    }
    until("all functions", || ran.load(Ordering::Relaxed) == 40 && client.usage().batches == 0);
    assert_eq!(client.counts().callback_panics, 10);
    assert!(client.stats().stages.iter().all(|s| s.panics == 0), "no stage has panicked");
    nothing_left(&client, [local]);
}

/// B30: functions that submit and wait, a thousand times from each of four clients, one thread a pool: what would wait
/// for itself is refused at once, and everything submitted ends.
#[test]
fn waiting_inside_is_refused() {
    let (target, client) = (target("1MiB"), calling());
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = client.allocate(4096).unwrap();
    let request = Request::write(&local, 0, kv.at(0), 64);
    let begin = Instant::now();
    let [refused, busy, inner] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    let batch = client.submit_wait(&[request], Options::default(), PATIENCE).unwrap();
                    let (engine, refused, busy, inner) =
                        (client.clone(), refused.clone(), busy.clone(), inner.clone());
                    let inside = move |_| match engine.submit_wait(&[request], Options::default(), PATIENCE) {
                        Ok(mine) => {
                            match mine.wait(PATIENCE) {
                                Err(WaitError::WouldDeadlock) => refused.fetch_add(1, Ordering::Relaxed),
                                Ok(summary) if summary.is_done() => 0,
                                end => panic!("{end:?}"),
                            };
                            let count = inner.clone();
                            let counts = move |_| {
                                count.fetch_add(1, Ordering::Relaxed);
                            };
                            mine.on_done(counts).unwrap();
                        }
                        Err(SubmitError::WouldDeadlock) => {
                            busy.fetch_add(1, Ordering::Relaxed);
                            inner.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    };
                    batch.on_done(inside).unwrap();
                }
            });
        }
    });
    until("all functions", || inner.load(Ordering::Relaxed) == 4_000);
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert!(refused.load(Ordering::Relaxed) > 0, "nobody was refused");
    assert_eq!(client.counts().callback_panics, 0);
    until("the end", || client.usage().batches == 0);
    nothing_left(&client, [local]);
}

/// A drain waits for functions that are due; an engine that is dropped by one of its own functions stops, and what
/// was not run is dropped.
#[test]
fn the_last_handle_may_be_dropped_inside() {
    let (target, client) = (target("1MiB"), calling());
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = client.allocate(4096).unwrap();
    let request = Request::write(&local, 0, kv.at(0), 64);
    let ran = Arc::new(AtomicU64::new(0));
    for _ in 0..32 {
        let ran = ran.clone();
        let batch = client.submit_wait(&[request], Options::default(), PATIENCE).unwrap();
        let slow = move |_| {
            std::thread::sleep(Duration::from_millis(2));
            ran.fetch_add(1, Ordering::Relaxed);
        };
        batch.on_done(slow).unwrap();
    }
    let other = calling();
    let there = open(&other, &target).segment("kv").unwrap();
    let mine = other.allocate(64).unwrap();
    assert!(client.drain(PATIENCE).empty);
    until("the last function", || ran.load(Ordering::Relaxed) == 32);

    let (send, hear) = mpsc::channel();
    let batch = other.submit(&[Request::write(&mine, 0, there.at(0), 64)], Options::default()).unwrap();
    drop(there);
    let held = other.clone();
    let last = move |_| {
        drop(held);
        send.send(()).unwrap();
    };
    batch.on_done(last).unwrap();
    drop((other, batch));
    hear.recv_timeout(PATIENCE).expect("the function returns from the stop of its engine");
}
