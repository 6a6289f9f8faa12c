//! Ports of nodes that start together (B23).

use std::time::Duration;

use crate::node::{Node, failure};

/// B23: two nodes with automatic ports, started at the same moment, fifty times: they never share one. A third on an
/// explicit port that is taken exits at once with what is wrong, and one on the port of a node that has just ended
/// starts.
#[test]
fn fifty_times_two_nodes() {
    for round in 0..50 {
        let [a, mut b] = std::thread::scope(|scope| {
            let starts = [(); 2].map(|()| scope.spawn(|| Node::start(&["--built-in"])));
            starts.map(|start| start.join().unwrap())
        });
        assert_ne!(a.address, b.address);
        if round % 10 == 0 {
            let listen = format!("node.listen='{}'", b.address);
            let (code, stderr) = failure(&["run", "--built-in", "--set", &listen]);
            assert_eq!(code, 71, "{stderr}");
            assert!(stderr.contains("in use"), "{stderr}");
            // Connections that it had are in TIME-WAIT now.
            drop(
                std::net::TcpStream::connect_timeout(&b.address.parse().unwrap(), Duration::from_secs(5))
                    .unwrap(),
            );
            b.crash();
            drop(Node::start(&["--built-in", "--set", &listen]));
        }
    }
}
