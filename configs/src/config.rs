//! What a file says, typed and complete: what the engine is built from.
//! Deliberately without spans and without TOML: findings have been made before.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pipeline_graph::Blueprint;

use crate::matrix::Matrix;
use crate::schema::Values;
use crate::show::Shown;

/// A whole file, lowered.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[node]`.
    pub node: Node,
    /// `[limits]`.
    pub limits: Limits,
    /// `[transports.*]`, in the order of the file.
    pub transports: Vec<TransportConfig>,
    /// `[stages.*]`, index-aligned with `blueprint.stages`.
    pub stages: Vec<StageConfig>,
    /// `[segments.*]`.
    pub segments: Vec<SegmentConfig>,
    /// `[peers]`: name and addresses as written (validated `host:port`, `[v6]:port`, default port 7001), or one
    /// `TRANSPORT://NAME` of a declared transport that speaks to another engine.
    pub peers: Vec<(String, Vec<String>)>,
    /// `[auth] key_file`.
    pub auth_key_file: Option<PathBuf>,
    /// `[drain] timeout`.
    pub drain_timeout: Duration,
    /// `[log] level`, a tracing filter.
    pub log_level: String,
    /// `[log] format` is `json`.
    pub log_json: bool,
    /// `[admin] socket`.
    pub admin_socket: Option<PathBuf>,
    /// `[metrics] listen`.
    pub metrics_listen: Option<String>,
    /// `[directory]`.
    pub directory: Option<DirectoryConfig>,
    /// `[nics.*]`.
    pub nics: Vec<NicConfig>,
    /// `[topology]`.
    pub topology: TopologyConfig,
    /// `[[routes]]`.
    pub routes: Vec<RouteConfig>,
    /// What the file says that only a later release carries out, one sentence each. An engine refuses to start
    /// while there is any.
    pub later: Vec<String>,
    /// Set by a program that only looks at peers, beside the node that may run from the same file: transports that speak to
    /// other engines bind no listener and publish nothing. No file says it.
    pub bystander: bool,
    /// Pools, stages, edges; checked.
    pub blueprint: Blueprint,
    /// Every value with where it came from, as `show config` lists them.
    pub shown: Arc<[Shown]>,
}

/// `[node]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name told to peers.
    pub name: String,
    /// `host:port` of the one listener (control and TCP lanes). Port 0: any free one.
    pub listen: String,
    /// Addresses told to peers; empty: the bound one.
    pub advertise: Vec<String>,
    /// How long CPUs of this machine may take to wake while it runs; `None`: as the machine has it.
    pub cpu_dma_latency: Option<Duration>,
}

/// `[limits]`: every table's size. Nothing grows beyond these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests accepted and not freed.
    pub requests: u64,
    /// Slices in flight.
    pub slices: u64,
    /// Batches not freed.
    pub batches: u64,
    /// Registered regions.
    pub regions: u64,
    /// Peers known.
    pub peers: u64,
    /// Links open.
    pub links: u64,
    /// Notices waiting, of each kind.
    pub notices: u64,
    /// Bytes in flight over all peers.
    pub bytes_in_flight: u64,
    /// Share of slices and bytes one peer may use: a divisor-like fraction in percent.
    pub peer_share_percent: u64,
    /// Deadline of a request that names none.
    pub deadline: Duration,
    /// Silence after which a peer counts as dead.
    pub silence: Duration,
    /// For reaching one address, and for one handshake.
    pub connect: Duration,
    /// Longest pause between two attempts to reach a peer.
    pub reconnect: Duration,
    /// The `stealing` pool that registers memory; `None`: whoever registers does it alone.
    pub register: Option<String>,
    /// Longest time that a NIC rests after a failure.
    pub rest: Duration,
}

/// One `[stages.NAME]`.
#[derive(Clone, Debug)]
pub struct StageConfig {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Its typed keys.
    pub values: Values,
}

/// One `[transports.NAME]`.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Whether it speaks to peers that run another engine.
    pub foreign: bool,
    /// Its NICs; never empty: a transport that names none is one NIC of its own name.
    pub nics: Vec<String>,
    /// What `[nics]` says about each of `nics`, index by index.
    pub interfaces: Vec<Interface>,
    /// Its typed keys.
    pub values: Values,
}

/// `[directory]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// Its type: `http`, `etcd` or `redis`.
    pub kind: String,
    /// Where it is, in the order in which they are tried.
    pub endpoints: Vec<String>,
    /// What every key of ours in it starts with.
    pub prefix: String,
    /// How long an entry lives after its node was last heard of.
    pub ttl: Duration,
    /// Name to log in with.
    pub user: Option<String>,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// Whether the node tells of itself there. Commands that only look for others beside a running node do not.
    pub publishes: bool,
}

/// How a transport reaches a NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The interface; `None`: the system's routing chooses.
    pub device: Option<String>,
    /// Source address of connections; `None`: the system chooses.
    pub address: Option<IpAddr>,
    /// NUMA node that the file says; `None`: as the system tells.
    pub numa: Option<u16>,
    /// Rail, if the file says one: only NICs of equal number talk to each other where `rails = "same"`.
    pub rail: Option<u16>,
    /// Bits per second that the file says; `None`: as the system tells.
    pub bits_per_s: Option<u64>,
    /// GPUs that the file puts next to it; `None`: as the system tells.
    pub gpus: Option<Vec<u16>>,
}

/// One `[nics.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub struct NicConfig {
    /// Its name, as transports list it.
    pub name: String,
    /// The interface.
    pub device: String,
    /// Source address of its connections.
    pub address: Option<IpAddr>,
    /// Its typed keys.
    pub values: Values,
}

/// `[topology]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyConfig {
    /// NICs next to each GPU that `gpu_nics` names.
    pub gpu_nics: BTreeMap<u16, Vec<String>>,
    /// The file that `matrix` names.
    pub matrix: Option<Matrix>,
}

/// One `[[routes]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteConfig {
    /// What must be true of a transfer.
    pub when: Values,
    /// The transport it takes.
    pub transport: String,
}

/// One `[segments.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentConfig {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: SegmentKind,
    /// What peers may do: `read`, `write`, `read_write`.
    pub access: String,
    /// NUMA node of its memory, if the file says one.
    pub numa: Option<u16>,
}

/// What a segment is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Memory of the node.
    Dram {
        /// Bytes.
        size: u64,
    },
    /// Memory of a GPU.
    Cuda {
        /// Which GPU.
        device: u32,
        /// Bytes.
        size: u64,
    },
    /// One file, read and written in place.
    File {
        /// Where it is.
        path: PathBuf,
        /// Bytes.
        size: u64,
    },
    /// A directory tree for `copy`.
    Dir {
        /// Its root; nothing outside it is ever touched.
        path: PathBuf,
        /// Bytes of the bounce region files pass through.
        buffer: u64,
        /// From which nodes it may fetch what clients write here.
        pull: PullFrom,
    },
}

/// From which nodes the bytes of files may be fetched at the word of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullFrom {
    /// None.
    Off,
    /// Those under `[peers]`; with a key, all that know it.
    #[default]
    Known,
    /// Any address.
    Any,
}

impl SegmentKind {
    /// Bytes of host memory that a node allocates for it.
    pub fn host_bytes(&self) -> u64 {
        match self {
            Self::Dram { size } => *size,
            Self::Dir { buffer, .. } => *buffer,
            Self::Cuda { .. } | Self::File { .. } => 0,
        }
    }
}
