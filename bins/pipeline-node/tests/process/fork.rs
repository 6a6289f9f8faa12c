//! `fork` and `exec` in a process with an engine (B52): the child is refused at once and can hurt nobody, whatever it
//! does or leaves undone; an engine of its own works; a program it executes inherits nothing.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pipeline_node::admin::client::Found;
use pipeline_node::{
    Access, Engine, Error, FileRequest, Memory, Options, Reason, Request, Segment, Status, SubmitError,
};

use crate::audience::{telling, until_readable};
use crate::node::Node;
use crate::rig::{PATIENCE, bytes_of, done, engine, nothing_left, pattern, region_of, until};

const MIB: u64 = 1 << 20;
/// For calls that must not wait: that they are told so in hours makes a hang plain.
const AGES: Duration = Duration::from_secs(36_000);

/// A forked child that has run its part.
pub struct Child {
    pid: libc::pid_t,
    said: UnixStream,
}

/// Forks. The child runs `part`, says what went wrong, and ends as a program does (`exit`).
pub fn fork(part: impl FnOnce()) -> Child {
    let (said, mut say) = UnixStream::pair().unwrap();
    // SAFETY: the child goes on with the one thread that forked; what it uses of others' is what is tested here.
    match unsafe { libc::fork() } {
        0 => {
            let end = catch_unwind(AssertUnwindSafe(part)).map_err(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
            });
            let _ = say.write_all(end.as_ref().err().map_or("", |text| text).as_bytes());
            std::process::exit(i32::from(end.is_err()));
        }
        pid => Child { pid, said },
    }
}

impl Child {
    /// Waits until it has ended well; one that hangs is killed.
    #[track_caller]
    pub fn ends_well(mut self) {
        let begin = Instant::now();
        let mut status = 0;
        // SAFETY: our child, and a live place for its status.
        while unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) } == 0 {
            if begin.elapsed() > PATIENCE {
                // SAFETY: our child, not yet waited for.
                unsafe { libc::kill(self.pid, libc::SIGKILL) };
                panic!("the child hangs");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut text = String::new();
        let _ = self.said.read_to_string(&mut text);
        assert_eq!(status, 0, "in the child: {text}");
    }
}

fn pieces(region: &pipeline_node::Region, kv: &Segment) -> Vec<Request> {
    (0..region.len() / MIB).map(|i| Request::write(region, i * MIB, kv.at(i * MIB), MIB)).collect()
}

/// With a transfer in flight, and threads that use the engine at that moment, a child is refused by every call at once,
/// and may drop what it has; the parent's transfer ends well with every byte right, over the same connections.
#[test]
fn a_child_is_refused_at_once() {
    let node = Node::target("64MiB", &[]);
    let client = engine(&["limits.bytes_in_flight='512KiB'", "stages.split.slice='64KiB'"]);
    let peer = client.open(&node.address).unwrap();
    let kv = peer.segment("kv").unwrap();
    let bytes = pattern(52, 64 << 20);
    let source = region_of(&client, &bytes);
    for round in 0..4 {
        let batch = client.submit(&pieces(&source, &kv), Options::default()).unwrap();
        until("some is under way", || client.usage().bytes > 0 || batch.poll().is_some());
        let part = {
            let (client, peer, kv) = (client.clone(), peer.clone(), kv.clone());
            let (source, batch) = (&source, &batch);
            move || refused(client, &peer, &kv, source, batch)
        };
        // Somebody holds the locks of registering and of statistics all the time.
        let stop = &AtomicBool::new(false);
        let child = std::thread::scope(|scope| {
            let client = &client;
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    let region = client.allocate(4096).unwrap();
                    client.unregister(region).map_err(|(_, e)| e).unwrap();
                    drop(client.stats());
                }
            });
            let child = fork(part);
            stop.store(true, Relaxed);
            child
        });
        child.ends_well();
        assert!(batch.wait(PATIENCE).unwrap().is_done(), "round {round}");
    }
    let back = client.allocate(64 * MIB).unwrap();
    done(&client, &[Request::read(&back, 0, kv.at(0), 64 * MIB)]);
    assert!(bytes_of(&back) == bytes, "bytes differ");
    nothing_left(&client, [source, back]);
}

