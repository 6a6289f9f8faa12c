//! A descriptor for each batch: when it is readable, how long it lives, and what is said when there is none.

use std::os::fd::{AsFd, AsRawFd};

use pipeline_node::{DescriptorError, Options, Request};
use rustix::event::epoll;

use super::{pair, slow};
use crate::audience::{is_readable, until_readable};
use crate::rig::{PATIENCE, engine, nothing_left, open, target, until};

/// It is silent before the end and readable from then on, also if it is asked for afterwards; one batch has one,
/// whoever asks at the same time.
#[test]
fn readable_from_the_end_on() {
    let pair = slow("100ms");
    let request = Request::read(&pair.local, 0, pair.at(0), 64);
    let batch = pair.client.submit(&[request], Options::default()).unwrap();
    let fds: Vec<i32> = std::thread::scope(|scope| {
        let asks = || batch.eventfd().unwrap().as_raw_fd();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(asks)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(fds.iter().all(|fd| *fd == fds[0]), "{fds:?}");
    let before = is_readable(&batch.eventfd().unwrap(), 0);
    assert!(!before || batch.poll().is_some(), "readable, and not done");
    until_readable(&batch.eventfd().unwrap());
    assert!(batch.poll().unwrap().is_done());
    let late = pair.client.submit(&[request], Options::default()).unwrap();
    late.wait(PATIENCE).unwrap();
    for batch in [&batch, &late] {
        assert!(is_readable(&batch.eventfd().unwrap(), 0) && is_readable(&batch.eventfd().unwrap(), 0));
    }
}

/// How many eventfds this process has open.
fn eventfds() -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    links
        .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("anon_inode:[eventfd]")))
        .count()
}

/// Thousands of batches with a descriptor each leave none open, whether their handle goes before, at or after the end: an
/// event loop reaps them by epoll, and misses none.
#[test]
fn none_is_left_open() {
    const ROUNDS: u64 = 1_000;
    let pair = pair(&[]);
    let before = eventfds();
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let mut events = Vec::with_capacity(8);
    for round in 0..ROUNDS {
        let request = Request::write(&pair.local, 0, pair.at(0), 64);
        let [first, second, third] =
            [(); 3].map(|()| pair.client.submit_wait(&[request], Options::default(), PATIENCE).unwrap());
        epoll::add(&set, first.eventfd().unwrap(), epoll::EventData::new_u64(round), epoll::EventFlags::IN)
            .unwrap();
        second.eventfd().unwrap();
        drop(second);
        third.eventfd().unwrap();
        let limit = rustix::event::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        events.clear();
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), Some(&limit)).unwrap();
        assert_eq!(events.iter().map(|e| e.data.u64()).collect::<Vec<_>>(), [round], "nothing is told");
        assert!(first.poll().unwrap().is_done());
        // Closed with its batch, so the set forgets it.
        drop((first, third));
    }
    until("all batches", || pair.client.usage().batches == 0);
    // Other tests of this process may have made some.
    let after = eventfds();
    assert!(after < before + 500, "{before} open before, {after} after {ROUNDS} rounds");
    nothing_left(&pair.client, [pair.local]);
}

/// Without "eventfd" in `via` the error says what to add, for a batch, for a doorbell, and for a batch that names another
/// engine's doorbell.
#[test]
fn not_declared() {
    let (target, plain) = (target("4KiB"), engine(&[]));
    let kv = open(&plain, &target).segment("kv").unwrap();
    let local = plain.allocate(4096).unwrap();
    let request = Request::write(&local, 0, kv.at(0), 8);
    let batch = plain.submit(&[request], Options::default()).unwrap();
    for error in [batch.eventfd().map(|_| ()).unwrap_err(), plain.doorbell().map(|_| ()).unwrap_err()] {
        assert!(matches!(error, DescriptorError::NotDeclared), "{error}");
        assert!(error.to_string().contains("add \"eventfd\" to `via`"), "{error}");
    }
    batch.wait(PATIENCE).unwrap();
    let notify = Some(pair(&[]).client.doorbell().unwrap());
    let error = plain.submit(&[request], Options { notify, ..Options::default() }).unwrap_err();
    assert!(error.to_string().contains("add \"eventfd\" to `via`"), "{error}");
    drop(batch);
    nothing_left(&plain, [local]);
}

/// A program's own copy of a descriptor outlives its batch, and tells the end all the same.
#[test]
fn a_copy_outlives_the_batch() {
    let pair = pair(&[]);
    let request = Request::write(&pair.local, 0, pair.at(0), 64);
    let batch = pair.client.submit(&[request], Options::default()).unwrap();
    let copy = batch.eventfd().unwrap().try_clone_to_owned().unwrap();
    batch.wait(PATIENCE).unwrap();
    until_readable(&copy.as_fd());
    drop(batch);
    until_readable(&copy);
    nothing_left(&pair.client, [pair.local]);
}
