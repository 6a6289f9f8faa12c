//! Nodes that publish: found by name, gone when they are dead, there again when the directory forgot them.

use std::fs::File;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use pipeline_node::{Engine, Request, Source};
use pipeline_transports::directory::NodeRecord;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::node::{Node, failure};
use crate::rig::{PATIENCE, bytes_of, done, pattern, region_of, until};
use crate::servers::{Kind, Server};

/// A node that publishes, and what it says on stderr.
pub struct Publisher {
    pub node: Node,
    said: PathBuf,
    _home: TempDir,
}

impl Publisher {
    /// Starts one with a segment `kv`.
    #[track_caller]
    pub fn start(server: &Server, name: &str, ttl: &str, more: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let said = home.path().join("said");
        let mut set = server.set(name, ttl);
        set.push("segments.kv={ kind='dram', size='1MiB', access='read_write' }".to_owned());
        set.extend(more.iter().map(|m| (*m).to_owned()));
        let args: Vec<&str> = set.iter().flat_map(|s| ["--set", s]).collect();
        let args: Vec<&str> = ["--built-in"].into_iter().chain(args).collect();
        let log = File::create(&said).unwrap();
        let node = Node::start_with(&args, |command| {
            command.stderr(log);
        });
        Self { node, said, _home: home }
    }

    /// Lines of its log that contain this.
    pub fn said(&self, what: &str) -> Vec<String> {
        let text = std::fs::read_to_string(&self.said).unwrap();
        text.lines().filter(|line| line.contains(what)).map(str::to_owned).collect()
    }

    /// Ends it in good order.
    pub fn end(&mut self) {
        self.node.signal(Signal::TERM);
        wait(&mut self.node.child);
    }
}

fn wait(child: &mut Child) {
    assert!(child.wait().unwrap().success());
}

/// An engine that looks for others there.
#[track_caller]
pub fn client(server: &Server) -> Engine {
    client_with(server, &[])
}

#[track_caller]
pub fn client_with(server: &Server, more: &[&str]) -> Engine {
    let mut set = server.set("client", "30s");
    set.extend(more.iter().map(|m| (*m).to_owned()));
    let source = Source::text("test", "version = 1\nuse = \"tcp\"\n").set(set.iter().map(String::as_str));
    Engine::from_source(&source).unwrap_or_else(|e| panic!("{e}"))
}

/// The record under a name.
pub fn record(server: &Server, name: &str) -> Option<NodeRecord> {
    let store = server.store();
    let by = pipeline_transports::clock::now() + PATIENCE.as_nanos() as u64;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let key = format!("pipeline-node/nodes/{name}");
    let value = runtime.block_on(async { store.get(&key, by).await }).unwrap_or_else(|e| panic!("{e}"));
    value.map(|bytes| NodeRecord::decode(&bytes).unwrap())
}

fn story(kind: Kind) {
    let Some(server) = Server::start(kind) else { return };
    let mut node = Publisher::start(&server, "a", "60s", &[]);
    until("it is published", || record(&server, "a").is_some());
    let told = record(&server, "a").unwrap();
    assert_eq!((told.name.as_str(), told.addresses.as_slice()), ("a", &[node.node.address.clone()][..]));
    let client = client(&server);
    let peer = client.open("a").unwrap();
    assert_eq!(peer.incarnation(), told.incarnation);
    let bytes = pattern(7, 100_000);
    let (from, to) = (region_of(&client, &bytes), client.allocate(100_000).unwrap());
    let kv = peer.segment("kv").unwrap();
    done(&client, &[Request::write(&from, 0, kv.at(5), 100_000)]);
    done(&client, &[Request::read(&to, 0, kv.at(5), 100_000)]);
    assert!(bytes_of(&to) == bytes);
    let begin = Instant::now();
    let error = client.open("nobody").unwrap_err().to_string();
    assert!(error.contains("knows no `nobody`") && begin.elapsed() < Duration::from_secs(5), "{error}");
    // A clean end takes the record away at once: its life is a minute.
    node.end();
    assert_eq!(record(&server, "a"), None);
    // A crash leaves it to its life.
    let mut dead = Publisher::start(&server, "b", "1s", &[]);
    until("it is published", || record(&server, "b").is_some());
    dead.node.crash();
    until("the record of a dead node goes away", || record(&server, "b").is_none());
}

