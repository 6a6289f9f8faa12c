//! Sessions, views and links between honest nodes: opened, lost, found again.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pipeline_stages::control::{Error, Settings};
use pipeline_stages::mail::{Event, Half, Mail};
use pipeline_stages::peer::PeerState;
use pipeline_transports::control::message::Traffic;
use pipeline_transports::control::{Message, SharedKey};
use pipeline_transports::{Access, Error as Reason, RegionId};

use crate::rig::{Rig, With, by, eventually, settings};

/// An opened peer is up, with its name, incarnation and segments, and gets every lane of every transport in
/// common; opening it again answers at once with the same name.
#[test]
fn open_gives_view_and_links() {
    let (a, b) = (Rig::new("a", With::Both, settings()), Rig::new("b", With::Both, settings()));
    b.world.segments.create("kv", "dram").unwrap();
    b.world.segments.append("kv", RegionId(5), 100, Access::Read, Vec::new()).unwrap();
    let id = a.control.open(&b.address(), by(5)).unwrap();
    let peer = a.peer(id);
    assert_eq!(peer.state(), PeerState::Up);
    let view = peer.view.load();
    assert_eq!((view.name.as_str(), view.incarnation), ("b", b.world.incarnation));
    let region = view.segments[0].region_at(99).unwrap();
    assert_eq!((region.id, region.access), (RegionId(5), Access::Read));
    eventually("one loopback link and two TCP lanes", || peer.links.load().len() == 3);
    let links = peer.links.load();
    assert_eq!(links.iter().map(|l| l.id).collect::<HashSet<_>>().len(), 3);
    assert_eq!(links.iter().filter(|l| l.transport == 1).count(), 2);
    assert!(links.iter().all(|l| l.post_worker == 3 && !l.life.is_dead()));
    assert_eq!(a.control.open(&b.address(), by(5)).unwrap(), id);
    let cpu = a.control.request(id, Message::GetCpuTime, by(5)).unwrap();
    assert!(matches!(cpu, Message::CpuTime { process_ns: 1.. }));
    // Loopback is carried out by who asks, so what is served says not all.
    let traffic = a.control.request(id, Message::GetTraffic, by(5)).unwrap();
    assert!(matches!(traffic, Message::Traffic(Traffic { served: 0, moved: 0, is_whole: false, .. })));
}

/// A node can open itself: its own listener, its own segments.
#[test]
fn a_node_opens_itself() {
    let a = Rig::new("a", With::Both, settings());
    a.world.segments.create("kv", "dram").unwrap();
    let id = a.control.open(&a.address(), by(5)).unwrap();
    assert_eq!(a.peer(id).view.load().incarnation, a.world.incarnation);
    eventually("its links", || a.peer(id).links.load().len() == 3);
}

/// Field case B40: 20 000 regions of one segment are known after `open`, and later ones after `refresh`.
#[test]
fn twenty_thousand_regions() {
    let (a, b) = (Rig::new("a", With::Tcp, settings()), Rig::new("b", With::Tcp, settings()));
    b.world.segments.create("kv", "dram").unwrap();
    for i in 0..20_000 {
        b.world.segments.append("kv", RegionId(i), 4096, Access::Read, Vec::new()).unwrap();
    }
    let id = a.control.open(&b.address(), by(10)).unwrap();
    let last = |offset| a.peer(id).view.load().segments[0].region_at(offset).map(|r| r.id.0);
    assert_eq!(last(19_999 * 4096), Some(19_999));
    assert_eq!(last(20_000 * 4096), None);
    b.world.segments.append("kv", RegionId(77_777), 4096, Access::Read, Vec::new()).unwrap();
    a.control.refresh(id, by(5)).unwrap();
    assert_eq!(last(20_000 * 4096), Some(77_777));
}

/// Field cases B13 and B23: a peer that goes away is down at once and its links are gone; restarted on its
/// port it is found again, with its new incarnation, new segments and new links, when somebody wants it.
#[test]
fn restarted_peer_is_found_again() {
    let a = Rig::new("a", With::Tcp, settings());
    let b = Rig::new("b", With::Tcp, settings());
    b.world.segments.create("old", "dram").unwrap();
    let (address, first) = (b.address(), b.world.incarnation);
    let id = a.control.open(&address, by(5)).unwrap();
    let peer = a.peer(id);
    eventually("two lanes", || peer.links.load().len() == 2);
    let old: HashSet<_> = peer.links.load().iter().map(|l| l.id).collect();
    drop(b);
    eventually("down", || peer.state() == PeerState::Down);
    assert!(peer.links.load().is_empty());
    assert!(peer.reason.load().contains("stopping"), "{}", peer.reason.load());
    let Err(Error::Peer(error)) = a.control.open(&address, by(5)) else { panic!("opened nobody") };
    assert!(matches!(&*error, Reason::Unreachable { .. }), "{error}");
    let gone = a.control.request(id, Message::GetCpuTime, by(1)).unwrap_err();
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");

    let again = Rig::new("b", With::Tcp, Settings { listen: address, ..settings() });
    again.world.segments.create("new", "dram").unwrap();
    a.world.events.send(Event::Want { peer: id, transport: 0 }).unwrap();
    a.world.control.get().unwrap().wake();
    eventually("two new lanes", || peer.state() == PeerState::Up && peer.links.load().len() == 2);
    let view = peer.view.load();
    assert_eq!((view.incarnation, view.segments[0].name.as_str()), (again.world.incarnation, "new"));
    assert_ne!(view.incarnation, first);
    assert!(peer.links.load().iter().all(|l| !old.contains(&l.id)));
}

