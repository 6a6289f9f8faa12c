//! The variables that Mooncake's Transfer Engine reads, and those of the programs that start it, with what becomes of each
//! here. Deliberately all of them: what is not in the table is a slip of the pen, and is told so.

use super::fate::Reading::{Bytes, Flag, Is, Level, Number, Seconds, Word};
use super::fate::{Basic, Fate, Row, either, node, rdma, tcp};

const fn basic(which: Basic) -> Fate {
    Fate::Basic(which)
}

const fn lacks(why: &'static str) -> Fate {
    Fate::Lacks(why)
}

const fn needless(why: &'static str) -> Fate {
    Fate::Needless(why)
}

const QUEUES: &str = "queues of completions are made by the engine: one for each worker of a NIC (`[pools]`), as long as its links need";
const SIZED: &str = "bounded by `depth` of the transport and by `[limits] slices`";
const NO_QUEUE: &str = "there is no queue of a peer that fails what it has no room for: `[limits]` bounds what is in flight, and `submit` answers Busy";
const FOUND: &str = "a file names its NICs: `nics` of the transport";
const RAILS: &str = "which NIC of a peer is taken says `rails` of the transport, or `[nics]` with `rail`";
const LOGS: &str = "logs go to stderr, events of single slices are not logged";
const OTHER: &str = "a transport that is not here";
const STORE: &str = "a matter of Mooncake Store, not of its Transfer Engine";
const METRICS: &str =
    "a node counts all the time; `[metrics] listen = \"HOST:PORT\"` serves it to Prometheus";
const ASKED: &str = "nothing is kept of an answer: a peer is asked again after its links died";

