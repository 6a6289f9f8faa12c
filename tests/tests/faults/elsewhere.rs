//! Whole nodes beside peers that run another engine: found by name, without sessions, over links that nobody can be asked to
//! let go of. The other engine's protocol is one of this process (`Wires`); what carries it is real.

use std::time::{Duration, Instant};

use pipeline_node::faults::{self, Blame, Effect, Plan, Rule, Site, When, Wires};
use pipeline_node::{Access, Engine, Error, Memory, Options, Peer, PeerEvent, PeerState, Reason, Request};
use pipeline_node::{Source, WaitError};

use crate::rig::{
    PATIENCE, bytes_of, carry_out, done, nothing_left, open, pattern, reasons, region_of, until,
};

const KIB: u64 = 1 << 10;
const FILE: &str = r#"
version = 1
use = "tcp"
limits = { reconnect = "20ms", connect = "300ms" }
segments.kv = { kind = "dram", size = "1MiB", access = "read_write" }
transports.loopback = { type = "loopback" }
[stages]
split = { slice = "16KiB" }
retry = { attempts = 3 }
"#;

/// A node that is called so by peers of the other engine, and what can be done to it.
#[track_caller]
fn called(name: &str, set: &[&str]) -> (Engine, Wires) {
    with(name, set, &Plan::default())
}

#[track_caller]
fn with(name: &str, set: &[&str], plan: &Plan) -> (Engine, Wires) {
    let wires = Wires::default();
    wires.call(name);
    let source = Source::text("test", FILE).set(set.iter().copied());
    (faults::start_beside_another_engine(&source, &wires, plan).unwrap_or_else(|e| panic!("{e}")), wires)
}

#[track_caller]
fn find(from: &Engine, name: &str) -> Peer {
    from.open(&format!("loopback://{name}")).unwrap_or_else(|e| panic!("{e}"))
}

fn patient() -> Options {
    Options { deadline: Some(PATIENCE), ..Options::default() }
}

/// The next event that is not the coming of a link or of what a test does not wait for.
#[track_caller]
fn next(events: &pipeline_node::PeerEvents) -> PeerEvent {
    events.next(PATIENCE).unwrap_or_else(|e| panic!("{e:?}"))
}

/// A peer is found by its name, tells its memory by address and buffer by buffer, and bytes go both ways: to the same places
/// by either of them. Nobody looks for it more than once.
#[test]
fn found_by_name() {
    let ((client, ours), (server, theirs)) = (called("found-c", &[]), called("found-s", &[]));
    assert_eq!(server.foreign_names(), [("loopback".to_owned(), "found-s".to_owned())]);
    assert_eq!(
        (server.foreign_name("loopback").as_deref(), server.foreign_name("tcp")),
        (Some("found-s"), None)
    );
    let peer = find(&client, "found-s");
    assert_eq!((peer.name(), peer.state()), ("found-s", PeerState::Up));
    assert_eq!(peer.segments().collect::<Vec<_>>(), ["memory", "buffer-0"]);
    let (memory, buffer) = (peer.segment("memory").unwrap(), peer.segment("buffer-0").unwrap());
    assert_eq!((buffer.len(), buffer.access()), (1 << 20, Some(Access::ReadWrite)));
    // Its offsets are addresses: the first one is that of its only region.
    let first = memory.len() - buffer.len();
    assert!(first > 1 << 32, "{first:#x} is no address");
    let bytes = pattern(1, 256 << 10);
    let (from, into) = (region_of(&client, &bytes), client.allocate(256 * KIB).unwrap());
    done(&client, &[Request::write(&from, 0, buffer.at(64 * KIB), 256 * KIB)]);
    done(&client, &[Request::read(&into, 0, memory.at(first + 64 * KIB), 256 * KIB)]);
    assert!(bytes_of(&into) == bytes);
    // Beside a region there is nothing.
    let (_, beside) = carry_out(&client, &[Request::read(&into, 0, memory.at(first - 4096), 4096)]);
    assert_eq!(reasons(&beside), [Some(Reason::UnknownSegment)]);
    let (_, past) = carry_out(&client, &[Request::read(&into, 0, memory.at(memory.len() - 1), 2)]);
    assert_eq!(reasons(&past), [Some(Reason::RemoteBounds)]);
    let counts = ours.counts();
    assert_eq!((counts.found, counts.probed, counts.dialled, ours.learnt()), (1, 0, 1, 1));
    assert_eq!(theirs.counts().answered, 0, "nobody was asked for the end of a link");
    drop((server, beside, past));
    nothing_left(&client, [from, into]);
}

