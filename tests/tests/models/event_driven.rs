//! Event-driven: nobody looks. One wake-up a batch, no CPU while nothing happens, and what is waited for is armed.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use pipeline_node::{Options, Request};

use crate::files::{engine, over_sim, target, these};
use crate::rig::{PATIENCE, nothing_left, open, pattern, region_of, until};
use crate::threads;

/// A batch of 256 requests that end one by one wakes its waiter once, by one system call, and the waiter sleeps once.
#[test]
fn a_batch_wakes_its_waiter_once() {
    // Requests end all over a fifth of a second, in any order.
    let set = over_sim(
        "event_driven",
        "delay_min = '1ms', delay_max = '200ms', reorder_ppm = 500000, depth = 1024",
    );
    let (client, target) = (engine("event_driven", &these(&set)), target("4MiB"));
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 4 << 20));
    // Two in three do not touch: nothing is merged.
    let requests: Vec<_> =
        (0..256).map(|i| Request::write(&local, i << 13, kv.at(i << 13), 1 << 12)).collect();
    for _ in 0..4 {
        let before = client.counts().wakes;
        let batch = client.submit(&requests, Options::default()).unwrap();
        let sleeps = threads::own_sleeps();
        assert!(batch.wait(PATIENCE).unwrap().is_done());
        // Some more where the kernel itself makes a thread wait: a page that must be faulted in.
        assert!(threads::own_sleeps() - sleeps <= 4, "{} sleeps", threads::own_sleeps() - sleeps);
        assert_eq!(client.counts().wakes - before, 1);
    }
    nothing_left(&client, [local]);
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor of one task, on the thread that asks.
fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let (mut future, waker) =
        (pin!(future.into_future()), Waker::from(Arc::new(Unpark(std::thread::current()))));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        std::thread::park_timeout(PATIENCE);
    }
}

/// The file as it is tells threads, tasks and descriptors: one of each sleeps for the same batch, and each is told, by one
/// wake-up.
#[test]
fn threads_tasks_and_descriptors_are_told() {
    let set = over_sim("event_driven", "delay_min = '200ms', delay_max = '200ms'");
    let (client, target) = (engine("event_driven", &these(&set)), target("1MiB"));
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 1 << 20));
    let before = client.counts().wakes;
    let batch = client.submit(&[Request::write(&local, 0, kv.at(0), 4096)], Options::default()).unwrap();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(batch.wait(PATIENCE).unwrap().is_done()));
        scope.spawn(|| assert!(block_on(&batch).unwrap().is_done()));
        scope.spawn(|| {
            let limit = rustix::event::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            let fd = batch.eventfd().unwrap();
            let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
            assert_eq!(rustix::event::poll(&mut fds, Some(&limit)), Ok(1));
            assert!(batch.poll().unwrap().is_done());
        });
    });
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}: somebody was not told", begin.elapsed());
    assert_eq!(client.counts().wakes - before, 3);
    drop(batch);
    nothing_left(&client, [local]);
}

/// Ten threads blocked on one slow transfer, and the workers behind it, use next to no CPU: under a hundredth of the time,
/// all of them together; and one wake-up reaches all ten. One try of three, on a machine that may be busy with other things.
#[test]
fn whoever_is_blocked_uses_no_cpu() {
    let set = over_sim("event_driven", "delay_min = '1s', delay_max = '1s'");
    let before = threads::all();
    let client = engine("event_driven", &these(&set));
    let workers: Vec<u32> =
        client.stats().workers.iter().flat_map(|w| threads::started(&before, &w.name)).collect();
    assert_eq!(workers.len(), 2, "one worker a NIC, and one for files");
    let target = target("1MiB");
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 1 << 20));
    let mut shares = Vec::new();
    for _ in 0..3 {
        let wakes = client.counts().wakes;
        let batch = client.submit(&[Request::write(&local, 0, kv.at(0), 4096)], Options::default()).unwrap();
        let busy = || workers.iter().map(|id| threads::cpu(*id)).sum::<Duration>();
        let (begin, before) = (Instant::now(), busy());
        let waited: Duration = std::thread::scope(|scope| {
            let wait = || {
                let before = threads::own_cpu();
                assert!(batch.wait(PATIENCE).unwrap().is_done());
                threads::own_cpu() - before
            };
            let waiters: Vec<_> = (0..10).map(|_| scope.spawn(wait)).collect();
            waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum()
        });
        assert_eq!(client.counts().wakes - wakes, 1, "one wake-up for all ten");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}: somebody was not woken", begin.elapsed());
        let used = waited + (busy() - before);
        shares.push(used.as_secs_f64() / begin.elapsed().as_secs_f64());
        if shares.last().is_some_and(|share| *share < 0.01) {
            break;
        }
    }
    assert!(shares.last().is_some_and(|share| *share < 0.01), "{shares:?}");
    nothing_left(&client, [local]);
}

/// Sources are armed, not looked at: completions over TCP end the worker's sleeps by its sockets. It never spins nor yields,
/// and no sleep that had something to do ended by its limit of a second.
#[test]
fn sources_are_armed() {
    let (client, target) = (engine("event_driven", &[]), target("1MiB"));
    let kv = open(&client, &target).segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 1 << 20));
    let nic = || client.stats().workers.into_iter().find(|worker| worker.pool == "nic").unwrap();
    let (before, begin, mut slowest) = (nic(), Instant::now(), Duration::ZERO);
    let mut by_descriptor = 0;
    while by_descriptor < 50 {
        assert!(begin.elapsed() < PATIENCE, "sleeps do not end by descriptors: {:?}", nic());
        let from = Instant::now();
        let batch =
            client.submit(&[Request::write(&local, 0, kv.at(0), 1 << 16)], Options::default()).unwrap();
        assert!(batch.wait(PATIENCE).unwrap().is_done());
        slowest = slowest.max(from.elapsed());
        let now = nic();
        let since = |of: fn(&pipeline_graph::WorkerStats) -> u64| of(&now) - of(&before);
        // Of sleeps that have ended, those that neither a ring nor a limit has.
        by_descriptor = since(|w| w.parks).saturating_sub(since(|w| w.wakes) + since(|w| w.timed_wakes));
    }
    assert_eq!((nic().spins, nic().yields), (0, 0));
    assert_eq!(nic().refused_fds, 0);
    assert!(slowest < Duration::from_millis(900), "{slowest:?}: found by the limit of a sleep");
    until("the worker sleeps", || {
        let (turns, parks) = (nic().turns, nic().parks);
        std::thread::sleep(Duration::from_millis(50));
        (nic().turns, nic().parks) == (turns, parks)
    });
    nothing_left(&client, [local]);
}
