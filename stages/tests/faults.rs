//! Whole pipelines over a transport that delays, reorders, loses, fails, refuses and doubles: whatever it does, each
//! accepted slice ends once, and what is said to be done has been applied. `SIM_SEED=` replays one seed.

#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline_stages::mail::Event;
use pipeline_stages::peer::{LinkRef, PeerId, PeerState};
use pipeline_stages::{Batch, Options, Reason, Request, Status, Summary, WaitError};
use pipeline_transports::Access;
use rig::{INLINE, QUEUES, Rig, Target, bytes, file, pattern, target};

const LIMITS: &str = "requests = 4096\nslices = 4096\nbatches = 64\npeers = 4\nbytes_in_flight = \"1MiB\"";
const LONG: Duration = Duration::from_secs(30);

/// What control would do: opens new links for those that closed.
fn keep_linked(rig: &Rig, peer: PeerId, there: &Target) {
    while let Ok(event) = rig.events.try_recv() {
        if let Event::LinkClosed(id, _) = event {
            let links = rig.world.peers.get(peer).unwrap().links.load_full();
            let live: Vec<LinkRef> =
                links.iter().filter(|l| l.id != id && !l.life.is_dead()).cloned().collect();
            rig.world.peers.get(peer).unwrap().links.store(Arc::new(live));
            rig.link(peer, there);
        }
    }
}

fn wait(rig: &Rig, peer: PeerId, there: &Target, batch: &Batch) -> Summary {
    let by = Instant::now() + LONG;
    loop {
        if let Ok(summary) = batch.wait(Duration::from_millis(2)) {
            return summary;
        }
        keep_linked(rig, peer, there);
        assert!(Instant::now() < by, "not done: {:?}", rig.world.ledger.usage());
    }
}

fn seeds() -> Vec<u64> {
    match std::env::var("SIM_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..5).collect(),
    }
}

/// Under errors, refusals, reordering and duplicates: a request is done exactly if all of its bytes were applied, its
/// slices end once (doubled completions are counted and dropped), and everything comes back.
#[test]
fn each_slice_ends_once() {
    for seed in seeds() {
        for model in [INLINE, QUEUES] {
            let sim = format!(
                "type = \"sim\"\nseed = {seed}\nerror_ppm = 50000\nrefuse_ppm = 1000\nreorder_ppm = 200000\n\
                 duplicate_ppm = 100000\nlanes = 2"
            );
            let config = file(&sim, model, LIMITS, "1KiB");
            let there = target(&config, &[1 << 20], Access::ReadWrite);
            let rig = Rig::start(&config);
            let peer = rig.meet("b", &there);
            rig.link(peer, &there);
            let source = rig.memory(1 << 20, seed as u8 | 1);
            let request =
                |i: u64| Request::write(source, i * 4000, rig.remote(peer, &there, i * 4000), 3_999);
            let requests: Vec<Request> = (0..250).map(request).collect();
            let batch = rig.client.submit(&requests, Options::default()).unwrap();
            let summary = wait(&rig, peer, &there, &batch);
            let region = there.view.segments[0].regions[0].id;
            let (there_bytes, all) =
                (bytes(&there.regions, region, 0, 1 << 20), pattern(1 << 20, seed as u8 | 1));
            let mut failed = 0;
            for (i, status) in batch.results().enumerate() {
                let range = i * 4000..i * 4000 + 3_999;
                match status {
                    Status::Done => {
                        assert_eq!(there_bytes[range.clone()], all[range], "seed {seed}, request {i}")
                    }
                    Status::Failed(failure) => {
                        failed += 1;
                        assert!(matches!(failure.reason, Reason::Transport(_)), "seed {seed}: {failure}");
                    }
                    Status::Pending => panic!("seed {seed}: pending after the end"),
                }
            }
            assert_eq!(summary.failed, failed, "seed {seed}");
            drop(batch);
            rig.all_back();
            // Those doubled completions that came while the link lived.
            assert!(rig.world.counts().stale > 0, "seed {seed}: nothing was doubled");
        }
    }
}

