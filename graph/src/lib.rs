//! The staged-dataflow engine for any DAG.
//!
//! It knows stages, ports, edges, pools and waits. It deliberately does not know TOML, transfers, sockets
//! or RDMA: an item is any small `Copy` value, and tests drive the engine with `u64`.
//!
//! Describe ([`Blueprint`]), check ([`check()`]), plan, start, drain, stop.

mod agenda;
#[cfg(all(test, not(pipeline_loom)))]
mod apart;
pub mod arena;
mod assembly;
pub mod bell;
pub mod blueprint;
#[doc(hidden)] // Public but for `Callers` for the model checks in tests/loom only.
pub mod caller;
pub mod check;
pub mod clock;
pub mod cpus;
pub mod drain;
pub mod draw;
#[doc(hidden)] // Public for the model checks in tests/loom only.
pub mod edge;
pub mod engine;
pub mod fault;
pub mod inlet;
mod instance;
pub mod item;
mod mark;
pub mod near;
mod node;
pub mod outlet;
mod placement;
pub mod plan;
mod pool;
pub mod signals;
pub mod sim;
pub mod stage;
pub mod stats;
#[doc(hidden)] // Public but for `Crew` and `Crews` for the model checks in tests/loom only.
pub mod stealing;
mod sync;
mod wait;
mod worker;

pub use arena::{Arena, Cache, Slot, Stale};
pub use blueprint::{Blueprint, Dispatch, EdgeDecl, Mode, PoolDecl, PoolKind, StageDecl, Wait, WhenFull};
pub use caller::{Callers, Lead};
pub use check::{Complaint, Rule, Subject, check};
pub use clock::{Clock, Nanos, Time};
pub use cpus::Cpus;
pub use drain::{DrainReport, Laggard};
pub use engine::{Engine, StartError, State};
pub use fault::{Fault, Faults};
pub use inlet::{Full, Inlet};
pub use item::{BATCH, Batch, Item};
pub use mark::on_engine_thread;
pub use outlet::Outlet;
pub use plan::Plan;
pub use stage::{
    Arming, BuildError, Context, Contract, Drained, Flow, Held, Polled, Port, PortId, Resource, Seat, Shape,
    Spec, Stage, Waker,
};
pub use stats::{Count, EdgeStats, Histogram, HistogramCell, Snapshot, StageStats, WorkerStats};
pub use stealing::{Crew, Crews};
