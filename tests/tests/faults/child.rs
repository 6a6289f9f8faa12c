//! A node in another process: this test program, started again to run one function of it. Deliberately not the released
//! binary: what is tested here is the library in a program of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pipeline_node::{Engine, ListenError};
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{PATIENCE, engine, until};

/// What a child shall be, and to whom.
const ROLE: &str = "PIPELINE_TEST_ROLE";

/// A child process; killed with its owner.
pub struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    /// Takes words; its end tells the child to end.
    stdin: ChildStdin,
}

impl Process {
    /// Starts this program in a role.
    #[track_caller]
    pub fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child::in_its_role", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (stdout, keep) = (child.stdout.take().unwrap(), lines.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                keep.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let stdin = child.stdin.take().unwrap();
        Self { child, lines, stdin }
    }

    /// Tells it to drain.
    pub fn drain(&mut self) {
        writeln!(self.stdin, "drain").unwrap();
    }

    /// What it has said so far after a word.
    pub fn said(&self, word: &str) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter_map(|line| Some(line.strip_prefix(word)?.trim().to_owned())).collect()
    }

    /// The first thing that it says after a word.
    #[track_caller]
    pub fn hear(&self, word: &str) -> String {
        until(word, || !self.said(word).is_empty());
        self.said(word).remove(0)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it as a crash would.
    pub fn crash(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a line at once: the parent waits for it.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // On a line of its own: the test's harness writes as well.
    writeln!(out, "\n{line}").and_then(|()| out.flush()).unwrap();
}

/// Not a test: what a child does, as long as its parent lives.
#[test]
#[ignore = "only as a child of another test"]
fn in_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split_once(' ') {
        None => receive(&engine(&[KV])),
        Some(("at", address)) => receive(&engine(&[KV, &format!("node.listen='{address}'")])),
        Some(("dial", address)) => dial(address),
        Some(_) => panic!("{role:?}?"),
    }
}

const KV: &str = "segments.kv={ kind='dram', size='1MiB', access='read_write' }";

/// Says every notice it is given.
fn receive(node: &Engine) {
    let notices = node.notices();
    say(&format!("address {}", node.local_address()));
    let stopper = node.clone();
    std::thread::spawn(move || {
        for word in std::io::stdin().lines().map_while(Result::ok) {
            assert_eq!(word, "drain");
            say(&format!("drained {}", stopper.drain(PATIENCE).empty));
        }
        stopper.stop();
    });
    loop {
        match notices.next(Duration::from_secs(1)) {
            Ok(notice) => say(&format!("notice {} {}", String::from_utf8_lossy(&notice.body), notice.failed)),
            Err(ListenError::Stopped) => return,
            Err(_) => {}
        }
    }
}

/// Opens a node and stays.
fn dial(address: &str) {
    let node = engine(&["node.name='visitor'"]);
    let peer = node.open_within(address, PATIENCE).unwrap();
    say(&format!("opened {}", peer.name()));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
