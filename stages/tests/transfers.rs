//! Whole pipelines on loopback: bytes arrive, requests are cut where they must be, and everything comes back.

#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use std::time::Duration;

use pipeline_stages::{Failure, Options, Reason, Request, Status, SubmitError, Summary};
use pipeline_transports::{Access, RegionId};
use rig::{INLINE, QUEUES, Rig, bytes, file, pattern, target};

const LOOPBACK: &str = "type = \"loopback\"";
const LIMITS: &str = "requests = 512\nslices = 1024\nbatches = 16\npeers = 4\nbytes_in_flight = \"64KiB\"";
const LONG: Duration = Duration::from_secs(20);

fn failures(batch: &pipeline_stages::Batch) -> Vec<Option<Reason>> {
    let reason = |status| match status {
        Status::Failed(Failure { reason, .. }) => Some(reason),
        Status::Done => None,
        Status::Pending => panic!("a request of a finished batch is pending"),
    };
    batch.results().map(reason).collect()
}

/// WRITE and READ of many sizes move every byte, in both threading models; afterwards every slot, every window
/// byte and every pin is back.
#[test]
fn bytes_arrive() {
    for model in [INLINE, QUEUES] {
        let config = file(LOOPBACK, model, LIMITS, "4KiB");
        let there = target(&config, &[1 << 20], Access::ReadWrite);
        let rig = Rig::start(&config);
        let peer = rig.meet("b", &there);
        rig.link(peer, &there);
        let (source, sink) = (rig.memory(1 << 20, 7), rig.memory(1 << 20, 0));
        let mut requests = Vec::new();
        let mut at = 0;
        for len in (1..300).map(|i| i * 23) {
            requests.push(Request::write(source, at, rig.remote(peer, &there, at), len));
            at += len;
        }
        let batch = rig.client.submit(&requests, Options::default()).unwrap();
        let summary = batch.wait(LONG).unwrap();
        assert_eq!(summary, Summary { requests: 299, failed: 0, bytes: at, notice_failed: false });
        assert_eq!(bytes(&there.regions, there.view.segments[0].regions[0].id, 0, at), pattern(at, 7));
        drop(batch);
        let read = |r: &Request| Request::read(sink, r.local_offset, r.remote, r.len);
        let back: Vec<Request> = requests.iter().map(read).collect();
        let read = rig.client.submit(&back, Options::default()).unwrap();
        assert!(read.wait(LONG).unwrap().is_done());
        assert_eq!(bytes(&rig.world.regions, sink, 0, at), pattern(at, 7));
        drop(read);
        rig.all_back();
        assert_eq!(rig.world.counts().stale, 0);
        assert!(rig.world.regions.remove(source).is_ok() && rig.world.regions.remove(sink).is_ok());
    }
}

/// B02, first run: a request over the seam of two regions is cut there, and no slice crosses it.
#[test]
fn cut_at_the_seam() {
    const MIB: u64 = 1 << 20;
    let limits = LIMITS.replace("64KiB", "16MiB");
    let config = file(LOOPBACK, INLINE, &limits, "64KiB");
    let there = target(&config, &[MIB, MIB], Access::ReadWrite);
    let rig = Rig::start(&config);
    let peer = rig.meet("b", &there);
    rig.link(peer, &there);
    let source = rig.memory(96 << 10, 3);
    let request = Request::write(source, 0, rig.remote(peer, &there, MIB - (32 << 10)), 96 << 10);
    let batch = rig.client.submit(&[request], Options::default()).unwrap();
    assert_eq!(batch.wait(LONG), Ok(Summary { requests: 1, failed: 0, bytes: 98_304, notice_failed: false }));
    let regions = &there.view.segments[0].regions;
    let all = pattern(96 << 10, 3);
    assert_eq!(bytes(&there.regions, regions[0].id, MIB - (32 << 10), 32 << 10), all[..32 << 10]);
    assert_eq!(bytes(&there.regions, regions[1].id, 0, 64 << 10), all[32 << 10..]);
    // Two slices, 32 768 and 65 536 bytes: the loopback would have refused one that crosses a region's end.
    let posted = rig.engine.as_ref().unwrap().snapshot();
    let post = posted.stages.iter().find(|s| s.name == "post").unwrap();
    assert_eq!(post.items, 2);
}

