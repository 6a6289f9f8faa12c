//! Notices: after all the data they announce, once each, and what a batch comes to when they fail (B26, B09).

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline_node::faults::{Effect, Plan, Rule, Site, When};
use pipeline_node::{
    Batch, Engine, ListenError, NoticeFault, Options, Reason, Request, Segment, Status, SubmitError,
};

use crate::faulty;
use crate::rig::{PATIENCE, bytes_of, done, engine, nothing_left, open, pattern, region_of, target, until};

const MIB: u64 = 1 << 20;

fn with(body: &[u8], deadline: Duration) -> Options {
    Options { deadline: Some(deadline), notice: Some(body.into()), ..Options::default() }
}

/// Why the notice of a batch that is done failed; `None` if it did not.
#[track_caller]
fn fault(batch: &Batch) -> Option<Reason> {
    match batch.notice().expect("it has one") {
        Status::Done => None,
        Status::Failed(failure) => {
            assert_eq!(&*failure.stage, "notice");
            Some(failure.reason)
        }
        Status::Pending => panic!("pending in a batch that is done"),
    }
}

fn small(region: &pipeline_node::Region, kv: &Segment) -> [Request; 1] {
    [Request::write(region, 0, kv.at(0), 4096)]
}

/// What the target's memory holds, read by another engine.
fn held_by(server: &Engine, len: u64) -> Vec<u8> {
    let reader = engine(&[]);
    let region = reader.allocate(len).unwrap();
    let kv = open(&reader, server).segment("kv").unwrap();
    done(&reader, &[Request::read(&region, 0, kv.at(0), len)]);
    bytes_of(&region)
}

/// B26: ten requests of 1 MiB with one notice, of which the seventh slice is held up for half a second: nothing is heard
/// meanwhile and the batch is not done; then exactly one notice comes, all ten are in place when it does, and it says so.
#[test]
fn one_notice_after_all_of_its_data() {
    let plan = Plan::default();
    let (client, server) = (faulty(&plan, &[]), target("10MiB"));
    let notices = server.notices();
    let kv = open(&client, &server).segment("kv").unwrap();
    let bytes = pattern(26, 10 << 20);
    let from = region_of(&client, &bytes);
    let late = Rule::new(Site::Slice, When::Nth(7), Effect::Delay(Duration::from_millis(500)));
    let late = plan.add(late);
    let begin = Instant::now();
    let requests: Vec<_> = (0..10).map(|i| Request::write(&from, i * MIB, kv.at(i * MIB), MIB)).collect();
    let batch = client.submit(&requests, with(b"kv is there", PATIENCE)).unwrap();
    assert_eq!(notices.next(Duration::from_millis(300)), Err(ListenError::Timeout));
    assert_eq!((batch.poll(), batch.notice()), (None, Some(Status::Pending)));
    let notice = notices.next(PATIENCE).unwrap();
    assert!(held_by(&server, 10 * MIB) == bytes, "told of what is not there");
    assert!(begin.elapsed() >= Duration::from_millis(500) && plan.struck(late) == 1);
    assert_eq!((&notice.body[..], notice.requests, notice.is_done()), (&b"kv is there"[..], 10, true));
    assert_eq!((&*notice.peer, client.name()), ("node", "node"));
    assert!(batch.wait(PATIENCE).unwrap().is_done());
    assert_eq!((fault(&batch), notices.try_next()), (None, None));
    drop(batch);
    nothing_left(&client, [from]);
}

/// B26: the same with a tenth request that fails, on its way or at once: the receiver hears it once, marked as failed
/// with how many, and the batch has failed though its notice was taken.
#[test]
fn a_failed_request_marks_the_notice() {
    let plan = Plan::default();
    let (client, server) = (faulty(&plan, &["stages.retry.attempts=1"]), target("10MiB"));
    let notices = server.notices();
    let kv = open(&client, &server).segment("kv").unwrap();
    let from = client.allocate(10 * MIB).unwrap();
    let requests = |n, last| -> Vec<_> {
        let at = |i| if i + 1 == n { last } else { i * MIB };
        (0..n).map(|i| Request::write(&from, i * MIB, kv.at(at(i)), MIB)).collect()
    };
    plan.add(Rule::new(Site::Completion, When::Nth(10), Effect::Fail));
    // On its way; at once, as it passes the end of the segment; and all of a batch at once.
    for (n, last, failed) in [(10, 9 * MIB, 1), (10, 10 * MIB, 1), (1, 10 * MIB, 1)] {
        let batch = client.submit(&requests(n, last), with(b"partly", PATIENCE)).unwrap();
        let notice = notices.next(PATIENCE).unwrap();
        assert_eq!((notice.requests, notice.failed, notice.is_done()), (n as u32, failed, false));
        let summary = batch.wait(PATIENCE).unwrap();
        assert_eq!((summary.is_done(), summary.failed, fault(&batch)), (false, failed, None));
        assert_eq!(notices.try_next(), None);
    }
    nothing_left(&client, [from]);
}