/// One node serves and uses peers of both kinds at once. To nodes of its own kind it does not offer the transport that speaks
/// to the other engine, and it takes none for it that they may offer.
#[test]
fn both_kinds_at_once() {
    let ((client, ours), (server, _)) = (called("both-c", &[]), called("both-s", &[]));
    let (native, foreign) = (open(&client, &server), find(&client, "both-s"));
    assert_ne!(native.incarnation(), foreign.incarnation());
    let offers = |peer| client.explain(peer).offers;
    assert_eq!(offers(&native), [("tcp".to_owned(), "tcp".to_owned())]);
    assert_eq!(offers(&foreign), [("loopback".to_owned(), "loopback".to_owned())]);
    let (kv, buffer) = (native.segment("kv").unwrap(), foreign.segment("buffer-0").unwrap());
    let bytes = pattern(2, 512 << 10);
    let (from, into) = (region_of(&client, &bytes), client.allocate(512 * KIB).unwrap());
    let halves = [
        Request::write(&from, 0, kv.at(0), 256 * KIB),
        Request::write(&from, 256 * KIB, buffer.at(256 * KIB), 256 * KIB),
    ];
    done(&client, &halves);
    // The other half each, so that both have seen what the other wrote.
    let halves = [
        Request::read(&into, 0, buffer.at(0), 256 * KIB),
        Request::read(&into, 256 * KIB, kv.at(256 * KIB), 256 * KIB),
    ];
    done(&client, &halves);
    assert!(bytes_of(&into) == bytes);
    assert_eq!(ours.links(), 1);
    // And the other way round.
    let back = find(&server, "both-c").segment("buffer-0").unwrap();
    let small = server.allocate(4096).unwrap();
    done(&server, &[Request::write(&small, 0, back.at(0), 4096)]);
    nothing_left(&server, [small]);
    nothing_left(&client, [from, into]);
}

/// A WRITE that had begun on a link which died is undetermined at once, never sent again, and holds up no later one; a READ
/// is sent again. There is no fence to wait for, and asking for one says so.
#[test]
fn begun_writes_are_undetermined_at_once() {
    let ((client, ours), (_server, _)) = (called("begun-c", &[]), called("begun-s", &[]));
    let peer = find(&client, "begun-s");
    let buffer = peer.segment("buffer-0").unwrap();
    let bytes = pattern(3, 64 << 10);
    let (from, into) = (region_of(&client, &bytes), client.allocate(64 * KIB).unwrap());
    done(&client, &[Request::write(&from, 0, buffer.at(0), 64 * KIB)]);
    ours.stall(true);
    let write = client.submit(&[Request::write(&from, 0, buffer.at(64 * KIB), 64 * KIB)], patient()).unwrap();
    let read = client.submit(&[Request::read(&into, 0, buffer.at(0), 64 * KIB)], patient()).unwrap();
    assert_eq!(write.wait(Duration::from_millis(50)), Err(WaitError::Timeout));
    ours.stall(false);
    ours.kill(0, Blame::Peer);
    let begin = Instant::now();
    assert!(!write.wait(PATIENCE).expect("an end").is_done());
    assert_eq!(reasons(&write), [Some(Reason::Undetermined)]);
    assert!(read.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(&read));
    assert!(begin.elapsed() < PATIENCE / 2, "neither waits for a deadline");
    assert!(bytes_of(&into) == bytes);
    done(&client, &[Request::write(&from, 0, buffer.at(64 * KIB), 64 * KIB)]);
    let error = peer.fence(PATIENCE).unwrap_err().to_string();
    assert!(error.contains("begun-s runs another engine: it has no fence"), "{error}");
    assert_eq!(ours.counts().found, 2, "looked for once more, because its last link died");
    drop((write, read));
    nothing_left(&client, [from, into]);
}

