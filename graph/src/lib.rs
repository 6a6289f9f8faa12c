//! The staged-dataflow engine for any DAG.
//!
//! It knows stages, ports, edges, pools and waits. It deliberately does not know TOML, transfers, sockets
//! or RDMA: an item is any small `Copy` value, and tests drive the engine with `u64`.
//!
//! Describe ([`Blueprint`]), check ([`check()`]), plan, start, drain, stop.

pub mod blueprint;
pub mod check;
pub mod clock;
pub mod draw;
pub mod item;
pub mod outlet;
pub mod plan;
pub mod stage;

pub use blueprint::{Blueprint, Dispatch, EdgeDecl, Mode, PoolDecl, PoolKind, StageDecl, WhenFull};
pub use check::{Complaint, Rule, Subject, check};
pub use clock::Nanos;
pub use item::{BATCH, Batch, Item};
pub use outlet::Outlet;
pub use plan::Plan;
pub use stage::{
    Arming, BuildError, Context, Contract, Drained, Fault, Faults, Flow, Polled, Port, PortId, Resource,
    Seat, Shape, Spec, Stage, Waker,
};