/// Everything a child may try.
fn refused(
    client: Engine,
    peer: &pipeline_node::Peer,
    kv: &Segment,
    source: &pipeline_node::Region,
    batch: &pipeline_node::Batch,
) {
    let begin = Instant::now();
    let request = [Request::write(source, 0, kv.at(0), 1)];
    let forked = |error: &Error| {
        let text = error.to_string();
        assert!(
            text.contains("not usable after fork; start a new engine") || text.contains("after fork"),
            "{text}"
        );
    };
    assert_eq!(client.submit(&request, Options::default()).unwrap_err(), SubmitError::Forked);
    assert_eq!(client.submit_wait(&request, Options::default(), AGES).unwrap_err(), SubmitError::Forked);
    forked(&client.allocate(4096).unwrap_err());
    forked(&client.register(Memory::allocate(4096).unwrap(), Access::Local).unwrap_err());
    forked(&client.open_within("127.0.0.1:1", AGES).unwrap_err());
    forked(&client.add_segment("more").unwrap_err());
    forked(&client.serve_admin("more.sock").unwrap_err());
    forked(&client.publish("more", source).unwrap_err());
    forked(&peer.cpu_ns().unwrap_err());
    forked(&peer.files(FileRequest::Attach { segment: "kv".into(), bytes: 1 }).unwrap_err());
    assert!(!client.drain(AGES).empty);
    assert!(client.stats().stages.is_empty() && client.segments().is_empty());
    assert!(client.usage().is_idle(), "{:?}: what the parent has taken is not the child's", client.usage());
    let summary = batch.wait(AGES).unwrap();
    assert_eq!(batch.poll(), Some(summary));
    let failed =
        batch.results().filter(|s| matches!(s, Status::Failed(f) if f.reason == Reason::Forked)).count();
    assert!(failed > 0 || summary.is_done(), "{summary:?}");
    assert!(batch.results().all(|status| status != Status::Pending));
    batch.cancel();
    client.reset_peaks();
    client.stop();
    drop(client);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

/// The admin socket stays the parent's: a child has none, and removes none when it drops the engine or ends.
#[test]
fn the_admin_socket_is_the_parents() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a.sock");
    let mut owned = Some(engine(&[&format!("admin.socket='{}'", socket.display())]));
    let child = {
        let owned = &mut owned;
        fork(move || {
            let engine = owned.take().unwrap();
            assert_eq!(engine.admin_socket(), None);
            engine.stop();
            drop(engine);
        })
    };
    child.ends_well();
    let mut found = Found::new(socket.to_str()).unwrap();
    let answer = found.ask(&serde_json::json!({ "show": "node" }), Duration::ZERO).unwrap();
    assert_eq!(answer["pid"], std::process::id());
    drop(owned);
    assert!(!socket.exists());
}

