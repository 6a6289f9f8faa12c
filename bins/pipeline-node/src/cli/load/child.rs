//! Processes of this program that `bench` and `compare` start: they tell one line when they are ready, and go when their parent
//! goes, however that ends.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::cli::exit::{Failure, Outcome};

/// A running one; dropping it ends it.
pub struct Child(std::process::Child);

impl Child {
    /// Starts this program with `args` and waits for its first line. Its stderr is ours.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it is ready.
    pub fn start(args: &[String]) -> Result<(Self, String), Failure> {
        let program = std::env::current_exe().map_err(|e| Failure::system(format!("this program: {e}")))?;
        let mut command = Command::new(program);
        // In a group of its own: Ctrl-C is for its parent, with which it ends.
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let child = command.spawn().map_err(|e| Failure::system(format!("a process of our own: {e}")))?;
        let mut child = Self(child);
        let mut line = String::new();
        if let Some(stdout) = child.0.stdout.take() {
            // What it says later is not wanted: it says nothing.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        if line.is_empty() {
            let status = child.0.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
            return Err(Failure::failed(format!("a process of our own did not become ready: {status}")));
        }
        Ok((child, line))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn signal(&self, signal: Signal) -> Outcome {
        kill_process(Pid::from_child(&self.0), signal).map_err(Failure::system)
    }

    /// Its number, for messages.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Nothing of it is worth draining: the loop has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Called in the child: ends when the parent ends.
///
/// # Errors
/// When the system refuses.
pub fn end_with_parent() -> Outcome {
    let term = Some(Signal::TERM);
    rustix::process::set_parent_process_death_signal(term).map_err(Failure::system)
}
