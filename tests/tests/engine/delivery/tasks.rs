//! Tasks that await batches: on tokio, on an executor of thirty lines, and by hand, poll by poll.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pipeline_node::{AwaitError, Batch, Engine, Options, Request, Summary, WaitError, WhenDone};

use super::{pair, slow};
use crate::audience::block_on;
use crate::rig::{PATIENCE, engine, nothing_left, open, target, until};

/// A waker that only counts.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

fn counting() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (count.clone(), count.into())
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Tokio awaits batches by value and by reference, many at once and one after the other, and no wake-up is lost: no timer
/// makes up for one.
#[test]
fn on_tokio() {
    let pair = pair(&[]);
    let request = |i: u64| Request::write(&pair.local, 0, pair.at((i % 16) << 12), 1 << (i % 12));
    let submit = |i| pair.client.submit(&[request(i)], Options::default()).unwrap();
    tokio().block_on(async {
        for i in 0..2_000 {
            assert!(submit(i).await.unwrap().is_done(), "round {i}");
        }
        let tasks: Vec<_> = (0..200).map(|i| tokio::spawn(submit(i).into_future())).collect();
        for task in tasks {
            assert!(task.await.unwrap().unwrap().is_done());
        }
        let shared = Arc::new(submit(0));
        let tasks: Vec<_> = (0..200)
            .map(|_| {
                let batch = shared.clone();
                tokio::spawn(async move { (&*batch).await })
            })
            .collect();
        for task in tasks {
            assert!(task.await.unwrap().unwrap().is_done());
        }
    });
    until("the last task", || pair.client.usage().batches == 0);
    nothing_left(&pair.client, [pair.local]);
}

/// A wait that is given up leaves the batch as it was, and no waker: it may be awaited again, cancelled, and waited for in
/// other ways. A future that owns its batch drops it, and the transfer goes on.
#[test]
fn given_up() {
    let pair = slow("3600s");
    let request = Request::read(&pair.local, 0, pair.at(0), 64);
    let batch = pair.client.submit(&[request], Options::default()).unwrap();
    let (count, waker) = counting();
    tokio().block_on(async {
        let early = tokio::time::timeout(Duration::from_millis(20), &batch).await;
        assert!(early.is_err() && batch.poll().is_none());
        for _ in 0..100 {
            let mut future = (&batch).into_future();
            assert!(poll_with(&mut future, &waker).is_pending());
        }
        assert_eq!(Arc::strong_count(&count), 2, "a waker was left behind");
        let mut mine = (&batch).into_future();
        assert!(poll_with(&mut mine, &waker).is_pending());
        batch.cancel();
        assert_eq!((&batch).await.unwrap().failed, 1);
        assert!(matches!(poll_with(&mut mine, &waker), Poll::Ready(Ok(_))));
        assert!(matches!(poll_with(&mut mine, &waker), Poll::Ready(Ok(_))), "also after it was ready");
    });
    until("the waker", || count.0.load(Ordering::Acquire) == 1 && Arc::strong_count(&count) == 2);
    drop(batch);

    let owned = pair.client.submit(&[request], Options::default()).unwrap();
    let mut future = owned.into_future();
    assert!(poll_with(&mut future, &waker).is_pending());
    drop(future);
    assert_eq!(
        (Arc::strong_count(&count), pair.client.usage().batches),
        (2, 1),
        "it goes on without a handle"
    );
    pair.client.stop();
    assert_eq!((count.0.load(Ordering::Acquire), pair.client.usage().batches), (1, 0));
}

/// A task that moves to another executor is woken there: the waker of its last poll, and none before. Each of a thousand
/// tasks that await one batch is woken once.
#[test]
fn each_by_its_last_waker() {
    let pair = slow("200ms");
    let request = Request::read(&pair.local, 0, pair.at(0), 64);
    let batch = pair.client.submit(&[request], Options::default()).unwrap();
    let (before, after) = (counting(), counting());
    let mut tasks: Vec<WhenDone<&Batch>> = (0..1_000).map(|_| (&batch).into_future()).collect();
    for waker in [&before.1, &after.1] {
        for task in &mut tasks {
            assert!(poll_with(task, waker).is_pending(), "the machine is too slow for 200 ms");
        }
    }
    assert_eq!(Arc::strong_count(&before.0), 2, "replaced wakers are dropped");
    // Some go, the first one too.
    let gone: Vec<_> = tasks.drain(..100).collect();
    drop(gone);
    assert!(batch.wait(PATIENCE).unwrap().is_done());
    until("all that are left", || after.0.0.load(Ordering::Acquire) == 900);
    assert_eq!(before.0.0.load(Ordering::Acquire), 0);
    assert_eq!(Arc::strong_count(&after.0), 2);
}

