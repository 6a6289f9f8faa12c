//! A program without a directory: none that answers, or no etcd in it.

use crate::node::failure;

const NODES_ADVICE: &str = "peers that are known go on";

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

/// A question to a directory that is not there ends with 69, and with the command that starts one there or shows what it says: whoever
/// asks has no peers that could go on. A command that looked for a peer there is sent to `doctor`.
#[test]
fn nobody_answers() {
    for (from, wanted) in [
        (
            "http://127.0.0.1:1/metadata",
            "start it there: pipeline-node directory --listen 127.0.0.1:1; or correct `--from`",
        ),
        ("redis://127.0.0.1:1", "redis-cli -h 127.0.0.1 -p 1 ping; or correct `--from`"),
    ] {
        for question in [&["list"][..], &["get", "key"]] {
            let (code, text) = failure(&[&["directory"], question, &["--from", from]].concat());
            assert!(code == 69 && text.contains(wanted) && !text.contains(NODES_ADVICE), "{code}: {text}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.toml");
    let text = "version = 1\nuse = \"tcp\"\n[directory]\ntype = \"http\"\nendpoints = [\"127.0.0.1:1\"]\n";
    std::fs::write(&file, text).unwrap();
    let (code, text) = failure(&["explain", "-c", file.to_str().unwrap(), "somebody", "kv"]);
    assert!(code == 69 && text.contains("`doctor FILE`") && !text.contains(NODES_ADVICE), "{code}: {text}");
}
