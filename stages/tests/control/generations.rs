//! Kept uploads, comparisons and generations as a hostile or careless peer would use them, and as two at a time would.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use pipeline_stages::files::FileClient;
use pipeline_transports::Access;
use pipeline_transports::control::{Compared, ErrorCode, How};
use sha2::{Digest, Sha256};

use crate::files::{PLAIN, bytes, client, code, node, opened};
use crate::rig::{by, eventually};

const KEPT: How = How { keep: true, ..PLAIN };

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn file(path: &str, file_len: u64) -> Compared {
    Compared::File { segment: "data".into(), path: path.into(), file_len, executable: false }
}

/// What an upload left is there for the next one of its path, in another session; each block counts only if its digest
/// is right, a second upload at the same time takes it over, and the one before can do no more harm.
#[test]
fn a_kept_upload_changes_hands() {
    let (node, first, second) = (node(Access::ReadWrite), client(), client());
    let one = FileClient::new(&first.control, opened(&first, &node), "data");
    let two = FileClient::new(&second.control, opened(&second, &node), "data");
    let (a, b) = (one.attach(1 << 16, by(5)).unwrap(), two.attach(1 << 16, by(5)).unwrap());
    let whole = bytes(20_000);
    node.fill(a, 0, &whole);
    node.fill(b, 0, &whole);
    let (early, held) = one.begin(a, ("f", 0), 20_000, KEPT, by(5)).unwrap();
    assert!(!held);
    one.chunk(early, 0, 0, 10_000, by(5)).unwrap();
    let (late, held) = two.begin(b, ("f", 0), 20_000, KEPT, by(5)).unwrap();
    assert!(held);
    assert_eq!(code(one.chunk(early, 10_000, 10_000, 1, by(5))), ErrorCode::MISMATCH);
    assert_eq!(code(one.commit(early, crc32c::crc32c(&whole), by(5))), ErrorCode::MISMATCH);
    let compare = |at: usize, len: usize, digest| {
        two.compare(Compared::Upload(late), (at as u64, len as u64), digest, by(5))
    };
    assert_eq!(compare(0, 10_000, digest(b"else")).unwrap(), (false, 0));
    assert_eq!(compare(0, 10_000, digest(&whole[..10_000])).unwrap(), (true, 0));
    assert_eq!(compare(10_000, 10_000, digest(&whole[10_000..])).unwrap(), (false, 0), "nothing is there");
    assert_eq!(code(compare(0, 10_000, digest(&whole[..10_000]))), ErrorCode::MISMATCH, "it came twice");
    two.abort(late, by(5)).unwrap();
    // A third goes on with it after all that, and gets it right.
    let (last, held) = two.begin(b, ("f", 0), 20_000, KEPT, by(5)).unwrap();
    assert!(held);
    let same = two.compare(Compared::Upload(last), (0, 10_000), digest(&whole[..10_000]), by(5)).unwrap();
    assert!(same.0);
    two.chunk(last, 10_000, 10_000, 10_000, by(5)).unwrap();
    two.commit(last, crc32c::crc32c(&whole), by(5)).unwrap();
    assert_eq!(fs::read(node.dir.path().join("f")).unwrap(), whole);
    assert_eq!(node.names(), ["f"]);
}

/// Comparisons are bounded, stay inside the file and the root, need read access, and never say what they found instead;
/// the folder of unfinished uploads has no name for anybody.
#[test]
fn comparisons_give_nothing_away() {
    let (node, client) = (node(Access::ReadWrite), client());
    let peer = opened(&client, &node);
    let files = FileClient::new(&client.control, peer, "data");
    let lease = files.attach(1 << 16, by(5)).unwrap();
    fs::write(node.dir.path().join("f"), "content").unwrap();
    symlink("f", node.dir.path().join("link")).unwrap();
    let (good, empty) = (digest(b"content"), digest(b""));
    assert!(files.compare(file("f", 7), (0, 7), good, by(5)).unwrap().0);
    assert!(files.compare(file("f", 7), (0, 0), empty, by(5)).unwrap().0);
    for (of, range) in [
        (file("f", 8), (0, 7)),
        (file("f", 7), (1, 7)),
        (file("f", 7), (u64::MAX, 7)),
        (file("link", 7), (0, 7)),
        (file("none", 7), (0, 7)),
        (file("f/x", 7), (0, 7)),
        (Compared::File { segment: "data".into(), path: "f".into(), file_len: 7, executable: true }, (0, 7)),
    ] {
        assert!(!files.compare(of.clone(), range, good, by(5)).unwrap().0, "{of:?} {range:?}");
    }
    assert_eq!(code(files.compare(file("f", 7), (0, u64::MAX), good, by(5))), ErrorCode::LIMIT);
    assert_eq!(code(files.compare(file("../f", 7), (0, 7), good, by(5))), ErrorCode::BAD_PATH);
    assert_eq!(code(files.compare(Compared::Upload(99), (0, 7), good, by(5))), ErrorCode::NO_UPLOAD);
    let (upload, _) = files.begin(lease, ("g", 0), 9, KEPT, by(5)).unwrap();
    assert_eq!(code(files.compare(Compared::Upload(upload), (5, 5), good, by(5))), ErrorCode::MISMATCH);
    for path in [".pipeline-node", ".pipeline-node/x", "a/.pipeline-node"] {
        assert_eq!(code(files.list(path, "", by(5))), ErrorCode::BAD_PATH);
        assert_eq!(code(files.begin(lease, (path, 0), 1, PLAIN, by(5))), ErrorCode::BAD_PATH);
        assert_eq!(code(files.make_directory(path, 0, by(5))), ErrorCode::BAD_PATH);
    }
    assert!(files.list("", "", by(5)).unwrap().entries.iter().all(|e| !e.name.starts_with('.')));

    let write_only = crate::files::node(Access::Write);
    fs::write(write_only.dir.path().join("f"), "content").unwrap();
    let files = FileClient::new(&client.control, opened(&client, &write_only), "data");
    let lease = files.attach(4096, by(5)).unwrap();
    assert_eq!(code(files.compare(file("f", 7), (0, 7), good, by(5))), ErrorCode::DENIED);
    assert_eq!(code(files.begin(lease, ("f", 0), 7, KEPT, by(5))), ErrorCode::DENIED);
    files.begin(lease, ("f", 0), 7, PLAIN, by(5)).unwrap();
}

