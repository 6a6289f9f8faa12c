//! The program itself, and nodes of it, in processes of their own. A node is killed with its test, however that ends.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::bed::{shipped, uses};

/// The program of the same build. Cargo tells its place only to tests of its own crate, but puts it beside all of them.
pub fn path() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let path = exe.parent().and_then(Path::parent).unwrap().join("pipeline-node");
    assert!(path.exists(), "no {}: `scripts/test rdma` builds it", path.display());
    path
}

/// The program with arguments; nothing of the environment of the test reaches it.
pub fn program(args: &[&str]) -> Command {
    let mut command = Command::new(path());
    command.args(args).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Its stdout, if it ended well.
#[track_caller]
pub fn stdout(args: &[&str]) -> String {
    let output = program(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// `--set` before each of them.
pub fn set(of: &[String]) -> Vec<&str> {
    of.iter().flat_map(|set| ["--set", set.as_str()]).collect()
}

/// A running node.
pub struct Node {
    child: Child,
    /// Where its control listens: on loopback, which no fault of a device reaches.
    pub address: String,
    /// What nodes of another engine call it; empty where its transport speaks to none.
    pub foreign: String,
}

impl Node {
    /// Starts one of a shipped file and waits for its ready line.
    #[track_caller]
    pub fn of(file: &str, overrides: &[String]) -> Self {
        let file = shipped(file);
        let quiet = ["run", "--json", file.to_str().unwrap(), "--set", "log.level='warn'"];
        let args = [&quiet[..], &set(overrides)].concat();
        let mut child = program(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        let address = ready["address"].as_str().unwrap().to_owned();
        let foreign = ready["foreign"]["rdma"].as_str().unwrap_or_default().to_owned();
        Self { child, address, foreign }
    }

    /// One of the preset `rdma` over these devices, with a segment `kv` of `size`.
    #[track_caller]
    pub fn target(devices: &[usize], size: &str) -> Self {
        Self::of("pipelines/rdma.toml", &[uses(devices), vec![kv(size)]].concat())
    }

    /// Ends it as a crash would.
    pub fn crash(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to leave in good order, which it only does when nothing of anybody is left in it.
    #[track_caller]
    pub fn leave(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let begin = Instant::now();
        let ended: ExitStatus = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "the target does not leave");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(ended.success(), "something was left at the target: {ended}");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What gives a node a segment `kv`.
pub fn kv(size: &str) -> String {
    format!("segments.kv={{ kind='dram', size='{size}', access='read_write' }}")
}