/// `MC_…` of the Transfer Engine, by what they are about.
pub(super) const ENGINE: &[Row] = &[
    // Finding each other.
    ("MC_METADATA_CLUSTER_ID", basic(Basic::Cluster)),
    ("MC_REDIS_USERNAME", basic(Basic::RedisUser)),
    ("MC_REDIS_PASSWORD", basic(Basic::RedisPassword)),
    ("MC_REDIS_DB_INDEX", basic(Basic::RedisDatabase)),
    ("MC_DISABLE_METACACHE", needless(ASKED)),
    ("MC_TE_METADATA_REFRESH_INTERVAL_SECONDS", needless(ASKED)),
    ("MC_HANDSHAKE_PORT", basic(Basic::Port)),
    ("MC_HANDSHAKE_MAX_LENGTH", either("max_handshake", Bytes)),
    ("MC_HANDSHAKE_LISTEN_BACKLOG", needless("silent clients delay nobody at the port")),
    ("MC_HANDSHAKE_CONNECT_TIMEOUT", node("limits", "connect", Seconds)),
    ("MC_MIN_RPC_PORT", lacks("`listen` of the transport names one port; 0 takes any free one")),
    ("MC_MAX_RPC_PORT", lacks("`listen` of the transport names one port; 0 takes any free one")),
    ("MC_MIN_PRC_PORT", lacks("`listen` of the transport names one port; 0 takes any free one")),
    ("MC_MAX_PRC_PORT", lacks("`listen` of the transport names one port; 0 takes any free one")),
    ("MC_LEGACY_RPC_PORT_BINDING", needless("the port of the name is the one that is listened at")),
    ("MC_TCP_BIND_ADDRESS", basic(Basic::Advertise)),
    ("MC_RDMA_BIND_ADDRESS", lacks("write `advertise` of the transport, the host that others are told")),
    ("MC_USE_IPV6", needless("IPv4 and IPv6 go together: `listen = \"[::]:PORT\"`")),
    // Which transport.
    ("MC_FORCE_TCP", basic(Basic::ForceTcp)),
    ("MC_FORCE_HCA", basic(Basic::ForceRdma)),
    ("MC_FORCE_MNNVL", lacks(OTHER)),
    ("MC_FORCE_MUSA", lacks(OTHER)),
    ("MC_INTRA_NVLINK", lacks(OTHER)),
    ("MC_USE_NVLINK_IPC", lacks(OTHER)),
    ("MC_HIP_NUM_STREAMS", lacks(OTHER)),
    ("MC_HIP_NUM_EVENTS", lacks(OTHER)),
    ("MC_CXL_DEV_PATH", lacks(OTHER)),
    ("MC_CXL_DEV_SIZE", lacks(OTHER)),
    ("MC_EFA_CQ_THREADS", lacks(OTHER)),
    ("MC_EFA_NIC_SELECTION", lacks(OTHER)),
    ("MC_USE_TENT", lacks("TENT speaks another protocol, which this node does not")),
    ("MC_USE_TEV1", needless("it is the protocol that is spoken")),
    ("MC_TENT_CONF", lacks("TENT speaks another protocol, which this node does not")),
    // TCP.
    ("MC_TCP_PROTO", tcp("protocol", Is("v1"))),
    ("MC_TCP_LANES_PER_PEER", tcp("lanes", Number)),
    ("MC_TCP_MAX_CONNECTIONS_PER_PEER", tcp("lanes", Number)),
    ("MC_TCP_ENABLE_CONNECTION_POOL", needless("lanes are kept and used again")),
    ("MC_TCP_STATUS_TIMEOUT_SEC", tcp("stall", Seconds)),
    ("MC_TCP_PROGRESS_TIMEOUT_SEC", tcp("stall", Seconds)),
    ("MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER", lacks(NO_QUEUE)),
    ("MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER", lacks(NO_QUEUE)),
    ("MC_TCP_ADMISSION_TIMEOUT_MS", lacks(NO_QUEUE)),
    (
        "MC_TCP_SLICE_SIZE",
        lacks("a system call moves as many bytes as there are; how slices are cut says `prefers`"),
    ),
    ("MC_NUM_TCP_IO_THREADS", lacks("threads are those of a pool: `pools.nic.threads`")),
    // RDMA.
    ("MC_IB_PORT", rdma("port", Number)),
    ("MC_GID_INDEX", rdma("gid", Number)),
    ("NCCL_IB_GID_INDEX", rdma("gid", Number)),
    ("MC_MTU", rdma("mtu", Word)),
    ("MC_IB_TC", rdma("traffic_class", Number)),
    ("MC_IB_SL", rdma("service_level", Number)),
    ("MC_IB_PCI_RELAXED_ORDERING", rdma("relaxed_ordering", Flag)),
    ("MC_NUM_QP_PER_EP", rdma("queue_pairs", Number)),
    ("MC_MAX_WR", rdma("depth", Number)),
    ("MC_MAX_INLINE", rdma("inline", Bytes)),
    ("MC_MAX_EP_PER_CTX", rdma("endpoints", Number)),
    ("MC_SLICE_SIZE", rdma("prefers", Bytes)),
    ("MC_MAX_MR_SIZE", rdma("register_max", Bytes)),
    ("WITH_NVIDIA_PEERMEM", rdma("gpu_memory", Is("peermem"))),
    ("MC_PKEY_INDEX", lacks("the partition key of index 0 is used")),
    ("MC_NUM_CQ_PER_CTX", lacks(QUEUES)),
    ("MC_NUM_COMP_CHANNELS_PER_CTX", lacks(QUEUES)),
    ("MC_MAX_CQE_PER_CTX", lacks(SIZED)),
    ("MC_MAX_SGE", lacks("a work request has one piece of memory on each side")),
    ("MC_FRAGMENT_RATIO", lacks("the last slice of a request is as long as what is left")),
    (
        "MC_WORKERS_PER_CTX",
        lacks("threads are those of a pool, and do not divide posting from polling: `pools.nic.threads`"),
    ),
    ("MC_AUTO_GID_MAX_RETRIES", needless("the GID is looked up anew for each connection")),
    ("MC_ENDPOINT_STORE_TYPE", lacks("of the endpoints the one that idles longest makes room")),
    (
        "MC_ENABLE_PARALLEL_REG_MR",
        lacks("`[limits] register` names a pool of kind `stealing` that shares the work"),
    ),
    (
        "MC_MAX_CONCURRENT_REG_MR",
        lacks("`[limits] register` names a pool of kind `stealing` that shares the work"),
    ),
    ("MC_MLX5_QP_UDP_SPORTS", lacks("UDP source ports are left to the driver")),
    ("MC_MLX5_QP_LAG_PORT_BALANCE", lacks("ports of a bond are left to the driver")),
    ("MC_CONN_PAUSE_TTL_MS", lacks("pauses between dials double from 20 ms to `[limits] reconnect`")),
    ("MC_RDMA_RAIL_PAUSE_SECONDS", node("limits", "rest", Seconds)),
    ("MC_RDMA_NOTIFY_DEPTH", lacks("notices go by the handshake port")),
    ("MC_USE_RDMA_TWOSIDED", lacks("notices go by the handshake port")),
    // Requests.
    ("MC_RETRY_CNT", node("stages.retry", "attempts", Number)),
    ("MC_TRANSFER_TIMEOUT", node("limits", "deadline", Seconds)),
    (
        "MC_SLICE_TIMEOUT",
        lacks(
            "deadlines are those of requests (`[limits] deadline`): they end all of a request's slices and free its buffer",
        ),
    ),
    // Which NIC.
    ("MC_CUSTOM_TOPO_JSON", basic(Basic::Matrix)),
    ("MC_TE_FILTERS", basic(Basic::Filter)),
    ("MC_PATH_ROUNDROBIN", node("stages.select", "policy", Is("round_robin"))),
    ("MC_ENABLE_DEST_DEVICE_AFFINITY", lacks(RAILS)),
    ("MC_ENABLE_HCA_PEER_AFFINITY", lacks(RAILS)),
    ("MC_NIC_PEER_AFFINITY", lacks(RAILS)),
    ("MC_MS_AUTO_DISC", lacks(FOUND)),
    ("MC_MS_FILTERS", basic(Basic::Filter)),
    // What it tells.
    ("MC_LOG_LEVEL", node("log", "level", Level)),
    ("MC_LOG_DIR", lacks(LOGS)),
    ("MC_LOG_RDMA_SLICE_AFFINITY", lacks(LOGS)),
    ("MC_TRACK_RDMA_POSTED_SLICES", lacks(LOGS)),
    ("MC_TE_METRIC", lacks(METRICS)),
    ("MC_TE_METRIC_INTERVAL_SECONDS", lacks(METRICS)),
];

