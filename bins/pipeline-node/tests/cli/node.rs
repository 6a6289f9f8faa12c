//! The program and nodes of it, for tests. A node is killed with its test, however that ends.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The program with arguments; nothing of the environment of the test reaches it.
pub fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipeline-node"));
    command.args(args).env_remove("RUST_LOG").env_remove("XDG_RUNTIME_DIR").stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn output(args: &[&str]) -> Output {
    program(args).output().unwrap()
}

/// Its exit code and its stderr.
pub fn failure(args: &[&str]) -> (i32, String) {
    let output = output(args);
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Its stdout, if it ended well.
#[track_caller]
pub fn stdout(args: &[&str]) -> String {
    let output = output(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// A running node.
pub struct Node {
    pub child: Child,
    pub address: String,
    /// What peers of other engines call it, by transport.
    pub foreign: serde_json::Value,
    /// Where it serves metrics.
    pub metrics: Option<String>,
}

impl Node {
    /// Starts one and waits for its ready line.
    #[track_caller]
    pub fn start(args: &[&str]) -> Self {
        Self::start_with(args, |_| {})
    }

    /// As [`Self::start`], with a last word on its command.
    #[track_caller]
    pub fn start_with(args: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let mut command = program(&["run", "--json"]);
        command.args(args);
        change(&mut command);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        let address = ready["address"].as_str().unwrap().to_owned();
        let metrics = ready["metrics"].as_str().map(str::to_owned);
        Self { child, address, foreign: ready["foreign"].clone(), metrics }
    }

    /// One with a segment `kv` of `size` bytes (`1MiB`), which peers may read and write.
    #[track_caller]
    pub fn target(size: &str, set: &[&str]) -> Self {
        let kv = format!("segments.kv={{ kind='dram', size='{size}', access='read_write' }}");
        let set = set.iter().flat_map(|s| ["--set", s]);
        let args: Vec<&str> = ["--built-in", "--set", &kv].into_iter().chain(set).collect();
        Self::start(&args)
    }

    /// One that serves `folder` as segment `files`.
    #[track_caller]
    pub fn serving(folder: &Path) -> Self {
        Self::serving_with_set(folder, &[])
    }

    /// As [`Self::serving`], with overrides.
    #[track_caller]
    pub fn serving_with_set(folder: &Path, set: &[&str]) -> Self {
        let files = Self::files(folder);
        let set = set.iter().flat_map(|s| ["--set", s]);
        Self::start(&["--built-in", "--set", &files].into_iter().chain(set).collect::<Vec<_>>())
    }

    /// As [`Self::serving`], with a last word on its command.
    #[track_caller]
    pub fn serving_with(folder: &Path, change: impl FnOnce(&mut Command)) -> Self {
        Self::start_with(&["--built-in", "--set", &Self::files(folder)], change)
    }

    fn files(folder: &Path) -> String {
        format!("segments.files={{ kind='dir', path='{}', access='read_write' }}", folder.display())
    }

    /// Ends it as a crash would, and waits until it is gone.
    pub fn crash(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Node {
    /// Stops it, and waits until the last of its threads stands: a signal takes its time.
    pub fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        let stands = |task: &std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in brackets and may hold anything.
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
        };
        while !std::fs::read_dir(&tasks).unwrap().flatten().all(|task| stands(&task)) {
            std::thread::yield_now();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
