//! A stage that panics costs only its own work, and says so: what it held ends with its name, everything comes back,
//! and what goes another way is not touched.

#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pipeline_stages::mail::Event;
use pipeline_stages::{Options, Reason, Request, Status};
use pipeline_transports::{Access, Transport};
use rig::null::Null;
use rig::{INLINE, QUEUES, Rig, file, target};

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
            // The rest finds no link, until its time is up.
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
            assert!(rig.events.try_iter().any(|e| matches!(e, Event::LinkClosed(_))));
        }
    }
}
