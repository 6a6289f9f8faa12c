//! A directory that is killed, frozen and started again, with its data and without, while two nodes transfer: transfers go on,
//! publishing recovers, and nothing leaks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pipeline_node::Request;

use crate::nodes::{Publisher, client, record};
use crate::process::descriptors;
use crate::rig::{PATIENCE, bytes_of, done, pattern, region_of, until};
use crate::servers::{Kind, Server};

const LIFE: &str = "1500ms";
const INTERVAL: Duration = Duration::from_millis(500);
/// What a busy machine may add to an interval.
const SLACK: Duration = Duration::from_secs(2);
const RESTARTS: usize = 20;

/// Restarts of the server, of each kind in turn, while `transfers` must go on.
fn restarts(server: &mut Server, transfers: &AtomicU64) {
    for round in 0..RESTARTS {
        let before = transfers.load(Relaxed);
        match round % 4 {
            0 => {
                server.freeze();
                std::thread::sleep(INTERVAL);
                server.thaw();
            }
            1 => {
                server.kill();
                std::thread::sleep(INTERVAL / 2);
                server.restart(false);
            }
            _ => server.restart(true),
        }
        let begin = Instant::now();
        until("the nodes are there again", || record(server, "a").is_some() && record(server, "b").is_some());
        assert!(begin.elapsed() < INTERVAL + SLACK, "round {round}: {:?}", begin.elapsed());
        until("transfers go on", || transfers.load(Relaxed) > before);
    }
}

fn story(kind: Kind) {
    let Some(mut server) = Server::start(kind) else { return };
    let (a, b) = (Publisher::start(&server, "a", LIFE, &[]), Publisher::start(&server, "b", LIFE, &[]));
    until("both are published", || record(&server, "a").is_some() && record(&server, "b").is_some());
    let engine = client(&server);
    let targets = ["a", "b"].map(|name| engine.open(name).unwrap().segment("kv").unwrap());
    let files = || [&a, &b].map(|node| descriptors(node.node.child.id()));
    let before = files();
    let (transfers, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut round = 0;
            while !stop.load(Relaxed) {
                round += 1;
                let bytes = pattern(round, 256 << 10);
                let (from, to) = (region_of(&engine, &bytes), engine.allocate(256 << 10).unwrap());
                for kv in &targets {
                    done(&engine, &[Request::write(&from, 0, kv.at(0), 256 << 10)]);
                    done(&engine, &[Request::read(&to, 0, kv.at(0), 256 << 10)]);
                    assert!(bytes_of(&to) == bytes);
                }
                engine.unregister(from).map_err(|(_, e)| e).unwrap();
                engine.unregister(to).map_err(|(_, e)| e).unwrap();
                transfers.fetch_add(1, Relaxed);
            }
        });
        // The load ends with the story, however that ends.
        let story =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| restarts(&mut server, &transfers)));
        stop.store(true, Relaxed);
        load.join().unwrap();
        story.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    // One a restart would be twenty. A lane of the client may have come since they were counted, and a directory is asked on a
    // connection or two.
    until("no descriptor is left behind", || files().iter().zip(before).all(|(now, then)| *now <= then + 6));
    nothing_piles_up(&server);
    for node in [&a, &b] {
        assert!(node.said("another node").is_empty() && node.said("panicked").is_empty());
    }
}

/// In the server: keys of those that live, and no more leases and clients than those need.
fn nothing_piles_up(server: &Server) {
    match server.kind {
        // The client's, the two nodes', and the one that asks; each of them may just be renewing.
        Kind::Http => until("connections are few", || descriptors(server.pid()) < 24),
        Kind::Redis => until("connections are few", || {
            let told = crate::servers::redis(server.port, "INFO clients");
            let count = told.split("connected_clients:").nth(1).unwrap().split('\r').next().unwrap();
            count.parse::<u32>().unwrap() <= 6
        }),
        #[cfg(feature = "etcd")]
        Kind::Etcd => until("leases are few", || {
            let (_, told) = crate::servers::http(server.port, "POST", "/v3/lease/leases", "{}").unwrap();
            told.matches("\"ID\"").count() <= 6
        }),
    }
    let store = server.store();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let by = pipeline_transports::clock::now() + PATIENCE.as_nanos() as u64;
    let listed = runtime.block_on(async { store.list("pipeline-node/", 100, by).await }).unwrap();
    let names: Vec<_> = listed.iter().map(|(key, _)| key.as_str()).collect();
    assert!(
        names.iter().all(|name| name.starts_with("pipeline-node/nodes/")) && names.len() <= 3,
        "{names:?}"
    );
}

/// Our own server, twenty times frozen, killed and started again, with a transfer running all the time.
#[test]
fn twenty_restarts() {
    story(Kind::Http);
}

/// redis: the same, with its data and without.
#[test]
fn twenty_restarts_of_redis() {
    story(Kind::Redis);
}

/// etcd: the same, with its data and without; leases are those of the living.
#[cfg(feature = "etcd")]
#[test]
fn twenty_restarts_of_etcd() {
    story(Kind::Etcd);
}