/// Deadlines and cancels abort the link, as of any peer: what had begun is undetermined then, in time, and the next transfer
/// is done.
#[test]
fn deadlines_and_cancels_abort() {
    let ((client, ours), (_server, _)) = (called("late-c", &[]), called("late-s", &[]));
    let buffer = find(&client, "late-s").segment("buffer-0").unwrap();
    let from = client.allocate(64 * KIB).unwrap();
    let write = [Request::write(&from, 0, buffer.at(0), 16 * KIB)];
    for cancel in [false, true] {
        done(&client, &write);
        ours.stall(true);
        let deadline = if cancel { PATIENCE } else { Duration::from_millis(100) };
        let batch =
            client.submit(&write, Options { deadline: Some(deadline), ..Options::default() }).unwrap();
        assert_eq!(batch.wait(Duration::from_millis(20)), Err(WaitError::Timeout));
        if cancel {
            batch.cancel();
        }
        let begin = Instant::now();
        assert!(!batch.wait(PATIENCE).expect("an end").is_done());
        assert!(begin.elapsed() < PATIENCE / 2);
        assert_eq!(reasons(&batch), [Some(Reason::Undetermined)], "cancelled: {cancel}");
        ours.stall(false);
    }
    done(&client, &write);
    nothing_left(&client, [from]);
}

/// A stage that panics takes its links along: what of theirs had begun ends as of any link that died, and the WRITEs after it
/// wait for nobody.
#[test]
fn panicking_stages() {
    for (site, stage) in [(Site::Slice, "post"), (Site::Completion, "reap")] {
        let (plan, name) = (Plan::default(), format!("panic-{stage}"));
        let ((client, _), (_server, _)) = (with("panic-c", &[], &plan), called(&name, &[]));
        let buffer = find(&client, &name).segment("buffer-0").unwrap();
        let bytes = pattern(4, 1 << 20);
        let (from, into) = (region_of(&client, &bytes), client.allocate(1 << 20).unwrap());
        let write = |i: u64| Request::write(&from, i * 64 * KIB, buffer.at(i * 64 * KIB), 64 * KIB);
        let all: Vec<_> = (0..16).map(write).collect();
        plan.add(Rule::new(site, When::Nth(10), Effect::Panic));
        let struck = client.submit(&all, patient()).unwrap();
        let begin = Instant::now();
        assert!(!struck.wait(PATIENCE).expect("an end").is_done());
        for reason in reasons(&struck).into_iter().flatten() {
            assert!(matches!(reason, Reason::StagePanic | Reason::Undetermined), "{stage}: {reason:?}");
        }
        done(&client, &all);
        assert!(begin.elapsed() < PATIENCE / 2, "{stage}: nothing waited for a fence");
        done(&client, &[Request::read(&into, 0, buffer.at(0), 1 << 20)]);
        assert!(bytes_of(&into) == bytes, "{stage}");
        drop(struck);
        nothing_left(&client, [from, into]);
    }
}

