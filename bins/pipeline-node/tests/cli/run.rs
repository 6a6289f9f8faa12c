//! `run`: ready line, signals, and what it says when it cannot start.

use std::io::Read as _;
use std::process::Stdio;

use rustix::process::Signal;

use crate::node::{Node, failure};

/// SIGTERM and SIGINT each end an idle node cleanly, with exit code 0.
#[test]
fn signals_end_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut node = Node::start(&["--built-in"]);
        node.signal(signal);
        assert_eq!(node.child.wait().unwrap().code(), Some(0), "{signal:?}");
    }
}

/// A node on an address that is taken exits 71 and names the address; its port can be had again at once after the
/// first one has ended.
#[test]
fn address_in_use() {
    let first = Node::start(&["--built-in"]);
    let listen = format!("node.listen='{}'", first.address);
    let (code, stderr) = failure(&["run", "--built-in", "--set", &listen]);
    assert_eq!(code, 71, "{stderr}");
    assert!(stderr.contains(&first.address) && stderr.contains("in use"), "{stderr}");
    drop(first);
    drop(Node::start(&["--built-in", "--set", &listen]));
}

/// Nodes that start at the same moment with automatic ports never share one.
#[test]
fn automatic_ports_are_distinct() {
    let nodes: Vec<Node> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| Node::start(&["--built-in"]))).collect();
        starts.into_iter().map(|s| s.join().unwrap()).collect()
    });
    let mut addresses: Vec<_> = nodes.iter().map(|n| n.address.as_str()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 8);
}

/// A folder that does not exist keeps the node from starting, and is named with what makes it.
#[test]
fn missing_folder() {
    let set = "segments.files={ kind='dir', path='/nonexistent/folder', access='read' }";
    let (code, stderr) = failure(&["run", "--built-in", "--set", set]);
    assert_eq!(code, 71, "{stderr}");
    assert!(stderr.contains("mkdir -p /nonexistent/folder"), "{stderr}");
}

/// A `RUST_LOG` that names no level is told with the levels there are, and does not silence the node; one that does beats the file.
#[test]
fn levels_that_are_none() {
    let said = |filter: &str| {
        let mut node = Node::start_with(&["--built-in"], |command| {
            command.env("RUST_LOG", filter).stderr(Stdio::piped());
        });
        node.signal(Signal::TERM);
        node.child.wait().unwrap();
        let mut said = String::new();
        node.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    };
    let verbose = said("verbose");
    assert!(verbose.contains("RUST_LOG=verbose: `verbose` is no level of a log"), "{verbose}");
    assert!(verbose.contains("levels: error, warn, info") && verbose.contains("draining"), "{verbose}");
    assert_eq!(said("error"), "");
}
