//! Which segments of a peer may be measured: those that are memory. Deliberately refused where bytes would go into the buffer that
//! files pass through: every copy of that time would fail by its checksums.

use pipeline_node::{Peer, Segment};

use crate::cli::exit::Failure;
use crate::cli::failures::engine;

/// The segment of that name.
///
/// # Errors
/// The peer lacks it, or it is a folder.
pub fn memory_of(peer: &Peer, name: &str) -> Result<Segment, Failure> {
    let segment = peer.segment(name).map_err(|e| engine(&e))?;
    match segment.kind() {
        "dir" => Err(Failure::failed(format!(
            "segment `{name}` of {} is a folder: what is measured would go into the buffer that its files pass through, and copies would fail \
             of it; name a segment of memory, or copy files",
            peer.label()
        ))),
        _ => Ok(segment),
    }
}
