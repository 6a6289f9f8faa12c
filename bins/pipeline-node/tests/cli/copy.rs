//! `copy`: trees both ways, byte for byte; what it refuses; how it goes on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::node::{Node, failure, output, stdout};

/// Everything below a folder: names to bytes, folders to `None`.
pub fn tree(folder: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            let bytes = if path.is_dir() { None } else { Some(fs::read(&path).unwrap()) };
            if path.is_dir() {
                todo.push(path);
            }
            found.insert(name, bytes);
        }
    }
    found
}

fn sample(folder: &Path) {
    fs::create_dir_all(folder.join("odd/deep/er")).unwrap();
    fs::create_dir_all(folder.join("empty folder")).unwrap();
    let bytes: Vec<u8> = (0..5_000_001_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(folder.join("big.bin"), &bytes).unwrap();
    fs::write(folder.join("chunk"), &bytes[..1 << 20]).unwrap();
    fs::write(folder.join("odd/empty"), "").unwrap();
    fs::write(folder.join("odd/-dash"), "1").unwrap();
    fs::write(folder.join("odd/new\nline ❄"), "2").unwrap();
    for i in 0..40 {
        fs::write(folder.join(format!("odd/deep/er/{i}")), &bytes[..i * 977]).unwrap();
    }
    fs::set_permissions(folder.join("odd/-dash"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// A tree with large, empty and oddly named files goes there and comes back equal, mode included, and leaves
/// nothing else behind.
#[test]
fn a_tree_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store, back) = (dir.path().join("here"), dir.path().join("store"), dir.path().join("back"));
    fs::create_dir(&store).unwrap();
    sample(&here);
    let node = Node::serving(&store);
    let said = stdout(&["copy", "--json", here.to_str().unwrap(), &format!("{}:files/", node.address)]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["files"], &said["failed"]), (&45.into(), &0.into()));
    assert_eq!(tree(&here), tree(&store.join("here")));
    stdout(&["copy", &format!("{}:files/here", node.address), back.to_str().unwrap()]);
    assert_eq!(tree(&here), tree(&back));
    let mode = fs::metadata(back.join("odd/-dash")).unwrap().permissions().mode();
    assert!(mode & 0o100 != 0, "executable files stay so");
}

/// Names follow `cp -r`: into a folder that exists, else as the name given; and a pipe hears nothing.
#[test]
fn names_follow_cp() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir_all(store.join("exists")).unwrap();
    let file = dir.path().join("a.bin");
    fs::write(&file, "abc").unwrap();
    let node = Node::serving(&store);
    for (to, wanted) in
        [("", "a.bin"), ("/b.bin", "b.bin"), ("/exists", "exists/a.bin"), ("/new/", "new/a.bin")]
    {
        let ended = output(&["copy", file.to_str().unwrap(), &format!("{}:files{to}", node.address)]);
        assert!(ended.status.success());
        assert!(ended.stdout.is_empty() && ended.stderr.is_empty());
        assert_eq!(fs::read(store.join(wanted)).unwrap(), b"abc", "{to}");
    }
}

/// Whatever a path or a link says, nothing outside the folder is read or written; what is fine is still copied.
#[test]
fn nothing_outside_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let (store, secret, back) =
        (dir.path().join("store"), dir.path().join("secret"), dir.path().join("back"));
    fs::create_dir_all(&store).unwrap();
    fs::create_dir_all(&secret).unwrap();
    fs::write(secret.join("key"), "secret").unwrap();
    fs::write(store.join("good"), "good").unwrap();
    symlink(&secret, store.join("link")).unwrap();
    symlink(secret.join("key"), store.join("file-link")).unwrap();
    let node = Node::serving(&store);
    let at = |path: &str| format!("{}:files{path}", node.address);
    for path in ["/../secret/key", "/link/key", "/file-link"] {
        let to = dir.path().join("stolen");
        let (code, stderr) = failure(&["copy", &at(path), to.to_str().unwrap()]);
        assert_eq!(code, 1, "{path}: {stderr}");
        assert!(!to.exists(), "{path}");
    }
    let (code, _) = failure(&["copy", store.join("good").to_str().unwrap(), &at("/link/planted")]);
    assert_eq!((code, secret.join("planted").exists()), (1, false));
    let (code, stderr) = failure(&["copy", &at(""), back.to_str().unwrap()]);
    assert_eq!(code, 1, "links are listed: {stderr}");
    assert!(stderr.contains("link"), "{stderr}");
    assert_eq!(fs::read(back.join("good")).unwrap(), b"good", "the rest goes on");
}

/// What fails is listed, the rest arrives, and the exit code is 1; no partial file stays on either side.
#[test]
fn failures_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let (here, store) = (dir.path().join("here"), dir.path().join("store"));
    fs::create_dir_all(&here).unwrap();
    // A folder stands where a file has to go.
    fs::create_dir_all(store.join("here/blocked")).unwrap();
    fs::write(here.join("blocked"), "x").unwrap();
    fs::write(here.join("fine"), "y").unwrap();
    symlink("nowhere", here.join("dangling")).unwrap();
    let node = Node::serving(&store);
    let (code, stderr) = failure(&["copy", here.to_str().unwrap(), &format!("{}:files/", node.address)]);
    assert_eq!(code, 1);
    assert!(stderr.contains("blocked") && stderr.contains("dangling"), "{stderr}");
    let names: Vec<String> = tree(&store).into_keys().collect();
    assert_eq!(names, ["here", "here/blocked", "here/fine"]);
}

/// A command line with no peer, or two, exits 2; a peer that is not there exits 69; an unknown segment says which
/// there are.
#[test]
fn bad_places() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::serving(dir.path());
    assert_eq!(failure(&["copy", "a", "b"]).0, 2);
    assert_eq!(failure(&["copy", "x:y", "z:w"]).0, 2);
    assert_eq!(failure(&["copy", "Cargo.toml", "127.0.0.1:1:files"]).0, 69);
    let (code, stderr) = failure(&["copy", "Cargo.toml", &format!("{}:nope", node.address)]);
    assert_eq!(code, 1);
    assert!(stderr.contains("files"), "{stderr}");
}