/// A generation holds what was put into it and links to what has not changed; nothing leads out of it; it belongs to its
/// session and ends with it; the root cannot be replaced.
#[test]
fn a_generation_is_its_sessions() {
    let (node, first, second) = (node(Access::ReadWrite), client(), client());
    let one = FileClient::new(&first.control, opened(&first, &node), "data");
    let two = FileClient::new(&second.control, opened(&second, &node), "data");
    let lease = one.attach(4096, by(5)).unwrap();
    let live = node.dir.path().join("live");
    fs::create_dir_all(live.join("sub")).unwrap();
    fs::write(live.join("sub/same"), "same").unwrap();
    fs::write(live.join("gone"), "gone").unwrap();
    fs::write(node.dir.path().join("outside"), "same").unwrap();
    let inode = fs::metadata(live.join("sub/same")).unwrap().ino();
    assert_eq!(code(one.stage("", by(5))), ErrorCode::BAD_PATH);
    assert_eq!(code(one.stage("outside", by(5))), ErrorCode::NOT_DIRECTORY);
    let staged = one.stage("live", by(5)).unwrap();
    assert_eq!(code(two.publish(staged, false, by(5))), ErrorCode::NO_UPLOAD);
    assert_eq!(code(two.make_directory("x", staged, by(5))), ErrorCode::NO_UPLOAD);
    for path in ["../outside", "/etc/x", "sub/../../x"] {
        assert_eq!(code(one.begin(lease, (path, staged), 1, PLAIN, by(5))), ErrorCode::BAD_PATH);
        assert_eq!(code(one.link(lease, (path, staged), 4, 1, by(5))), ErrorCode::BAD_PATH);
    }
    let (same, stamp) = one.compare(file("live/sub/same", 4), (0, 4), digest(b"same"), by(5)).unwrap();
    assert!(same);
    assert_eq!(code(one.link(lease, ("sub/same", staged), 4, stamp ^ 1, by(5))), ErrorCode::MISMATCH);
    assert_eq!(code(one.link(lease, ("sub/same", staged), 5, stamp, by(5))), ErrorCode::MISMATCH);
    assert_eq!(code(one.link(lease, ("sub/same", 0), 4, stamp, by(5))), ErrorCode::NO_UPLOAD);
    assert_eq!(code(one.link(lease, ("none", staged), 4, stamp, by(5))), ErrorCode::NOT_FOUND);
    one.link(lease, ("sub/same", staged), 4, stamp, by(5)).unwrap();
    node.fill(lease, 0, b"new");
    let (upload, _) = one.begin(lease, ("new", staged), 3, PLAIN, by(5)).unwrap();
    one.chunk(upload, 0, 0, 3, by(5)).unwrap();
    one.commit(upload, crc32c::crc32c(b"new"), by(5)).unwrap();
    assert!(!live.join("new").exists(), "it can be seen before it is published");
    one.publish(staged, true, by(10)).unwrap();
    assert_eq!(fs::read(live.join("new")).unwrap(), b"new");
    assert_eq!(fs::metadata(live.join("sub/same")).unwrap().ino(), inode);
    assert!(!live.join("gone").exists());
    eventually("the old one is removed", || node.names() == ["live", "outside"]);

    // The next one is never published: it ends with its session.
    let staged = one.stage("live", by(5)).unwrap();
    one.make_directory("half", staged, by(5)).unwrap();
    for _ in 1..16 {
        one.stage("other", by(5)).unwrap();
    }
    assert_eq!(code(one.stage("one/too/many", by(5))), ErrorCode::LIMIT);
    first.control.close();
    eventually("the unpublished ones are removed", || !node.names().contains(&".pipeline-node".to_owned()));
    assert!(live.join("new").exists() && !live.join("half").exists());
}
