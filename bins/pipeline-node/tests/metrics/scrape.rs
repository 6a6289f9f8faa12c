//! What a scrape says, against what was done.

use std::time::Instant;

use pipeline_node::{Engine, Request, metrics};

use crate::http::{get, scrape, series, value};
use crate::rig::{done, engine, open, target, until};

/// Bytes, slices and items are those that were transferred; times add up to what they are made of; every series occurs once.
#[test]
fn what_was_moved_is_counted() {
    let holder = target("4MiB");
    let client = engine(&["metrics.listen='127.0.0.1:0'", "stages.split.slice='64KiB'"]);
    let address = client.metrics_address().unwrap().to_string();
    let peer = open(&client, &holder);
    let kv = peer.segment("kv").unwrap();
    let region = client.allocate(4 << 20).unwrap();
    (0..8).for_each(|i| done(&client, &[Request::write(&region, 0, kv.at(0), 1 << (15 + i % 7))]));
    let bytes: u64 = (0..8).map(|i| 1 << (15 + i % 7)).sum();
    let mut text = String::new();
    // Counters of a worker come to rest a moment after the last slice is done.
    until("all is counted", || {
        text = scrape(&address);
        value(&text, "pipeline_node_nic_bytes_total{transport=\"tcp\",nic=\"tcp\"}") == bytes as f64
            && value(&text, "pipeline_node_slices_in_use") == 0.0
    });
    assert_eq!(value(&text, "pipeline_node_requests_done_total"), 8.0);
    assert_eq!(value(&text, "pipeline_node_requests_failed_total{reason=\"denied\"}"), 0.0);
    assert_eq!(value(&text, "pipeline_node_request_seconds_count"), 8.0);
    let label = holder.local_address();
    assert_eq!(
        value(&text, &format!("pipeline_node_peer_written_bytes_total{{peer=\"{label}\"}}")),
        bytes as f64
    );
    assert_eq!(value(&text, &format!("pipeline_node_peer_up{{peer=\"{label}\"}}")), 1.0);
    assert_eq!(value(&text, "pipeline_node_peers{state=\"up\"}"), 1.0);
    assert!(value(&text, "pipeline_node_stage_items_total{stage=\"post\"}") >= 65.0);
    let of = |name: &str| value(&text, &format!("pipeline_node_{name}{{stage=\"post\"}}"));
    let (busy, sum) = (of("stage_busy_seconds_total"), of("stage_service_seconds_sum"));
    assert!(busy > 0.0 && (busy - sum).abs() < 1e-6 * busy, "{busy} and {sum}");
    assert!(of("stage_service_seconds_count") > 0.0);
    let all = series(&text);
    let mut once = all.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), all.len());
}

/// A node says that it is well, and what it is doing when it is not; and a draining one still tells its metrics.
#[test]
fn health() {
    let node = engine(&["metrics.listen='127.0.0.1:0'"]);
    let address = node.metrics_address().unwrap().to_string();
    let answer = get(&address, "/healthz");
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
    node.drain(std::time::Duration::from_secs(10));
    let answer = get(&address, "/healthz");
    assert_eq!((answer.status, answer.body.as_str()), (503, "draining: nothing new is taken\n"));
    assert!(value(&scrape(&address), "pipeline_node_uptime_seconds_total") > 0.0);
    node.stop();
    assert!(std::net::TcpStream::connect(&address).is_err(), "it has ended with the node");
}

/// Making a page is milliseconds of the control thread, with 64 peers too: nothing that a session would notice.
#[test]
fn a_scrape_with_64_peers_is_short() {
    let holder = target("1MiB");
    let names: Vec<String> = (0..64).map(|i| format!("peers.p{i}='{}'", holder.local_address())).collect();
    let client = engine(&names.iter().map(String::as_str).collect::<Vec<_>>());
    (0..64).for_each(|i| drop(client.open(&format!("p{i}")).unwrap()));
    let mut took: Vec<_> = (0..25).map(|_| page(&client)).collect();
    took.sort();
    let (middle, (bytes, lines)) = (took[12].0, took[12].1);
    println!("{middle:?} for {bytes} bytes, {lines} lines");
    assert!(lines > 64 * 4 && bytes < 1 << 20);
    // A few milliseconds in a build for tests; a busy machine is not what is tested.
    assert!(middle.as_millis() < 100, "{middle:?}");
}

fn page(client: &Engine) -> (std::time::Duration, (usize, usize)) {
    let begin = Instant::now();
    let text = metrics::text(&client.observe());
    (begin.elapsed(), (text.len(), text.lines().count()))
}
