//! Pulls: a node fetches what a client writes to it from another node. What is carried out, what is refused, and that a
//! client can send it nowhere.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pipeline_node::{Engine, FileAnswer, FileRequest, How, Peer, Pull, Request, Token};

use crate::rig::{done, engine, open, pattern, region_of};

const LEN: u64 = 300_000;

/// A node that serves `folder`, with more settings.
fn store(folder: &Path, set: &[&str]) -> Engine {
    let files = format!("segments.files={{ kind='dir', path='{}', buffer='1MiB' }}", folder.display());
    engine(&[&[files.as_str()], set].concat())
}

fn ask(peer: &Peer, request: FileRequest) -> FileAnswer {
    peer.files(request).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(peer: &Peer, request: FileRequest) -> String {
    peer.files(request).expect_err("it must be refused").to_string()
}

/// An upload of [`LEN`] bytes to `path`, with its lease.
fn begin(peer: &Peer, path: &str) -> (u32, u32, u64) {
    let attach = FileRequest::Attach { segment: "files".into(), bytes: 1 << 19 };
    let FileAnswer::Attached { lease, start, .. } = ask(peer, attach) else { panic!() };
    let begin = FileRequest::Begin { lease, path: path.into(), len: LEN, how: How::default(), generation: 0 };
    let FileAnswer::Begun { id: upload, .. } = ask(peer, begin) else { panic!() };
    (upload, lease, start)
}

/// What a client does at the first node of a chain: the bytes are in its upload, and in a lease for others.
struct First {
    dir: tempfile::TempDir,
    node: Engine,
    peer: Peer,
    token: Token,
}

impl First {
    fn new(client: &Engine, bytes: &[u8], set: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = store(dir.path(), set);
        let peer = open(client, &node);
        let (upload, lease, start) = begin(&peer, "a");
        let region = region_of(client, bytes);
        done(client, &[Request::write(&region, 0, peer.segment("files").unwrap().at(start), LEN)]);
        let read = FileRequest::ReadUpload {
            upload,
            path: String::new(),
            lease,
            file_offset: 0,
            lease_offset: 0,
            len: LEN,
        };
        assert!(refused(&peer, read.clone()).contains("have not come yet"));
        ask(&peer, FileRequest::Chunk { upload, file_offset: 0, lease_offset: 0, len: LEN });
        let attach = FileRequest::Attach { segment: "files".into(), bytes: LEN };
        let FileAnswer::Attached { lease, len, .. } = ask(&peer, attach) else { panic!() };
        assert!(len >= LEN / 2);
        let read = |at, len| FileRequest::ReadUpload {
            upload,
            path: String::new(),
            lease,
            file_offset: at,
            lease_offset: 0,
            len,
        };
        let filled = ask(&peer, read(0, len.min(LEN)));
        assert!(
            matches!(filled, FileAnswer::Filled { crc32c, .. } if crc32c == crc32c::crc32c(&bytes[..len.min(LEN) as usize]))
        );
        let FileAnswer::Shared { token } = ask(&peer, FileRequest::Share { lease }) else { panic!() };
        ask(&peer, FileRequest::Commit { upload, crc32c: crc32c::crc32c(bytes) });
        Self { dir, node, peer, token }
    }

    fn address(&self) -> String {
        self.node.local_address().to_string()
    }

    /// Puts bytes of the file, whole by now, into the shared lease.
    fn refill(&self, lease: u32, at: u64, len: u64) {
        let path = "a".to_owned();
        ask(&self.peer, FileRequest::Read { lease, path, file_offset: at, lease_offset: 0, len });
    }
}

/// A pull of the half of the file that the lease holds.
fn pull(upload: u32, bytes: &[u8], peer: String, token: Token) -> Pull {
    Pull {
        upload,
        file_offset: 0,
        lease_offset: 0,
        len: bytes.len() as u64,
        crc32c: crc32c::crc32c(bytes),
        peer,
        token,
        token_offset: 0,
        within_ms: 10_000,
    }
}

const HALF: usize = LEN as usize / 2;

/// A node that knows the other by `[peers]` (by the name, or by the address under it) fetches what it is told to, piece
/// by piece, and the file is whole; bytes with another checksum, and a token that nobody gave, do not count, and say so.
#[test]
fn a_file_is_pulled() {
    let (client, bytes) = (engine(&[]), pattern(7, LEN as usize));
    let first = First::new(&client, &bytes, &[]);
    let dir = tempfile::tempdir().unwrap();
    let node = store(dir.path(), &[&format!("peers.first='{}'", first.address())]);
    let peer = open(&client, &node);
    let (upload, ..) = begin(&peer, "b");
    let good = pull(upload, &bytes[..HALF], "first".into(), first.token);
    let wrong = Pull { crc32c: 1, ..good.clone() };
    assert!(refused(&peer, FileRequest::Pull(wrong)).contains("another CRC32C"));
    let foreign = Pull { token: Token([7; 16]), ..good.clone() };
    assert!(refused(&peer, FileRequest::Pull(foreign)).contains("no lease for this token"));
    let outside = Pull { token_offset: 1 << 40, ..good.clone() };
    assert!(refused(&peer, FileRequest::Pull(outside)).contains("not within the lease"));
    let before = client.stats();
    ask(&peer, FileRequest::Pull(good));
    // The other half, by address; the lease there is its third.
    first.refill(3, HALF as u64, LEN - HALF as u64);
    let rest = pull(upload, &bytes[HALF..], first.address(), first.token);
    ask(&peer, FileRequest::Pull(Pull { file_offset: HALF as u64, ..rest }));
    ask(&peer, FileRequest::Commit { upload, crc32c: crc32c::crc32c(&bytes) });
    assert_eq!(std::fs::read(dir.path().join("b")).unwrap(), bytes);
    assert_eq!(std::fs::read(first.dir.path().join("a")).unwrap(), bytes);
    let moved = client.stats().since(&before);
    assert_eq!(moved.stages.iter().map(|s| s.items).sum::<u64>(), 0, "the client has moved none of it");
}

/// Without a key a node connects to nobody whom its own file does not name, whatever a client says; the refusal says how
/// to allow it. With `pull = "off"` not even to those, and with `"any"` to all.
#[test]
fn nobody_sends_it_anywhere() {
    let (client, bytes) = (engine(&[]), pattern(8, LEN as usize));
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let trapped = trap.local_addr().unwrap().to_string();
    let named = format!("peers.trap='{trapped}'");
    for (set, wanted) in [
        (vec![], "not under [peers]"),
        (vec![named.as_str(), "segments.files.pull='off'"], "`pull` is \"off\""),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let node = store(dir.path(), &set);
        let peer = open(&client, &node);
        let (upload, ..) = begin(&peer, "b");
        let asked = pull(upload, &bytes, trapped.clone(), Token([1; 16]));
        let said = refused(&peer, FileRequest::Pull(asked));
        assert!(said.contains(wanted) && said.contains("segments.files.pull"), "{said}");
        assert!(trap.accept().is_err(), "it has connected");
    }
    let first = First::new(&client, &bytes, &[]);
    let dir = tempfile::tempdir().unwrap();
    let node = store(dir.path(), &["segments.files.pull='any'"]);
    let peer = open(&client, &node);
    let (upload, ..) = begin(&peer, "b");
    ask(&peer, FileRequest::Pull(pull(upload, &bytes[..HALF], first.address(), first.token)));
}

/// With a key, a node pulls from every node that knows it, and from none that does not.
#[test]
fn a_key_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = pattern(9, LEN as usize);
    let key = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        format!("auth.key_file='{}'", path.display())
    };
    let (ours, other) = (key("ours", &"k".repeat(32)), key("other", &"o".repeat(32)));
    let client = engine(&[&ours]);
    let first = First::new(&client, &bytes, &[&ours]);
    let node = store(dir.path(), &[&ours]);
    let peer = open(&client, &node);
    let (upload, ..) = begin(&peer, "b");
    ask(&peer, FileRequest::Pull(pull(upload, &bytes[..HALF], first.address(), first.token)));
    let stranger = store(first.dir.path(), &[&other]);
    let asked = pull(upload, &bytes[HALF..], stranger.local_address().to_string(), first.token);
    let said = refused(&peer, FileRequest::Pull(Pull { file_offset: HALF as u64, ..asked }));
    assert!(said.contains("cannot pull from"), "{said}");
}