/// Regions, batches and the last handle of the engine may be dropped in a child: it forgets them, and the parent's work.
#[test]
fn a_child_may_drop_everything() {
    let node = Node::target("8MiB", &[]);
    let client = engine(&[]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let bytes = pattern(53, 8 << 20);
    let source = region_of(&client, &bytes);
    let batch = client.submit(&pieces(&source, &kv), Options::default()).unwrap();
    let mut owned = Some((client, kv, source, batch));
    let child = {
        let owned = &mut owned;
        fork(move || {
            let (client, kv, source, batch) = owned.take().unwrap();
            let begin = Instant::now();
            let (source, error) = client.unregister_within(source, AGES).unwrap_err();
            assert!(matches!(error, Error::Forked), "{error}");
            let (_, error) = source.unregister().unwrap_err();
            assert!(error.to_string().contains("after fork"), "{error}");
            drop((batch, kv, client));
            assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        })
    };
    child.ends_well();
    let (client, kv, source, batch) = owned.unwrap();
    assert!(batch.wait(PATIENCE).unwrap().is_done());
    let back = client.allocate(8 * MIB).unwrap();
    done(&client, &[Request::read(&back, 0, kv.at(0), 8 * MIB)]);
    assert!(bytes_of(&back) == bytes, "bytes differ");
    drop(batch);
    nothing_left(&client, [source, back]);
}

/// An engine that a child starts for itself works there, beside the parent's that goes on.
#[test]
fn a_child_may_start_its_own() {
    let node = Node::target("2MiB", &[]);
    let client = engine(&[]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let (ours, theirs) = (pattern(1, 1 << 20), pattern(2, 1 << 20));
    let source = region_of(&client, &ours);
    let (address, bytes) = (node.address.clone(), theirs.clone());
    let child = fork(move || {
        let own = engine(&[]);
        let kv = own.open(&address).unwrap().segment("kv").unwrap();
        let region = region_of(&own, &bytes);
        done(&own, &[Request::write(&region, 0, kv.at(MIB), MIB)]);
        nothing_left(&own, [region]);
        assert!(own.drain(PATIENCE).empty);
    });
    for _ in 0..20 {
        done(&client, &[Request::write(&source, 0, kv.at(0), MIB)]);
    }
    child.ends_well();
    let back = client.allocate(2 * MIB).unwrap();
    done(&client, &[Request::read(&back, 0, kv.at(0), 2 * MIB)]);
    assert!(bytes_of(&back) == [ours, theirs].concat(), "bytes differ");
    nothing_left(&client, [source, back]);
}

/// A child that merely lives, with copies of all descriptors, keeps nothing alive: an engine that stops in the parent
/// is gone for its peers at once, and its address is free.
#[test]
fn a_lingering_child_keeps_nothing() {
    let server = crate::rig::target("1MiB");
    let address = server.local_address();
    let client = engine(&[]);
    let kv = client.open(&address.to_string()).unwrap().segment("kv").unwrap();
    let region = client.allocate(MIB).unwrap();
    done(&client, &[Request::write(&region, 0, kv.at(0), MIB)]);
    let (mut until_told, tell) = UnixStream::pair().unwrap();
    let kept = tell.try_clone().unwrap();
    let child = fork(move || {
        drop((tell, kept));
        let _ = until_told.read(&mut [0]);
    });
    drop(server);
    let begin = Instant::now();
    let batch = client.submit(&[Request::write(&region, 0, kv.at(0), MIB)], Options::default()).unwrap();
    let summary = batch.wait(PATIENCE).unwrap();
    assert_eq!(summary.failed, 1, "nobody is there");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let again = engine(&[&format!("node.listen='{address}'")]);
    assert_eq!(again.local_address(), address);
    drop(batch);
    child.ends_well();
    nothing_left(&client, [region]);
}

/// What a program that this process executes finds open.
fn inherited() -> BTreeSet<String> {
    let output = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // `ls` itself has the folder open.
    text.lines().filter(|l| l.contains(" -> ") && !l.contains("/proc/")).map(open_file).collect()
}

fn open_file(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let arrow = words.iter().position(|w| *w == "->").unwrap();
    // Pipes differ from run to run.
    let to = words[arrow + 1].split(':').next().unwrap();
    format!("{} {to}", words[arrow - 1])
}

/// A program that is executed, by `fork` and `exec`, finds no descriptor of the engine: no socket, no epoll set, no eventfd.
#[test]
fn a_program_inherits_nothing() {
    let node = Node::target("1MiB", &[]);
    let before = inherited();
    let server = crate::rig::target("1MiB");
    let client = telling(&[]);
    let region = client.allocate(MIB).unwrap();
    let doorbell = client.doorbell().unwrap();
    for address in [node.address.clone(), server.local_address().to_string()] {
        let kv = client.open(&address).unwrap().segment("kv").unwrap();
        let options = Options { notify: Some(doorbell.clone()), ..Options::default() };
        let batch = client.submit(&[Request::write(&region, 0, kv.at(0), MIB)], options).unwrap();
        until_readable(&batch.eventfd().unwrap());
        until_readable(&doorbell);
        assert!(batch.poll().unwrap().is_done());
        assert_eq!(inherited(), before);
        doorbell.take();
    }
    let own = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(own > before.len() + 8, "the engines have descriptors of their own: {own}");
    nothing_left(&client, [region]);
}
