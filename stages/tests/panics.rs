//! A stage that panics costs only its own work, and says so: what it held ends with its name, everything comes back,
//! and what goes another way is not touched.

#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pipeline_stages::mail::Event;
use pipeline_stages::peer::PeerId;
use pipeline_stages::{Batch, Options, Reason, Request, Status, catalog};
use pipeline_transports::{Access, Transport};
use rig::null::Null;
use rig::trip::{Posture, Tripping, Wire};
use rig::{INLINE, QUEUES, Rig, Target, file, target};

const LIMITS: &str = "requests = 512\nslices = 1024\nbatches = 16\npeers = 4\nbytes_in_flight = \"64KiB\"";
const LONG: Duration = Duration::from_secs(20);

/// A transport half panics in the middle of a transfer, once the post half and once the reap half: each request
/// ends once, those that were caught name the stage or are undetermined, and no slot, window or pin is lost.
#[test]
fn a_panicking_half() {
    for (model, half) in [(INLINE, "post"), (INLINE, "reap"), (QUEUES, "post"), (QUEUES, "reap")] {
        let config = file("type = \"loopback\"", model, LIMITS, "1KiB");
        let mut there = target(&config, &[1 << 20], Access::ReadWrite);
        let null = Arc::new(Null::default());
        let wire = if half == "post" { &null.trip.post } else { &null.trip.reap };
        wire.store(500, Relaxed);
        there.view.offers = vec![null.offer()];
        let rig = Rig::start_over(&config, |_, _, _| null.clone());
        let peer = rig.meet("b", &there);
        rig.link(peer, &there);
        let local = rig.memory(1 << 20, 1);
        let options = Options { deadline: Some(Duration::from_millis(400)), ..Options::default() };
        let request = |i: u64| match i % 2 {
            0 => Request::write(local, i * 4096, rig.remote(peer, &there, i * 4096), 10_000),
            _ => Request::read(local, i * 4096, rig.remote(peer, &there, i * 4096), 10_000),
        };
        let requests: Vec<Request> = (0..200).map(request).collect();
        let batch = rig.client.submit(&requests, options).unwrap();
        let summary = batch.wait(LONG).unwrap();
        assert!(summary.failed > 0, "{half}");
        let mut panics = 0;
        for status in batch.results() {
            let Status::Failed(failure) = status else { continue };
            let named = failure.reason == Reason::StagePanic && *failure.stage == *half;
            panics += u32::from(named || failure.reason == Reason::Undetermined);
            // The rest finds no link, until its time is up: nobody dials one here.
            assert!(
                named || matches!(failure.reason, Reason::Undetermined | Reason::Deadline),
                "{half}: {failure}"
            );
        }
        assert!(panics > 0, "{half}: nothing was caught in it");
        drop(batch);
        rig.all_back();
        assert!(rig.world.regions.remove(local).is_ok());
        if half == "reap" {
            assert!(rig.events.try_iter().any(|e| matches!(e, Event::LinkClosed(..))));
        }
    }
}

/// Where dead links must be fenced a panic leaves the link of its worker unfenced, before anything of it has ended: from
/// then on no WRITE goes to that peer, whatever other links it has, until its time is up; READs go.
#[test]
fn a_panic_leaves_its_link_unfenced() {
    for half in ["post", "reap"] {
        let config = file("type = \"loopback\"", QUEUES, LIMITS, "1KiB");
        let mut there = target(&config, &[1 << 20], Access::ReadWrite);
        let null = Arc::new(Null::unfenced());
        let wire = if half == "post" { &null.trip.post } else { &null.trip.reap };
        there.view.offers = vec![null.offer()];
        let rig = Rig::start_over(&config, |_, _, _| null.clone());
        let peer = rig.meet("b", &there);
        rig.link(peer, &there);
        let local = rig.memory(1 << 20, 1);
        let write = Request::write(local, 0, rig.remote(peer, &there, 0), 10_000);
        let short = Options { deadline: Some(Duration::from_millis(400)), ..Options::default() };
        wire.store(500, Relaxed);
        let batch = rig.client.submit(&[write; 200], short.clone()).unwrap();
        let undetermined = |status: &Status| match status {
            Status::Failed(failure) => failure.reason == Reason::Undetermined,
            _ => false,
        };
        while !batch.results().any(|status| undetermined(&status)) && batch.poll().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(
            there.view.unfenced.links(),
            1,
            "{half}: the link of one worker, before a slice of it had ended"
        );
        batch.wait(LONG).unwrap();
        let held = rig.client.submit(&[write], short).unwrap();
        let read = Request::read(local, 0, rig.remote(peer, &there, 0), 10_000);
        assert!(rig.client.submit(&[read], Options::default()).unwrap().wait(LONG).unwrap().is_done());
        held.wait(LONG).unwrap();
        let Some(Status::Failed(failure)) = held.results().next() else { panic!("{half}: it was sent") };
        assert_eq!((failure.reason, &*failure.stage), (Reason::Deadline, "select"), "{half}");
        drop((batch, held));
        rig.all_back();
    }
}

