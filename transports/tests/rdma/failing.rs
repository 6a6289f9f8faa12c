//! What goes wrong: a region that is gone, a peer's queue pair that is gone, a port that goes down, an address that is
//! removed. Whatever it is, each request ends once, nobody waits long, and the right one is blamed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline_transports::rdma::{RdmaSettings, RdmaTransport};
use pipeline_transports::{Blame, LinkId, Op, Outcome, Refusal, Transport, WorkRequest};

use crate::rig::{SESSION, Two, broken_network, dial, ip, quiet_network, runtime, settings};

/// WRITEs to a region that the target has given up without a word: those before the first of them are done, though they
/// did not complete by themselves; that one is refused; those behind it have not begun, and can be posted again elsewhere
/// without a fence. Nobody is to blame.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_bad_key_ends_the_link_and_nothing_else() {
    let _network = quiet_network();
    for op in [Op::Write, Op::Read] {
        let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 1 << 20);
        let (gone, len, keys) = two.far.region(4096, 0x33, pipeline_transports::Access::ReadWrite);
        two.near.transport.learn(crate::rig::INCARNATION, gone, len, &keys).unwrap();
        two.far.regions.unpin(gone);
        drop(two.far.remove(gone).unwrap());
        let link = two.connect();
        let mut work = two.blocks(op, 60, 4096);
        (work[25].remote.region, work[25].remote.offset) = (gone, 0);
        two.post(link, &work);
        two.until("the link to close", |two| !two.closed.is_empty());
        assert_eq!(two.closed, [(link, Blame::Nobody)]);
        assert_eq!(two.count(&work[..25], Outcome::Done), 25);
        assert_eq!(two.outcome(&work[25]), Some(Outcome::Refused(Refusal::UnknownRegion)));
        assert_eq!(two.count(&work[26..], Outcome::NotBegun), 34);
        if op == Op::Write {
            let bytes = two.far.bytes(two.remote, 0, 60 * 4096);
            assert!(
                bytes[..25 * 4096].iter().all(|b| *b == 0x11)
                    && bytes[25 * 4096..].iter().all(|b| *b == 0x22)
            );
        }
        works_again(&mut two);
    }
}

/// The other end is gone (its process died, say): the NIC gives up after its retries, what was under way has begun, and
/// the path is to blame.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_peer_that_is_gone() {
    let _network = quiet_network();
    let hasty = RdmaSettings { ack_timeout: Duration::from_millis(16), retries: 2, ..settings(&["rxe0"]) };
    let mut two = Two::new(&hasty, &settings(&["rxe1"]), 16 << 20);
    let link = two.connect();
    let work = two.blocks(Op::Write, 64, 256 << 10);
    two.post(link, &work);
    two.until("the first completions", |two| !two.ended.is_empty());
    let begin = Instant::now();
    runtime().block_on(two.far.transport.let_go(SESSION, None));
    two.until("the link to close", |two| !two.closed.is_empty());
    println!("closed after {:?}", begin.elapsed());
    assert_eq!(two.closed, [(link, Blame::Path)]);
    let (begun, done) = (two.count(&work, Outcome::Begun), two.count(&work, Outcome::Done));
    assert_eq!((begun + done, two.far.transport.accepted()), (work.len(), 0));
    assert!(begun > 0);
    works_again(&mut two);
}