/// A node to pull from that is not there, or does not speak, costs the pull's own time at most and is named; the upload
/// is as it was.
#[test]
fn a_dead_source_is_named() {
    let (client, bytes) = (engine(&[]), pattern(10, LEN as usize));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|a| (a.to_string(), silent)).unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let node = store(dir.path(), &["segments.files.pull='any'"]);
    let peer = open(&client, &node);
    let (upload, lease, start) = begin(&peer, "b");
    for address in [&silent.0, &gone] {
        let begin = Instant::now();
        let asked = pull(upload, &bytes, address.clone(), Token([1; 16]));
        let said = refused(&peer, FileRequest::Pull(Pull { within_ms: 500, ..asked }));
        assert!(said.contains(address.as_str()), "{said}");
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
    let region = region_of(&client, &bytes);
    done(&client, &[Request::write(&region, 0, peer.segment("files").unwrap().at(start), LEN)]);
    ask(&peer, FileRequest::Chunk { upload, file_offset: 0, lease_offset: 0, len: LEN });
    ask(&peer, FileRequest::Commit { upload, crc32c: crc32c::crc32c(&bytes) });
    ask(&peer, FileRequest::Detach { lease });
    assert_eq!(std::fs::read(dir.path().join("b")).unwrap(), bytes);
}