fn wait(rig: &Rig, peer: PeerId, there: &Target, batch: &Batch, what: &str) -> u32 {
    let by = std::time::Instant::now() + LONG;
    while batch.poll().is_none() {
        rig.relink(peer, there);
        assert!(std::time::Instant::now() < by, "{what}: not done: {:?}", rig.world.ledger.usage());
        std::thread::yield_now();
    }
    batch.poll().unwrap().failed
}

/// Each stage panics once, in each posture, on one worker and with queues between them: each request ends once and in
/// time, those that were caught name the stage, nothing is left behind, and the next batch is done without a restart.
#[test]
fn a_panicking_stage() {
    let stages = ["admit", "split", "route", "select", "post", "retry", "notify", "reap"];
    let postures = [Posture::Halfway, Posture::InHand, Posture::Full, Posture::Poll];
    for (model, stage, posture) in [INLINE, QUEUES].into_iter().flat_map(|model| {
        stages.into_iter().flat_map(move |stage| postures.into_iter().map(move |p| (model, stage, p)))
    }) {
        // Others are not sure to find something when they are polled: the simulator has them.
        let polled = ["retry", "reap"].contains(&stage);
        if (posture == Posture::Poll && !polled) || (posture != Posture::Poll && stage == "reap") {
            continue;
        }
        let what = format!("{stage} {posture:?}, {}", if model == INLINE { "inline" } else { "queues" });
        // Some fail at first, for the sake of `retry`.
        let sim = "type = \"sim\"\nseed = 5\nerror_ppm = 200000";
        let config = file(sim, model, LIMITS, "1KiB");
        let there = target(&config, &[1 << 20], Access::ReadWrite);
        let wire = Wire::default();
        let make = |t: &_, incarnation, regions: &_| catalog::transport(t, incarnation, regions).unwrap();
        let rig = Rig::start_around(&config, make, |name, inner| match name == stage {
            true => Arc::new(Tripping { inner, posture, wire: wire.clone() }),
            false => inner,
        });
        let peer = rig.meet("b", &there);
        rig.link(peer, &there);
        let local = rig.memory(1 << 20, 1);
        let request = |i: u64| match i % 2 {
            0 => Request::write(local, i * 4096, rig.remote(peer, &there, i * 4096), 3_000),
            _ => Request::read(local, i * 4096, rig.remote(peer, &there, i * 4096), 3_000),
        };
        let requests: Vec<Request> = (0..200).map(request).collect();
        // What comes to `admit` is a whole submission.
        let admits = stage == "admit";
        wire.set(if admits || posture == Posture::Poll { 0 } else { 20 });
        let batch = rig.client.submit(&requests, Options::default()).unwrap();
        let failed = wait(&rig, peer, &there, &batch, &what);
        assert!(wire.is_sprung(), "{what}: it did not panic");
        for status in batch.results() {
            let Status::Failed(failure) = status else { continue };
            let named = failure.reason == Reason::StagePanic && *failure.stage == *stage;
            // Five attempts at one in five may all fail.
            let other = matches!(failure.reason, Reason::Undetermined | Reason::Transport(_));
            assert!(named || other, "{what}: {failure}");
        }
        assert!(failed < 200 || admits, "{what}: it took all along");
        drop(batch);
        let again = rig.client.submit(&requests, Options::default()).unwrap();
        assert!(
            wait(&rig, peer, &there, &again, &what) < 10,
            "{what}: {:?}",
            again.results().collect::<Vec<_>>()
        );
        drop(again);
        rig.all_back();
        assert!(rig.world.regions.remove(local).is_ok(), "{what}: a pin was left");
        let panics: u64 = rig.engine.as_ref().unwrap().snapshot().stages.iter().map(|s| s.panics).sum();
        assert_eq!(panics, 1, "{what}");
    }
}
