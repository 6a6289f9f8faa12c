//! B49: whoever connects, and whatever is asked for, makes no series and costs no memory.

use std::io::Write;
use std::net::TcpStream;

use pipeline_node::metrics::PEERS_MAX;

use crate::http::{scrape, series};
use crate::node::Node;
use crate::process::resident;
use crate::rig::engine;
use crate::wire::{preamble, session};

/// What a run may cost beyond its start.
const GROWTH: u64 = 10 << 20;
/// Threads that connect.
const CROWD: u64 = 8;

/// Each of these does its share of the work.
fn crowd(each: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        (0..CROWD).for_each(|i| {
            drop(scope.spawn({
                let each = &each;
                move || each(i)
            }))
        })
    });
}

/// Ten thousand short connections from changing ports, of which a thousand are sessions: the same series as after the first
/// one, and no more memory.
#[test]
fn strangers_make_no_series() {
    let node = Node::target("1MiB", &["metrics.listen='127.0.0.1:0'"]);
    let (address, metrics, pid) = (&node.address, node.metrics.as_ref().unwrap(), node.child.id());
    let storm = |from: u64, n: u64| {
        for i in from..from + n {
            if i % 10 == 0 {
                drop(session(address));
                continue;
            }
            let mut stream = TcpStream::connect(address).unwrap();
            let opening = preamble(1 + (i % 2) as u8, [i as u8; 16], "tcp", &[0; 64]);
            // It may have been closed already.
            let _ = stream.write_all(&opening[..opening.len() * (i as usize % 5) / 4]);
        }
    };
    storm(0, 1);
    let first = scrape(metrics);
    // What tables and buffers grow to under such a crowd, whoever it is.
    crowd(|t| storm(t, 100));
    scrape(metrics);
    let before = resident(pid);
    crowd(|t| storm(t, 10_000 / CROWD));
    let last = scrape(metrics);
    assert_eq!(series(&last), series(&first));
    let grown = resident(pid).saturating_sub(before);
    println!("{} series, {grown} bytes more", series(&last).len());
    assert!(grown < GROWTH, "{grown} bytes more");
}

/// Five thousand names of segments, of this node and asked of a peer, make no series; five thousand names of peers that cannot be
/// reached make those of the documented cap, to the line.
#[test]
fn names_make_series_up_to_the_cap() {
    let node = Node::target("1MiB", &[]);
    let client = engine(&["metrics.listen='127.0.0.1:0'", "limits.peers=1024"]);
    let metrics = client.metrics_address().unwrap().to_string();
    let peer = client.open(&node.address).unwrap();
    let first = scrape(&metrics);
    let of_one_peer =
        series(&first).iter().filter(|s| s.contains(&format!("peer=\"{}\"", node.address))).count();
    let before = resident(std::process::id());
    crowd(|t| {
        for i in 0..5000 / CROWD {
            // As many as fit; one too many is refused.
            let _ = client.add_segment(&format!("s{t}-{i}"));
            assert!(peer.segment(&format!("none{t}-{i}")).is_err());
        }
    });
    assert_eq!(series(&scrape(&metrics)), series(&first));
    crowd(|t| {
        for i in 0..5000 / CROWD {
            let port = 1 + t * (5000 / CROWD) + i;
            let bad =
                if i % 4 == 0 { format!("no peer/{port}") } else { format!("127.0.0.1:{}", port % 1000 + 1) };
            assert!(client.open_within(&bad, std::time::Duration::from_secs(5)).is_err());
        }
    });
    let last = scrape(&metrics);
    // Those of the others have no `peer_up`.
    let cap = of_one_peer * (PEERS_MAX - 1) + of_one_peer - 1;
    assert_eq!(series(&last).len(), series(&first).len() + cap, "{last}");
    let grown = resident(std::process::id()).saturating_sub(before);
    println!("{} series, {grown} bytes more", series(&last).len());
    assert!(grown < GROWTH, "{grown} bytes more");
}
