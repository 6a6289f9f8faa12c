//! One doorbell for many batches: each end rings it once, and no end is missed.

use std::os::fd::AsFd;

use pipeline_node::{Batch, Options, Request, SubmitError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{pair, slow};
use crate::audience::{is_readable, until_readable};
use crate::rig::{PATIENCE, nothing_left, until};

/// An event loop keeps 64 batches under way and reaps them by one descriptor: each of 20 000 ends is counted once, and
/// whenever it has slept, some of its batches are done.
#[test]
fn an_event_loop() {
    let pair = pair(&[]);
    let doorbell = pair.client.doorbell().unwrap();
    let submit = |i: u64| {
        let request = Request::write(&pair.local, 0, pair.at((i % 16) << 12), 64);
        let options = Options { notify: Some(doorbell.clone()), ..Options::default() };
        pair.client.submit_wait(&[request], options, PATIENCE).unwrap()
    };
    let (mut submitted, mut rung) = (64, 0);
    let mut batches: Vec<Batch> = (0..64).map(submit).collect();
    while !batches.is_empty() {
        until_readable(&doorbell);
        let before = batches.len();
        rung += doorbell.take();
        batches.retain(|batch| batch.poll().is_none());
        let reaped = (before - batches.len()) as u64;
        while submitted < 20_000 && batches.len() < 64 {
            batches.push(submit(submitted));
            submitted += 1;
        }
        // A batch may be seen done just before its ring is counted, never the other way round.
        assert!(reaped + 64 >= rung.min(64), "{rung} rings");
    }
    until("the last ring", || {
        rung += doorbell.take();
        rung == 20_000
    });
    assert!(!is_readable(&doorbell, 0));
    nothing_left(&pair.client, [pair.local]);
}

/// It is rung for batches that fail at once, that are cancelled, and whose handle is gone; not for one that was not taken;
/// and by two engines, if both name it.
#[test]
fn whatever_becomes_of_them() {
    let (quick, endless) = (pair(&["limits.batches=4"]), slow("3600s"));
    let doorbell = quick.client.doorbell().unwrap();
    let options = Options { notify: Some(doorbell.clone()), ..Options::default() };
    let write = Request::write(&quick.local, 0, quick.at(0), 64);
    let beyond = Request::write(&quick.local, 0, quick.at(1 << 30), 64);
    let never = Request::write(&endless.local, 0, endless.at(0), 64);
    let rung = |n: u64| {
        let mut sum = 0;
        until("the rings", || {
            sum += doorbell.take();
            sum >= n
        });
        assert_eq!(sum, n);
    };
    drop(quick.client.submit(&[write], options.clone()).unwrap());
    rung(1);
    drop(quick.client.submit(&[beyond], options.clone()).unwrap());
    rung(1);
    let batch = endless.client.submit(&[never], options.clone()).unwrap();
    drop(endless.client.submit(&[never], options.clone()).unwrap());
    batch.cancel();
    rung(1);
    endless.client.stop();
    rung(1);
    assert_eq!(quick.client.submit(&[], options.clone()).unwrap_err(), SubmitError::Empty);
    let held: Vec<Batch> =
        (0..4).map(|_| quick.client.submit_wait(&[write], options.clone(), PATIENCE).unwrap()).collect();
    let error = quick.client.submit(&[write], options.clone()).unwrap_err();
    assert!(matches!(error, SubmitError::Busy { .. }), "{error}");
    rung(4);
    assert!(!is_readable(&doorbell, 0), "something rang for nothing");
    drop(held);
    quick.client.stop();
    assert_eq!(quick.client.submit(&[write], options.clone()).unwrap_err(), SubmitError::Stopped);
    assert!(!is_readable(&doorbell, 0));
    nothing_left(&quick.client, [quick.local]);
}

/// Two doorbells of one engine are two: each counts the batches that name it.
#[test]
fn two_doorbells() {
    let pair = pair(&[]);
    let bells = [(); 2].map(|()| pair.client.doorbell().unwrap());
    assert!(bells[0] != bells[1] && bells[0] == bells[0].clone());
    let write = Request::write(&pair.local, 0, pair.at(0), 64);
    let batches: Vec<Batch> = (0..400)
        .map(|i| {
            let notify = Some(bells[usize::from(i % 4 == 0)].clone());
            pair.client.submit_wait(&[write], Options { notify, ..Options::default() }, PATIENCE).unwrap()
        })
        .collect();
    let mut rung = [0; 2];
    until("all rings", || {
        for (sum, bell) in rung.iter_mut().zip(&bells) {
            *sum += bell.take();
        }
        rung == [300, 100]
    });
    drop(batches);
    until("all batches", || pair.client.usage().batches == 0);
    nothing_left(&pair.client, [pair.local]);
}

/// It works behind edge-triggered epoll as well, as tokio's `AsyncFd` has it.
#[test]
fn behind_async_fd() {
    let pair = pair(&[]);
    let doorbell = pair.client.doorbell().unwrap();
    let options = Options { notify: Some(doorbell.clone()), ..Options::default() };
    let write = Request::write(&pair.local, 0, pair.at(0), 64);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let fd = doorbell.as_fd().try_clone_to_owned().unwrap();
        // SAFETY: an owned descriptor is the same one for as long as it lives.
        let bell = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.unwrap();
        for round in 0..2_000 {
            let batch = pair.client.submit_wait(&[write], options.clone(), PATIENCE).unwrap();
            let mut rung = 0;
            while rung == 0 {
                let mut ready =
                    tokio::time::timeout(PATIENCE, bell.readable()).await.expect("no edge").unwrap();
                rung = doorbell.take();
                ready.clear_ready();
            }
            assert!(rung == 1 && batch.poll().is_some_and(|s| s.is_done()), "round {round}");
        }
    });
    nothing_left(&pair.client, [pair.local]);
}
