//! `show` and `explain` of a node that works.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use pipeline_node::{Engine, Options, Request};
use serde_json::Value;

use crate::load::{Load, Shape};
use crate::node::{Node, failure, program, stdout};
use crate::rig::{PATIENCE, open, target, until};

const SMALL: Shape = Shape { bytes: 4096, batch: 16, depth: 4, thinks: Duration::ZERO };

/// An engine with a socket, and what keeps the folder.
fn engine(lines: &str) -> (tempfile::TempDir, String, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a.sock").display().to_string();
    let toml =
        format!("version = 1\nuse = \"tcp\"\nnode.name = \"asked\"\nadmin.socket = \"{socket}\"\n{lines}\n");
    let engine = Engine::from_toml(&toml).unwrap_or_else(|e| panic!("{e}"));
    (folder, socket, engine)
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let answer: Value = serde_json::from_str(&stdout(args)).unwrap();
    assert_eq!((&answer["schema_version"], &answer["node"]), (&1.into(), &"asked".into()));
    answer
}

/// Every subject of a node at work, as text and as JSON: what moved is in the figures of the interval, and the foot of `runtime`
/// says what limits.
#[test]
fn every_subject() {
    let there = target("16MiB");
    let (_folder, socket, here) =
        engine("segments.own = { kind = \"dram\", size = \"128KiB\", access = \"read\" }");
    let peer = there.local_address().to_string();
    let _load = Load::start(&here, &peer, SMALL);
    let show = |subject: &str| {
        let args = ["show", subject, "--node", &socket, "--interval", "0.3"];
        (stdout(&args), json(&[&args[..], &["--json"]].concat()))
    };
    let (text, answer) = show("runtime");
    let stages = answer["stages"].as_array().unwrap();
    let post = stages.iter().find(|stage| stage["stage"] == "post").unwrap();
    assert!(post["items"].as_u64() > Some(0) && post["service_p50_us"].as_f64() > Some(0.0), "{post}");
    let foot = text.lines().find(|line| line.starts_with("limited by ")).unwrap_or_else(|| panic!("{text}"));
    assert!(answer["requests"]["done_per_s"].as_f64() > Some(0.0), "{}", answer["requests"]);
    assert!(foot.len() > 30 && answer["limit"]["words"].as_str().is_some_and(|w| w.len() > 20), "{foot}");
    let interval = answer["interval_s"].as_f64().unwrap();
    assert!((0.3..10.0).contains(&interval), "{interval}");

    let (text, answer) = show("edges");
    let edges = answer["edges"].as_array().unwrap();
    assert!(
        edges.iter().any(|e| e["edge"] == "select -> post" && e["items"].as_u64() > Some(0)),
        "{edges:?}"
    );
    assert!(text.contains("select -> post") && text.contains("blocked%"), "{text}");
    let (_, answer) = show("pools");
    let nic = &answer["workers"][0];
    let shares = ["busy_pct", "looking_pct", "asleep_pct"].map(|key| nic[key].as_f64().unwrap());
    assert!(
        nic["worker"] == "nic" && shares[0] > 0.0 && (95.0..105.0).contains(&shares.iter().sum()),
        "{nic}"
    );
    let (text, answer) = show("peers");
    assert_eq!(
        (&answer["peers"][0]["peer"], &answer["peers"][0]["state"]),
        (&peer.as_str().into(), &"up".into())
    );
    assert!(text.contains(&peer) && answer["peers"][0]["written_gb_per_s"].as_f64() > Some(0.0), "{answer}");
    let (_, answer) = show("nics");
    assert!(answer["nics"][0]["gb_per_s"].as_f64() > Some(0.0), "{answer}");
    assert_eq!(
        answer["nics"][0]["served_in_gb_per_s"], 0.0,
        "nobody asks this node, and that is known: {answer}"
    );
    let (text, answer) = show("regions");
    let own = answer["regions"].as_array().unwrap().iter().find(|r| r["bytes"] == 131_072).unwrap().clone();
    assert_eq!((&own["access"], &own["segments"]), (&"read".into(), &serde_json::json!(["own"])));
    assert!(text.contains("own") && text.contains("128.0 KiB"), "{text}");
}

/// A batch that cannot end is shown with its age and what is left of it, the oldest first; when it has ended it is not.
#[test]
fn open_batches() {
    let there = Node::target("64KiB", &[]);
    let (_folder, socket, here) = engine("limits.silence = \"60s\"");
    let args = ["show", "batches", "--node", &socket, "--json"];
    assert_eq!(json(&args)["total"], 0);
    let kv = here.open(&there.address).unwrap().segment("kv").unwrap();
    let region = here.allocate(8192).unwrap();
    there.freeze();
    let write = |offset: u64| Request::write(&region, offset, kv.at(2 * offset), 4096);
    let first = here.submit(&[write(0), write(4096)], Options::default()).unwrap();
    let second = here.submit(&[write(0)], Options::default()).unwrap();
    let answer = json(&args);
    assert_eq!(answer["total"], 2, "{answer}");
    let [old, new] = [0, 1].map(|at| answer["batches"][at].clone());
    assert_eq!((&old["requests"], &old["left"], &new["left"]), (&2.into(), &2.into(), &1.into()), "{answer}");
    assert!(old["age_s"].as_f64() >= new["age_s"].as_f64() && old["age_s"].as_f64() < Some(60.0), "{answer}");
    let text = stdout(&args[..4]);
    assert!(text.contains("requests") && text.lines().count() == 4, "{text}");
    there.signal(rustix::process::Signal::CONT);
    for batch in [&first, &second] {
        assert!(batch.wait(PATIENCE).unwrap().is_done());
    }
    until("no batch is open", || json(&args)["total"] == 0);
}

