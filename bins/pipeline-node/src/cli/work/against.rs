//! The target, the same for all files: a node whose threads sleep, so that it takes no CPU from what is measured unless it
//! has work. A process of its own; where bytes stay in this process an engine of its own in it; or a peer that was named.

use std::path::Path;

use pipeline_node::{Engine, Peer, Source};

use super::over::Over;
use crate::cli::exit::Failure;
use crate::cli::failures::engine;
use crate::cli::load::target::Target;
use crate::cli::load::usage::{cpu_ns_of, threads};

/// How it waits.
const PARKED: &str = "pools.nic.wait='park'";

/// Who it is.
#[derive(Clone, Copy, Debug)]
pub struct Whom<'a> {
    /// The peer that was named, if one was.
    pub peer: Option<&'a str>,
    /// The segment that is written to and read.
    pub segment: &'a str,
    /// What the bytes go over.
    pub over: Over,
}

/// A running target.
pub struct Against {
    /// Where it is reached.
    pub address: String,
    /// Whether it uses the CPUs of this machine.
    pub is_here: bool,
    /// What it is, in words.
    pub words: String,
    /// Its threads in this process.
    threads: Vec<u32>,
    child: Option<Target>,
    /// Kept alive.
    _engine: Option<Engine>,
}

impl Against {
    /// Starts it with a segment of `bytes` bytes, or takes the one that was named.
    ///
    /// # Errors
    /// 2 for a name that this transport cannot reach; the system's reason.
    pub fn start(whom: Whom<'_>, bytes: u64) -> Result<Self, Failure> {
        match (whom.peer, whom.over) {
            (Some(address), Over::Tcp) => Ok(Self {
                address: address.to_owned(),
                is_here: false,
                words: format!("target: {address}, segment {}", whom.segment),
                threads: Vec::new(),
                child: None,
                _engine: None,
            }),
            (Some(_), over) => Err(Failure::usage(format!(
                "--target names another process, which bytes over {} do not reach; leave one of the two out",
                over.kind()
            ))),
            (None, Over::Tcp) => Self::child(whom.segment, bytes),
            (None, over) => Self::within(whom.segment, over, bytes),
        }
    }

    /// Another node of the same file, in a process of its own: for transports that the built-in target does not speak.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn of_file(file: &Path, set: &[String], segment: &str, bytes: u64) -> Result<Self, Failure> {
        let target = Target::start(Some(file), set, segment, bytes)?;
        Ok(Self {
            address: target.address.clone(),
            is_here: true,
            words: "target: a process of our own from the same file as it is".into(),
            threads: Vec::new(),
            child: Some(target),
            _engine: None,
        })
    }

    fn child(segment: &str, bytes: u64) -> Result<Self, Failure> {
        let target = Target::start(None, &[PARKED.into()], segment, bytes)?;
        Ok(Self {
            address: target.address.clone(),
            is_here: true,
            words: "target: a process of our own on loopback, one parked worker".into(),
            threads: Vec::new(),
            child: Some(target),
            _engine: None,
        })
    }

    fn within(segment: &str, over: Over, bytes: u64) -> Result<Self, Failure> {
        let before = threads();
        let segment = format!("segments.{segment}={{ kind='dram', size='{bytes}B', access='read_write' }}");
        let set = [
            PARKED.to_owned(),
            "node.name='bench-target'".into(),
            "transports.tcp=false".into(),
            format!("transports.{}={}", over.kind(), over.settings()),
            format!("stages.route.prefer=['{}']", over.kind()),
            segment,
        ];
        let source = Source::text("<target>", "version = 1\nuse = \"tcp\"\n").set(set);
        let node = Engine::from_source(&source).map_err(|e| engine(&e))?;
        Ok(Self {
            address: node.local_address().to_string(),
            is_here: true,
            words: "target: an engine of its own in this process, parked; its threads are counted apart"
                .into(),
            threads: threads().into_iter().filter(|thread| !before.contains(thread)).collect(),
            child: None,
            _engine: Some(node),
        })
    }

    /// The process of its own that it is in, if we have started one.
    pub fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Target::pid)
    }

    /// Its threads in this process.
    pub fn threads(&self) -> &[u32] {
        &self.threads
    }

    /// CPU time it has used so far, if it tells.
    pub fn cpu_ns(&self, peer: &Peer) -> Option<u64> {
        match self.threads.as_slice() {
            [] => peer.cpu_ns().ok(),
            threads => Some(cpu_ns_of(threads)),
        }
    }

    /// Of `all` that this process has used so far, what the target has not.
    pub fn own_cpu_ns(&self, all: u64) -> u64 {
        all.saturating_sub(cpu_ns_of(&self.threads))
    }
}
