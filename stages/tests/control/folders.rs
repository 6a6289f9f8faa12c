//! Directories that a copy has made in a `dir` segment, when it breaks off: they go as far as they are empty.

use std::fs;

use pipeline_stages::files::FileClient;
use pipeline_transports::Access;
use pipeline_transports::control::{ErrorCode, How};

use crate::files::{PLAIN, client, code, node, opened};
use crate::rig::{by, eventually};

/// Whoever goes without giving back the lease leaves no empty directory that was made for it; what was there, and what has
/// something in it, stays.
#[test]
fn a_broken_copy_leaves_no_empty_directory() {
    let (node, client) = (node(Access::ReadWrite), client());
    let root = node.dir.path().to_path_buf();
    fs::create_dir_all(root.join("there/empty")).unwrap();
    let files = FileClient::new(&client.control, opened(&client, &node), "data");
    let lease = files.attach(1 << 16, by(5)).unwrap();
    for path in ["there/empty", "there/new", "tree/a/b", "tree/c"] {
        files.make_directory(path, 0, by(5)).unwrap();
    }
    for path in ["tree/a/b/unfinished", "single/deep/unfinished"] {
        files.begin(lease, (path, 0), 100, PLAIN, by(5)).unwrap();
    }
    files.stage("above/live", by(5)).unwrap();
    fs::write(root.join("tree/c/other"), "somebody else's").unwrap();
    assert!(root.join("single/deep").exists() && root.join("above").exists());
    client.control.close();
    eventually("they are removed", || node.names() == ["there", "tree"]);
    eventually("in all of it", || !root.join("there/new").exists() && !root.join("tree/a").exists());
    assert!(root.join("there/empty").exists() && root.join("tree/c/other").exists());
}

/// What an ended copy has made stays, empty or not; so does what was made without any lease. An upload that fails takes the
/// directories along that were made for it, and one that is kept does not.
#[test]
fn an_ended_copy_leaves_what_it_has_made() {
    let (node, client) = (node(Access::ReadWrite), client());
    let files = FileClient::new(&client.control, opened(&client, &node), "data");
    files.make_directory("before", 0, by(5)).unwrap();
    let lease = files.attach(1 << 16, by(5)).unwrap();
    files.make_directory("empty", 0, by(5)).unwrap();
    let failed = files.begin(lease, ("failed/f", 0), 100, PLAIN, by(5)).unwrap().0;
    assert_eq!(code(files.commit(failed, 0, by(5))), ErrorCode::MISMATCH);
    assert_eq!(node.names(), ["before", "empty"]);
    let kept = files.begin(lease, ("kept/f", 0), 100, How { keep: true, ..PLAIN }, by(5)).unwrap().0;
    files.chunk(kept, 0, 0, 50, by(5)).unwrap();
    files.abort(kept, by(5)).unwrap();
    files.detach(lease, by(5)).unwrap();
    client.control.close();
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(node.names(), [".pipeline-node", "before", "empty", "kept"]);
}

/// A file on its way is not seen in its directory: if that goes meanwhile, with the copy that had made it, the file comes to
/// its place all the same; so does a generation.
#[test]
fn a_file_outlives_its_directory() {
    let node = node(Access::ReadWrite);
    let (first, second) = (client(), client());
    let [one, two] = [&first, &second].map(|rig| FileClient::new(&rig.control, opened(rig, &node), "data"));
    let lease = one.attach(1 << 16, by(5)).unwrap();
    for path in ["shared/deep", "above"] {
        one.make_directory(path, 0, by(5)).unwrap();
    }
    let theirs = two.attach(1 << 16, by(5)).unwrap();
    node.fill(theirs, 0, b"abc");
    let begin = |path| two.begin(theirs, (path, 0), 3, PLAIN, by(5)).unwrap().0;
    let upload = begin("shared/deep/f");
    two.chunk(upload, 0, 0, 3, by(5)).unwrap();
    let staged = two.stage("above/live", by(5)).unwrap();
    assert!(lease.len > 0);
    first.control.close();
    eventually("the directories are gone", || node.names() == [".pipeline-node"]);
    two.commit(upload, crc32c::crc32c(b"abc"), by(5)).unwrap();
    two.publish(staged, false, by(5)).unwrap();
    assert_eq!(fs::read(node.dir.path().join("shared/deep/f")).unwrap(), b"abc");
    assert!(node.dir.path().join("above/live").is_dir());
}
