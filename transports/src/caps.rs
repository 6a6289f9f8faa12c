//! What a transport can do, as facts the router may act on.

/// Who moves payload between registered memory and the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mover {
    /// A CPU copies every byte, in user space (`memcpy`) or in the kernel (sockets). Staging is apart from that: see
    /// [`Caps::direct`].
    Cpu,
    /// A device reads and writes registered memory (DMA): no CPU touches payload.
    Device,
}

/// Capabilities of a transport, fixed for its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The target's CPU takes part: an acceptor needs a serve half.
    pub two_sided: bool,
    /// A closed link stops the target by itself (RDMA: queue pair in error and flushed).
    pub fenced: bool,
    /// READ is supported.
    pub read: bool,
    /// WRITE is supported.
    pub write: bool,
    /// No staging copy in user space on either side.
    pub direct: bool,
    /// Who moves the bytes. What is called zero-copy takes a [`Mover::Device`] and `direct`.
    pub mover: Mover,
    /// Largest work request, bytes.
    pub max_bytes: u64,
    /// The size at which it works best: the meaning of `slice = "auto"`.
    pub preferred_bytes: u64,
}