/// Requests that have ended are under way for nobody, however long the application keeps their batch; a worker that sleeps is told
/// to sleep, also by who looks for less time than it sleeps.
#[test]
fn what_has_ended_and_who_sleeps() {
    let there = target("64KiB");
    let (_folder, socket, here) = engine("");
    let kv = here.open(&there.local_address().to_string()).unwrap().segment("kv").unwrap();
    let region = here.allocate(4096).unwrap();
    let write = [Request::write(&region, 0, kv.at(0), 4096)];
    let kept = here.submit(&write, Options::default()).unwrap();
    assert!(kept.wait(PATIENCE).unwrap().is_done());
    let show = |subject: &str| json(&["show", subject, "--node", &socket, "--interval", "0.05", "--json"]);
    until("the node rests", || show("runtime")["limit"]["because"] == "idle");
    assert_eq!(show("runtime")["requests"]["under_way"], 0);
    assert_eq!(here.observe().usage.requests, 1, "its place is not free");
    for _ in 0..5 {
        let nic = show("pools")["workers"][0].clone();
        assert!(nic["asleep_pct"].as_f64() > Some(90.0), "{nic}");
    }
    drop(kept);
}

/// What cannot be said on stderr, because nobody takes it, changes nothing of how a command ends.
#[test]
fn nobody_hears() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = program(&["show", "pools", "--node", "/no/such.sock"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(69));
}

/// `--watch` in a pipe: one block after the other until nobody reads any more, without control characters; as JSON one object a
/// line. When the node goes it ends, with 69.
#[test]
fn watching() {
    let (_folder, socket, here) = engine("");
    for as_json in [false, true] {
        let mut args = vec!["show", "runtime", "--node", &socket, "--watch", "0.05"];
        args.extend(as_json.then_some("--json"));
        let mut child = program(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut blocks = 0;
        while blocks < 3 {
            let line = lines.next().unwrap();
            assert!(!line.contains('\x1b'), "{line:?}");
            blocks += u32::from(line.starts_with("limited by idle") || line.contains("\"because\":\"idle\""));
        }
        if as_json {
            here.stop();
        }
        drop(lines);
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        match as_json {
            false => assert!(ended.status.success() && said.is_empty(), "{said}"),
            true => assert!(matches!(ended.status.code(), Some(0 | 69)), "{:?} {said}", ended.status),
        }
    }
}

fn file(folder: &tempfile::TempDir, text: &str) -> (PathBuf, String) {
    let path = folder.path().join("node.toml");
    std::fs::write(&path, text).unwrap();
    (path.clone(), path.display().to_string())
}

/// A file against the node that runs from it, found by the socket that the file names: nothing differs; after a change of the
/// file, and with an override that only the node has, both are told with their sources, and the exit code is 1.
#[test]
fn config_against_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a.sock");
    let text = format!("version = 1\nuse = \"tcp\"\nadmin.socket = \"{}\"\n", socket.display());
    let (path, shown) = file(&folder, &text);
    let _node = Node::start(&[&shown, "--set", "limits.slices=4096"]);
    let diff = |more: &[&'static str]| [&["show", "config", shown.as_str(), "--diff"], more].concat();
    assert_eq!(stdout(&diff(&["--set", "limits.slices=4096"])), "");
    std::fs::write(&path, text + "[transports.tcp]\nlanes = 4\n").unwrap();
    let ended = program(&diff(&[])).output().unwrap();
    let printed = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{printed}");
    for part in [
        "limits.slices\n  the file: 65536  # <preset tcp>",
        "  node: 4096  # --set",
        "transports.tcp.lanes\n  the file: 4  #",
    ] {
        assert!(printed.contains(part), "{part} in\n{printed}");
    }
    let (code, said) = failure(&diff(&["--node", "no-such-node"]));
    assert!(code == 69 && said.contains("no-such-node"), "{code} {said}");
}

/// A running node explains the way to a peer that it has opened, and says which those are.
#[test]
fn explained_by_the_node() {
    let there = target("64KiB");
    let (_folder, socket, here) = engine("");
    let peer = there.local_address().to_string();
    open(&here, &there);
    let args = ["explain", &peer, "--node", &socket];
    let text = stdout(&args);
    assert!(text.contains("READ, WRITE: tcp") && text.contains("of 2 lanes live"), "{text}");
    let answer: Value = serde_json::from_str(&stdout(&[&args[..], &["--json"]].concat())).unwrap();
    assert_eq!(answer["routes"][0]["write"]["chosen"]["transport"], "tcp");
    let (code, said) = failure(&["explain", "127.0.0.1:1", "--node", &socket]);
    assert!(code == 1 && said.contains(&peer), "{code} {said}");
}