/// B02, second run: one bad request of ten fails with its reason; the others are done, nothing stays pending, and
/// the batch can be freed at once.
#[test]
fn one_bad_request() {
    let config = file(LOOPBACK, QUEUES, LIMITS, "4KiB");
    let there = target(&config, &[1 << 20], Access::ReadWrite);
    let rig = Rig::start(&config);
    let peer = rig.meet("b", &there);
    rig.link(peer, &there);
    let source = rig.memory(64 << 10, 1);
    let good = |i: u64| Request::write(source, i * 100, rig.remote(peer, &there, i * 5_000), 5_000);
    let bads = [
        (Request { local: RegionId(99 << 32 | 40), ..good(5) }, Reason::NotRegistered),
        (Request { local_offset: 64 << 10, ..good(5) }, Reason::LocalBounds),
        (Request { len: 2 << 20, ..good(5) }, Reason::RemoteBounds),
        (
            Request { remote: pipeline_stages::Remote { segment: 1, ..good(5).remote }, ..good(5) },
            Reason::UnknownSegment,
        ),
        (
            Request { remote: pipeline_stages::Remote { incarnation: 1, ..good(5).remote }, ..good(5) },
            Reason::StalePeer,
        ),
    ];
    for (bad, reason) in bads {
        let mut requests: Vec<Request> = (0..10).map(good).collect();
        requests[5] = bad;
        let batch = rig.client.submit(&requests, Options::default()).unwrap();
        let summary = batch.wait(LONG).unwrap();
        assert_eq!((summary.requests, summary.failed, summary.bytes), (10, 1, 45_000));
        let expected: Vec<_> = (0..10).map(|i| (i == 5).then_some(reason)).collect();
        assert_eq!(failures(&batch), expected);
        assert!(batch.free().is_ok());
        rig.all_back();
    }
}

/// What the target's access does not allow fails `Denied` at submit, before any byte moves.
#[test]
fn access_is_kept() {
    let config = file(LOOPBACK, INLINE, LIMITS, "4KiB");
    let there = target(&config, &[4096], Access::Read);
    let rig = Rig::start(&config);
    let peer = rig.meet("b", &there);
    rig.link(peer, &there);
    let local = rig.memory(4096, 1);
    let write = Request::write(local, 0, rig.remote(peer, &there, 0), 4096);
    let read = Request::read(local, 0, rig.remote(peer, &there, 0), 4096);
    let batch = rig.client.submit(&[write, read], Options::default()).unwrap();
    assert_eq!(batch.wait(LONG).unwrap().failed, 1);
    assert_eq!(failures(&batch), [Some(Reason::Denied), None]);
}

/// B05 and the front door: numbers that wrap, lengths of 0, empty and too large batches are refused whole, with
/// the numbers; a full table answers `Busy`, and everything works afterwards.
#[test]
fn refused_whole() {
    let config = file(LOOPBACK, INLINE, LIMITS, "4KiB");
    let there = target(&config, &[1 << 20], Access::ReadWrite);
    let rig = Rig::start(&config);
    let peer = rig.meet("b", &there);
    let source = rig.memory(4096, 1);
    let good = Request::write(source, 0, rig.remote(peer, &there, 0), 64);
    let submit = |requests: &[Request]| rig.client.submit(requests, Options::default());
    let wraps = Request { local_offset: 0xFFFF_FFFF_FFFF_F000, len: 0x2000, ..good };
    assert!(matches!(submit(&[good, wraps]), Err(SubmitError::BadRequest { index: 1, .. })));
    let far = pipeline_stages::Remote { offset: u64::MAX - 63, ..good.remote };
    assert!(matches!(
        submit(&[Request { remote: far, ..good }]),
        Err(SubmitError::BadRequest { index: 0, .. })
    ));
    assert!(matches!(submit(&[Request { len: 0, ..good }]), Err(SubmitError::BadRequest { .. })));
    assert!(matches!(submit(&[]), Err(SubmitError::Empty)));
    let many = vec![good; 513];
    assert!(matches!(submit(&many), Err(SubmitError::TooLarge { asked: 513, limit: 512 })));
    // Nobody has a link yet: the first batch stays.
    let first = submit(&many[..500]).unwrap();
    assert!(matches!(submit(&many[..13]), Err(SubmitError::Busy { .. })));
    assert_eq!(first.poll(), None);
    let first = first.free().unwrap_err();
    rig.link(peer, &there);
    assert!(first.wait(LONG).unwrap().is_done());
    drop(first);
    let second = rig.client.submit_wait(&many[..512], Options::default(), LONG).unwrap();
    assert!(second.wait(LONG).unwrap().is_done());
    drop(second);
    rig.all_back();
}
