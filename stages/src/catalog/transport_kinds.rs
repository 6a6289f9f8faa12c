//! The keys of each transport type, with ranges and what they mean. Deliberately data only.

use pipeline_configs::schema::Change;
use pipeline_configs::{Key, Kind, TransportKind};

const fn key(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Key {
    Key { name, kind, default, required: false, doc, change: Change::Rebuild, ..Key::PLAIN }
}

const fn lanes(default: &'static str) -> Key {
    let doc = "Links a path: each is a connection of its own, and slices are spread over them.";
    key("lanes", Kind::Count { min: 1, max: 64 }, Some(default), doc)
}

const fn depth(default: &'static str) -> Key {
    let doc = "Work requests outstanding on a link.";
    key("depth", Kind::Count { min: 1, max: 65_536 }, Some(default), doc)
}

const fn prefers(default: &'static str) -> Key {
    let doc = "The size of work request at which it works best: the meaning of slice = \"auto\".";
    key("prefers", Kind::Bytes { min: 512, max: 1 << 36 }, Some(default), doc)
}

const SOCKET: Kind = Kind::Bytes { min: 4096, max: 1 << 30 };

/// `tcp`.
pub(super) const TCP: TransportKind = TransportKind {
    name: "tcp",
    summary: "TCP lanes with descriptors in frames, straight between socket and registered memory.",
    keys: &[
        lanes("2"),
        depth("1024"),
        prefers("1MiB"),
        key("nodelay", Kind::Flag, Some("true"), "Sets TCP_NODELAY: small frames leave at once."),
        key(
            "congestion",
            Kind::Text,
            None,
            "Congestion control by its kernel name; without it, the system's default.",
        ),
        key(
            "bind",
            Kind::Word(&["address", "device"]),
            Some("address"),
            "What ties a lane to its NIC: \"address\", its source address, so that routing rules send it out there; \"device\", the interface too (SO_BINDTODEVICE), for NICs of one network without such rules.",
        ),
        key("send_buffer", SOCKET, None, "SO_SNDBUF of a lane; without it, the kernel tunes it."),
        key("receive_buffer", SOCKET, None, "SO_RCVBUF of a lane; without it, the kernel tunes it."),
        key("frame_descriptors", Kind::Count { min: 1, max: 64 }, Some("64"), "Work requests in one frame."),
        key(
            "frame",
            Kind::Bytes { min: 512, max: 1 << 36 },
            Some("4MiB"),
            "Payload after which a frame is closed.",
        ),
        key(
            "keepalive",
            Kind::Time { min_ns: 0, max_ns: 86_400_000_000_000 },
            Some("15s"),
            "Idle time before the system probes a lane, in whole seconds; 0 means never.",
        ),
        key(
            "stall",
            Kind::Time { min_ns: 0, max_ns: 86_400_000_000_000 },
            Some("10s"),
            "A lane with work outstanding on which nothing moves for so long (at least 100 ms) is closed; 0 means never.",
        ),
    ],
    preferred_bytes: 1 << 20,
    foreign: false,
    later: None,
};

/// `loopback`.
pub(super) const LOOPBACK: TransportKind = TransportKind {
    name: "loopback",
    summary: "Copies within this process: between engines of one process, or of an engine with itself.",
    keys: &[lanes("1"), depth("256"), prefers("256KiB")],
    preferred_bytes: 256 << 10,
    foreign: false,
    later: None,
};

const fn ppm(name: &'static str, doc: &'static str) -> Key {
    key(name, Kind::Count { min: 0, max: 1_000_000 }, Some("0"), doc)
}

const DELAY: Kind = Kind::Time { min_ns: 0, max_ns: 3_600_000_000_000 };

/// `sim`.
pub(super) const SIM: TransportKind = TransportKind {
    name: "sim",
    summary: "Simulated within this process: seeded delay, reordering, loss, errors, refusals, duplicates.",
    keys: &[
        lanes("1"),
        depth("256"),
        prefers("256KiB"),
        key("seed", Kind::Count { min: 0, max: u64::MAX }, Some("0"), "What all chances are drawn from."),
        key(
            "move",
            Kind::Flag,
            Some("true"),
            "Whether bytes are moved; without, sparse terabytes cost nothing.",
        ),
        key("direct", Kind::Flag, Some("true"), "Whether it passes for a transport without staging copies."),
        key("delay_min", DELAY, Some("5us"), "Least time from post to completion."),
        key("delay_max", DELAY, Some("50us"), "Most time from post to completion."),
        key(
            "bytes_per_s",
            Kind::Count { min: 0, max: 1 << 50 },
            Some("0"),
            "Speed of a link, whose work requests use it one after the other; 0 means no limit.",
        ),
        ppm("reorder_ppm", "Work requests in a million that later ones overtake."),
        ppm("loss_ppm", "Work requests in a million whose completion never comes."),
        ppm("error_ppm", "Work requests in a million that fail, with nothing applied."),
        ppm("refuse_ppm", "Work requests in a million that the target refuses."),
        ppm("duplicate_ppm", "Completions in a million that come once more."),
        ppm(
            "corrupt_ppm",
            "Work requests in a million of which one bit is changed on the way, and nobody is told.",
        ),
    ],
    preferred_bytes: 256 << 10,
    foreign: false,
    later: None,
};

/// `shm`.
pub(super) const SHM: TransportKind = TransportKind {
    name: "shm",
    summary: "Shared memory of two processes of one machine.",
    keys: &[
        lanes("1"),
        depth("256"),
        prefers("1MiB"),
        key(
            "directory",
            Kind::Path,
            Some("/dev/shm"),
            "Where segments are made; peers must see the same one.",
        ),
    ],
    preferred_bytes: 1 << 20,
    foreign: false,
    later: Some("shared memory"),
};

/// `cma`.
pub(super) const CMA: TransportKind = TransportKind {
    name: "cma",
    summary: "Copies between two processes of one machine by the kernel (process_vm_readv), without sharing memory.",
    keys: &[lanes("1"), depth("256"), prefers("1MiB")],
    preferred_bytes: 1 << 20,
    foreign: false,
    later: Some("shared memory"),
};

const SECONDS: u64 = 1_000_000_000;

/// `rdma`.
pub(super) const RDMA: TransportKind = TransportKind {
    name: "rdma",
    summary: "RDMA verbs over InfiniBand or RoCE: the NIC moves the bytes, the target's CPU takes no part. In programs built with the feature `rdma`.",
    keys: &[
        lanes("2"),
        depth("256"),
        prefers("64KiB"),
        key(
            "max_request",
            Kind::Bytes { min: 4096, max: 1 << 31 },
            Some("1GiB"),
            "Longest work request: longer slices are refused. What all devices take holds as well.",
        ),
        key(
            "read_depth",
            Kind::Count { min: 1, max: 255 },
            Some("16"),
            "READs that a queue pair has under way at once; both devices' limits hold as well.",
        ),
        key(
            "endpoints",
            Kind::Count { min: 2, max: 1 << 20 },
            Some("4096"),
            "Queue pairs of each NIC at a time, to all peers; when there are as many, one that idles makes room.",
        ),
        key("port", Kind::Count { min: 1, max: 255 }, Some("1"), "Port of the devices that is used."),
        key(
            "gid",
            Kind::Count { min: 0, max: 255 },
            None,
            "Index of the GID. Without it: that of the NIC's `address`, else the first RoCE v2 one with an IPv4 address, with a routable IPv6 one, any; looked up anew for each connection.",
        ),
        key(
            "service_level",
            Kind::Count { min: 0, max: 15 },
            Some("0"),
            "Service level, for fabrics that treat levels differently.",
        ),
        key(
            "traffic_class",
            Kind::Count { min: 0, max: 255 },
            Some("0"),
            "Traffic class of RoCE packets: DSCP times 4.",
        ),
        key(
            "mtu",
            Kind::Word(&["256", "512", "1024", "2048", "4096"]),
            Some("4096"),
            "Largest packet, bytes; what both ports have at present holds as well.",
        ),
        key(
            "ack_timeout",
            Kind::Time { min_ns: 4_096, max_ns: 9_000 * SECONDS },
            Some("67ms"),
            "How long the NIC waits for an acknowledgement before it sends again; the next of 4.096us times a power of 2.",
        ),
        key("retries", Kind::Count { min: 0, max: 7 }, Some("7"), "How often the NIC sends again."),
        key(
            "stall",
            Kind::Time { min_ns: SECONDS, max_ns: 86_400 * SECONDS },
            None,
            "A queue pair with work outstanding that completes nothing for so long is closed; without it, when the NIC must have given up by itself (four times ack_timeout times retries + 1, at least 5 s).",
        ),
        key(
            "inline",
            Kind::Bytes { min: 0, max: 4096 },
            Some("64"),
            "WRITEs up to this size are handed to the NIC with their bytes, which saves it a look into memory; what the device can do holds as well.",
        ),
        key(
            "signal_every",
            Kind::Count { min: 1, max: 65_536 },
            Some("64"),
            "Of so many work requests one is announced when it is done, and the last of each flush.",
        ),
        key(
            "relaxed_ordering",
            Kind::Flag,
            Some("true"),
            "Lets the NIC deliver the bytes of a transfer in any order, where it and the PCI bus know how.",
        ),
        key(
            "register_max",
            Kind::Bytes { min: 8192, max: 1 << 60 },
            None,
            "Longest memory registration: longer regions are registered in pieces that overlap by the longest work request, which is at most half of this; peers that send longer ones are refused. Without it, what all devices take.",
        ),
        key(
            "gpu_memory",
            Kind::Word(&["auto", "dmabuf", "peermem"]),
            Some("auto"),
            "How memory of GPUs is made known to the NIC: as a dmabuf, by the driver's peer memory (nvidia_peermem), or whichever of them works, in this order.",
        ),
        key(
            "rails",
            Kind::Word(&["same", "any"]),
            Some("any"),
            "Whether NICs only talk to those of their own rail.",
        ),
    ],
    preferred_bytes: 64 << 10,
    foreign: false,
    later: None,
};

/// `cuda`.
pub(super) const CUDA: TransportKind = TransportKind {
    name: "cuda",
    summary: "Copies between GPUs of one machine, and between a GPU and memory of the host.",
    keys: &[
        lanes("1"),
        depth("256"),
        prefers("4MiB"),
        key("streams", Kind::Count { min: 1, max: 32 }, Some("2"), "CUDA streams for each GPU."),
    ],
    preferred_bytes: 4 << 20,
    foreign: false,
    later: Some("GPU memory"),
};

/// `file`.
pub(super) const FILE: TransportKind = TransportKind {
    name: "file",
    summary: "Reads and writes of local files and block devices, without the page cache where the system allows.",
    keys: &[
        lanes("1"),
        depth("64"),
        prefers("1MiB"),
        key(
            "engine",
            Kind::Word(&["auto", "io_uring", "threads"]),
            Some("auto"),
            "How the kernel is asked; auto: io_uring where it is allowed, else threads.",
        ),
        key(
            "direct",
            Kind::Flag,
            Some("true"),
            "Goes past the page cache (O_DIRECT) where offset and size allow.",
        ),
        key(
            "fsync",
            Kind::Word(&["never", "batch", "always"]),
            Some("batch"),
            "When written bytes are made durable: before a batch is done, before each slice is, or never.",
        ),
    ],
    preferred_bytes: 1 << 20,
    foreign: false,
    later: Some("file segments"),
};

/// `mooncake_tcp`.
pub(super) const MOONCAKE_TCP: TransportKind = TransportKind {
    name: "mooncake_tcp",
    summary: "Mooncake's TCP protocol, to and from nodes that run its Transfer Engine. Its wire has no passwords: who connects may do what a region allows.",
    keys: &[
        lanes("4"),
        depth("256"),
        prefers("1MiB"),
        key(
            "listen",
            Kind::Address,
            Some("127.0.0.1:0"),
            "Where the handshake port listens: others ask there what this node has. Port 0 is any free one, and part of this node's name then.",
        ),
        key(
            "data_listen",
            Kind::Address,
            None,
            "Where data connections are taken; without it, on the host of `listen`, at any free port.",
        ),
        key(
            "advertise",
            Kind::Text,
            None,
            "The host that others are told to connect to; without it, that of `listen`. Needed where that is 0.0.0.0 or [::].",
        ),
        key(
            "metadata",
            Kind::Text,
            Some("P2PHANDSHAKE"),
            "Where nodes learn of each other: \"P2PHANDSHAKE\", from each other by address; or a directory, \"http://HOST:PORT/metadata\", \"etcd://HOST:PORT\", \"redis://HOST:PORT\".",
        ),
        key(
            "cluster",
            Kind::Text,
            None,
            "Part of every key in the directory, as MC_METADATA_CLUSTER_ID is: nodes of other clusters are not seen.",
        ),
        key(
            "server_name",
            Kind::Text,
            None,
            "This node's name in the directory; without it, the name of the node. Without a directory the name is where it listens.",
        ),
        key(
            "stall",
            Kind::Time { min_ns: 0, max_ns: 86_400 * SECONDS },
            Some("30s"),
            "A connection with work outstanding on which nothing moves for so long (at least 100 ms) is closed; 0 means never.",
        ),
        key(
            "connections",
            Kind::Count { min: 1, max: 1 << 20 },
            Some("1024"),
            "Data connections of others at a time; when there are as many, the one that is idle for longest makes room.",
        ),
        key(
            "protocol",
            Kind::Word(&["auto", "v1"]),
            Some("auto"),
            "auto: acknowledged requests to peers that know them; \"v1\": never, as with MC_TCP_PROTO=1. What others send is understood either way.",
        ),
        key(
            "max_handshake",
            Kind::Bytes { min: 4096, max: 1 << 30 },
            Some("1MiB"),
            "Longest message that is read at the handshake port, as MC_HANDSHAKE_MAX_LENGTH: what some 15 000 registered buffers take is 1 MiB.",
        ),
    ],
    preferred_bytes: 1 << 20,
    foreign: true,
    later: None,
};