/// Tasks are woken and told when the engine is stopped, and when its last handle is dropped.
#[test]
fn the_engine_ends() {
    for dropped in [true, false] {
        let pair = slow("3600s");
        let request = Request::read(&pair.local, 0, pair.at(0), 64);
        let batches: Vec<_> =
            (0..8).map(|_| pair.client.submit(&[request], Options::default()).unwrap()).collect();
        std::thread::scope(|scope| {
            let waiters: Vec<_> =
                batches.iter().map(|batch| scope.spawn(|| block_on(batch.into_future()))).collect();
            if dropped {
                drop((pair.kv, pair.client));
            } else {
                pair.client.stop();
            }
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap().0.unwrap().failed, 1);
            }
        });
    }
}

/// A task that runs on whatever thread wakes it, as a hostile executor might: here that of the engine.
struct Inline {
    task: Mutex<Option<WhenDone<Batch>>>,
    told: std::sync::mpsc::Sender<(Summary, Result<Summary, WaitError>)>,
    other: Batch,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut task = self.task.lock().unwrap();
        let Some(future) = &mut *task else { return };
        if let Poll::Ready(summary) = poll_with(future, &waker) {
            *task = None;
            let waits = self.other.wait(PATIENCE);
            self.told.send((summary.unwrap(), waits)).unwrap();
        }
    }
}

/// A waker may run its task there and then: that may poll, drop its batch and submit, only not wait. One that panics is
/// counted and costs nobody else, neither the task behind it nor the stage.
#[test]
fn wakers_that_do_too_much() {
    let pair = slow("50ms");
    let endless = slow("3600s");
    let request = Request::read(&pair.local, 0, pair.at(0), 64);
    let (send, hear) = std::sync::mpsc::channel();
    let own = pair.client.submit(&[request], Options::default()).unwrap();
    let never = Request::read(&endless.local, 0, endless.at(0), 64);
    let other = endless.client.submit(&[never], Options::default()).unwrap();
    let inline = Arc::new(Inline { task: Mutex::new(Some(own.into_future())), told: send, other });
    inline.clone().wake();
    let (summary, waits) = hear.recv_timeout(PATIENCE).unwrap();
    assert!(summary.is_done());
    assert_eq!(waits, Err(WaitError::WouldDeadlock));

    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of the application panics");
        }
    }
    let batch = pair.client.submit(&[request], Options::default()).unwrap();
    let (count, waker) = counting();
    let (mut first, mut second) = ((&batch).into_future(), (&batch).into_future());
    assert!(poll_with(&mut first, &Arc::new(Panics).into()).is_pending());
    assert!(poll_with(&mut second, &waker).is_pending());
    assert!(batch.wait(PATIENCE).unwrap().is_done());
    until("the other task", || count.0.load(Ordering::Acquire) == 1);
    assert_eq!(pair.client.counts().callback_panics, 1);
    assert!(pair.client.stats().stages.iter().all(|s| s.panics == 0), "no stage has panicked");
}

/// In a callback a batch may be polled as a future, and one that is done awaited.
#[test]
fn polled_in_a_callback() {
    let pair = pair(&[]);
    let request = Request::read(&pair.local, 0, pair.at(0), 64);
    let done = pair.client.submit(&[request], Options::default()).unwrap();
    done.wait(PATIENCE).unwrap();
    let (send, hear) = std::sync::mpsc::channel();
    let client = pair.client.clone();
    let batch = pair.client.submit(&[request], Options::default()).unwrap();
    let inside = move |_| {
        let (count, waker) = counting();
        let more = client.submit(&[request], Options::default()).unwrap();
        let mut future = pin!(more.into_future());
        let polled = poll_with(&mut future, &waker);
        // Another pool does the work: it will be woken, whatever this thread does.
        let woken = polled.is_ready() || {
            until("the waker", || count.0.load(Ordering::Acquire) == 1);
            poll_with(&mut future, &waker).is_ready()
        };
        send.send((woken, block_on(done.into_future()).0.unwrap().is_done())).unwrap();
    };
    batch.on_done(inside).unwrap();
    assert_eq!(hear.recv_timeout(PATIENCE).unwrap(), (true, true));
}

/// Without "waker" a task is told so at its first poll, whether or not its batch is done, rather than left to sleep or to
/// spin.
#[test]
fn not_declared() {
    let (target, plain): (Engine, Engine) = (target("4KiB"), engine(&[]));
    let kv = open(&plain, &target).segment("kv").unwrap();
    let local = plain.allocate(4096).unwrap();
    let request = Request::write(&local, 0, kv.at(0), 8);
    let batch = plain.submit(&[request], Options::default()).unwrap();
    assert_eq!(block_on((&batch).into_future()).0, Err(AwaitError::NotDeclared));
    batch.wait(PATIENCE).unwrap();
    let error = block_on(batch.into_future()).0.unwrap_err();
    assert!(error.to_string().contains("add \"waker\" to `via`"), "{error}");
}
