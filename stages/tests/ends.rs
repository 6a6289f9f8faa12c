//! Ends other than good ones: time runs out, somebody cancels, peers die, nobody waits. Whatever happens, every
//! slice ends once and every slot, window and pin comes back.

#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use std::time::{Duration, Instant};

use pipeline_stages::mail::Event;
use pipeline_stages::peer::PeerState;
use pipeline_stages::{Batch, Options, Reason, Request, Status, WaitError};
use pipeline_transports::Access;
use rig::{INLINE, QUEUES, Rig, file, target};

const LOOPBACK: &str = "type = \"loopback\"";
const LIMITS: &str = "requests = 512\nslices = 576\nbatches = 16\npeers = 4\nbytes_in_flight = \"64KiB\"";
const LONG: Duration = Duration::from_secs(20);
const MIB: u64 = 1 << 20;

fn within(deadline: Duration) -> Options {
    Options { deadline: Some(deadline), ..Options::default() }
}

fn reasons(batch: &Batch) -> Vec<(Reason, String)> {
    let of = |status| match status {
        Status::Failed(failure) => (failure.reason, failure.stage.to_string()),
        other => panic!("{other:?}"),
    };
    batch.results().map(of).collect()
}

/// Without a link, requests end at their deadline wherever they are: small ones in `nic_select`, and a large one
/// whose rest still waits to be cut; not before it, and not much later.
#[test]
fn deadline() {
    for model in [INLINE, QUEUES] {
        let config = file(LOOPBACK, model, LIMITS, "4KiB");
        let there = target(&config, &[4 * MIB], Access::ReadWrite);
        let rig = Rig::start(&config);
        let peer = rig.meet("b", &there);
        let source = rig.memory(4 * MIB, 1);
        let request = |len| Request::write(source, 0, rig.remote(peer, &there, 0), len);
        let start = Instant::now();
        let batch =
            rig.client.submit(&[request(64), request(4 * MIB)], within(Duration::from_millis(60))).unwrap();
        let summary = batch.wait(LONG).unwrap();
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(60) && took < Duration::from_secs(2), "{took:?}");
        assert_eq!((summary.failed, summary.bytes), (2, 0));
        assert!(reasons(&batch).iter().all(|r| r.0 == Reason::Deadline), "{:?}", reasons(&batch));
        assert_eq!(reasons(&batch)[0].1, "select");
        drop(batch);
        rig.all_back();
    }
}

/// A cancelled batch ends at once, wherever its slices are; another batch of the same peer is not touched.
#[test]
fn cancel() {
    for model in [INLINE, QUEUES] {
        let config = file(LOOPBACK, model, LIMITS, "4KiB");
        let there = target(&config, &[4 * MIB], Access::ReadWrite);
        let rig = Rig::start(&config);
        let peer = rig.meet("b", &there);
        let source = rig.memory(4 * MIB, 1);
        let request = |len| Request::write(source, 0, rig.remote(peer, &there, 0), len);
        let keep = rig.client.submit(&[request(100)], within(LONG)).unwrap();
        let gone = rig.client.submit(&[request(64), request(4 * MIB)], within(LONG)).unwrap();
        assert_eq!(gone.wait(Duration::from_millis(20)), Err(WaitError::Timeout));
        let start = Instant::now();
        gone.cancel();
        assert_eq!(gone.wait(LONG).unwrap().failed, 2);
        assert!(start.elapsed() < Duration::from_secs(2));
        assert!(reasons(&gone).iter().all(|r| r.0 == Reason::Cancelled));
        assert_eq!(keep.poll(), None);
        rig.link(peer, &there);
        assert!(keep.wait(LONG).unwrap().is_done());
        drop((keep, gone));
        rig.all_back();
    }
}

/// A peer that is down fails its slices with its name, and control is asked to try it again; a peer without links
/// is asked for once.
#[test]
fn peer_down() {
    let config = file(LOOPBACK, INLINE, LIMITS, "4KiB");
    let there = target(&config, &[MIB], Access::ReadWrite);
    let rig = Rig::start(&config);
    let peer = rig.meet("decode-7", &there);
    let source = rig.memory(MIB, 1);
    let request = Request::write(source, 0, rig.remote(peer, &there, 0), MIB);
    let batch = rig.client.submit(&[request, request], within(LONG)).unwrap();
    assert_eq!(rig.events.recv_timeout(LONG), Ok(Event::Want { peer, transport: 0 }));
    assert_eq!(batch.wait(Duration::from_millis(30)), Err(WaitError::Timeout));
    assert!(rig.events.is_empty());
    rig.world.peers.get(peer).unwrap().set_state(PeerState::Down);
    rig.world.peers.changed();
    assert_eq!(batch.wait(LONG).unwrap().failed, 2);
    let Some(Status::Failed(failure)) = batch.results().next() else { panic!("it is down") };
    assert_eq!((failure.reason, &*failure.peer), (Reason::PeerGone, "decode-7"));
    assert!(failure.to_string().contains("decode-7"), "{failure}");
    assert_eq!(rig.events.recv_timeout(LONG), Ok(Event::Want { peer, transport: 0 }));
    drop(batch);
    rig.all_back();
}