/// A receiver whose program listens to nothing refuses notices, and the batch has failed with that reason, though all of
/// its bytes are in place. Once somebody listens, the next one comes.
#[test]
fn nobody_listens() {
    let (client, server) = (engine(&[]), target("1MiB"));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(4096).unwrap();
    let send = || {
        let batch = client.submit(&small(&region, &kv), with(b"x", PATIENCE)).unwrap();
        let summary = batch.wait(PATIENCE).unwrap();
        assert_eq!((summary.failed, summary.bytes), (0, 4096));
        assert_eq!(summary.is_done(), fault(&batch).is_none());
        fault(&batch)
    };
    assert_eq!(send(), Some(Reason::Notice(NoticeFault::Unheard)));
    let notices = server.notices();
    assert_eq!(send(), None);
    drop(notices);
    assert_eq!(send(), Some(Reason::Notice(NoticeFault::Unheard)));
    assert_eq!(&*server.notices().try_next().expect("taken before, and kept").body, b"x");
    nothing_left(&client, [region]);
}

/// A queue of two at the receiver: the third notice waits, and is taken when somebody reads; if nobody does until the
/// deadline its batch fails with that reason. On the sender's side, `limits.notices` bounds what may be on its way.
#[test]
fn full_queues_answer_busy() {
    let server =
        engine(&["limits.notices=2", "segments.kv={ kind='dram', size='1MiB', access='read_write' }"]);
    let client = engine(&["limits.notices=3"]);
    let notices = server.notices();
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(4096).unwrap();
    let send = |body: &[u8], deadline| client.submit(&small(&region, &kv), with(body, deadline));
    for body in [b"1", b"2"] {
        assert!(send(body, PATIENCE).unwrap().wait(PATIENCE).unwrap().is_done());
    }
    let begin = Instant::now();
    let late = send(b"late", Duration::from_millis(400)).unwrap();
    let summary = late.wait(PATIENCE).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(400) && begin.elapsed() < Duration::from_secs(5));
    // The last try may be under way, unanswered, in the moment the time is over.
    let why = fault(&late).expect("it was not taken");
    assert!([NoticeFault::Full, NoticeFault::Unanswered].map(Reason::Notice).contains(&why), "{why:?}");
    assert_eq!(summary.failed, 0);
    let waiting: Vec<_> = [b"3", b"4", b"5"].map(|body| send(body, PATIENCE).unwrap()).into();
    let more = send(b"6", PATIENCE).unwrap_err();
    assert!(matches!(more, SubmitError::Busy { what: "limits.notices", .. }), "{more}");
    let mut read = Vec::new();
    while read.len() < 5 {
        match notices.next(PATIENCE).unwrap().body[0] {
            // Of one that was sent and not answered in time nobody knows.
            b'l' => assert_eq!(why, Reason::Notice(NoticeFault::Unanswered)),
            body => read.push(body),
        }
    }
    read[2..].sort_unstable();
    assert_eq!(read, b"12345");
    assert!(waiting.iter().all(|batch| batch.wait(PATIENCE).unwrap().is_done()));
    drop((late, waiting));
    nothing_left(&client, [region]);
}

/// Cancel, a dropped handle, drain and stop with a notice that nobody takes: each comes to its end. A cancelled batch is
/// done within a fraction of a second; a dropped one is freed at its deadline; drain names what it waits for; and stop
/// ends the rest as stopped.
#[test]
fn pending_notices_come_to_an_end() {
    let server =
        engine(&["limits.notices=1", "segments.kv={ kind='dram', size='1MiB', access='read_write' }"]);
    let client = engine(&[]);
    let _notices = server.notices();
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(4096).unwrap();
    let send = |deadline| client.submit(&small(&region, &kv), with(b"n", deadline)).unwrap();
    assert!(send(PATIENCE).wait(PATIENCE).unwrap().is_done());

    let cancelled = send(PATIENCE);
    until("its request has ended", || cancelled.results().all(|status| status == Status::Done));
    assert_eq!(cancelled.poll(), None);
    let begin = Instant::now();
    cancelled.cancel();
    cancelled.wait(PATIENCE).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    // On a slow machine a try may be under way, unanswered, in the moment its time is over.
    let unanswered = Reason::Notice(NoticeFault::Unanswered);
    let why = fault(&cancelled);
    assert!(why == Some(Reason::Cancelled) || why == Some(unanswered), "{why:?}");

    drop((cancelled, send(Duration::from_millis(300))));
    until("the dropped batch is freed", || client.usage().batches == 0);
    nothing_left(&client, []);

    let stuck = send(PATIENCE);
    let report = client.drain(Duration::from_millis(300));
    assert!(!report.empty && report.to_string().contains("`notice` holds 1"), "{report}");
    client.stop();
    assert_eq!((stuck.wait(PATIENCE).unwrap().failed, fault(&stuck)), (0, Some(Reason::Stopped)));
}

