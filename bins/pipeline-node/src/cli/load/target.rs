//! The target that is started when none is named: another node, in a process of its own, on loopback.

use std::path::Path;

use rustix::process::Signal;

use super::child::Child;
use crate::cli::exit::Failure;

/// A target node that is stopped.
pub struct Resting<'a> {
    child: &'a Child,
}

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        // A process that is gone needs no waking; the next thing asked of it says so.
        let _ = self.child.signal(Signal::CONT);
    }
}

/// A running target node.
pub struct Target {
    child: Child,
    /// Where it listens.
    pub address: String,
}

impl Target {
    /// Starts one of this file (or of the preset `tcp`) with these overrides and a segment of `bytes` bytes, and waits until
    /// it is ready.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it is ready (its stderr is ours).
    pub fn start(file: Option<&Path>, set: &[String], segment: &str, bytes: u64) -> Result<Self, Failure> {
        let mut command = vec!["run".to_owned(), "--json".into(), "--with-parent".into()];
        command.push(file.map_or("--built-in".into(), |f| f.display().to_string()));
        let ours = [
            format!("segments.{segment}.kind='dram'"),
            format!("segments.{segment}.size='{bytes}B'"),
            format!("segments.{segment}.access='read_write'"),
            "node.listen='127.0.0.1:0'".into(),
            "node.name='bench-target'".into(),
            "log.level='warn'".into(),
        ];
        for set in set.iter().chain(&ours) {
            command.extend(["--set".into(), set.clone()]);
        }
        let (child, line) = Child::start(&command)?;
        let ready: Option<serde_json::Value> = serde_json::from_str(&line).ok();
        match ready.as_ref().and_then(|r| r.get("address")?.as_str()) {
            Some(address) => Ok(Self { child, address: address.to_owned() }),
            None => Err(Failure::failed(format!("the target process said: {line}"))),
        }
    }

    /// Stops its process until the answer is dropped: for short, or its peers think it dead.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn rest(&self) -> Result<Resting<'_>, Failure> {
        self.child.signal(Signal::STOP)?;
        Ok(Resting { child: &self.child })
    }

    /// Its process, for messages.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}
