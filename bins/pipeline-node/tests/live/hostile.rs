//! Clients that mean no good, or do not know better: the node goes on, and others are answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::Duration;

use pipeline_node::Engine;
use serde_json::Value;

use crate::node::program;
use crate::rig::PATIENCE;

/// An engine with a socket in a folder of its own.
fn engine() -> (tempfile::TempDir, PathBuf, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a.sock");
    let toml = format!("version = 1\nuse = \"tcp\"\nadmin.socket = \"{}\"\n", socket.display());
    let engine = Engine::from_toml(&toml).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(engine.admin_socket(), Some(socket.clone()));
    (folder, socket, engine)
}

fn connect(socket: &PathBuf) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes, and reads the lines that come until the node lets go or `lines` are there.
fn exchange(socket: &PathBuf, sent: &[u8], lines: usize) -> Vec<Value> {
    let mut stream = connect(socket);
    // A node that has heard enough may have gone before all is sent.
    let _ = stream.write_all(sent);
    let read = BufReader::new(stream).lines().take(lines);
    read.map_while(Result::ok).map(|line| serde_json::from_str(&line).unwrap()).collect()
}

fn error(answer: &Value) -> &str {
    assert_eq!(answer["schema_version"], 1);
    answer["error"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// The node still answers.
#[track_caller]
fn answers(socket: &PathBuf) {
    let answer = exchange(socket, b"{\"show\":\"node\"}\n", 1);
    assert_eq!((&answer[0]["schema_version"], &answer[0]["error"]), (&1.into(), &Value::Null), "{answer:?}");
}

/// Junk is answered with an error and the conversation goes on; a line that has no end is not kept; the last line of who has said
/// all may lack its end.
#[test]
fn junk() {
    let (_folder, socket, _engine) = engine();
    let answers_to = |sent: &[u8]| exchange(&socket, sent, 2);
    let both = answers_to(b"\x00\xff\xfe{{{\n{\"show\":\"node\"}\n");
    assert!(error(&both[0]).contains("no JSON") && both[1]["node"] == "node", "{both:?}");
    let both = answers_to(b"\n[[[[[[[[[[\n");
    assert!(both.iter().all(|answer| error(answer).contains("no JSON")), "{both:?}");
    let long = answers_to(&vec![b'x'; 10 << 20]);
    assert!(long.iter().all(|answer| error(answer).contains("at most 4096 bytes")), "{long:?}");
    let long = answers_to(&[&vec![b' '; 5000][..], b"{\"show\":\"node\"}\n"].concat());
    assert!(long.iter().all(|answer| error(answer).contains("at most 4096 bytes")), "{long:?}");
    drop(connect(&socket));
    connect(&socket).write_all(b"{\"show\":\"nod").unwrap();
    let mut last = connect(&socket);
    last.write_all(b"{\"show\":\"node\"}").unwrap();
    last.shutdown(std::net::Shutdown::Write).unwrap();
    let mut line = String::new();
    last.read_to_string(&mut line).unwrap();
    assert!(line.contains("\"node\":\"node\""), "{line}");
    answers(&socket);
}

/// Whoever waits for the end of an interval gets its answer, however many come meanwhile and say nothing.
#[test]
fn silent_ones_push_out_nobody_who_waits() {
    let (_folder, socket, _engine) = engine();
    let mut waits = connect(&socket);
    waits.write_all(b"{\"show\":\"pools\",\"interval_ms\":400}\n").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let silent: Vec<UnixStream> = (0..200).map(|_| connect(&socket)).collect();
    let mut line = String::new();
    BufReader::new(waits).read_line(&mut line).unwrap();
    assert!(line.contains("\"workers\":"), "{line:?}");
    drop(silent);
}

/// A thousand connections, all silent: none keeps another from being answered, and the node has no more open than it allows.
#[test]
fn a_thousand_silent_ones() {
    let (_folder, socket, engine) = engine();
    let silent: Vec<UnixStream> = (0..1000).map(|_| connect(&socket)).collect();
    answers(&socket);
    // Of these the last ones are still there; the others were let go.
    let mut first = &silent[0];
    assert_eq!(first.read(&mut [0]).unwrap(), 0, "the first one must have made room");
    let mut last = &silent[999];
    last.write_all(b"{\"show\":\"node\"}\n").unwrap();
    let mut line = String::new();
    BufReader::new(last).read_line(&mut line).unwrap();
    assert!(line.contains("\"node\":\"node\""), "{line}");
    drop(silent);
    answers(&socket);
    engine.stop();
    assert!(!socket.exists());
}

/// Who asks without end and reads nothing is let go, and holds nobody up meanwhile.
#[test]
fn who_does_not_read() {
    let (_folder, socket, _engine) = engine();
    let mut deaf = connect(&socket);
    deaf.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let questions = b"{\"show\":\"config\"}\n".repeat(20_000);
    let sent = deaf.write_all(&questions);
    assert!(sent.is_err(), "the node must have stopped to take more");
    answers(&socket);
}

/// Others have no access, whatever the mode of the socket: the file is its owner's, and who connects is asked who it is.
#[test]
fn another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (folder, socket, _engine) = engine();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    // The program may lie where that user cannot reach it.
    let copy = folder.path().join("program");
    std::fs::copy(env!("CARGO_BIN_EXE_pipeline-node"), &copy).unwrap();
    let asks = || {
        let mut command = std::process::Command::new(&copy);
        let output = command.args(["show", "nics", "--node", socket.to_str().unwrap()]).uid(65_534).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = asks();
    assert!(code == Some(69) && said.contains("permission denied"), "{code:?} {said}");
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).unwrap();
    let (code, said) = asks();
    assert!(code == Some(1) && said.contains("only the user that runs this node"), "{code:?} {said}");
    assert!(
        program(&["show", "nics", "--node", socket.to_str().unwrap()]).output().unwrap().status.success()
    );
}
