//! Notices to and from peers that run another engine, and what such peers do not have.

use std::time::Duration;

use pipeline_node::faults::{self, Blame, Plan, Wires};
use pipeline_node::{Engine, Error, FileRequest, ListenError, Notice, NoticeFault, Options, Peer, Reason};
use pipeline_node::{Request, Source, Status};

use crate::rig::{PATIENCE, bytes_of, done, nothing_left, pattern, region_of};

const KIB: u64 = 1 << 10;
const FILE: &str = "version = 1\nuse = \"tcp\"\nlimits.connect = \"300ms\"\nlimits.notices = 2\n\
    segments.kv = { kind = \"dram\", size = \"1MiB\", access = \"read_write\" }\n\
    transports.loopback = { type = \"loopback\" }\n";

#[track_caller]
fn called(name: &str) -> (Engine, Wires) {
    let wires = Wires::default();
    wires.call(name);
    let source = Source::text("test", FILE);
    (
        faults::start_beside_another_engine(&source, &wires, &Plan::default())
            .unwrap_or_else(|e| panic!("{e}")),
        wires,
    )
}

#[track_caller]
fn find(from: &Engine, name: &str) -> Peer {
    from.open(&format!("loopback://{name}")).unwrap_or_else(|e| panic!("{e}"))
}

/// What became of a batch with this notice: whether its requests were done, and why the notice failed.
#[track_caller]
fn noticed(engine: &Engine, requests: &[Request], body: &[u8]) -> (bool, Option<Reason>) {
    let options = Options { deadline: Some(PATIENCE), notice: Some(body.into()), ..Options::default() };
    let batch = engine.submit(requests, options).unwrap();
    batch.wait(PATIENCE).expect("an end");
    let requests_done = batch.results().all(|status| status == Status::Done);
    match batch.notice().expect("it has one") {
        Status::Done => (requests_done, None),
        Status::Failed(failure) => (requests_done, Some(failure.reason)),
        Status::Pending => panic!("pending in a batch that is done"),
    }
}

/// A notice comes after the data, once, with the name of whoever sent it and nothing but its text; and the same the other
/// way round.
#[test]
fn both_ways() {
    let ((one, _), (other, _)) = (called("notice-a"), called("notice-b"));
    for (from, to, name) in [(&one, &other, "notice-b"), (&other, &one, "notice-a")] {
        let notices = to.notices();
        let bytes = pattern(7, 64 << 10);
        let (local, into) = (region_of(from, &bytes), from.allocate(64 * KIB).unwrap());
        let buffer = find(from, name).segment("buffer-0").unwrap();
        let write = [Request::write(&local, 0, buffer.at(0), 64 * KIB)];
        assert_eq!(noticed(from, &write, "kv für 7 ist da".as_bytes()), (true, None));
        let Notice { peer, incarnation, requests, failed, body } = notices.next(PATIENCE).unwrap();
        assert_eq!((&*peer, incarnation, requests, failed), (from.name(), 0, 0, 0));
        assert_eq!(&*body, "kv für 7 ist da".as_bytes());
        done(from, &[Request::read(&into, 0, buffer.at(0), 64 * KIB)]);
        assert!(bytes_of(&into) == bytes);
        assert_eq!(notices.next(Duration::from_millis(20)), Err(ListenError::Timeout));
        nothing_left(from, [local, into]);
    }
}

/// One that nobody hears, one that finds the queue full, and one whose bytes the other protocol cannot carry, fail with the
/// reason, and their requests are done all the same.
#[test]
fn not_taken() {
    let ((client, _), (server, theirs)) = (called("taken-a"), called("taken-b"));
    let local = client.allocate(4096).unwrap();
    let write =
        [Request::write(&local, 0, find(&client, "taken-b").segment("buffer-0").unwrap().at(0), 4096)];
    let fault = |fault| (true, Some(Reason::Notice(fault)));
    assert_eq!(noticed(&client, &write, b"hello"), fault(NoticeFault::Unheard));
    assert_eq!(noticed(&client, &write, &[0xff, 0xfe]), fault(NoticeFault::Unfit));
    let notices = server.notices();
    assert_eq!([1, 2].map(|n| noticed(&client, &write, &[b'0' + n])), [(true, None), (true, None)]);
    assert_eq!(noticed(&client, &write, b"3"), fault(NoticeFault::Unheard), "two at most are kept");
    theirs.set_mute(true);
    let options = Options {
        deadline: Some(Duration::from_millis(200)),
        notice: Some((*b"4").into()),
        ..Options::default()
    };
    let batch = client.submit(&write, options).unwrap();
    assert!(!batch.wait(PATIENCE).expect("in its time").is_done());
    theirs.set_mute(false);
    let told: Vec<_> = std::iter::from_fn(|| notices.try_next()).map(|n| n.body[0]).collect();
    assert_eq!(told, *b"12");
    drop(batch);
    nothing_left(&client, [local]);
}

/// The other protocol's notices cannot say that something failed: of a batch with failures none is sent.
#[test]
fn not_of_failures() {
    let ((client, ours), (server, _)) = (called("failed-a"), called("failed-b"));
    let (notices, local) = (server.notices(), client.allocate(4096).unwrap());
    let buffer = find(&client, "failed-b").segment("buffer-0").unwrap();
    let write = |at| Request::write(&local, 0, buffer.at(at), 4096);
    let withheld = Some(Reason::Notice(NoticeFault::Withheld));
    assert_eq!(noticed(&client, &[write(0), write(1 << 20)], b"half"), (false, withheld));
    ours.stall(true);
    std::thread::scope(|scope| {
        let batch = scope.spawn(|| noticed(&client, &[write(0)], b"cut off"));
        crate::rig::until("begun", || ours.counts().stalled == 1);
        ours.kill(0, Blame::Peer);
        ours.stall(false);
        assert_eq!(batch.join().unwrap(), (false, withheld));
    });
    assert_eq!(notices.next(Duration::from_millis(20)), Err(ListenError::Timeout));
    assert_eq!(noticed(&client, &[write(0)], b"whole"), (true, None));
    assert_eq!(&*notices.next(PATIENCE).unwrap().body, b"whole");
    nothing_left(&client, [local]);
}

/// What another engine does not have is said at once, by name, and costs no session: files, a CPU time, a fence.
#[test]
fn what_it_does_not_have() {
    let ((client, _), (_server, _)) = (called("lacks-a"), called("lacks-b"));
    let peer = find(&client, "lacks-b");
    assert!(peer.is_foreign());
    let list = FileRequest::List { segment: "kv".into(), path: String::new(), after: String::new() };
    let answers: [Result<(), Error>; 3] =
        [peer.files(list).map(drop), peer.cpu_ns().map(drop), peer.fence(PATIENCE)];
    for (answer, what) in answers.into_iter().zip(["files", "CPU time", "fence"]) {
        let error = answer.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("lacks-b runs another engine: it has no ") && text.contains(what), "{text}");
        assert!(!error.is_peer(), "it is there: {text}");
    }
}
