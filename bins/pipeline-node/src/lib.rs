//! The engine for embedding: a node inside your process.
//!
//! ```no_run
//! use pipeline_node::{Engine, Options, Request};
//! use std::time::Duration;
//!
//! let engine = Engine::from_toml("version = 1\nuse = \"tcp\"\nnode = { name = \"client\" }\n")?;
//! let region = engine.allocate(1 << 20)?;
//! region.write(0, b"hello")?;
//! let peer = engine.open("10.0.0.2:7001")?;
//! let kv = peer.segment("kv")?;
//! let batch = engine.submit(&[Request::write(&region, 0, kv.at(4096), 5)], Options::default())?;
//! let summary = batch.wait(Duration::from_secs(30))?;
//! assert!(summary.is_done());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Instead of waiting, a task of any async runtime awaits a batch, and an event loop polls one descriptor for all of them
//! ([`Engine::doorbell`]); the file says who is told (`via` of `completion_notify`):
//!
//! ```
//! use pipeline_node::{Engine, Options, Request};
//!
//! let kv = "segments.kv = { kind = \"dram\", size = \"64KiB\", access = \"read_write\" }\n";
//! let holder = Engine::from_toml(&format!("version = 1\nuse = \"tcp\"\n{kv}"))?;
//! let via = "stages.notify = { via = [\"waker\"] }\n";
//! let engine = Engine::from_toml(&format!("version = 1\nuse = \"tcp\"\n{via}"))?;
//! let page = engine.allocate(4096)?;
//! let kv = engine.open(&holder.local_address().to_string())?.segment("kv")?;
//! let task = async {
//!     let batch = engine.submit(&[Request::read(&page, 0, kv.at(0), 4096)], Options::default())?;
//!     let summary = (&batch).await?;
//!     assert!(summary.is_done(), "{:?}", batch.results().collect::<Vec<_>>());
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! };
//! tokio::runtime::Builder::new_current_thread().build()?.block_on(task)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It asks for no async runtime, installs no signal handler, keeps no global state, and starts no thread that
//! `pipeline-node validate` does not announce. What a batch is and how a request can end: [`Batch`], [`Status`],
//! [`Failure`].

pub mod admin;
mod assemble;
mod awake;
pub mod directory;
mod drain;
mod engine;
mod error;
pub mod explained;
#[cfg(feature = "faults")]
pub mod faults;
mod guests;
mod hearing;
pub mod limit;
mod memory;
pub mod metrics;
mod observation;
mod peer;
pub mod recording;
mod source;
#[cfg(feature = "faults")]
pub mod watch;

pub use drain::DrainReport;
pub use engine::Engine;
pub use error::Error;
pub use limit::{Because, Knob, Limit, limit};
pub use observation::Observation;
pub use peer::{Peer, Segment};
pub use source::Source;

pub use pipeline_configs::{Config, Finding, Findings, Loaded};
pub use pipeline_graph::{EdgeStats, Histogram, Laggard, Snapshot, StageStats, WorkerStats};
pub use pipeline_stages::control::{PeerFailures, Remaining};
pub use pipeline_stages::explain;
pub use pipeline_stages::ledger::Usage;
pub use pipeline_stages::notices::{Notice, Notices};
pub use pipeline_stages::peer::PeerState;
pub use pipeline_stages::peer_events::{PeerEvent, PeerEvents};
pub use pipeline_stages::topology::{Nearness, Sysfs, Topology};
pub use pipeline_stages::traffic::{Counts, NicStats, PeerStats};
pub use pipeline_stages::{
    AwaitError, Batch, DescriptorError, Doorbell, Failure, OnDoneError, Options, Pick, PrepareError,
    Prepared, Reason, Remote, Request, Status, SubmitError, Summary, WaitError, WhenDone,
};
pub use pipeline_stages::{
    ListenError, Location,
    reason::{Mismatch, NoticeFault},
};
pub use pipeline_transports::control::message::Traffic;
pub use pipeline_transports::control::{
    Compared, ErrorCode, FileAnswer, FileEntry, FileKind, FileRequest, How, Pull, Token,
};
pub use pipeline_transports::memory::{Memory, Region};
pub use pipeline_transports::{Access, NicFacts};
