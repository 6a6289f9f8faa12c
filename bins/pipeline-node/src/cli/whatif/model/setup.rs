//! What a run of the model is about: the graph of a file, the machine it is on, and who asks what of it.
//! Deliberately indices and numbers only: where they come from is in [`super::lower`].

use pipeline_graph::Wait;

use super::costs::{Costs, Service, Variation};

/// Most items of a batch on the way through the graph.
pub const BATCH: usize = pipeline_graph::BATCH;

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Setup {
    /// CPUs of the machine.
    pub cores: f64,
    /// Upstream first.
    pub stages: Vec<Stage>,
    /// Threads of the engine, and callers' seats.
    pub workers: Vec<Worker>,
    /// Where slices leave for the wire.
    pub nics: Vec<Nic>,
    /// Bytes a second that memory moves for all copies; `None`: never what limits.
    pub memory_bytes_per_s: Option<f64>,
    /// Whether the workers that post and reap are divided among the NICs.
    pub is_per_nic: bool,
    /// Lanes to each peer over each NIC.
    pub lanes: usize,
    /// Peers, and where their CPUs are.
    pub peers: Peers,
    /// Most bytes of a slice.
    pub slice_bytes: u64,
    /// Work requests of a frame.
    pub frame_items: usize,
    /// Payload bytes after which a frame is closed.
    pub frame_bytes: u64,
    /// What may be in flight.
    pub window: Window,
    /// Who submits.
    pub application: Application,
    /// What all of it costs.
    pub costs: Costs,
    /// Items of a batch.
    pub batch: usize,
    /// Where chance begins.
    pub seed: u64,
}

/// What a stage does, as far as time is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Passes on what it gets.
    Pass,
    /// Cuts requests into slices.
    Split,
    /// Chooses a lane for each slice.
    Select,
    /// Writes to lanes.
    Post,
    /// Reads from lanes.
    Reap,
    /// Ends slices, and with them batches.
    Notify,
}

/// A stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// The workers that run it: indices of [`Setup::workers`]. A stage without a pool has those that reach it.
    pub workers: Vec<usize>,
    /// How it gets what it works on; of `cq_reap` nothing comes this way.
    pub input: Edge,
    /// The stage that follows.
    pub next: Option<usize>,
    /// What it costs.
    pub service: Service,
    /// How that varies.
    pub variation: Variation,
}

/// How a stage is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// By the worker that ran the stage before.
    Inline,
    /// Over a ring of so many batches that all of its workers read.
    Shared(usize),
    /// Over a ring of so many batches for each worker: that of the lane.
    Owner(usize),
    /// The same: by peer.
    Hash(usize),
}

/// Who runs stages.
#[derive(Clone, Debug)]
pub struct Worker {
    /// As its thread is called.
    pub name: String,
    /// Its pool.
    pub pool: String,
    /// How it waits.
    pub wait: Wait,
    /// Whether its thread has a CPU of its own to spin on: else whoever spins makes room for those who work.
    pub is_pinned: bool,
    /// Whether the application's threads step it.
    pub is_caller: bool,
}

/// A network interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nic {
    /// Bytes a second and direction; `None`: as fast as CPUs copy.
    pub bytes_per_s: Option<f64>,
    /// One way to the peer, nanoseconds.
    pub latency_ns: f64,
}

/// The other ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peers {
    /// How many.
    pub count: usize,
    /// Whether they share our CPUs: a process on this machine.
    pub are_here: bool,
    /// How their workers wait.
    pub wait: Wait,
}

/// Limits of what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Bytes over all peers.
    pub bytes: u64,
    /// Slices over all peers.
    pub slices: u64,
    /// Of both, what one peer may have, percent.
    pub share_percent: u64,
}

/// How work arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// So many batches in flight for each thread: one ends, the next is submitted.
    Closed(usize),
    /// So many batches a second over all threads, that know nothing of each other.
    #[cfg_attr(not(test), expect(dead_code, reason = "asked for by theory only"))]
    Poisson(f64),
}

/// Whether a thread that waits for its batches sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// It sleeps.
    Asleep,
    /// It looks again and again.
    Looking,
}

/// Which way payload goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the peer.
    Write,
    /// From the peer.
    Read,
}

/// Who submits, and what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Application {
    /// Threads that submit.
    pub threads: usize,
    /// Requests of a batch.
    pub batch: usize,
    /// Bytes of a request.
    pub bytes: u64,
    /// Direction.
    pub way: Way,
    /// How many at a time.
    pub arrival: Arrival,
    /// How its threads wait.
    pub waits: Waits,
}
