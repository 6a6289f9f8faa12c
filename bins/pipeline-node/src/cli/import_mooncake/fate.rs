//! What can become of a name that Mooncake knows. Deliberately data only: the tables are in `variables.rs` and `keys.rs`.

/// What a set-up rests on, whoever says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Basic {
    /// Where nodes find each other.
    Metadata,
    /// Of two keys that together name the metadata server, the one that says of what kind it is.
    MetadataKind,
    /// What this node calls itself: `host`, `host:port`.
    Name,
    /// `tcp` or `rdma`.
    Protocol,
    /// Whether TCP is forced.
    ForceTcp,
    /// Whether RDMA is forced.
    ForceRdma,
    /// Devices: a list with commas, or for each GPU.
    Devices,
    /// Devices that may be used.
    Filter,
    /// File of the priority matrix.
    Matrix,
    /// Bytes that peers may read and write.
    Memory,
    /// Host that others are told.
    Advertise,
    /// Port of names without one.
    Port,
    /// Keys of several clusters in one directory.
    Cluster,
    /// To log in to redis with.
    RedisUser,
    /// As above.
    RedisPassword,
    /// As above.
    RedisDatabase,
    /// File with more of all this.
    Config,
}

/// Over which transport a key of ours means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Any,
    Tcp,
    Rdma,
}

/// How a value is written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// A number as it is.
    Number,
    /// A number that is written as a word here.
    Word,
    /// Bytes as it is.
    Bytes,
    /// A number of seconds.
    Seconds,
    /// 0, 1, true, false.
    Flag,
    /// One of these levels, by glog's names.
    Level,
    /// What 1 means is this.
    Is(&'static str),
}

/// Name of the transport in the file.
pub(super) const TRANSPORT: &str = "mooncake";

/// Table of that transport.
pub(super) const TABLE: &str = "transports.mooncake";

/// See the file's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is part of what every set-up says.
    Basic(Basic),
    /// A key of ours.
    Sets { table: &'static str, key: &'static str, over: Over, reading: Reading },
    /// Nothing has to be written: why.
    Needless(&'static str),
    /// There is nothing of the kind: why, and what comes near.
    Lacks(&'static str),
}

/// A name, and what becomes of it.
pub(super) type Row = (&'static str, Fate);

/// A key of the transport, whichever it is.
pub(super) const fn either(key: &'static str, reading: Reading) -> Fate {
    Fate::Sets { table: TABLE, key, over: Over::Any, reading }
}

/// A key of the transport over TCP.
pub(super) const fn tcp(key: &'static str, reading: Reading) -> Fate {
    Fate::Sets { table: TABLE, key, over: Over::Tcp, reading }
}

/// A key of the transport over RDMA.
pub(super) const fn rdma(key: &'static str, reading: Reading) -> Fate {
    Fate::Sets { table: TABLE, key, over: Over::Rdma, reading }
}

/// A key of another table.
pub(super) const fn node(table: &'static str, key: &'static str, reading: Reading) -> Fate {
    Fate::Sets { table, key, over: Over::Any, reading }
}
