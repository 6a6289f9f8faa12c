//! Files of a `dir` segment over a control session. Payload is put into the bounce region by hand: how it
//! travels is the data path's business.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use pipeline_stages::control::Error;
use pipeline_stages::files::client::LeaseRef;
use pipeline_stages::files::{FileClient, Root};
use pipeline_stages::peer::PeerId;
use pipeline_transports::control::{ErrorCode, FileKind, How};
use pipeline_transports::{Access, Memory, RegionId};

use crate::rig::{Rig, With, by, eventually, settings};

pub const PLAIN: How = How { executable: false, keep: false, sync: false, link: None };
const EXECUTABLE: How = How { executable: true, ..PLAIN };

pub struct Node {
    rig: Rig,
    region: RegionId,
    pub dir: tempfile::TempDir,
}

pub fn node(access: Access) -> Node {
    let rig = Rig::new("node", With::Tcp, settings());
    let dir = tempfile::tempdir().unwrap();
    let len = 1 << 20;
    let region = rig.world.regions.add(Memory::allocate(len).unwrap(), access).unwrap();
    rig.world.segments.create("data", "dir").unwrap();
    rig.world.segments.append("data", region, len, access, Vec::new()).unwrap();
    rig.world.files.add(Root::open("data", dir.path(), region, len, access).unwrap());
    Node { rig, region, dir }
}

pub fn client() -> Rig {
    Rig::new("client", With::Tcp, settings())
}

pub fn opened(client: &Rig, node: &Node) -> PeerId {
    client.control.open(&node.rig.address(), by(5)).unwrap()
}

impl Node {
    pub fn fill(&self, lease: LeaseRef, at: u64, bytes: &[u8]) {
        self.rig.world.regions.write_shared(self.region, lease.start + at, bytes).unwrap();
    }

    fn take(&self, lease: LeaseRef, at: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.rig.world.regions.read_shared(self.region, lease.start + at, &mut bytes).unwrap();
        bytes
    }

    pub fn names(&self) -> Vec<String> {
        let all = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> = all.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorCode {
    match result {
        Err(Error::Remote { code, .. }) => code,
        other => panic!("not a remote error: {other:?}"),
    }
}

pub fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// A file whose chunks come out of order is there whole after commit and not before, executable if asked, and
/// reads back the same, with checksums that match.
#[test]
fn upload_and_download() {
    let (node, client) = (node(Access::ReadWrite), client());
    let files = FileClient::new(&client.control, opened(&client, &node), "data");
    let lease = files.attach(1 << 30, by(5)).unwrap();
    assert_eq!(lease.len, 512 << 10);
    let whole = bytes(100_000);
    let upload = files.begin(lease, ("deep/er/run.sh", 0), whole.len() as u64, EXECUTABLE, by(5)).unwrap().0;
    for at in [50_000, 0] {
        node.fill(lease, 7, &whole[at..at + 50_000]);
        files.chunk(upload, at as u64, 7, 50_000, by(5)).unwrap();
        assert!(!node.dir.path().join("deep/er/run.sh").exists());
    }
    files.commit(upload, crc32c::crc32c(&whole), by(5)).unwrap();
    let path = node.dir.path().join("deep/er/run.sh");
    assert_eq!(fs::read(&path).unwrap(), whole);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o100, 0o100);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "something was left beside it");

    let filled = files.read(lease, "deep/er/run.sh", 90_000, (0, 50_000), by(5)).unwrap();
    assert_eq!((filled.len, filled.file_len), (10_000, 100_000));
    assert_eq!(node.take(lease, 0, filled.len), &whole[90_000..]);
    assert_eq!(filled.crc32c, crc32c::crc32c(&whole[90_000..]));
    fs::write(&path, "changed").unwrap();
    let changed = files.read(lease, "deep/er/run.sh", 0, (0, 50_000), by(5)).unwrap();
    assert_ne!(changed.stamp, filled.stamp);
    let empty = files.begin(lease, ("empty", 0), 0, PLAIN, by(5)).unwrap().0;
    files.commit(empty, 0, by(5)).unwrap();
    assert_eq!(node.names(), ["deep", "empty"]);
}

