//! What is posted and how it comes back: chains of which few complete by themselves, small payloads that travel in the
//! work request, what is taken back, and a reaper that sleeps.

use std::os::fd::{BorrowedFd, RawFd};

use pipeline_transports::{Arming, Cancelled, LinkId, Nanos, Op, Outcome, Refusal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::rig::{Two, now, quiet_network, settings};

/// Of a long chain only every 64th completes by itself, and the last of a flush; all end, in the order of posting, and
/// what is refused on this side ends in its turn.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn chains_end_in_order() {
    let _network = quiet_network();
    let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 1 << 20);
    let link = two.connect();
    for flush in [1, 7, 64, 200] {
        let mut work = two.blocks(Op::Write, flush, 100);
        // The first, the last and some between ask for bytes behind the end.
        for at in [0, flush / 2, flush - 1].map(|at| at as usize) {
            work[at].remote.offset = two.len;
        }
        two.post(link, &work);
        let mut order = Vec::new();
        two.until("all completions", |two| {
            order.extend(two.out.done().iter().map(|done| done.id));
            two.out.clear();
            order.len() == work.len()
        });
        assert_eq!(order, work.iter().map(|w| w.id).collect::<Vec<_>>());
        let refused = two.count(&work, Outcome::Refused(Refusal::OutOfBounds));
        assert_eq!(two.count(&work, Outcome::Done) + refused, work.len());
        assert_eq!(refused, if flush == 1 { 1 } else { 3 });
    }
    assert_eq!((two.near.halves.reap.outstanding(), two.closed.len()), (0, 0));
}

/// Small WRITEs carry their payload with them: bytes on both sides of the limit arrive, and the same memory may be given
/// out again at once.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn small_writes_arrive() {
    let _network = quiet_network();
    let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 1 << 16);
    let link = two.connect();
    let work: Vec<_> = (0..200).map(|i| two.request(Op::Write, i * 256, 1 + i)).collect();
    two.post(link, &work);
    two.finish(&work);
    assert_eq!(two.count(&work, Outcome::Done), work.len());
    let bytes = two.far.bytes(two.remote, 0, 200 * 256);
    for (i, block) in bytes.chunks(256).enumerate() {
        let (written, beside) = block.split_at(1 + i);
        assert!(written.iter().all(|b| *b == 0x11) && beside.iter().all(|b| *b == 0x22), "block {i}");
    }
}

/// What the device has it does not give back: only the end of its link ends it, and it is not here afterwards.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn taken_back_with_its_link() {
    let _network = quiet_network();
    for op in [Op::Write, Op::Read] {
        let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 16 << 20);
        let link = two.connect();
        let work = two.blocks(op, 64, 256 << 10);
        two.post(link, &work);
        two.step();
        let last = work[63].id;
        let reap = &mut two.near.halves.reap;
        assert_eq!(reap.cancel(link, last), Cancelled::MustAbort);
        assert_eq!(reap.cancel(LinkId(99), last), Cancelled::NotHere);
        reap.abort(link);
        two.until("the link to close", |two| !two.closed.is_empty());
        assert_eq!(two.near.halves.reap.cancel(link, last), Cancelled::NotHere);
        let (begun, done) = (two.count(&work, Outcome::Begun), two.count(&work, Outcome::Done));
        assert!(begun > 0, "all was over when it was taken back");
        assert_eq!(begun + done, work.len());
        if op == Op::Read {
            // What is in the buffer now stays.
            let before = two.near.bytes(two.local, 0, 16 << 20);
            for _ in 0..2000 {
                two.step();
            }
            assert!(before == two.near.bytes(two.local, 0, 16 << 20), "a READ landed after its end");
        }
    }
}

/// What a sleeping reaper would wait for.
#[derive(Default)]
struct Named {
    fd: Option<RawFd>,
    until: Option<Nanos>,
    busy: bool,
}

impl Arming for Named {
    fn fd(&mut self, fd: RawFd) {
        self.fd = Some(fd);
    }
    fn deadline(&mut self, at: Nanos) {
        self.until = Some(self.until.map_or(at, |until| until.min(at)));
    }
    fn busy(&mut self) {
        self.busy = true;
    }
}

/// A reaper that only runs when its completion channel wakes it misses nothing, whenever completions come: with work
/// outstanding it names the descriptor and a time for the next look, and each sleep ends by the descriptor.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_sleeping_reaper_is_woken() {
    let _network = quiet_network();
    let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 5 << 20);
    let link = two.connect();
    two.step();
    let mut slept = 0;
    for round in 0..210 {
        let op = if round % 2 == 0 { Op::Write } else { Op::Read };
        // The short ones are over before anybody could sleep, the long ones are not.
        let work = two.blocks(op, 1 + round % 5, 1 << (round % 21));
        two.post(link, &work);
        two.near.halves.post.flush(now());
        while work.iter().any(|w| two.outcome(w).is_none()) {
            let mut named = Named::default();
            two.near.halves.reap.arm(&mut named);
            if !named.busy {
                let until = named.until.expect("work is outstanding: somebody must look whether it moves");
                assert!(until > now(), "a time in the past keeps the worker awake");
                slept += 1;
                sleep(named.fd.unwrap());
            }
            two.reap();
        }
    }
    assert!(slept > 0, "it never slept: nothing was shown");
    let mut named = Named::default();
    two.near.halves.reap.arm(&mut named);
    assert!(
        !named.busy && named.until.is_none() && named.fd.is_some(),
        "idle, it waits for its channel alone"
    );
}

/// Waits until a descriptor is readable. Much longer than any look at links that stand still would take.
fn sleep(fd: RawFd) {
    // SAFETY: the half that named it lives.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience)).unwrap();
    assert_eq!(ready, 1, "completions came and nobody was woken");
}

/// READs and WRITEs as deep as a link goes, over several links of one reaper, all end once.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn several_links_share_a_queue() {
    let _network = quiet_network();
    let mut two = Two::new(&settings(&["rxe0"]), &settings(&["rxe1"]), 1 << 20);
    let links: Vec<LinkId> = (0..4).map(|_| two.connect()).collect();
    assert_eq!(two.far.transport.accepted(), 4);
    let mut all = Vec::new();
    for (at, link) in links.iter().enumerate() {
        let op = if at % 2 == 0 { Op::Write } else { Op::Read };
        let room = two.near.halves.post.room(*link);
        let work = two.blocks(op, room as u64, 512);
        two.post(*link, &work);
        assert_eq!(two.near.halves.post.room(*link), 0);
        all.extend(work);
    }
    two.finish(&all);
    assert_eq!(two.count(&all, Outcome::Done), all.len());
    assert!(links.iter().all(|link| two.near.halves.post.room(*link) == 256));
}
