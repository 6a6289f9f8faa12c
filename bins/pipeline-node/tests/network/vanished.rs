//! Hosts that vanish without a word (B15), and how soon that is noticed.

use std::time::{Duration, Instant};

use pipeline_node::{Options, Reason, Request};

use crate::namespace::{Far, THERE, alone, connections};
use crate::node::Node;
use crate::process::{sockets, sockets_at_rest};
use crate::rig::{PATIENCE, done, engine, nothing_left, reasons, until};
use crate::wire;

/// As the system writes [`THERE`].
const THERE_HEX: &str = "0200070A:";
const ESTABLISHED: u8 = 1;

/// A client that comes, moves some bytes, and goes.
fn use_once(address: &str) {
    let client = engine(&[]);
    let region = client.allocate(4096).unwrap();
    let kv = client.open(address).unwrap().segment("kv").unwrap();
    done(&client, &[Request::write(&region, 0, kv.at(0), 4096)]);
}

/// B15, with two seconds instead of five: two hundred clients with a session and a lane each are cut off.
/// Soon the node has none of their connections, not even half closed ones, its sockets are those of before, and there
/// is room for as many again; a new client is served meanwhile.
#[test]
fn clients_that_vanish_leave_nothing() {
    alone("vanished::clients_that_vanish_leave_nothing", || {
        let set = [
            "log.level='error'",
            "node.listen='0.0.0.0:0'",
            "limits.silence='2s'",
            "transports.tcp.stall='2s'",
            "limits.peers=201",
        ];
        let node = Node::target("1MiB", &set);
        let port = node.address.rsplit(':').next().unwrap().to_owned();
        let (near, far) = (format!("127.0.0.1:{port}"), format!("10.7.0.1:{port}"));
        let there = Far::new();
        let held = || sockets(node.child.id());
        let before = sockets_at_rest(node.child.id());
        let clients = there.run(move || {
            let client = |_| {
                let (session, id) = wire::session(&far);
                (session, wire::lane(&far, id))
            };
            (0..200).map(client).collect::<Vec<_>>()
        });
        let of_theirs = |state: Option<u8>| {
            connections(|remote, s| remote.starts_with(THERE_HEX) && state.is_none_or(|state| state == s))
        };
        assert_eq!(of_theirs(Some(ESTABLISHED)), 400);
        assert!(held() >= before + 400);
        there.connect(false);
        let cut = Instant::now();
        use_once(&near);
        assert!(of_theirs(Some(ESTABLISHED)) > 0, "they were gone before the new client was served");
        until("sockets as before", || held() == before);
        until("no connection of theirs", || of_theirs(None) == 0);
        assert!(cut.elapsed() < Duration::from_secs(10), "{:?}", cut.elapsed());
        // Two hundred and one fit; had their state stayed, none would.
        let again: Vec<_> = (0..201).map(|_| wire::session(&near)).collect();
        drop((again, clients));
    });
}

/// Voluntary switches of the thread `control` of this process: how often it has slept.
fn naps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let read = |task: &std::fs::DirEntry, file: &str| {
        std::fs::read_to_string(task.path().join(file)).unwrap_or_default()
    };
    let control = tasks.filter(|task| read(task, "comm").trim() == "control");
    let switches = |task: std::fs::DirEntry| {
        let status = read(&task, "status");
        let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    control.filter_map(switches).sum()
}

/// With a silence of half a second a peer behind a dead wire is down in less than one second (in the best of three tries: a
/// busy machine may be late itself), and what is under way to it ends as gone; the peer lets go of our connections as soon.
/// When the wire is mended it is used again, as the same start. While nothing happens, that costs a few dozen wake-ups a
/// second at most.
#[test]
fn a_dead_wire_is_noticed_in_less_than_a_second() {
    alone("vanished::a_dead_wire_is_noticed_in_less_than_a_second", || {
        let there = Far::new();
        let node =
            there.run(|| Node::target("16MiB", &["log.level='error'", &format!("node.listen='{THERE}:0'")]));
        let before = sockets_at_rest(node.child.id());
        let client = engine(&["limits.silence='500ms'", "stages.split.slice='64KiB'"]);
        let region = client.allocate(16 << 20).unwrap();
        let peer = client.open(&node.address).unwrap();
        let kv = peer.segment("kv").unwrap();
        done(&client, &[Request::write(&region, 0, kv.at(0), 16 << 20)]);
        let (begin, slept) = (Instant::now(), naps());
        std::thread::sleep(Duration::from_secs(2));
        let a_second = (naps() - slept) as f64 / begin.elapsed().as_secs_f64();
        assert!(a_second < 60.0, "the control thread woke up {a_second:.0} times a second");

        let mut took = Vec::new();
        for _ in 0..3 {
            let reads = vec![Request::read(&region, 0, kv.at(0), 16 << 20); 64];
            let batch = client.submit(&reads, Options::default()).unwrap();
            until("it runs", || batch.results().any(|s| s == pipeline_node::Status::Done));
            there.connect(false);
            let cut = Instant::now();
            batch.wait(PATIENCE).expect("an end");
            took.push(cut.elapsed());
            assert!(reasons(&batch).contains(&Some(Reason::PeerGone)), "{:?}", reasons(&batch));
            until("the peer has let go", || sockets(node.child.id()) == before);
            assert!(cut.elapsed() < Duration::from_secs(5), "half-open for {:?}", cut.elapsed());
            there.connect(true);
            until("it is used again", || {
                let batch = client.submit(&[Request::read(&region, 0, kv.at(0), 4096)], Options::default());
                batch.unwrap().wait(PATIENCE).expect("an end").is_done()
            });
            assert_eq!(client.open(&node.address).unwrap().incarnation(), peer.incarnation());
        }
        assert!(took.iter().min() < Some(&Duration::from_secs(1)), "{took:?}");
        nothing_left(&client, [region]);
    });
}
