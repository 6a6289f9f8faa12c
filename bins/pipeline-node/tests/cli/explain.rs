//! `explain`: what is taken to a peer, what is not, and why.

use serde_json::Value;

use crate::node::{Node, failure, output, stdout};

fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const KV: &str = "segments.kv = { kind = \"dram\", size = \"64KiB\", access = \"read_write\" }\n";
const LOOPBACK_ONLY: &str = r#"
version = 1
use = "tcp"
segments.kv = { kind = "dram", size = "64KiB", access = "read" }
[transports]
tcp = false
memory = { type = "loopback" }
[stages]
route = { prefer = ["memory"] }
"#;

/// A peer with the same transport: which one, why, its lanes, all of them live, slices and window; as text and as JSON.
#[test]
fn a_way_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let there = Node::start(&[&file(&dir, "there.toml", &format!("version = 1\nuse = \"tcp\"\n{KV}"))]);
    let here = file(&dir, "here.toml", "version = 1\nuse = \"tcp\"\ntransports.tcp.lanes = 3\n");
    let text = stdout(&["explain", &there.address, "kv", "-c", &here]);
    for part in [
        "READ, WRITE: tcp, the first of `prefer` that both sides have",
        "3 of 3 lanes live, 0 slices on them; the next slice goes here",
        "segment   kv: dram, 64.0 KiB, allows READ and WRITE",
        "window    64.0 MiB and",
        "coalesce  neighbouring requests as one, up to 64.0 KiB",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    assert!(!text.contains(" not "), "{text}");

    // Two more that cannot be taken, each with its reason.
    let more = file(
        &dir,
        "more.toml",
        "version = 1\nuse = \"tcp\"\ntransports.memory = { type = \"loopback\" }\n\
         transports.odd = { type = \"sim\", direct = false }\n\
         stages.route = { prefer = [\"memory\", \"odd\"], fallback = \"allow\" }\n",
    );
    let json: Value =
        serde_json::from_str(&stdout(&["explain", &there.address, "-c", &more, "--json"])).unwrap();
    let write = &json["routes"][0]["write"];
    assert_eq!((&write["chosen"]["transport"], &write["chosen"]["why"]), (&"tcp".into(), &"Fallback".into()));
    let why = |name: &str| {
        let rejected = write["rejected"].as_array().unwrap();
        rejected.iter().find(|r| r["transport"] == name).map(|r| r["why"].clone())
    };
    assert_eq!((why("memory"), why("odd")), (Some("NotOffered".into()), Some("Staging".into())));
}

/// A peer that offers only another transport is explained as such, with exit 1: what of ours it does not offer, and what of
/// its own is not declared here.
#[test]
fn no_way_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let there = Node::start(&[&file(&dir, "there.toml", LOOPBACK_ONLY)]);
    let ended = output(&["explain", &there.address]);
    let (text, errors) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    for part in [
        "offers    memory (loopback)",
        "READ, WRITE: no way; such requests fail NoRoute",
        "not tcp: the peer does not offer it",
        "not memory: not declared here",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    assert!(errors.contains("stage `route` has no way to"), "{errors}");
}

/// A wrong segment gets the nearest of those there are, and exit 1; a peer that cannot be reached, 69.
#[test]
fn what_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let there = Node::start(&[&file(&dir, "there.toml", &format!("version = 1\nuse = \"tcp\"\n{KV}"))]);
    let (code, text) = failure(&["explain", &there.address, "vk"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("has no segment `vk`") && text.contains("its segments: kv"), "{text}");
    let (code, text) = failure(&["explain", &there.address, "kv1"]);
    assert!(code == 1 && text.contains("did you mean `kv`?"), "{text}");
    let (code, text) = failure(&["explain", "127.0.0.1:1"]);
    assert_eq!(code, 69, "{text}");
}
