//! The endpoint and those who ask it: wrong questions, silent clients, ports in use.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::http::{ask, get, scrape};
use crate::node::{Node, failure};
use crate::process::descriptors;
use crate::rig::{engine, until};

/// What is not there, what is no question, and heads without end are refused each in its way, and a page is served after each.
#[test]
fn odd_questions() {
    let node = engine(&["metrics.listen='127.0.0.1:0'"]);
    let address = node.metrics_address().unwrap().to_string();
    assert_eq!(get(&address, "/").status, 404);
    let post =
        ask(&address, "POST /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    assert!(post.status == 405 && post.head.contains("allow: get, head"), "{}", post.head);
    let head = ask(&address, "HEAD /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(head.status == 200 && head.body.is_empty(), "{}", head.head);
    assert_eq!(ask(&address, "nonsense\r\n\r\n").status, 400);
    let endless = format!("GET /metrics HTTP/1.1\r\nx: {}", "x".repeat(40 << 10));
    let mut stream = TcpStream::connect(&address).unwrap();
    // It is closed before all of it is sent.
    let _ = stream.write_all(endless.as_bytes());
    assert!(scrape(&address).contains("pipeline_node_build_info"));
}

/// A thousand clients that say nothing, or half of a question, hold no more than sixteen connections and keep nobody out: who asks
/// is answered before the first of them has been silent for too long. Nothing of them stays.
#[test]
fn silent_clients() {
    let node = Node::target("1MiB", &["metrics.listen='127.0.0.1:0'"]);
    let address = node.metrics.clone().unwrap();
    scrape(&address);
    let pid = node.child.id();
    let idle = descriptors(pid);
    let begin = Instant::now();
    let silent: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(&address).unwrap()).collect();
    silent.iter().step_by(2).for_each(|mut stream| _ = stream.write_all(b"GET /metr"));
    until("as many as fit are taken", || descriptors(pid) >= idle + 15);
    assert!(descriptors(pid) <= idle + 17, "{} and {idle}", descriptors(pid));
    scrape(&address);
    assert!(begin.elapsed() < Duration::from_secs(9), "it has waited for those that are silent");
    drop(silent);
    until("no descriptor stays", || descriptors(pid) <= idle);
}

/// A port that is in use is an error of the start that names the key and the address; and what only works beside the node of a
/// file (`bench`, its target) leaves that port alone.
#[test]
fn a_port_in_use() {
    let node = Node::target("1MiB", &["metrics.listen='127.0.0.1:0'"]);
    let listen = format!("metrics.listen='{}'", node.metrics.as_ref().unwrap());
    let (code, stderr) = failure(&["run", "--built-in", "--set", &listen]);
    assert_eq!(code, 71, "{stderr}");
    let words = ["`listen` of [metrics]", node.metrics.as_ref().unwrap(), "address in use"];
    assert!(words.iter().all(|word| stderr.contains(word)), "{stderr}");
    let bench =
        ["bench", "--size", "4KiB", "--iterations", "10", "--rounds", "1", "--no-ceiling", "--set", &listen];
    crate::node::stdout(&bench);
    scrape(node.metrics.as_ref().unwrap());
}
