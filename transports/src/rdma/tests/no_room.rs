//! A device without room, which devices only are when nobody counts: queue pairs shorter than the rings of their links.

use std::sync::Arc;

use super::super::completion_queue::CompletionQueue;
use super::super::domain::Domain;
use super::super::endpoint::{QueuePair, Sizes};
use super::super::graveyard::Graveyard;
use super::super::link::{Pair, PostEnd, RdmaLink, ReapEnd};
use super::super::offer::End;
use super::super::port::{LinkLayer, Mtu};
use super::super::post::{Limits, RdmaPost};
use super::super::reap::RdmaReap;
use super::super::ring::{CauseCell, Ring};
use super::super::settings::{RdmaNic, RdmaSettings};
use crate::clock::now;
use crate::life::Life;
use crate::link::{Arming, Flushed, LinkEnd, LinkId, Post, Reap, Waker, Wakes};
use crate::memory::{Access, Memory, RegionId};
use crate::spread::InTurn;
use crate::stall::Looks;
use crate::transport::Registered;
use crate::wr::{Completions, Op, Outcome, Span, WorkRequest, WrId};

const DEPTH: u32 = 64;
const BLOCK: u64 = 1000;

fn domain(n: usize) -> Domain {
    let nics = vec![RdmaNic::named(&format!("rxe{n}"))];
    Domain::open("rdma", &mut RdmaSettings { nics, ..RdmaSettings::default() }, 4).unwrap()
}

fn end(queue_pair: &QueuePair) -> End {
    End {
        nic: String::new(),
        rail: None,
        layer: LinkLayer::Ethernet,
        gid: queue_pair.gid().raw,
        lid: 0,
        qpn: queue_pair.number(),
        psn: 77,
        mtu: Mtu::at_most(1024),
        reads: 4,
    }
}

/// Counts what a sleeping poster would wait for.
#[derive(Default)]
struct Times(usize);

impl Arming for Times {
    fn fd(&mut self, _: std::os::fd::RawFd) {}
    fn deadline(&mut self, _: crate::clock::Nanos) {
        self.0 += 1;
    }
    fn busy(&mut self) {}
}

/// Sixty-four requests at once on a queue pair that holds a few: what it does not take stays, is handed over later, in
/// order, and each request ends well, once, although those that were taken first do not complete by themselves.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_device_without_room_loses_nothing() {
    let _alone = super::alone();
    let settings = RdmaSettings::default();
    let (near, far) = (domain(0), domain(1));
    let (here, there) = (&near.devices()[0], &far.devices()[0]);
    let wakes = Wakes { post: Waker::none(), reap: Waker::none(), serve: Waker::none() };
    let pair = Arc::new(Pair::new(wakes, CompletionQueue::new(here, 256, true).unwrap(), Graveyard::new(1)));
    let idle = Arc::new(CompletionQueue::new(there, 1, false).unwrap());
    let sizes = Sizes { send: 4, inline_bytes: 0, serves: false };
    let ours = QueuePair::new(here, &pair.queue, sizes).unwrap();
    let theirs = QueuePair::new(there, &idle, Sizes { serves: true, ..sizes }).unwrap();
    theirs.meet(&end(&ours), Mtu::at_most(1024), 4, &settings).unwrap();
    ours.meet(&end(&theirs), Mtu::at_most(1024), 1, &settings).unwrap();
    ours.let_loose(77, 4, &settings).unwrap();

    let mut memory = Memory::allocate(u64::from(DEPTH) * BLOCK).unwrap();
    let bytes: Vec<u8> = (0..memory.len()).map(|i| (i / BLOCK) as u8 ^ i as u8).collect();
    memory.write(0, &bytes).unwrap();
    let target = Memory::allocate(memory.len()).unwrap();
    let region = RegionId::new(0, 1);
    let local = near.register(&memory, Access::Local, &InTurn).unwrap();
    let remote = far.register(&target, Access::Write, &InTurn).unwrap();
    local.bind(region);
    near.learnt().learn(5, region, target.len(), &remote.keys()).unwrap();

    let link = Arc::new(RdmaLink {
        id: LinkId(1),
        peer: "target".into(),
        remote_nic: 0,
        tag: pair.tag().unwrap(),
        pair: pair.clone(),
        queue_pair: ours,
        idle: Box::default(),
        ring: Ring::new(DEPTH),
        life: Life::default(),
        cause: CauseCell::default(),
        keys: near.learnt().of(5),
    });
    let limits = Limits { signal_every: DEPTH / 2, depth: DEPTH, max_bytes: 1 << 20 };
    let mut post = RdmaPost::new(pair.clone(), (near.local().clone(), 0), limits);
    let mut reap = RdmaReap::new(pair, Looks::every(None));
    let id = LinkId(1);
    post.adopt(LinkEnd { id, body: Box::new(PostEnd(link.clone())) });
    reap.adopt(LinkEnd { id, body: Box::new(ReapEnd::new(link)) });

    let span = |at| Span { region, offset: at * BLOCK };
    let request =
        |at| WorkRequest { id: WrId(at), op: Op::Write, local: span(at), remote: span(at), len: BLOCK };
    let work: Vec<_> = (0..u64::from(DEPTH)).map(request).collect();
    assert_eq!(post.post(now(), id, &work).taken, work.len());
    let (mut out, mut ended, mut left) = (Completions::with_capacity(256), Vec::new(), 0);
    let begin = now();
    while ended.len() < work.len() {
        if post.flush(now()) != Flushed::All {
            left += 1;
            let mut times = Times::default();
            post.arm(&mut times);
            assert_eq!(times.0, 1, "nobody may ring: it must come again by itself");
        }
        out.clear();
        reap.reap(now(), &mut out);
        ended.extend(out.done().iter().map(|done| (done.id, done.outcome)));
        assert!(now() - begin < 20_000_000_000, "{} of {} have ended", ended.len(), work.len());
    }
    assert!(left > 0, "the device had room for all: nothing was shown");
    assert_eq!(ended, work.iter().map(|w| (w.id, Outcome::Done)).collect::<Vec<_>>());
    let mut got = vec![0; bytes.len()];
    target.read(0, &mut got).unwrap();
    assert!(got == bytes);
}