/// Missing bytes, bytes twice, a wrong checksum: the file is not put in its place and nothing stays behind;
/// an existing file of that name is untouched.
#[test]
fn damaged_uploads_leave_nothing() {
    let (node, client) = (node(Access::ReadWrite), client());
    fs::write(node.dir.path().join("f"), "before").unwrap();
    let files = FileClient::new(&client.control, opened(&client, &node), "data");
    let lease = files.attach(1 << 16, by(5)).unwrap();
    let begin = || files.begin(lease, ("f", 0), 100, PLAIN, by(5)).unwrap().0;
    let short = begin();
    files.chunk(short, 0, 0, 99, by(5)).unwrap();
    assert_eq!(code(files.chunk(short, 50, 0, 10, by(5))), ErrorCode::MISMATCH);
    assert_eq!(code(files.chunk(short, 99, 0, 2, by(5))), ErrorCode::MISMATCH);
    assert_eq!(code(files.chunk(short, u64::MAX, 0, 2, by(5))), ErrorCode::MISMATCH);
    assert_eq!(code(files.chunk(short, 0, lease.len - 1, 2, by(5))), ErrorCode::NO_LEASE);
    assert_eq!(code(files.commit(short, 0, by(5))), ErrorCode::MISMATCH);
    assert_eq!(code(files.commit(short, 0, by(5))), ErrorCode::NO_UPLOAD);
    let wrong = begin();
    node.fill(lease, 0, &bytes(100));
    files.chunk(wrong, 0, 0, 100, by(5)).unwrap();
    assert_eq!(code(files.commit(wrong, crc32c::crc32c(&bytes(100)) ^ 1, by(5))), ErrorCode::MISMATCH);
    let aborted = begin();
    files.abort(aborted, by(5)).unwrap();
    assert_eq!(node.names(), ["f"]);
    assert_eq!(fs::read(node.dir.path().join("f")).unwrap(), b"before");
}

