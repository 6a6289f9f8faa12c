//! Everybody waits for one batch, in every way, however it ends.

use std::time::Duration;

use pipeline_node::{OnDoneError, Options, Request};

use super::{Pair, pair, slow};
use crate::audience::all_are_told;
use crate::rig::{nothing_left, until};

fn named(pair: &Pair) -> (Options, pipeline_node::Doorbell) {
    let doorbell = pair.client.doorbell().unwrap();
    (Options { notify: Some(doorbell.clone()), ..Options::default() }, doorbell)
}

/// Batches that are done before, while and after everybody comes to wait: each way tells once, in a hundred rounds.
#[test]
fn done_at_any_moment() {
    let pair = pair(&[]);
    let (options, doorbell) = named(&pair);
    for round in 0..100 {
        let request = Request::write(&pair.local, 0, pair.at(0), 1 << (round % 16));
        let batch = pair.client.submit(&[request; 3], options.clone()).unwrap();
        let summary = all_are_told(&batch, &doorbell, true, || ());
        assert!(summary.is_done() && summary.requests == 3, "{summary:?}");
    }
    until("all batches", || pair.client.usage().batches == 0);
    nothing_left(&pair.client, [pair.local]);
}

/// A batch of which all requests are refused at submit is done from the start, and one of which some are is done later:
/// everybody is told of both.
#[test]
fn failed_from_the_start() {
    let pair = pair(&[]);
    let (options, doorbell) = named(&pair);
    let sound = Request::read(&pair.local, 0, pair.at(0), 64);
    let beyond = Request::read(&pair.local, 0, pair.at(1 << 30), 64);
    for (requests, failed) in [([beyond, beyond], 2), ([beyond, sound], 1)] {
        let batch = pair.client.submit(&requests, options.clone()).unwrap();
        assert_eq!(all_are_told(&batch, &doorbell, true, || ()).failed, failed);
    }
    until("all batches", || pair.client.usage().batches == 0);
    nothing_left(&pair.client, [pair.local]);
}

/// Everybody waits long before the end, which comes by itself, by a cancel, by the batch's deadline, and when the engine is
/// stopped: then callbacks are dropped, and all others told.
#[test]
fn whatever_ends_it() {
    let quick = slow("100ms");
    let (options, doorbell) = named(&quick);
    let request = Request::write(&quick.local, 0, quick.at(0), 4096);
    let batch = quick.client.submit(&[request], options).unwrap();
    assert!(all_are_told(&batch, &doorbell, true, || assert!(batch.poll().is_none())).is_done());

    let endless = slow("3600s");
    let (options, doorbell) = named(&endless);
    let request = Request::read(&endless.local, 0, endless.at(0), 4096);
    let soon = Options { deadline: Some(Duration::from_millis(100)), ..options.clone() };
    let [cancelled, late, stopped] = [&options, &soon, &options]
        .map(|options| endless.client.submit(&[request], options.clone()).unwrap());
    // In this order: all three have one doorbell.
    assert_eq!(all_are_told(&late, &doorbell, true, || ()).failed, 1);
    assert_eq!(all_are_told(&cancelled, &doorbell, true, || cancelled.cancel()).failed, 1);
    assert_eq!(all_are_told(&stopped, &doorbell, false, || endless.client.stop()).failed, 1);
    assert_eq!(stopped.on_done(|_| panic!("must not run")), Err(OnDoneError::Stopped));
    drop((cancelled, late, stopped));
    assert_eq!(endless.client.usage().batches, 0, "a callback that was dropped keeps its batch");
}

/// A batch with a notice ends when the receiver has taken that, or cannot: nobody is told before, and everybody then; also
/// if all of its requests had failed at once.
#[test]
fn with_a_notice() {
    let pair = pair(&[]);
    let (options, doorbell) = named(&pair);
    let options = Options { notice: Some(b"page".as_slice().into()), ..options };
    let sound = Request::write(&pair.local, 0, pair.at(0), 4096);
    let beyond = Request::read(&pair.local, 0, pair.at(1 << 30), 64);
    // Nobody listens.
    for request in [sound, beyond] {
        let batch = pair.client.submit(&[request], options.clone()).unwrap();
        let summary = all_are_told(&batch, &doorbell, true, || ());
        assert!(summary.notice_failed, "{summary:?}");
    }
    let notices = pair.target.notices();
    for (request, failed) in [(sound, 0), (beyond, 1)] {
        let batch = pair.client.submit(&[request], options.clone()).unwrap();
        let summary = all_are_told(&batch, &doorbell, true, || ());
        assert_eq!((summary.notice_failed, summary.failed), (false, failed));
        assert_eq!(notices.try_next().unwrap().failed, failed);
    }
    until("all batches", || pair.client.usage().batches == 0);
    nothing_left(&pair.client, [pair.local]);
}
