//! Notices to another process whose way is cut, which is stopped for a while, killed, and started again: each comes
//! once, or its batch has failed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use pipeline_node::{
    Batch, Engine, NoticeFault, Options, PeerEvent, PeerEvents, Reason, Region, Request, Segment, Status,
};
use rustix::process::Signal;

use crate::child::Process;
use crate::proxy::Proxy;
use crate::rig::{PATIENCE, engine, nothing_left, target, until};

fn submit(client: &Engine, region: &Region, kv: &Segment, body: &str, deadline: Duration) -> Batch {
    let options =
        Options { deadline: Some(deadline), notice: Some(body.as_bytes().into()), ..Options::default() };
    let request = Request::write(region, 0, kv.at(0), 4096);
    client.submit_wait(&[request], options, PATIENCE).unwrap_or_else(|e| panic!("{e}"))
}

fn fault(batch: &Batch) -> Option<Reason> {
    match batch.notice() {
        Some(Status::Failed(failure)) => Some(failure.reason),
        _ => None,
    }
}

fn kv_of(client: &Engine, address: &str) -> Segment {
    let mut kv = None;
    until("it can be opened", || {
        kv = client.open(address).ok().and_then(|peer| peer.segment("kv").ok());
        kv.is_some()
    });
    kv.unwrap()
}

/// The receiver has taken a notice, and its answer is lost with the session: the sender says it again on the next
/// session, the receiver knows it, and the batch is done with one notice given out.
#[test]
fn a_lost_answer_brings_no_second_notice() {
    let receiver = target("1MiB");
    let notices = receiver.notices();
    let proxy = Proxy::to(receiver.local_address());
    let client = engine(&[]);
    let kv = kv_of(&client, &proxy.address.to_string());
    let region = client.allocate(4096).unwrap();
    assert!(submit(&client, &region, &kv, "before", PATIENCE).wait(PATIENCE).unwrap().is_done());
    assert_eq!(&*notices.next(PATIENCE).unwrap().body, b"before");

    proxy.mute(true);
    let said = proxy.answered();
    let batch = submit(&client, &region, &kv, "once", PATIENCE);
    assert_eq!(&*notices.next(PATIENCE).unwrap().body, b"once");
    until("it is answered", || proxy.answered() > said);
    assert_eq!((batch.poll(), batch.notice()), (None, Some(Status::Pending)));
    proxy.cut();
    proxy.mute(false);
    assert!(batch.wait(PATIENCE).unwrap().is_done(), "{:?}", batch.notice());
    assert!(submit(&client, &region, &kv, "after", PATIENCE).wait(PATIENCE).unwrap().is_done());
    assert_eq!(&*notices.next(PATIENCE).unwrap().body, b"after");
    assert_eq!(notices.try_next(), None);
    drop(batch);
    nothing_left(&client, [region]);
}

/// No answer comes until the deadline: the batch has failed then, and says that the notice may have been taken.
#[test]
fn without_an_answer_nobody_knows() {
    let receiver = target("1MiB");
    let notices = receiver.notices();
    let proxy = Proxy::to(receiver.local_address());
    let client = engine(&[]);
    let kv = kv_of(&client, &proxy.address.to_string());
    let region = client.allocate(4096).unwrap();
    assert!(submit(&client, &region, &kv, "before", PATIENCE).wait(PATIENCE).unwrap().is_done());
    proxy.mute(true);
    let batch = submit(&client, &region, &kv, "open", Duration::from_millis(400));
    let summary = batch.wait(PATIENCE).unwrap();
    assert_eq!((summary.failed, summary.is_done()), (0, false));
    assert_eq!(fault(&batch), Some(Reason::Notice(NoticeFault::Unanswered)));
    proxy.mute(false);
    let heard: Vec<_> = std::iter::from_fn(|| notices.try_next()).map(|n| n.body).collect();
    assert_eq!(heard, [b"before"[..].into(), b"open"[..].into()]);
    drop(batch);
    nothing_left(&client, [region]);
}

/// A receiver that is killed and started again has other memory: what was to be said of the old one is said to nobody,
/// and fails as that. What is sent to the new one comes.
#[test]
fn another_start_of_the_receiver_is_told_nothing() {
    let mut receiver = Process::start("receive");
    let address = receiver.hear("address");
    let client = engine(&[]);
    let kv = kv_of(&client, &address);
    let region = client.allocate(4096).unwrap();
    assert!(submit(&client, &region, &kv, "1", PATIENCE).wait(PATIENCE).unwrap().is_done());
    receiver.crash();
    let second = Process::start(&format!("at {address}"));
    second.hear("address");
    let fresh = kv_of(&client, &address);
    let stale = submit(&client, &region, &kv, "2", PATIENCE);
    assert!(!stale.wait(PATIENCE).unwrap().is_done());
    assert_eq!(fault(&stale), Some(Reason::StalePeer));
    until("the new one is written to", || {
        submit(&client, &region, &fresh, "3", PATIENCE).wait(PATIENCE).unwrap().is_done()
    });
    until("it comes", || !second.said("notice").is_empty());
    assert!(
        second.said("notice").iter().all(|notice| notice.starts_with('3')),
        "{:?}",
        second.said("notice")
    );
    drop(stale);
    nothing_left(&client, [region]);
}

/// Cuts the way and stops the receiver again and again, until it is told to end; counts how often.
fn trouble(receiver: &Process, proxy: &Proxy, over: &AtomicBool, turns: &AtomicU32) {
    let nap = |ms| std::thread::sleep(Duration::from_millis(ms));
    while !over.load(Relaxed) {
        let turn = turns.fetch_add(1, Relaxed);
        nap(15);
        match turn % 4 {
            0 | 2 => proxy.cut(),
            1 => {
                receiver.signal(Signal::STOP);
                nap(60);
                receiver.signal(Signal::CONT);
            }
            // The answers of what the receiver has taken are lost.
            _ => {
                proxy.mute(true);
                nap(20);
                proxy.cut();
                proxy.mute(false);
            }
        }
    }
}

