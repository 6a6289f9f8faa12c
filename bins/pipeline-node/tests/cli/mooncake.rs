//! Peers that run another engine on the command line: `run` says what they call the node, `explain` and `bench` reach it so.

use serde_json::Value;

use crate::node::{Node, failure, output, stdout};

const FILE: &str = "version = 1\nuse = \"tcp\"\ntransports.mooncake = { type = \"mooncake_tcp\" }\n\
    segments.kv = { kind = \"dram\", size = \"1MiB\", access = \"read_write\" }\n";

fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The ready line has the name by which Mooncake peers find the node. `explain` finds it by that name and says so, also from
/// the very file of the node, whose ports are taken and whose entries are in use: it binds none and publishes nothing.
#[test]
fn found_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let fixed = FILE.replace("\"mooncake_tcp\"", &format!("\"mooncake_tcp\", listen = \"{free}\""));
    let path = file(&dir, "node.toml", &fixed);
    let there = Node::start(&[&path]);
    let name = there.foreign["mooncake"].as_str().unwrap();
    assert_eq!(name, free.to_string());
    let label = format!("mooncake://{name}");
    let text = stdout(&["explain", &label, "buffer-0", "-c", &path]);
    for part in [
        "foreign   runs another engine, found by mooncake, Mooncake over TCP, version 2",
        "segment   buffer-0: dram, 1.0 MiB, allows READ and WRITE",
        "READ, WRITE: mooncake (mooncake_tcp), the transport that the peer is named by",
        "4 of 4 lanes live",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    let json: Value = serde_json::from_str(&stdout(&["explain", &label, "-c", &path, "--json"])).unwrap();
    assert_eq!(json["foreign"]["transport"], "mooncake");
    // By their own protocol it is a peer like any other, and the transport for strangers is not taken to it.
    let native = stdout(&["explain", &there.address, "-c", &path]);
    assert!(!native.contains("foreign"), "{native}");
    assert!(native.contains("not mooncake: it speaks to peers that run another engine"), "{native}");
    let (code, error) = failure(&["explain", "mooncake://127.0.0.1:1", "-c", &path]);
    assert!(code == 69 && error.contains("127.0.0.1:1"), "{code}: {error}");
    let (code, error) = failure(&["explain", &label]);
    assert!(code != 0 && error.contains("names no peer"), "{code}: {error}");
}

/// `bench` measures against it: every byte is confirmed and none wrong by reading back, and what is not known of it, the CPU
/// that it uses, is said to be so. Also from the very file of the node, whose ports are all written there: it takes none of them,
/// nor its name, and neither does a target of its own.
#[test]
fn measured() {
    let dir = tempfile::tempdir().unwrap();
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (one, two) = (free(), free());
    let [listen, node] = [&one, &two].map(|port| port.local_addr().unwrap());
    drop((one, two));
    let fixed = FILE.replace("\"mooncake_tcp\"", &format!("\"mooncake_tcp\", listen = \"{listen}\""));
    let fixed = format!("{fixed}node.listen = \"{node}\"\n");
    let here = file(&dir, "node.toml", &fixed);
    let there = Node::start(&[&here]);
    let label = format!("mooncake://{}", there.foreign["mooncake"].as_str().unwrap());
    for op in ["write", "read"] {
        let args =
            ["bench", "-c", &here, "--target", &label, "--op", op, "--size", "64KiB", "--memory", "1MiB"];
        let more = ["--iterations", "20", "--rounds", "1", "--depth", "4", "--check", "--json"];
        let ended = output(&[&args[..], &more].concat());
        let (text, notes) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert!(ended.status.success(), "{notes}");
        let line: Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!((&line["wrong"], &line["errors"]), (&0.into(), &0.into()), "{line}");
        assert_eq!(line["confirmed_bytes"], 20 * 65_536);
        assert_eq!(
            (&line["cpu_s_per_gb_target"], line["cpu_s_per_gb_initiator"].as_f64().unwrap() > 0.0),
            (&Value::Null, true)
        );
        assert!(
            notes.contains("segment buffer-0") && notes.contains("what CPU it uses is not known"),
            "{notes}"
        );
    }
    let small = ["--size", "4KiB", "--iterations", "1", "--rounds", "1", "--memory", "1MiB"];
    stdout(&[&["bench", "-c", &here, "--no-ceiling"], &small[..]].concat());
    let (code, error) =
        failure(&[&["bench", "-c", &here, "--target", &label, "--segment", "memory"], &small[..]].concat());
    assert!(code == 2 && error.contains("--segment buffer-0"), "{code}: {error}");
}

/// What can be no peer's name is a wrong command line, whatever the command, and is not looked for.
#[test]
fn what_names_no_peer() {
    let dir = tempfile::tempdir().unwrap();
    let here = file(&dir, "node.toml", FILE);
    for label in [":7001", "127.0.0.1:99999", "mooncake://a:b", "moonkake://127.0.0.1:1"] {
        for command in [&["explain", label][..], &["bench", "--iterations", "1", "--target", label]] {
            let (code, error) = failure(&[command, &["-c", &here]].concat());
            assert_eq!(code, 2, "{command:?}: {error}");
        }
    }
    for place in [":7001:kv/", "mooncake://127.0.0.1:1:kv/"] {
        let (code, error) = failure(&["copy", "Cargo.toml", place]);
        assert_eq!(code, 2, "{error}");
    }
}