/// Lost completions: a WRITE whose answer never comes ends `Undetermined` at its deadline, a READ `Deadline`; its
/// link is aborted, what the abort takes along is sent again, and later batches run on new links.
#[test]
fn lost_completions() {
    for seed in seeds() {
        for model in [INLINE, QUEUES] {
            let sim = format!("type = \"sim\"\nseed = {seed}\nloss_ppm = 3000");
            let config = file(&sim, model, LIMITS, "1KiB");
            let there = target(&config, &[1 << 20], Access::ReadWrite);
            let rig = Rig::start(&config);
            let peer = rig.meet("b", &there);
            rig.link(peer, &there);
            let local = rig.memory(1 << 20, 5);
            let mut lost = 0;
            for round in 0..4 {
                let request = |i: u64| match round % 2 {
                    0 => Request::write(local, i * 1000, rig.remote(peer, &there, i * 1000), 1000),
                    _ => Request::read(local, i * 1000, rig.remote(peer, &there, i * 1000), 1000),
                };
                let requests: Vec<Request> = (0..1000).map(request).collect();
                let within = Options { deadline: Some(Duration::from_millis(70)), ..Options::default() };
                let batch = rig.client.submit(&requests, within).unwrap();
                let start = Instant::now();
                let summary = wait(&rig, peer, &there, &batch);
                assert!(start.elapsed() < Duration::from_secs(3), "seed {seed}: {:?}", start.elapsed());
                lost += summary.failed;
                for status in batch.results() {
                    let Status::Failed(failure) = status else { continue };
                    let right = match failure.reason {
                        Reason::Undetermined => round % 2 == 0,
                        Reason::Deadline => true,
                        _ => false,
                    };
                    assert!(right, "seed {seed}, round {round}: {failure}");
                }
            }
            assert!(lost > 0, "seed {seed}: nothing was lost");
            rig.all_back();
        }
    }
}

/// A batch that is cancelled while its slices are posted ends without waiting for the wire: what has not begun is
/// taken back, and afterwards nothing touches its buffers.
#[test]
fn cancel_while_posted() {
    let sim = "type = \"sim\"\ndelay_min = \"20s\"\ndelay_max = \"20s\"";
    for model in [INLINE, QUEUES] {
        let config = file(sim, model, LIMITS, "1KiB");
        let there = target(&config, &[1 << 20], Access::ReadWrite);
        let rig = Rig::start(&config);
        let peer = rig.meet("b", &there);
        rig.link(peer, &there);
        let local = rig.memory(1 << 20, 5);
        let read = Request::read(local, 0, rig.remote(peer, &there, 0), 1 << 20);
        let batch = rig.client.submit(&[read; 3], Options::default()).unwrap();
        assert_eq!(batch.wait(Duration::from_millis(30)), Err(WaitError::Timeout));
        let start = Instant::now();
        batch.cancel();
        assert_eq!(wait(&rig, peer, &there, &batch).failed, 3);
        assert!(start.elapsed() < Duration::from_secs(2));
        drop(batch);
        rig.all_back();
        assert!(rig.world.regions.remove(local).is_ok());
    }
}

/// B14: two throttled transfers; one peer dies at about a fifth. Its batch fails within five seconds and names it,
/// the other is done with all its bytes, and a new one to that peer works.
#[test]
fn a_peer_dies_in_the_middle() {
    const LEN: u64 = 4 << 20;
    let sim = "type = \"sim\"\nbytes_per_s = 20000000";
    let limits = LIMITS.replace("1MiB", "64KiB");
    let config = file(sim, QUEUES, &limits, "4KiB");
    let (dies, lives) =
        (target(&config, &[LEN], Access::ReadWrite), target(&config, &[LEN], Access::ReadWrite));
    let rig = Rig::start(&config);
    let (b, c) = (rig.meet("b", &dies), rig.meet("c", &lives));
    rig.link(b, &dies);
    rig.link(c, &lives);
    let source = rig.memory(LEN, 77);
    let submit = |peer, there: &Target| {
        rig.client
            .submit(&[Request::write(source, 0, rig.remote(peer, there, 0), LEN)], Options::default())
            .unwrap()
    };
    let (to_b, to_c) = (submit(b, &dies), submit(c, &lives));
    let region = dies.view.segments[0].regions[0].id;
    while bytes(&dies.regions, region, LEN / 5, 64) != pattern(LEN, 77)[LEN as usize / 5..][..64] {
        assert_eq!(to_b.poll(), None);
        std::thread::yield_now();
    }
    let start = Instant::now();
    drop(dies);
    rig.world.peers.get(b).unwrap().set_state(PeerState::Down);
    rig.world.peers.changed();
    assert_eq!(to_b.wait(LONG).unwrap().failed, 1);
    assert!(start.elapsed() < Duration::from_secs(5));
    let Some(Status::Failed(failure)) = to_b.results().next() else { panic!("b is dead") };
    assert!(matches!(failure.reason, Reason::PeerGone | Reason::Undetermined), "{failure}");
    assert_eq!(&*failure.peer, "b");
    assert_eq!(
        to_c.wait(LONG).unwrap(),
        Summary { requests: 1, failed: 0, bytes: LEN, notice_failed: false }
    );
    assert_eq!(bytes(&lives.regions, lives.view.segments[0].regions[0].id, 0, LEN), pattern(LEN, 77));
    assert!(submit(c, &lives).wait(LONG).unwrap().is_done());
    drop((to_b, to_c));
    rig.all_back();
}
