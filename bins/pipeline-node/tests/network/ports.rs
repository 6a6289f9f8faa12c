//! A machine that runs out of local ports (B20).

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use pipeline_node::{Options, Reason, Request};
use rustix::process::Signal;

use crate::namespace::{alone, connections, set};
use crate::node::Node;
use crate::rig::{PATIENCE, done, engine, nothing_left, reasons, until};

const ESTABLISHED: u8 = 1;
const TIME_WAIT: u8 = 6;
/// Port 7001, as the system writes it.
const TARGET: &str = ":1B59";

fn to_target(state: u8) -> usize {
    connections(|remote, s| remote.ends_with(TARGET) && s == state)
}

/// B20: with 32 local ports, 10 000 transfers one after another from 16 threads: none fails, there are never more
/// connections than lanes and the control session, and next to none in TIME-WAIT.
#[test]
fn ten_thousand_transfers_over_32_ports() {
    alone("ports::ten_thousand_transfers_over_32_ports", || {
        set("ip_local_port_range", "40000 40031");
        let _node = Node::target("1MiB", &["node.listen='127.0.0.1:7001'"]);
        let client = engine(&["transports.tcp.lanes=3"]);
        let region = client.allocate(16 << 12).unwrap();
        let kv = client.open("127.0.0.1:7001").unwrap().segment("kv").unwrap();
        let (most, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                while !stop.load(Relaxed) {
                    most.fetch_max(to_target(ESTABLISHED), Relaxed);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let submitters: Vec<_> = (0..16_u64)
                .map(|t| {
                    let (client, kv, region) = (&client, &kv, &region);
                    scope.spawn(move || {
                        for _ in 0..625 {
                            let request = Request::write(region, t << 12, kv.at(t << 12), 4096);
                            done(client, &[request]);
                        }
                    })
                })
                .collect();
            submitters.into_iter().for_each(|s| s.join().unwrap());
            stop.store(true, Relaxed);
            watch.join().unwrap();
        });
        let most = most.load(Relaxed);
        assert!((1..=4).contains(&most), "{most} connections at a time");
        assert!(to_target(TIME_WAIT) < 10);
        nothing_left(&client, [region]);
    });
}

/// When there is no port at all the error says so and what to do, and the peer is not given up for it: what is submitted
/// meanwhile waits, and is done when there are ports again.
#[test]
fn no_port_is_not_the_peers_fault() {
    alone("ports::no_port_is_not_the_peers_fault", || {
        set("ip_local_port_range", "40000 40031");
        set("tcp_tw_reuse", "0");
        let node = Node::target("1MiB", &["node.listen='127.0.0.1:7001'"]);
        let client = engine(&["limits.silence='500ms'"]);
        let region = client.allocate(4096).unwrap();
        let kv = client.open("127.0.0.1:7001").unwrap().segment("kv").unwrap();
        // A READ: a WRITE would wait for its fence.
        let request = [Request::read(&region, 0, kv.at(0), 4096)];
        done(&client, &request);
        let take_all = || (40_000..40_032).filter_map(|p| TcpListener::bind(("127.0.0.1", p)).ok());
        let mut taken: Vec<_> = take_all().collect();
        // It loses its session, and cannot dial another.
        node.freeze();
        until("the session is gone", || {
            let batch = client.submit(&request, Options::default()).unwrap();
            batch.wait(PATIENCE).expect("an end");
            reasons(&batch) == [Some(Reason::PeerGone)]
        });
        node.signal(Signal::CONT);
        taken.extend(take_all());
        let error = client.open("127.0.0.1:7001").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no local port") && text.contains("ip_local_port_range"), "{text}");
        assert!(!error.is_peer(), "blamed on the peer: {text}");
        let batch = client.submit(&request, Options::default()).unwrap();
        assert!(batch.wait(Duration::from_secs(2)).is_err(), "it did not wait: {:?}", reasons(&batch));
        drop(taken);
        assert!(batch.wait(PATIENCE).expect("an end").is_done(), "{:?}", reasons(&batch));
        drop(batch);
        nothing_left(&client, [region]);
    });
}
