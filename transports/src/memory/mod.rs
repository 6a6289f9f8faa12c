//! Registered memory: owned or borrowed bytes, the table of regions, and who is touching them.
//! Deliberately no deref to a slice: a peer may write at any time.
//!
//! (Contract; bodies follow.)

/// Names a region of one node: index in its table (low 32 bits) and generation (high 32 bits), so that an
/// old name never means new memory. Travels on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u64);

/// What peers may do to a region. The node itself may always do both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// Nothing: a source or destination of our own requests only.
    #[default]
    Local,
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// Both.
    ReadWrite,
}

/// Bytes that can be registered: mapped by us, or the application's (then `unsafe`).
pub struct Memory {
    _todo: (),
}

/// The table of a node's regions: fixed capacity, lock-free to look up, generations against reuse.
pub struct Regions {
    _todo: (),
}