/// A thousand batches or more with a notice each, from four threads, to a process that is stopped again and again and
/// whose connections are cut again and again: the notice of every batch that is done came exactly once, that of a
/// failed one at most once, nothing else came, and a good part is done. However fast the machine is, they go on until
/// each kind of trouble came three times.
#[test]
fn exactly_once_or_failed() {
    let receiver = Process::start("receive");
    let proxy = Proxy::to(receiver.hear("address").parse().unwrap());
    let client = engine(&[]);
    let kv = kv_of(&client, &proxy.address.to_string());
    let region = client.allocate(4096).unwrap();
    let (over, turns) = (AtomicBool::new(false), AtomicU32::new(0));
    let ends: HashMap<String, bool> = std::thread::scope(|scope| {
        scope.spawn(|| trouble(&receiver, &proxy, &over, &turns));
        let (client, kv, region, turns) = (&client, &kv, &region, &turns);
        let send = |t: usize| {
            let mut ends = Vec::new();
            for first in (0..).step_by(10).take_while(|first| *first < 250 || turns.load(Relaxed) <= 12) {
                let bodies: Vec<_> = (first..first + 10).map(|i| format!("{t}-{i}")).collect();
                let batches: Vec<_> =
                    bodies.iter().map(|body| submit(client, region, kv, body, PATIENCE)).collect();
                let done = batches.iter().map(|b| b.wait(2 * PATIENCE).expect("an end").is_done());
                ends.extend(bodies.iter().cloned().zip(done));
            }
            ends
        };
        let senders: Vec<_> = (0..4).map(|t| scope.spawn(move || send(t))).collect();
        let ends = senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect();
        over.store(true, Relaxed);
        ends
    });
    assert!(ends.len() >= 1000);
    let done = ends.values().filter(|done| **done).count();
    // What the receiver was given after the last word about a failed batch comes before this one's.
    let last = || submit(&client, &region, &kv_of(&client, &proxy.address.to_string()), "last", PATIENCE);
    until("it is well again", || last().wait(PATIENCE).unwrap().is_done());
    until("the last word", || receiver.said("notice").iter().any(|notice| notice == "last 0"));
    let mut heard: HashMap<String, usize> = HashMap::new();
    for notice in receiver.said("notice") {
        let (body, failed) = notice.split_once(' ').unwrap();
        if body != "last" {
            *heard.entry(body.to_owned()).or_default() += 1;
            assert!(failed == "0" || !ends[body], "{body}: done, and marked as failed");
        }
    }
    for (body, done) in &ends {
        let times = heard.get(body).copied().unwrap_or(0);
        assert!(if *done { times == 1 } else { times <= 1 }, "{body}: done {done}, heard {times} times");
    }
    assert!(heard.keys().all(|body| ends.contains_key(body)));
    assert!(done > 100, "only {done} of {} were done: the trouble is too much to tell anything", ends.len());
    nothing_left(&client, [region]);
}

#[track_caller]
fn next(events: &PeerEvents) -> PeerEvent {
    events.next(PATIENCE).unwrap()
}

/// What is told of peers in other processes: one that is opened is up, killed it is down and why, started again it is
/// known to be another and then up; one that drains says that it is leaving; one that opens us is there, and killed it is gone.
#[test]
fn events_of_peers_in_other_processes() {
    let here = target("1MiB");
    let events = here.peer_events();
    let mut peer = Process::start("receive");
    let address = peer.hear("address");
    let opened = here.open(&address).unwrap();
    let PeerEvent::Up { peer: label, incarnation, .. } = next(&events) else { panic!("not up") };
    assert_eq!((&*label, incarnation), (&*address, opened.incarnation()));
    peer.crash();
    let down = next(&events);
    assert!(
        matches!(&down, PeerEvent::Down { peer, reason } if **peer == *address && !reason.is_empty()),
        "{down:?}"
    );
    let mut second = Process::start(&format!("at {address}"));
    second.hear("address");
    let again = kv_of(&here, &address);
    let mut told = next(&events);
    // It may have been reached in the moment before it was ready.
    while matches!(told, PeerEvent::Down { .. }) {
        told = next(&events);
    }
    let PeerEvent::Restarted { incarnation: new, .. } = told else { panic!("{told:?}") };
    assert_ne!(new, incarnation);
    assert!(matches!(next(&events), PeerEvent::Up { incarnation, .. } if incarnation == new));
    assert_eq!(again.name(), "kv");
    second.drain();
    assert_eq!(next(&events), PeerEvent::Leaving { peer: address.as_str().into() });
    assert_eq!(second.hear("drained"), "true");
    drop(second);
    assert!(matches!(next(&events), PeerEvent::Down { .. }));

    let mut visitor = Process::start(&format!("dial {}", here.local_address()));
    visitor.hear("opened");
    let PeerEvent::Connected { name, incarnation, from } = next(&events) else { panic!("nobody came") };
    assert_eq!((&*name, from.ip()), ("visitor", here.local_address().ip()));
    visitor.crash();
    let gone = next(&events);
    let same = |e: &PeerEvent| matches!(e, PeerEvent::Disconnected { incarnation: i, from: f, .. } if (*i, *f) == (incarnation, from));
    assert!(same(&gone), "{gone:?}");
    assert_eq!(events.try_next(), None);
}
