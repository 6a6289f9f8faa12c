//! The shared key: right, wrong, and on one side only.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use pipeline_node::{Engine, Request};

use crate::rig::{done, engine, open};
use crate::wire::{connect, control_hello, is_closed, lane_hello, preamble, step};

fn with_key(dir: &tempfile::TempDir, name: &str, key: &[u8]) -> Engine {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.path().join(name);
    fs::write(&path, key).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    engine(&[
        &format!("auth.key_file='{}'", path.display()),
        "segments.kv={ kind='dram', size='64KiB', access='read_write' }",
    ])
}

/// Equal keys let a peer in; a wrong one, and a key on one side only, either side, are refused at once with what to do,
/// and whoever was refused does not keep the right one out.
#[test]
fn right_wrong_and_missing_keys() {
    let dir = tempfile::tempdir().unwrap();
    let node = with_key(&dir, "a", b"0123456789abcdef0123456789abcdef");
    let (same, other) = (
        with_key(&dir, "b", b"0123456789abcdef0123456789abcdef"),
        with_key(&dir, "c", b"another key of thirty-two bytes!"),
    );
    let without = engine(&[]);
    for (from, to, word) in [(&other, &node, "key"), (&without, &node, "key"), (&node, &without, "key")] {
        let begin = Instant::now();
        let error = from.open(&to.local_address().to_string()).unwrap_err();
        let text = error.to_string();
        assert!(error.is_peer() && text.contains(word), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    }
    let kv = open(&same, &node).segment("kv").unwrap();
    let region = same.allocate(4096).unwrap();
    done(&same, &[Request::write(&region, 0, kv.at(0), 4096)]);
}

/// Without the key there is no session, and without a session no lane: a proof of zeros is refused, and a lane that
/// guesses a session id is closed.
#[test]
fn no_way_around_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let node = with_key(&dir, "a", b"0123456789abcdef0123456789abcdef");
    let address = node.local_address().to_string();
    let mut stream = connect(&address);
    stream.write_all(&preamble(1, [0; 16], "", &control_hello(true))).unwrap();
    assert_eq!(step(&mut stream).0, 1, "Hello");
    let mut proof = vec![0x89, 0x50, 0x4c, 0x4e, 2, 0, 3, 0, 32, 0, 0, 0];
    proof.extend([0; 32]);
    stream.write_all(&proof).unwrap();
    assert_eq!(step(&mut stream), (2, vec![4, 0]), "wrong key");
    assert!(is_closed(&mut stream));
    for guess in [[0; 16], [0xFF; 16]] {
        let mut stream = connect(&address);
        stream.write_all(&preamble(2, guess, "tcp", &lane_hello())).unwrap();
        assert!(is_closed(&mut stream));
    }
}

/// A key file that is missing or too short to be a key keeps the node from starting,
/// and the error names the file.
#[test]
fn bad_key_files() {
    let dir = tempfile::tempdir().unwrap();
    for (name, key) in [("missing", None), ("empty", Some("")), ("short", Some("abc"))] {
        let path = dir.path().join(name);
        key.into_iter().for_each(|k| fs::write(&path, k).unwrap());
        let source = pipeline_node::Source::text("x", "version = 1\nuse = \"tcp\"\n");
        let source = source.set([format!("auth.key_file='{}'", path.display())]);
        let error = Engine::from_source(&source).expect_err(name).to_string();
        assert!(error.contains(name), "{error}");
    }
}
