//! Where sockets are, whose they are, and what becomes of them: by name, by path, with nodes that are killed.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::node::{Node, program};
use crate::rig::until;

/// A node whose runtime folder is this one.
fn node(runtime: &Path, name: &str) -> Node {
    let name = format!("node.name='{name}'");
    Node::start_with(&["--built-in", "--set", &name], |command| {
        command.env("XDG_RUNTIME_DIR", runtime);
    })
}

/// `show` in that folder: its code, what it prints, and what it says.
fn show(runtime: &Path, args: &[&str]) -> (i32, String, String) {
    let output = program(args).env("XDG_RUNTIME_DIR", runtime).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

const PEERS: [&str; 2] = ["show", "peers"];

/// Nodes that name no socket have one under their name, for their user only; the only one is found without a name, others by
/// name, and a wrong name gets the nearest. It is removed at the end.
#[test]
fn by_name() {
    let runtime = tempfile::tempdir().unwrap();
    let asks = |more: &[&str]| show(runtime.path(), &[&PEERS[..], more].concat());
    let (code, _, said) = asks(&[]);
    assert!(code == 69 && said.contains("no node runs here"), "{code} {said}");
    let first = node(runtime.path(), "decode-0");
    let socket = runtime.path().join("pipeline-node/decode-0.sock");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    let (code, printed, said) = asks(&[]);
    assert!(code == 0 && printed.starts_with("node decode-0 (pid "), "{code} {printed} {said}");
    let _second = node(runtime.path(), "prefill-0");
    let (code, _, said) = asks(&[]);
    assert!(code == 2 && said.contains("decode-0, prefill-0"), "{code} {said}");
    assert_eq!(asks(&["--node", "prefill-0"]).0, 0);
    assert_eq!(asks(&["--node", socket.to_str().unwrap()]).0, 0);
    let (code, _, said) = asks(&["--node", "decod-0"]);
    assert!(code == 69 && said.contains("did you mean `decode-0`?"), "{code} {said}");
    let (code, _, said) = show(runtime.path(), &["show", "peer", "--node", "decode-0"]);
    assert!(code == 2 && said.contains("'peers'"), "{code} {said}");
    first.signal(rustix::process::Signal::TERM);
    until("the socket is removed", || !socket.exists());
}

/// Two nodes of one name: the first keeps the socket, the second runs without one and says so, with the process that has it, and not
/// that anything could not start. One that names the socket of a living node in its file does not start, and says as much.
#[test]
fn one_name_twice() {
    let runtime = tempfile::tempdir().unwrap();
    let first = node(runtime.path(), "twin");
    let mut second = Node::start_with(&["--built-in", "--set", "node.name='twin'"], |command| {
        command.env("XDG_RUNTIME_DIR", runtime.path()).stderr(std::process::Stdio::piped());
    });
    let (_, printed, _) = show(runtime.path(), &["show", "nics", "--node", "twin", "--json"]);
    let answer: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["pid"], first.child.id());
    second.signal(rustix::process::Signal::TERM);
    let mut said = String::new();
    second.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let holder = format!("twin.sock: another node answers there (pid {})", first.child.id());
    assert!(said.contains("this node runs, but `show`") && said.contains(&holder), "{said}");
    assert!(!said.contains("cannot start"), "{said}");
    let socket = format!("admin.socket='{}'", runtime.path().join("pipeline-node/twin.sock").display());
    let third = program(&["run", "--built-in", "--set", &socket]).output().unwrap();
    let said = String::from_utf8_lossy(&third.stderr);
    assert_eq!(third.status.code(), Some(71), "{said}");
    assert!(said.contains(&holder) && said.contains("pipeline-node: admin socket /"), "{said}");
}

/// A node whose process cannot be seen, because it runs in another container that shares the folder, keeps its socket as well.
#[test]
fn the_same_name_in_another_container() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let runtime = tempfile::tempdir().unwrap();
    let first = node(runtime.path(), "twin");
    let socket = runtime.path().join("pipeline-node/twin.sock");
    let set = format!("admin.socket='{}'", socket.display());
    let mut apart = std::process::Command::new("unshare");
    apart.args([
        "--pid",
        "--fork",
        "--kill-child",
        env!("CARGO_BIN_EXE_pipeline-node"),
        "run",
        "--built-in",
        "--set",
        &set,
    ]);
    let second = apart.output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(71) && said.contains("another PID namespace"), "{said}");
    let (_, printed, _) = show(runtime.path(), &["show", "nics", "--node", "twin", "--json"]);
    let answer: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["pid"], first.child.id());
}

/// What a killed node leaves is nobody's: a question says so, and the next node takes its place.
#[test]
fn after_a_crash() {
    let runtime = tempfile::tempdir().unwrap();
    let mut first = node(runtime.path(), "phoenix");
    first.crash();
    let (code, _, said) = show(runtime.path(), &["show", "nics", "--node", "phoenix"]);
    assert!(code == 69 && said.contains("the one it was has ended"), "{code} {said}");
    let second = node(runtime.path(), "phoenix");
    let (_, printed, _) = show(runtime.path(), &["show", "nics", "--node", "phoenix", "--json"]);
    let answer: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["pid"], second.child.id());
}