/// Of the programs that start it: vLLM, SGLang, LMCache.
pub(super) const STARTERS: &[Row] = &[
    ("MOONCAKE_CONFIG_PATH", basic(Basic::Config)),
    ("SGLANG_HICACHE_MOONCAKE_CONFIG_PATH", basic(Basic::Config)),
    ("MOONCAKE_TE_META_DATA_SERVER", basic(Basic::Metadata)),
    ("MOONCAKE_LOCAL_HOSTNAME", basic(Basic::Name)),
    ("MOONCAKE_PROTOCOL", basic(Basic::Protocol)),
    ("MOONCAKE_DEVICE", basic(Basic::Devices)),
    ("MOONCAKE_DEVICE_NAME", basic(Basic::Devices)),
    ("MOONCAKE_GLOBAL_SEGMENT_SIZE", basic(Basic::Memory)),
    (
        "MOONCAKE_LOCAL_BUFFER_SIZE",
        needless("the local side of a request is memory that the program allocates or registers"),
    ),
    ("MOONCAKE_MASTER", lacks(STORE)),
    ("MOONCAKE_TENANT_ID", lacks(STORE)),
    ("MOONCAKE_CLIENT", lacks(STORE)),
    ("MOONCAKE_CHECK_SERVER", lacks(STORE)),
    ("MOONCAKE_STANDALONE_STORAGE", lacks(STORE)),
    ("MOONCAKE_STORAGE_ROOT_DIR", lacks(STORE)),
    ("MOONCAKE_EXTRA_CONFIG", lacks(STORE)),
    ("VLLM_MOONCAKE_BOOTSTRAP_PORT", lacks("vLLM's own server, at which its instances meet")),
    (
        "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT",
        lacks("how long vLLM keeps blocks for a decoder that does not come"),
    ),
    ("SGLANG_MOONCAKE_CUSTOM_MEM_POOL", lacks("memory of GPUs comes with a later release")),
];

/// Beginnings of the names of variables that are not the Transfer Engine's: not listed one by one.
pub(super) const FAMILIES: &[(&str, &str)] = &[
    ("MC_STORE_", STORE),
    ("MC_RPC_", STORE),
    ("MC_EFA_", OTHER),
    ("MC_CXL_", OTHER),
    ("MC_NCCL_", OTHER),
    ("MC_HIP_", OTHER),
    ("MC_RDMA_NOTIFY_", "notices go by the handshake port"),
];