/// This side's port goes down in the middle of a stream. Soft-RoCE then ends what is under way with errors, or never,
/// as it comes: either way all has ended within the grace and a little, the own NIC is blamed, and when the port is back
/// links work again.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn own_port_down() {
    let _network = broken_network();
    let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 16 << 20);
    let _tended = tended(&two.near.transport);
    for round in 0..3 {
        let link = two.connect();
        two.ended.clear();
        two.closed.clear();
        let mut work = two.blocks(Op::Write, 64, 256 << 10);
        two.post(link, &work);
        two.until("the first completions", |two| !two.ended.is_empty());
        assert!(ip(&["link", "set", "nic0", "down"]));
        let begin = Instant::now();
        two.stream_until_closed(link, &mut work);
        println!("round {round}: closed after {:?}", begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
        assert_eq!(two.closed, [(link, Blame::LocalNic)]);
        all_ended(&two, &work);
        assert!(two.near.transport.nic_facts(pipeline_transports::NicId(0)).resting.is_some());
        let refused = dial(&two.near, &two.far.transport, LinkId(900 + round), 0);
        assert!(matches!(refused, Err(pipeline_transports::Error::LocalNic { .. })));
        assert!(ip(&["link", "set", "nic0", "up"]));
        reachable(&two);
    }
    works_again(&mut two);
}

/// The own cable is pulled, and the device says nothing of what is under way: its port's event is enough, after the grace.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn own_port_down_and_no_completion() {
    let _network = broken_network();
    let patient = RdmaSettings { ack_timeout: Duration::from_secs(4), ..settings(&["rxe0"]) };
    let mut two = Two::new(&patient, &settings(&["rxe1"]), 16 << 20);
    let _tended = tended(&two.near.transport);
    let (busy, _idle) = (two.connect(), two.connect());
    let mut work = two.blocks(Op::Write, 64, 256 << 10);
    two.post(busy, &work);
    two.until("the first completions", |two| !two.ended.is_empty());
    assert!(ip(&["link", "set", "p0", "down"]));
    let begin = Instant::now();
    two.stream_until_closed(busy, &mut work);
    println!("closed after {:?}", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert_eq!(two.closed, [(busy, Blame::LocalNic)], "an idle link outlasts it");
    all_ended(&two, &work);
    assert!(ip(&["link", "set", "p0", "up"]));
    reachable(&two);
    works_again(&mut two);
}

/// A path swallows everything and the NIC is patient: work that does not move for `stall` is given up, and the path is to
/// blame, not the NIC.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn work_that_does_not_move_is_given_up() {
    let _network = broken_network();
    let (ack_timeout, stall) = (Duration::from_secs(4), Some(Duration::from_secs(1)));
    let patient = RdmaSettings { ack_timeout, stall, ..settings(&["rxe0"]) };
    let mut two = Two::new(&patient, &settings(&["rxe1"]), 16 << 20);
    let link = two.connect();
    let mut work = two.blocks(Op::Write, 64, 256 << 10);
    two.post(link, &work);
    two.until("the first completions", |two| !two.ended.is_empty());
    assert!(ip(&["link", "set", "p1", "down"]));
    two.stream_until_closed(link, &mut work);
    assert_eq!(two.closed, [(link, Blame::Path)]);
    all_ended(&two, &work);
    assert!(ip(&["link", "set", "p1", "up"]));
    reachable(&two);
    works_again(&mut two);
}

/// The peer's cable is cut, and packets wait in the system for a neighbour that does not answer, so that destroying the queue
/// pair sleeps for as long (3 s). Nobody waits for that: the reaper closes the link at once, and the peer lets go of its end.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn nobody_waits_for_a_queue_pair_to_be_destroyed() {
    let _network = broken_network();
    let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 16 << 20);
    let _tended = (tended(&two.near.transport), tended(&two.far.transport));
    let link = two.connect();
    let mut work = two.blocks(Op::Write, 64, 256 << 10);
    two.post(link, &work);
    two.until("the first completions", |two| !two.ended.is_empty());
    assert!(ip(&["link", "set", "p1", "down"]));
    assert!(ip(&["neigh", "flush", "dev", "nic0"]) && ip(&["neigh", "flush", "dev", "nic1"]));
    two.longest_reap = Duration::ZERO;
    two.stream_until_closed(link, &mut work);
    let begin = Instant::now();
    runtime().block_on(two.far.transport.let_go(SESSION, None));
    println!("the longest call of reap: {:?}, let go after {:?}", two.longest_reap, begin.elapsed());
    assert!(two.longest_reap < Duration::from_secs(1), "{:?}", two.longest_reap);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(two.closed, [(link, Blame::Path)]);
    all_ended(&two, &work);
    assert!(ip(&["link", "set", "p1", "up"]));
    reachable(&two);
    works_again(&mut two);
}

