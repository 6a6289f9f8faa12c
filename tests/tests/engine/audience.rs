//! Everybody who can wait for a batch, all at once: a thread that polls, one that sleeps, one in an epoll loop, tasks of two
//! executors, a callback, a doorbell. Each must be told once, and the same.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use pipeline_node::{Batch, Doorbell, Engine, Source, Summary};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use crate::rig::PATIENCE;

/// All ways of delivery, over TCP.
pub const ALL_WAYS: &str = r#"
version = 1
use = "tcp"
[pools]
calls = { threads = 1, wait = "park" }
[stages]
notify = { via = ["status", "event", "eventfd", "waker", "callback"] }
calls = { type = "callbacks", pool = "calls" }
"#;

/// An engine that tells in all ways, with overrides.
#[track_caller]
pub fn telling(set: &[&str]) -> Engine {
    let source = Source::text("all ways", ALL_WAYS).set(set.iter().copied());
    Engine::from_source(&source).unwrap_or_else(|e| panic!("{e}"))
}

/// The smallest executor there is: a thread that sleeps until its one task is woken, and counts how often it was.
pub struct Sleeper {
    thread: Thread,
    woken: AtomicU32,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::AcqRel);
        self.thread.unpark();
    }
}

/// Runs a future to its end on this thread: what it came to, how often it was polled, and how often it was woken.
pub fn block_on<F: Future>(future: F) -> (F::Output, u32, u32) {
    let sleeper = Arc::new(Sleeper { thread: std::thread::current(), woken: AtomicU32::new(0) });
    let waker = Waker::from(sleeper.clone());
    let mut future = pin!(future);
    let (mut polls, mut seen) = (0, 0);
    loop {
        polls += 1;
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return (output, polls, sleeper.woken.load(Ordering::Acquire));
        }
        while sleeper.woken.load(Ordering::Acquire) == seen {
            std::thread::park_timeout(PATIENCE);
        }
        seen = sleeper.woken.load(Ordering::Acquire);
    }
}

/// Sleeps until a descriptor is readable.
#[track_caller]
pub fn until_readable(fd: &impl std::os::fd::AsFd) {
    assert!(is_readable(fd, PATIENCE.as_secs()), "not readable after {PATIENCE:?}");
}

/// Whether a descriptor becomes readable within so many seconds.
pub fn is_readable(fd: &impl std::os::fd::AsFd, seconds: u64) -> bool {
    let limit = Timespec { tv_sec: seconds as i64, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&limit)).unwrap() > 0
}

fn by_polling(batch: &Batch) -> Summary {
    loop {
        if let Some(summary) = batch.poll() {
            return summary;
        }
        std::thread::yield_now();
    }
}

/// As an event loop does: the descriptor is one of an epoll set.
fn by_epoll(batch: &Batch) -> Summary {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let fd = batch.eventfd().unwrap();
    epoll::add(&set, fd, epoll::EventData::new_u64(7), epoll::EventFlags::IN).unwrap();
    let mut events = Vec::with_capacity(4);
    let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    for _ in 0..2 {
        // Twice: it stays readable, because nobody reads it.
        events.clear();
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), Some(&limit)).unwrap();
        assert!(events.len() == 1 && events[0].data.u64() == 7, "the descriptor tells nothing");
    }
    batch.poll().expect("readable, so it is done")
}

fn by_task(batch: &Batch) -> Summary {
    let (summary, polls, woken) = block_on(batch.into_future());
    assert!(polls == 1 || (polls, woken) == (2, 1), "{polls} polls, woken {woken} times");
    summary.unwrap()
}

/// Two tasks of one tokio runtime.
fn by_tokio(batch: &Batch) -> Summary {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let both = async { tokio::join!(batch.into_future(), batch.into_future()) };
    let told = runtime.block_on(async { tokio::time::timeout(PATIENCE, both).await });
    let (one, other) = told.expect("both are woken");
    assert_eq!(one.unwrap(), other.unwrap());
    one.unwrap()
}

/// Has everybody wait for a batch, which names this doorbell and no other batch does; does `then`, and sees that each was
/// told once of the same end. `called`: whether its callback
/// must have been run; once at most it is in any case.
#[track_caller]
pub fn all_are_told(batch: &Batch, doorbell: &Doorbell, called: bool, then: impl FnOnce()) -> Summary {
    let (send, hear) = std::sync::mpsc::channel();
    batch.on_done(move |summary| send.send(summary).unwrap()).unwrap();
    let summary = std::thread::scope(|scope| {
        let ways: [fn(&Batch) -> Summary; 6] =
            [by_polling, by_epoll, by_task, by_tokio, by_epoll, |b| b.wait(PATIENCE).unwrap()];
        let waiters: Vec<_> = ways.into_iter().map(|way| scope.spawn(move || way(batch))).collect();
        then();
        until_readable(doorbell);
        let summary = batch.poll().expect("the doorbell was rung, so it is done");
        for (i, waiter) in waiters.into_iter().enumerate() {
            assert_eq!(waiter.join().unwrap(), summary, "way {i}");
        }
        summary
    });
    let calls: Vec<_> = std::iter::from_fn(|| match hear.recv_timeout(PATIENCE) {
        Err(RecvTimeoutError::Timeout) => panic!("the callback is neither run nor dropped"),
        call => call.ok(),
    })
    .collect();
    assert!(calls == [summary] || (calls.is_empty() && !called), "{calls:?}");
    assert_eq!((doorbell.take(), doorbell.take()), (1, 0), "rings");
    // Against the rules, to count: it was written once.
    let mut written = [0; 8];
    rustix::io::read(batch.eventfd().unwrap(), &mut written).unwrap();
    assert_eq!(u64::from_ne_bytes(written), 1);
    summary
}