/// A peer nobody wants any more is left alone: no attempt follows the end of its session.
#[test]
fn nobody_dials_unasked() {
    let a = Rig::new("a", With::Tcp, settings());
    let b = Rig::new("b", With::Tcp, settings());
    let id = a.control.open(&b.address(), by(5)).unwrap();
    let address = b.address();
    drop(b);
    eventually("down", || a.peer(id).state() == PeerState::Down);
    let b = Rig::new("b", With::Tcp, Settings { listen: address.clone(), ..settings() });
    let version = a.peer(id).version.load(Ordering::Relaxed);
    // Longer than every back-off; there is no event to wait for when nothing shall happen.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(a.peer(id).version.load(Ordering::Relaxed), version);
    assert_eq!(a.control.open(&address, by(5)).unwrap(), id);
    drop(b);
}

/// A link that dies while its session stands is taken off the list and dialled again, alone.
#[test]
fn dead_link_is_replaced() {
    let (a, b) = (Rig::new("a", With::Tcp, settings()), Rig::new("b", With::Tcp, settings()));
    let id = a.control.open(&b.address(), by(5)).unwrap();
    let peer = a.peer(id);
    eventually("two lanes", || peer.links.load().len() == 2);
    let (dead, stays) = (peer.links.load()[0].id, peer.links.load()[1].id);
    assert!(a.world.mail.post((Half::Reap, 0, 0, 0), Mail::Abort(dead)).is_ok());
    let replaced = || {
        let links = peer.links.load();
        links.len() == 2 && links.iter().all(|l| l.id != dead)
    };
    eventually("another lane", replaced);
    assert!(peer.links.load().iter().any(|l| l.id == stays), "the other lane was disturbed");
    assert_eq!(peer.state(), PeerState::Up);
}

/// Wrong keys, and a key on one side only, are refused with what to do; the node goes on serving others.
#[test]
fn keys_must_match() {
    let key = |byte| Some(SharedKey::new(&[byte; 32]).unwrap());
    let b = Rig::new("b", With::Tcp, Settings { key: key(1), ..settings() });
    for (mine, says) in [(key(2), "keys differ"), (None, "demands a shared key")] {
        let a = Rig::new("a", With::Tcp, Settings { key: mine, ..settings() });
        let error = a.control.open(&b.address(), by(5)).unwrap_err();
        assert!(matches!(&error, Error::Peer(e) if matches!(**e, Reason::Refused { .. })), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let good = Rig::new("a", With::Tcp, Settings { key: key(1), ..settings() });
    good.control.open(&b.address(), by(5)).unwrap();
    let open = Rig::new("open", With::Tcp, settings());
    let error = good.control.open(&open.address(), by(5)).unwrap_err();
    assert!(error.to_string().contains("no shared key"), "{error}");
}

/// Without a transport in common `open` says what each side has, while `connect` still gives the session.
#[test]
fn no_transport_in_common() {
    let (a, b) = (Rig::new("a", With::Nothing, settings()), Rig::new("b", With::Tcp, settings()));
    let error = a.control.open(&b.address(), by(5)).unwrap_err();
    assert!(
        matches!(&error, Error::NoTransport { ours, theirs, .. } if ours.is_empty() && theirs == &["tcp"])
    );
    let id = a.control.connect(&b.address(), by(5)).unwrap();
    a.control.request(id, Message::GetCpuTime, by(5)).unwrap();
}

/// Many threads open the same peers at once: each gets the same one session, and closing ends all calls.
#[test]
fn many_callers() {
    let a = Rig::new("a", With::Tcp, settings());
    let peers: Vec<Rig> = (0..3).map(|i| Rig::new(&format!("b{i}"), With::Tcp, settings())).collect();
    std::thread::scope(|s| {
        for peer in &peers {
            let calls: Vec<_> =
                (0..4).map(|_| s.spawn(|| a.control.open(&peer.address(), by(5)).unwrap())).collect();
            let ids: HashSet<_> = calls.into_iter().map(|c| c.join().unwrap()).collect();
            assert_eq!(ids.len(), 1);
        }
    });
    assert_eq!(a.world.peers.iter().count(), 3);
    a.control.close();
    assert!(matches!(a.control.open(&peers[0].address(), by(5)), Err(Error::Closed)));
}