/// Another process under the same name is another start: whoever listens hears of it, requests to the first one fail
/// `StalePeer` and never reach the second, and opened again it is used. What was learnt of the first is forgotten.
#[test]
fn another_start_under_the_same_name() {
    let ((client, ours), (server, _)) = (called("again-c", &[]), called("again-s", &[]));
    let events = client.peer_events();
    let first = find(&client, "again-s");
    let old = first.segment("buffer-0").unwrap();
    let local = client.allocate(4096).unwrap();
    done(&client, &[Request::write(&local, 0, old.at(0), 4096)]);
    assert!(matches!(next(&events), PeerEvent::Up { .. }));
    // The second is there before the first has gone.
    let (second, _) = called("again-s", &[]);
    assert_eq!((ours.learnt(), ours.counts().forgotten), (1, 0));
    drop(server);
    assert!(matches!(next(&events), PeerEvent::Down { .. }));
    until("the second is found", || find(&client, "again-s").incarnation() != first.incarnation());
    let restarted = next(&events);
    assert!(matches!(restarted, PeerEvent::Restarted { .. }), "{restarted:?}");
    assert!(matches!(next(&events), PeerEvent::Up { .. }));
    let (_, stale) = carry_out(&client, &[Request::write(&local, 0, old.at(0), 4096)]);
    assert_eq!(reasons(&stale), [Some(Reason::StalePeer)]);
    let kv = find(&client, "again-s").segment("buffer-0").unwrap();
    done(&client, &[Request::write(&local, 0, kv.at(0), 4096)]);
    until("forgotten", || ours.counts().forgotten == 1 && ours.learnt() == 1);
    drop((stale, second));
    nothing_left(&client, [local]);
}

/// B13: a peer that is gone costs each request a typed error in time, and is used again as soon as it is back; nothing bans
/// it for good. A name that nobody knows, and a peer that does not answer, are told apart.
#[test]
fn gone_and_back() {
    let ((client, _), (server, _)) = (called("gone-c", &[]), called("gone-s", &[]));
    let unknown = client.open("loopback://gone-x").unwrap_err();
    assert!(unknown.to_string().contains("knows no `gone-x`"), "{unknown}");
    assert!(unknown.is_peer());
    let kv = find(&client, "gone-s").segment("buffer-0").unwrap();
    let local = client.allocate(4096).unwrap();
    drop(server);
    for _ in 0..20 {
        let (_, batch) = carry_out(&client, &[Request::write(&local, 0, kv.at(0), 4096)]);
        let reasons = reasons(&batch);
        assert!(matches!(reasons[..], [Some(Reason::PeerGone | Reason::Undetermined)]), "{reasons:?}");
    }
    let (server, theirs) = called("gone-s", &[]);
    theirs.set_mute(true);
    let mute = client.open("loopback://gone-s").unwrap_err();
    assert!(mute.to_string().contains("took longer than allowed"), "{mute}");
    theirs.set_mute(false);
    let kv = find(&client, "gone-s").segment("buffer-0").unwrap();
    done(&client, &[Request::write(&local, 0, kv.at(0), 4096)]);
    drop(server);
    nothing_left(&client, [local]);
}

/// While the directory does not answer, peers that are known go on: with their links, and with new ones where they were last.
/// One that is not known is told to be unknown for this reason, and not for another.
#[test]
fn without_its_directory() {
    let ((client, ours), (_server, _)) = (called("dir-c", &[]), called("dir-s", &[]));
    let (known, local) = (find(&client, "dir-s"), client.allocate(4096).unwrap());
    let kv = known.segment("buffer-0").unwrap();
    ours.set_directory_down(true);
    let write = [Request::write(&local, 0, kv.at(0), 4096)];
    done(&client, &write);
    let unreached = client.open("loopback://dir-x").unwrap_err().to_string();
    assert!(unreached.contains("does not answer"), "{unreached}");
    for _ in 0..3 {
        let found = ours.counts().found;
        ours.kill(0, Blame::Peer);
        until("asked in vain", || ours.counts().found > found);
        done(&client, &write);
    }
    // Down, because no link can be had: reached again without the directory.
    ours.set_undialable(true);
    ours.kill(0, Blame::Peer);
    until("down", || known.state() == PeerState::Down);
    assert!(client.open("loopback://dir-s").unwrap_err().to_string().contains("the test says so"));
    ours.set_undialable(false);
    done(
        &client,
        &[Request::read(&local, 0, find(&client, "dir-s").segment("buffer-0").unwrap().at(0), 4096)],
    );
    nothing_left(&client, [local]);
}

