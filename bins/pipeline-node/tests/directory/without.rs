//! A program that was built without etcd.

use crate::node::failure;

/// A file that wants etcd is refused by a program without it, naming the feature; with it, that is no finding.
#[test]
fn etcd_is_a_feature() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.toml");
    let text = "version = 1\nuse = \"tcp\"\n[directory]\ntype = \"etcd\"\nendpoints = [\"127.0.0.1:1\"]\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(crate::node::output(&["validate", file]).status.code(), Some(0), "validate judges the file");
    let (code, text) = failure(&["doctor", file]);
    assert_eq!(code, 71, "{text}");
    if cfg!(not(feature = "etcd")) {
        let (code, text) = failure(&["run", file]);
        assert!(code == 71 && text.contains("--features etcd"), "{code}: {text}");
    }
}