/// Whatever a client names, and whatever links stand in the tree, nothing outside the segment's directory is
/// listed, read, written or made.
#[test]
fn nothing_leaves_the_root() {
    let (node, client) = (node(Access::ReadWrite), client());
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let root = node.dir.path();
    symlink(outside.path(), root.join("out")).unwrap();
    symlink(outside.path().join("secret"), root.join("leak")).unwrap();
    symlink("../..", root.join("up")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
    assert!(fifo.success());
    let files = FileClient::new(&client.control, opened(&client, &node), "data");
    let lease = files.attach(1 << 16, by(5)).unwrap();
    let absolute = outside.path().join("secret").to_str().unwrap().to_owned();
    for path in ["../secret", &absolute, "out/secret", "leak", "up/etc/passwd", "out/../leak", "pipe"] {
        let read = code(files.read(lease, path, 0, (0, 100), by(5)));
        let refused = [ErrorCode::BAD_PATH, ErrorCode::DENIED, ErrorCode::NOT_A_FILE, ErrorCode::NOT_FOUND];
        assert!(refused.contains(&read), "reading {path}: {read:?}");
    }
    for path in ["../new", "out/new", "up/new", "/tmp/new", "out/deep/new"] {
        assert!(files.begin(lease, (path, 0), 1, PLAIN, by(5)).is_err(), "writing {path}");
        assert!(files.make_directory(path, 0, by(5)).is_err(), "making {path}");
    }
    assert!(files.list("out", "", by(5)).is_ok_and(|p| p.kind == FileKind::Symlink));
    assert!(files.list("..", "", by(5)).is_err());
    // A link in the place of an upload is replaced, not followed.
    let upload = files.begin(lease, ("leak", 0), 0, PLAIN, by(5)).unwrap().0;
    files.commit(upload, 0, by(5)).unwrap();
    assert!(fs::symlink_metadata(root.join("leak")).unwrap().is_file());
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

/// Listings come in pages, sorted, with links and pipes told as what they are; uploads in progress are not in
/// them; a file lists as itself.
#[test]
fn listings() {
    let (node, client) = (node(Access::ReadWrite), client());
    let root = node.dir.path();
    for i in 0..2500 {
        fs::write(root.join(format!("f{i:05}")), vec![0; i % 3]).unwrap();
    }
    fs::create_dir(root.join("sub")).unwrap();
    symlink("f00000", root.join("zlink")).unwrap();
    let files = FileClient::new(&client.control, opened(&client, &node), "data");
    let lease = files.attach(4096, by(5)).unwrap();
    let _open = files.begin(lease, ("f99999", 0), 10, PLAIN, by(5)).unwrap().0;
    let (mut all, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = files.list("", &after, by(5)).unwrap();
        pages += 1;
        all.extend(page.entries);
        after = all.last().map(|e| e.name.clone()).unwrap_or_default();
        if !page.more {
            break;
        }
    }
    assert!(pages >= 3, "{pages} pages");
    assert_eq!(all.len(), 2502);
    assert!(all.windows(2).all(|w| w[0].name < w[1].name));
    assert_eq!((all[2].len, all[2].kind), (2, FileKind::File));
    assert_eq!((all[2500].kind, all[2501].kind), (FileKind::Directory, FileKind::Symlink));
    let one = files.list("f00002", "", by(5)).unwrap();
    assert_eq!((one.kind, one.entries.len(), one.entries[0].len), (FileKind::File, 1, 2));
    assert_eq!(code(files.list("missing", "", by(5))), ErrorCode::NOT_FOUND);
    assert_eq!(code(files.list("f00002/x", "", by(5))), ErrorCode::NOT_DIRECTORY);
}

/// Two clients never share bytes; what a client held comes back when its session ends, and what it had not
/// committed is removed.
#[test]
fn a_session_takes_its_leases_and_uploads_along() {
    let (node, first, second) = (node(Access::ReadWrite), client(), client());
    let one = FileClient::new(&first.control, opened(&first, &node), "data");
    let two = FileClient::new(&second.control, opened(&second, &node), "data");
    let (a, b) = (one.attach(1 << 30, by(5)).unwrap(), two.attach(1 << 30, by(5)).unwrap());
    assert!(a.start + a.len <= b.start || b.start + b.len <= a.start);
    assert_eq!(code(two.begin(LeaseRef { id: 99, ..a }, ("x", 0), 1, PLAIN, by(5))), ErrorCode::NO_LEASE);
    let upload = one.begin(a, ("half", 0), 100, PLAIN, by(5)).unwrap().0;
    assert_eq!(code(two.commit(upload, 0, by(5))), ErrorCode::NO_UPLOAD);
    two.detach(b, by(5)).unwrap();
    first.control.close();
    eventually("the unfinished file is removed", || node.names().is_empty());
    eventually("the lease is back", || {
        let lease = two.attach(1 << 30, by(5)).unwrap();
        two.detach(lease, by(5)).unwrap();
        lease.len == 512 << 10
    });
}

/// The segment's access counts for files as it does for memory; unknown segments are told as such.
#[test]
fn access_is_respected() {
    let (node, client) = (node(Access::Read), client());
    fs::write(node.dir.path().join("f"), "x").unwrap();
    let peer = opened(&client, &node);
    let files = FileClient::new(&client.control, peer, "data");
    let lease = files.attach(4096, by(5)).unwrap();
    assert_eq!(files.read(lease, "f", 0, (0, 10), by(5)).unwrap().len, 1);
    assert_eq!(code(files.begin(lease, ("g", 0), 1, PLAIN, by(5))), ErrorCode::DENIED);
    assert_eq!(code(files.make_directory("d", 0, by(5))), ErrorCode::DENIED);
    let none = FileClient::new(&client.control, peer, "nothing");
    assert_eq!(code(none.attach(1, by(5))), ErrorCode::UNKNOWN_SEGMENT);
    assert!(!Path::new(&node.dir.path().join("g")).exists());
}