/// A peer that takes nothing costs the others nothing: with its share of the window gone, and thousands of bytes
/// still to cut, another peer's transfers run through the same stages at once.
#[test]
fn a_stuck_peer_costs_the_others_nothing() {
    for model in [INLINE, QUEUES] {
        let config = file(LOOPBACK, model, LIMITS, "4KiB");
        let (stuck, lively) =
            (target(&config, &[MIB], Access::ReadWrite), target(&config, &[MIB], Access::ReadWrite));
        let rig = Rig::start(&config);
        let (b, c) = (rig.meet("b", &stuck), rig.meet("c", &lively));
        rig.link(c, &lively);
        let source = rig.memory(MIB, 1);
        let to_b = Request::write(source, 0, rig.remote(b, &stuck, 0), MIB);
        let to_c = Request::write(source, 0, rig.remote(c, &lively, 0), MIB);
        let waits = rig.client.submit(&[to_b; 100], within(LONG)).unwrap();
        for _ in 0..20 {
            let runs = rig.client.submit(&[to_c; 8], within(LONG)).unwrap();
            assert!(runs.wait(LONG).unwrap().is_done());
        }
        assert_eq!(waits.poll(), None);
        waits.cancel();
        assert_eq!(waits.wait(LONG).unwrap().failed, 100);
        drop(waits);
        rig.all_back();
    }
}

/// A target that dies takes only its own batch along: what was not begun looks for another link until the peer is
/// declared down, and a new batch to the other peer works.
#[test]
fn a_dead_target() {
    let config = file(LOOPBACK, QUEUES, LIMITS, "4KiB");
    let (dies, lives) =
        (target(&config, &[16 * MIB], Access::ReadWrite), target(&config, &[16 * MIB], Access::ReadWrite));
    let rig = Rig::start(&config);
    let (b, c) = (rig.meet("b", &dies), rig.meet("c", &lives));
    rig.link(b, &dies);
    rig.link(c, &lives);
    let source = rig.memory(16 * MIB, 1);
    let to_b = Request::write(source, 0, rig.remote(b, &dies, 0), 16 * MIB);
    let to_c = Request::write(source, 0, rig.remote(c, &lives, 0), 16 * MIB);
    let (of_b, of_c) = (
        rig.client.submit(&[to_b; 50], within(LONG)).unwrap(),
        rig.client.submit(&[to_c], within(LONG)).unwrap(),
    );
    drop(dies);
    // The links say so themselves.
    let closed = rig.events.recv_timeout(LONG);
    assert!(matches!(closed, Ok(Event::LinkClosed(..))), "{closed:?}");
    rig.world.peers.get(b).unwrap().set_state(PeerState::Down);
    rig.world.peers.changed();
    let summary = of_b.wait(LONG).unwrap();
    assert!(summary.failed > 0);
    for status in of_b.results() {
        if let Status::Failed(failure) = status {
            assert!(matches!(failure.reason, Reason::PeerGone | Reason::Undetermined), "{failure}");
        }
    }
    assert!(of_c.wait(LONG).unwrap().is_done());
    let again = rig.client.submit(&[to_c], within(LONG)).unwrap();
    assert!(again.wait(LONG).unwrap().is_done());
    drop((of_b, of_c, again));
    rig.all_back();
}

/// Batches that nobody keeps are carried out all the same, and free themselves.
#[test]
fn detached() {
    let config = file(LOOPBACK, QUEUES, LIMITS, "4KiB");
    let there = target(&config, &[MIB], Access::ReadWrite);
    let rig = Rig::start(&config);
    let peer = rig.meet("b", &there);
    rig.link(peer, &there);
    let source = rig.memory(MIB, 9);
    let request = Request::write(source, 0, rig.remote(peer, &there, 0), MIB);
    for _ in 0..100 {
        drop(rig.client.submit_wait(&[request], within(LONG), LONG).unwrap());
    }
    rig.all_back();
    assert_eq!(
        rig::bytes(&there.regions, there.view.segments[0].regions[0].id, 0, MIB),
        rig::pattern(MIB, 9)
    );
}

/// Sixteen threads that submit, wait and drop at once lose nothing: every batch is done once, with all its bytes.
#[test]
fn many_clients() {
    let config = file(LOOPBACK, QUEUES, LIMITS, "1KiB");
    let there = target(&config, &[MIB], Access::ReadWrite);
    let rig = Rig::start(&config);
    let peer = rig.meet("b", &there);
    rig.link(peer, &there);
    let source = rig.memory(MIB, 9);
    std::thread::scope(|s| {
        for t in 0..16u64 {
            let (rig, there) = (&rig, &there);
            s.spawn(move || {
                for i in 0..50 {
                    let len = 1 + (t * 977 + i * 131) % 9_000;
                    let request =
                        Request::write(source, t * 10_000, rig.remote(peer, there, t * 10_000), len);
                    let batch = rig.client.submit_wait(&[request; 7], within(LONG), LONG).unwrap();
                    assert_eq!(batch.wait(LONG).unwrap().bytes, 7 * len);
                }
            });
        }
    });
    rig.all_back();
    assert_eq!(rig.world.counts().stale, 0);
}

/// A forced stop leaves nothing pending: what had not ended is `Stopped`.
#[test]
fn forced_stop() {
    let config = file(LOOPBACK, QUEUES, LIMITS, "4KiB");
    let there = target(&config, &[MIB], Access::ReadWrite);
    let mut rig = Rig::start(&config);
    let peer = rig.meet("b", &there);
    let source = rig.memory(MIB, 9);
    let request = Request::write(source, 0, rig.remote(peer, &there, 0), MIB);
    let batch = rig.client.submit(&[request; 20], within(LONG)).unwrap();
    assert_eq!(batch.wait(Duration::from_millis(10)), Err(WaitError::Timeout));
    rig.world.ledger.close();
    drop(rig.engine.take());
    rig.world.ledger.end_all(Reason::Stopped);
    assert_eq!(batch.wait(Duration::ZERO).unwrap().failed, 20);
    assert!(reasons(&batch).iter().all(|r| r.0 == Reason::Stopped));
    assert!(matches!(
        rig.client.submit(&[request], within(LONG)),
        Err(pipeline_stages::SubmitError::Stopped)
    ));
    drop(batch);
    rig.all_back();
}