/// A buffer that is registered later is reachable once the peer is looked at again; one that is taken back is not.
#[test]
fn looked_at_again() {
    let ((client, _), (server, _)) = (called("later-c", &[]), called("later-s", &[]));
    let peer = find(&client, "later-s");
    assert!(peer.segment("buffer-1").is_err());
    let region = server.register(Memory::allocate(8192).unwrap(), Access::Read).unwrap();
    server.publish("kv", &region).unwrap();
    let peer = peer.refresh(PATIENCE).unwrap();
    let (later, memory) = (peer.segment("buffer-1").unwrap(), peer.segment("memory").unwrap());
    assert_eq!((later.len(), later.access(), memory.access()), (8192, Some(Access::Read), None));
    let local = client.allocate(8192).unwrap();
    done(&client, &[Request::read(&local, 0, later.at(0), 8192)]);
    let (_, denied) = carry_out(&client, &[Request::write(&local, 0, later.at(0), 8192)]);
    assert_eq!(reasons(&denied), [Some(Reason::Denied)]);
    server.unregister_within(region, PATIENCE).map_err(|(_, e)| e).unwrap();
    let peer = peer.refresh(PATIENCE).unwrap();
    assert!(peer.segment("buffer-1").is_err() && peer.segment("buffer-0").is_ok());
    drop(denied);
    nothing_left(&client, [local]);
}

/// A peer that nobody uses costs nothing: links that ended while nothing was under way are reason for one question, and are
/// dialled again when somebody wants one, not before. If it does not answer that question it is down.
#[test]
fn idle_peers_cost_nothing() {
    let ((client, ours), (_server, theirs)) = (called("idle-c", &[]), called("idle-s", &[]));
    let events = client.peer_events();
    let (kv, local) = (find(&client, "idle-s").segment("buffer-0").unwrap(), client.allocate(4096).unwrap());
    assert!(matches!(next(&events), PeerEvent::Up { .. }));
    for round in 1..4 {
        done(&client, &[Request::write(&local, 0, kv.at(0), 4096)]);
        assert_eq!(
            (ours.counts().dialled, ours.counts().found, ours.counts().probed),
            (round, round, round - 1)
        );
        ours.kill(0, Blame::Nobody);
        until("one question", || ours.links() == 0 && ours.counts().probed == round);
        // Ten times as long as a dial after a failure would wait.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!((ours.counts().dialled, ours.counts().found, ours.counts().probed), (round, round, round));
    }
    find(&client, "idle-s");
    assert_eq!(ours.links(), 1, "opening wants a link as well");
    theirs.set_mute(true);
    ours.kill(0, Blame::Nobody);
    assert!(matches!(next(&events), PeerEvent::Down { .. }));
    theirs.set_mute(false);
    done(
        &client,
        &[Request::write(&local, 0, find(&client, "idle-s").segment("buffer-0").unwrap().at(0), 4096)],
    );
    nothing_left(&client, [local]);
}

/// A listener that cannot be had keeps the node from starting, and says which transport and which address; a label that
/// names no such transport says what there is.
#[test]
fn names_and_listeners() {
    let wires = Wires::default();
    wires.set_unbindable();
    let error = faults::start_beside_another_engine(&Source::text("test", FILE), &wires, &Plan::default())
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("transport `loopback` cannot listen") && text.contains("127.0.0.1:1"), "{text}");
    let (client, _) = called("names-c", &[]);
    for (label, says) in [
        ("loopbak://x", "did you mean `loopback`?"),
        ("tcp://10.0.0.1:7001", "write `host:port`"),
        ("loopback://", "1 to 512 bytes"),
        ("loopback://a b", "no spaces"),
    ] {
        let error = client.open(label).unwrap_err();
        assert!(matches!(error, Error::Control(_)) && error.to_string().contains(says), "{label}: {error}");
    }
    let alone = Engine::from_toml("version = 1\nuse = \"tcp\"\n").unwrap();
    let error = alone.open("mooncake://10.0.0.1:1").unwrap_err().to_string();
    assert!(error.contains("none that speaks to another engine"), "{error}");
}