/// With our own server: a node is found by its name, a clean end takes its record away, a crash leaves that to its life, and a
/// name that nobody has is said to be unknown.
#[test]
fn found_by_name() {
    story(Kind::Http);
}

/// With redis: the same.
#[test]
fn found_by_name_in_redis() {
    story(Kind::Redis);
}

/// With etcd: the same.
#[cfg(feature = "etcd")]
#[test]
fn found_by_name_in_etcd() {
    story(Kind::Etcd);
}

/// A node starts although its directory does not answer, says so, and publishes within an interval once that is there; who
/// asks meanwhile hears that the directory is out of reach, and not that a name is unknown.
#[test]
fn a_directory_that_comes_late() {
    let mut server = Server::start(Kind::Http).unwrap();
    server.kill();
    let node = Publisher::start(&server, "a", "3s", &[]);
    until("it says so", || !node.said("does not answer").is_empty());
    let client = client(&server);
    let error = client.open("a").unwrap_err().to_string();
    assert!(error.contains("does not answer") && !error.contains("knows no"), "{error}");
    server.restart(true);
    let begin = Instant::now();
    until("it is published", || record(&server, "a").is_some());
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    client.open("a").unwrap();
    assert_eq!(node.said("does not answer").len(), 1, "once an outage");
}

/// Field case B12: the directory restarts empty while two nodes run. Both are there again within one interval, without a
/// restart of either, and a third one opens both; what was open goes on.
#[test]
fn a_directory_that_forgot() {
    let mut server = Server::start(Kind::Http).unwrap();
    let nodes = ["a", "b"].map(|name| Publisher::start(&server, name, "3s", &[]));
    let early = client(&server);
    let opened = ["a", "b"].map(|name| {
        until("it is published", || record(&server, name).is_some());
        early.open(name).unwrap()
    });
    server.restart(true);
    let begin = Instant::now();
    for name in ["a", "b"] {
        until("it is there again", || record(&server, name).is_some());
    }
    // An interval is a second; as much again for a busy machine.
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    let third = client_with(&server, &["node.name='third'"]);
    for (i, name) in ["a", "b"].into_iter().enumerate() {
        assert_eq!(third.open(name).unwrap().incarnation(), opened[i].incarnation());
        let region = early.allocate(4096).unwrap();
        done(&early, &[Request::write(&region, 0, opened[i].segment("kv").unwrap().at(0), 4096)]);
    }
    drop(nodes);
}

/// Commands that only do a piece of work from a node's file find others in the directory, and leave the node's name alone; an
/// unknown name ends them with 69.
#[test]
fn commands_leave_the_name_alone() {
    let server = Server::start(Kind::Http).unwrap();
    let node = Publisher::start(&server, "a", "30s", &[]);
    let other = Publisher::start(&server, "b", "30s", &[]);
    until("both are published", || record(&server, "a").is_some() && record(&server, "b").is_some());
    let before = record(&server, "a").unwrap();
    let set = server.set("a", "30s");
    let set: Vec<&str> = set.iter().flat_map(|s| ["--set", s]).collect();
    let explained = crate::node::output(&[&["explain", "b"][..], &set].concat());
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
    let (code, text) = failure(&[&["explain", "c"][..], &set].concat());
    assert!(code == 69 && text.contains("knows no `c`"), "{code}: {text}");
    assert_eq!(record(&server, "a").unwrap(), before);
    assert!(node.said("another node").is_empty());
    drop(other);
}
