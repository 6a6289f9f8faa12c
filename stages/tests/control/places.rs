//! Where nodes listen and how they are reached: ports, families, several addresses.

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use pipeline_stages::control::{Control, Error, Settings};
use pipeline_stages::peer::PeerState;

use crate::rig::{Rig, With, by, eventually, settings, world};

fn start(listen: &str) -> Result<Control, Error> {
    let (world, events) = world("node", With::Nothing);
    Control::start(world, Settings { listen: listen.to_owned(), ..settings() }, events)
}

/// Field case B23: two nodes with automatic ports, started 50 times in the same instant, get 100 ports.
#[test]
fn automatic_ports_are_distinct() {
    let barrier = Barrier::new(2);
    let nodes: Vec<Control> = std::thread::scope(|s| {
        let starters: Vec<_> = (0..2)
            .map(|_| {
                s.spawn(|| {
                    let one = |_| {
                        barrier.wait();
                        start("127.0.0.1:0").unwrap()
                    };
                    (0..50).map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        starters.into_iter().flat_map(|s| s.join().unwrap()).collect()
    });
    let ports: HashSet<u16> = nodes.iter().map(|n| n.local_address().port()).collect();
    assert_eq!(ports.len(), 100);
}

/// Field case B23: a second node on an explicit port is refused with the address and 'address in use'.
#[test]
fn taken_port_is_named() {
    let first = start("127.0.0.1:0").unwrap();
    let address = first.local_address().to_string();
    let error = start(&address).err().unwrap().to_string();
    assert!(error.contains("address in use") && error.contains(&address), "{error}");
    let error = start("192.0.2.77:7001").err().unwrap().to_string();
    assert!(error.contains("192.0.2.77:7001") && error.contains("no such address"), "{error}");
    assert!(matches!(start("[::1").err().unwrap(), Error::Address(_)));
}

/// Field case B22: a session and its lanes work over `[::1]`.
#[test]
fn ipv6_session() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    }
    let here = Settings { listen: "[::1]:0".into(), ..settings() };
    let (a, b) = (Rig::new("a", With::Tcp, here.clone()), Rig::new("b", With::Tcp, here));
    assert!(b.address().starts_with("[::1]:"));
    let id = a.control.open(&b.address(), by(5)).unwrap();
    eventually("two lanes", || a.peer(id).links.load().len() == 2);
}

/// Field case B24: of a dead, a black-holed and a good address the good one is reached in well under 3 s.
#[test]
fn bad_addresses_cost_little() {
    let b = Rig::new("b", With::Tcp, settings());
    let dead = {
        let taken = TcpListener::bind("127.0.0.9:0").unwrap();
        taken.local_addr().unwrap().to_string()
    };
    // A listener whose backlog is never emptied answers the connection and then nothing: as bad as a hole.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let names =
        vec![dead.clone(), "192.0.2.1:7001".into(), silent.local_addr().unwrap().to_string(), b.address()];
    let a = Rig::new("a", With::Tcp, Settings { names: vec![("b".into(), names)], ..settings() });
    let start = Instant::now();
    let id = a.control.open("b", by(5)).unwrap();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!((&*a.peer(id).label, a.peer(id).state()), ("b", PeerState::Up));
    let only = Settings { names: vec![("x".into(), vec![dead.clone(), dead.clone()])], ..settings() };
    let error = Rig::new("a", With::Tcp, only).control.open("x", by(5)).unwrap_err().to_string();
    assert!(error.matches(&dead).count() == 2 && error.contains("refused"), "{error}");
}

/// A name that is neither under `[peers]` nor an address is an error about that text, before any dialling.
#[test]
fn bad_names_are_refused() {
    let a = Rig::new("a", With::Nothing, settings());
    for bad in [":7001", "host:70000", "[::1"] {
        let error = a.control.open(bad, by(5)).unwrap_err();
        assert!(matches!(&error, Error::Address(e) if e.text == bad), "{error}");
    }
    assert_eq!(a.world.peers.iter().count(), 0);
    let bad = Settings { names: vec![("b".into(), vec!["host:".into()])], ..settings() };
    let (world, events) = world("node", With::Nothing);
    assert!(matches!(Control::start(world, bad, events), Err(Error::Address(_))));
}
