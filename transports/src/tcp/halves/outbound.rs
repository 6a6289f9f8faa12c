//! What a protocol says of the requests on a lane: how work requests become bytes, and which of them have left.
//! Deliberately no sockets' turns and no deaths: [`super::post`] has those.

use std::io;

use super::connection::Connected;
use crate::fault::broken_by;
use crate::memory::Regions;
use crate::wr::{Blame, WorkRequest};

/// The requests of one lane, in the words of a protocol.
pub(crate) trait Outbound: Send {
    /// The lane.
    type Lane: Connected;
    /// Bytes that a lane sends by one call at most, and two of them in one flush of all lanes: then it is the turn of what else
    /// the worker does.
    const MOVE_BYTES: usize;

    /// None yet.
    fn new(lane: &Self::Lane) -> Self;
    /// How many more it takes; if none, the reaper wakes this half when there is room.
    fn room(&self, lane: &Self::Lane) -> usize;
    /// Whether there is something to send, or to pass.
    fn has_work(&self, lane: &Self::Lane) -> bool;
    /// Takes work requests, in order, as far as there is room; answers how many.
    fn take(&mut self, lane: &Self::Lane, regions: &Regions, work: &[WorkRequest]) -> usize;
    /// Builds what is sent next, unless something is left of what was built; `false` if there is nothing to send.
    fn build(&mut self, lane: &Self::Lane) -> bool;
    /// Sends up to about `limit` bytes of what was built; answers how many the kernel took.
    ///
    /// # Safety
    /// The local bytes of WRITEs that were built must be readable until this returns.
    ///
    /// # Errors
    /// `WouldBlock` when the socket is full; else the lane is broken.
    unsafe fn send(&mut self, lane: &Self::Lane, limit: usize) -> io::Result<usize>;
    /// The kernel has taken so many bytes, and memory is let go of; `true` if the reaper waits for that.
    fn sent(&mut self, lane: &Self::Lane, bytes: usize) -> bool;
    /// The lane is dead: what cannot have had an effect goes back to "not begun", so that it may be retried elsewhere.
    fn disown(&mut self, lane: &Self::Lane);
    /// Whose fault it is that a send failed.
    fn blame(error: &io::Error) -> Blame {
        broken_by(error)
    }
}
