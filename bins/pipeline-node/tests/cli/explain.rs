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

/// Of several NICs it says what is known of each, which one memory of each place gets, and why the others are passed over; as
/// text and as JSON. One NIC is not told about at such length.
#[test]
fn several_nics_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let there = Node::start(&[&file(&dir, "there.toml", &format!("version = 1\nuse = \"tcp\"\n{KV}"))]);
    let here = file(
        &dir,
        "here.toml",
        "version = 1\nuse = \"tcp\"\ntransports.tcp.nics = [\"a\", \"b\"]\n\
         nics.a = { device = \"lo\", address = \"127.0.0.11\", numa = 0, rail = 3, speed = \"25Gbit/s\" }\n\
         nics.b = { device = \"lo\", address = \"127.0.0.12\", numa = 1 }\n",
    );
    let text = stdout(&["explain", &there.address, "-c", &here]);
    for part in [
        "nic     a (lo, 127.0.0.11, NUMA node 0, rail 3, 25Gbit/s): 2 of 2 lanes live",
        "nic     b (lo, 127.0.0.12, NUMA node 1): 2 of 2 lanes live",
        "policy  topology",
        "from    cpu:0: the next slice goes by a; nearest first: a (same NUMA node), then b (another NUMA node)",
        "not b: another NUMA node: used while the nearer ones are saturated or down",
        "from    cpu:1: the next slice goes by b",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    let json: Value =
        serde_json::from_str(&stdout(&["explain", &there.address, "-c", &here, "--json"])).unwrap();
    let chosen = &json["routes"][0]["write"]["chosen"];
    assert_eq!((&chosen["policy"], &chosen["nics"][0]["rail"]), (&"topology".into(), &3.into()));
    let from = chosen["from"].as_array().unwrap().iter().find(|from| from["place"] == "cpu:1").unwrap();
    assert_eq!((&from["next_nic"], &from["passed"][0]["why"]), (&"b".into(), &"farther".into()));
}

/// The matrix of a machine that is described in a folder: as text with ranks, and as Mooncake reads it; what was printed can be
/// read back, and then says the same. A transport that there is not is exit 1.
#[test]
fn the_matrix_of_a_machine() {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("devices/system/node/node0/distance", "10 21"),
        ("devices/system/node/node1/distance", "21 10"),
        ("class/net/eth0/device/numa_node", "0"),
        ("class/net/eth0/speed", "25000"),
        ("class/net/eth1/device/numa_node", "1"),
        ("class/net/eth2/mtu", "1500"),
    ] {
        let path = dir.path().join("sys").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let sys = dir.path().join("sys");
    let sys = sys.to_str().unwrap();
    let nics = "version = 1\nuse = \"tcp\"\ntransports.tcp.nics = [\"eth0\", \"eth1\", \"eth2\"]\n";
    let here = file(&dir, "here.toml", nics);
    let text = stdout(&["explain", "--matrix", "-c", &here, "--sys", sys]);
    let expected = "\
transport tcp

NIC   device  NUMA node  rail  speed
eth0  eth0    0          -     25Gbit/s
eth1  eth1    1          -     -
eth2  eth2    -          -     -

memory of unknown: eth0, eth1, eth2 (nobody knows where it lies)
memory of cpu:0: eth0 (same NUMA node), then eth2 (nobody knows where it lies), then eth1 (another NUMA node, distance 21)
memory of cpu:1: eth1 (same NUMA node), then eth2 (nobody knows where it lies), then eth0 (another NUMA node, distance 21)
";
    assert_eq!(text, expected);
    let json = stdout(&["explain", "--matrix", "--json", "-c", &here, "--sys", sys]);
    let matrix = "{\"cpu:0\":[[\"eth0\"],[\"eth2\",\"eth1\"]],\"cpu:1\":[[\"eth1\"],[\"eth2\",\"eth0\"]]}\n";
    assert_eq!(json, matrix);
    file(&dir, "matrix.json", &json);
    let read = file(&dir, "read.toml", &format!("{nics}topology.matrix = \"matrix.json\"\n"));
    let nowhere = dir.path().to_str().unwrap();
    assert_eq!(stdout(&["explain", "--matrix", "--json", "-c", &read, "--sys", nowhere]), matrix);
    let (code, text) = failure(&["explain", "--matrix", "--transport", "tpc", "-c", &here]);
    assert!(code == 1 && text.contains("no transport `tpc`; it has: tcp"), "{text}");
    assert_eq!(failure(&["explain", "--matrix", "somebody"]).0, 2);
}

/// A transport that both sides have, and no lane that can be dialled: exit 1, with what the last dial came to.
#[test]
fn no_lane_can_live() {
    let dir = tempfile::tempdir().unwrap();
    let there = Node::start(&[&file(&dir, "there.toml", &format!("version = 1\nuse = \"tcp\"\n{KV}"))]);
    // An address for documentation: no machine has it.
    let nic = "transports.tcp.nics = [\"gone\"]\nnics.gone = { device = \"lo\", address = \"192.0.2.1\" }\n";
    let here = file(&dir, "here.toml", &format!("version = 1\nuse = \"tcp\"\n{nic}"));
    let ended = output(&["explain", &there.address, "-c", &here]);
    let (text, said) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{text}\n{said}");
    assert!(text.contains("READ, WRITE: tcp") && text.contains("no lane is live"), "{text}");
    assert!(said.contains("no lane of transport `tcp` to") && said.contains("192.0.2.1"), "{said}");
}

/// A file that reads back what it wrote, and a segment that allows WRITE only: exit 1 and the stage that needs more.
#[test]
fn what_is_checked_must_be_readable() {
    let dir = tempfile::tempdir().unwrap();
    let kv = |name: &str, access: &str| {
        format!("segments.{name} = {{ kind = \"dram\", size = \"64KiB\", access = \"{access}\" }}\n")
    };
    let both = format!("version = 1\nuse = \"tcp\"\n{}{}", kv("w", "write"), kv("rw", "read_write"));
    let there = Node::start(&[&file(&dir, "there.toml", &both)]);
    let checked = include_str!("../../../../configs/pipelines/checked.toml");
    let here = file(&dir, "here.toml", checked);
    let (code, said) = failure(&["explain", &there.address, "w", "-c", &here]);
    assert!(code == 1 && said.contains("allows WRITE only, and stage `back`"), "{code} {said}");
    let text = stdout(&["explain", &there.address, "rw", "-c", &here]);
    assert!(text.contains("stage `back` reads back what was written"), "{text}");
    assert_eq!(failure(&["explain", &there.address, "w"]).0, 0);
}

/// Two NICs of the file on one interface are one device to Mooncake: its matrix names it once.
#[test]
fn a_matrix_names_a_device_once() {
    let dir = tempfile::tempdir().unwrap();
    let nics = "transports.tcp.nics = [\"a\", \"b\"]\nnics.a = { device = \"eth7\", address = \"10.0.0.1\" }\n\
                nics.b = { device = \"eth7\", address = \"10.0.0.2\" }\n";
    let here = file(&dir, "here.toml", &format!("version = 1\nuse = \"tcp\"\n{nics}"));
    let matrix: Value =
        serde_json::from_str(&stdout(&["explain", "--matrix", "--json", "-c", &here])).unwrap();
    for lists in matrix.as_object().unwrap().values() {
        let names: Vec<&Value> =
            lists.as_array().unwrap().iter().flat_map(|l| l.as_array().unwrap()).collect();
        assert_eq!(names, ["eth7"], "{matrix}");
    }
}
