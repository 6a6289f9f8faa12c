//! Whose name it is: restarts, moves, and two nodes that were given one name.

use std::time::{Duration, Instant};

use crate::nodes::{Publisher, client, client_with, record};
use crate::rig::until;
use crate::servers::{Kind, Server};

/// After a crash a node has its name again as soon as it runs, although its old record has a minute to live; who knew it finds
/// the new one, at another address too.
#[test]
fn a_restart_has_its_name_at_once() {
    let server = Server::start(Kind::Http).unwrap();
    let mut first = Publisher::start(&server, "a", "60s", &[]);
    until("it is published", || record(&server, "a").is_some());
    let client = client(&server);
    let old = client.open("a").unwrap();
    first.node.crash();
    let second = Publisher::start(&server, "a", "60s", &[]);
    assert_ne!(first.node.address, second.node.address);
    let begin = Instant::now();
    until("the record is the new one's", || {
        record(&server, "a").is_some_and(|record| record.addresses == [second.node.address.clone()])
    });
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    until("it is found where it is now", || {
        client.open("a").is_ok_and(|peer| peer.incarnation() != old.incarnation())
    });
    assert!(second.said("another node").is_empty(), "the dead are no rivals");
}

/// Of two live nodes of one name the later start has it. The earlier one says so once, names the other, and publishes no more;
/// when the later one has ended, it publishes again.
#[test]
fn two_of_one_name() {
    let server = Server::start(Kind::Http).unwrap();
    let early = Publisher::start(&server, "a", "1500ms", &[]);
    until("it is published", || record(&server, "a").is_some());
    let mut late = Publisher::start(&server, "a", "1500ms", &[]);
    let is = |node: &Publisher| {
        record(&server, "a").is_some_and(|record| record.addresses == [node.node.address.clone()])
    };
    until("the later one has the name", || is(&late));
    until("the earlier one says so", || !early.said("another node has been started as `a`").is_empty());
    // Three intervals: whoever fought over it would have done so.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1600) {
        assert!(is(&late), "the name changed hands again");
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = early.said("another node");
    assert!(said.len() == 1 && said[0].contains(&late.node.address) && said[0].contains("ERROR"), "{said:?}");
    assert!(late.said("another node").is_empty());
    late.end();
    until("the earlier one has its name again", || is(&early));
}

/// While the directory is gone a peer that was found before is reached where it was: its session ends, it comes back there, and
/// it is opened again. What listens there under another name is not taken for it.
#[test]
fn known_peers_go_on_without_the_directory() {
    let mut server = Server::start(Kind::Http).unwrap();
    let mut a = Publisher::start(&server, "a", "60s", &[]);
    until("it is published", || record(&server, "a").is_some());
    let client = client_with(&server, &["limits.connect='1s'"]);
    let old = client.open("a").unwrap();
    server.kill();
    let listen = format!("node.listen='{}'", a.node.address);
    a.node.crash();
    let impostor = Publisher::start(&server, "b", "60s", &[&listen]);
    until("another name at the same address is refused", || {
        client.open("a").is_err_and(|e| e.to_string().contains("the node there is `b`, not `a`"))
    });
    drop(impostor);
    let _again = Publisher::start(&server, "a", "60s", &[&listen]);
    until("it is reached where it was", || {
        client.open("a").is_ok_and(|peer| peer.incarnation() != old.incarnation())
    });
    assert!(client.open("other").unwrap_err().to_string().contains("does not answer"));
}

/// With `advertise` exactly those addresses are published, in their order; a label with a port is an address, whatever it is
/// called, and a name under [peers] goes before the directory.
#[test]
fn what_a_label_means() {
    let server = Server::start(Kind::Http).unwrap();
    let advertise = "node.advertise=['127.0.0.9:9', '127.0.0.1:7999']";
    let told = Publisher::start(&server, "told", "30s", &[advertise]);
    let a = Publisher::start(&server, "localhost", "30s", &[]);
    until("both are published", || {
        record(&server, "told").is_some() && record(&server, "localhost").is_some()
    });
    assert_eq!(record(&server, "told").unwrap().addresses, ["127.0.0.9:9", "127.0.0.1:7999"]);
    let peers = format!("peers.told='{}'", a.node.address);
    let client = client_with(&server, &[&peers]);
    // A name of [peers]: the directory would have sent it elsewhere.
    assert_eq!(client.open("told").unwrap().name(), "localhost");
    // A name without a port is a node's, with a port a host's.
    assert_eq!(client.open("localhost").unwrap().name(), "localhost");
    let by_address = format!("localhost:{}", told.node.address.rsplit_once(':').unwrap().1);
    assert_eq!(client.open(&by_address).unwrap().name(), "told");
    assert_eq!(client.open(&told.node.address).unwrap().name(), "told");
}