/// A port that is down for less than the grace is no failure: not one request fails.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_flap_costs_nothing() {
    let _network = broken_network();
    let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 16 << 20);
    let _tended = tended(&two.near.transport);
    let link = two.connect();
    let work = two.blocks(Op::Write, 64, 256 << 10);
    two.post(link, &work);
    two.until("the first completions", |two| !two.ended.is_empty());
    assert!(ip(&["link", "set", "p1", "down"]));
    assert!(ip(&["link", "set", "p1", "up"]));
    two.finish(&work);
    assert_eq!(two.count(&work, Outcome::Done), work.len());
    assert!(two.closed.is_empty());
}

/// The address that queue pairs were made with is removed: whatever soft-RoCE makes of them, they end, this side's NIC
/// is blamed, idle ones included; with the address back, links work again.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn own_address_removed() {
    let _network = broken_network();
    let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 16 << 20);
    let _tended = tended(&two.near.transport);
    let (busy, idle) = (two.connect(), two.connect());
    let mut work = two.blocks(Op::Write, 64, 256 << 10);
    two.post(busy, &work);
    two.until("the first completions", |two| !two.ended.is_empty());
    assert!(ip(&["addr", "del", "10.9.0.10/24", "dev", "nic0"]));
    two.stream_until_closed(busy, &mut work);
    two.until("the idle link to close", |two| two.closed.len() == 2);
    two.closed.sort_unstable_by_key(|(link, _)| *link);
    assert_eq!(two.closed, [(busy, Blame::LocalNic), (idle, Blame::LocalNic)]);
    all_ended(&two, &work);
    assert!(ip(&["addr", "add", "10.9.0.10/24", "dev", "nic0"]));
    reachable(&two);
    works_again(&mut two);
}

/// All of it has ended, as what is on a dying link may.
#[track_caller]
fn all_ended(two: &Two, work: &[WorkRequest]) {
    let count = |outcome| two.count(work, outcome);
    let (begun, done) = (count(Outcome::Begun), count(Outcome::Done));
    assert!(begun > 0, "nothing was under way");
    assert_eq!(begun + done + count(Outcome::NotBegun), work.len());
}

/// Waits until links can be dialled again.
fn reachable(two: &Two) {
    let begin = Instant::now();
    while let Err(error) = dial(&two.near, &two.far.transport, LinkId(1_000_000), 0) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A new link works.
#[track_caller]
fn works_again(two: &mut Two) {
    let link = two.connect();
    let work: Vec<WorkRequest> = vec![two.request(Op::Write, 0, 4096), two.request(Op::Read, 8192, 4096)];
    two.post(link, &work);
    two.finish(&work);
    assert_eq!(two.count(&work, Outcome::Done), 2, "{:?}", two.closed);
}

/// Keeps the events of a transport's devices looked after, as control does, until it is dropped.
struct Tended(Option<tokio::sync::oneshot::Sender<()>>, Option<std::thread::JoinHandle<()>>);

fn tended(transport: &Arc<RdmaTransport>) -> Tended {
    let (stop, mut stopped) = tokio::sync::oneshot::channel();
    let transport = transport.clone();
    let thread = std::thread::spawn(move || {
        runtime().block_on(async {
            tokio::select! {
                _ = transport.tend() => {}
                _ = &mut stopped => {}
            }
        });
    });
    Tended(Some(stop), Some(thread))
}

impl Drop for Tended {
    fn drop(&mut self) {
        drop(self.0.take());
        let ended = self.1.take().map(std::thread::JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}
