//! SIGTERM to a node that is being written to and read from.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pipeline_node::{Options, Reason, Request};
use rustix::process::Signal;

use crate::node::Node;
use crate::rig::{PATIENCE, engine, nothing_left, reasons, until};

/// A node that is told to end in the middle of transfers ends by itself, with exit code 0 (75 if it was told twice) and
/// long before its drain limit; its peers' requests end as done or as gone, each once, and nothing is left there.
#[test]
fn sigterm_during_transfers() {
    for signals in [1, 2] {
        let mut node = Node::target("4MiB", &[]);
        let client = engine(&[]);
        let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
        let region = client.allocate(4 << 20).unwrap();
        let (ended, stop) = (AtomicU32::new(0), AtomicBool::new(false));
        let status = std::thread::scope(|scope| {
            for t in 0..4_u64 {
                let (client, kv, region, ended, stop) = (&client, &kv, &region, &ended, &stop);
                scope.spawn(move || {
                    while !stop.load(Relaxed) {
                        let place = kv.at(t << 20);
                        let request = match t % 2 {
                            0 => Request::write(region, t << 20, place, 1 << 20),
                            _ => Request::read(region, t << 20, place, 1 << 20),
                        };
                        let batch = client.submit_wait(&[request], Options::default(), PATIENCE).unwrap();
                        batch.wait(PATIENCE).expect("an end");
                        ended.fetch_add(1, Relaxed);
                        let why = reasons(&batch)[0];
                        assert!(
                            matches!(why, None | Some(Reason::PeerGone | Reason::Undetermined)),
                            "{why:?}"
                        );
                    }
                });
            }
            until("they run", || ended.load(Relaxed) > 20);
            let told = Instant::now();
            (0..signals).for_each(|_| node.signal(Signal::TERM));
            let status = node.child.wait().unwrap();
            stop.store(true, Relaxed);
            assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
            status
        });
        // A second signal may come before it has found that nothing is left: then it says so.
        assert!(status.code() == Some(0) || (signals == 2 && status.code() == Some(75)), "{status:?}");
        nothing_left(&client, [region]);
    }
}