/// A peer that was opened under two names is told under both, though each counts its notices from the first.
#[test]
fn two_names_of_one_peer() {
    let (client, server) = (engine(&[]), target("1MiB"));
    let notices = server.notices();
    let region = client.allocate(4096).unwrap();
    let port = server.local_address().port();
    for (name, body) in [("127.0.0.1", b"a"), ("localhost", b"b"), ("127.0.0.1", b"c")] {
        let kv = client.open(&format!("{name}:{port}")).unwrap().segment("kv").unwrap();
        let batch = client.submit(&small(&region, &kv), with(body, PATIENCE)).unwrap();
        assert!(batch.wait(PATIENCE).unwrap().is_done());
        assert_eq!((&*notices.next(PATIENCE).unwrap().body, notices.try_next()), (&body[..], None));
    }
    nothing_left(&client, [region]);
}

/// What makes no sense as a notice is refused whole: too long a one, and one for two peers.
#[test]
fn senseless_notices_are_refused() {
    let (client, one, two) = (engine(&[]), target("1MiB"), target("1MiB"));
    let [one, two] = [&one, &two].map(|server| open(&client, server).segment("kv").unwrap());
    let region = client.allocate(8192).unwrap();
    let long = client.submit(&small(&region, &one), with(&[0; 4097], PATIENCE)).unwrap_err();
    assert_eq!(long, SubmitError::NoticeTooLong { len: 4097, limit: 4096 });
    let both = [small(&region, &one)[0], Request::write(&region, 4096, two.at(0), 4096)];
    let both = client.submit(&both, with(b"", PATIENCE)).unwrap_err();
    assert!(matches!(both, SubmitError::BadRequest { index: 1, .. }), "{both}");
    nothing_left(&client, [region]);
}

/// B09: a batch with a notice to a peer that is dead fails and is freed. A thousand batches without one, which use its
/// place again and again, bring the peer that took over its address no notice; one batch with a notice brings exactly
/// that; and no table has grown. (A handle that was freed cannot be asked any more: `free` takes it.)
#[test]
fn a_freed_notice_is_nobody_elses() {
    let client = engine(&["limits.batches=2"]);
    let doomed = target("1MiB");
    let address = doomed.local_address();
    let kv = open(&client, &doomed).segment("kv").unwrap();
    let region = client.allocate(4096).unwrap();
    doomed.stop();
    drop(doomed);
    let lost = client.submit(&small(&region, &kv), with(b"one", PATIENCE)).unwrap();
    let begin = Instant::now();
    assert!(!lost.wait(PATIENCE).unwrap().is_done());
    assert!(begin.elapsed() < Duration::from_secs(5), "waited for a dead peer: {:?}", begin.elapsed());
    assert_eq!(fault(&lost), Some(Reason::PeerGone));
    lost.free().expect("it is done");

    let listen = format!("node.listen='{address}'");
    let live = engine(&[&listen, "segments.kv={ kind='dram', size='1MiB', access='read_write' }"]);
    let notices = live.notices();
    let mut kv = None;
    until("it is back", || {
        kv = client.open(&address.to_string()).ok().and_then(|peer| peer.segment("kv").ok());
        kv.is_some()
    });
    let kv = kv.unwrap();
    until("it is known to be another", || {
        let batch = client.submit(&small(&region, &kv), Options::default()).unwrap();
        batch.wait(PATIENCE).unwrap().is_done()
    });
    for _ in 0..1000 {
        done(&client, &small(&region, &kv));
    }
    assert_eq!(notices.next(Duration::from_millis(50)), Err(ListenError::Timeout));
    let two: Arc<[u8]> = b"two".as_slice().into();
    let batch = client.submit(&small(&region, &kv), Options { notice: Some(two), ..Options::default() });
    assert!(batch.unwrap().wait(PATIENCE).unwrap().is_done());
    assert_eq!(&*notices.next(PATIENCE).unwrap().body, b"two");
    assert_eq!(notices.try_next(), None);
    nothing_left(&client, [region]);
}
