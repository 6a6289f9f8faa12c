//! The keys of each transport type, with ranges and what they mean. Deliberately data only.

use pipeline_configs::schema::Change;
use pipeline_configs::{Key, Kind, TransportKind};

const fn key(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Key {
    Key { name, kind, default, required: false, doc, change: Change::Rebuild }
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
            "Idle time before the system probes a lane; 0 means never.",
        ),
    ],
    preferred_bytes: 1 << 20,
    later: None,
};

/// `loopback`.
pub(super) const LOOPBACK: TransportKind = TransportKind {
    name: "loopback",
    summary: "Copies within this process: between engines of one process, or of an engine with itself.",
    keys: &[lanes("1"), depth("256"), prefers("256KiB")],
    preferred_bytes: 256 << 10,
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
    ],
    preferred_bytes: 256 << 10,
    later: None,
};
