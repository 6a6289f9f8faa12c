//! What the halves of this side share about a lane, and how it dies: a connection to a target's data port, on which requests
//! stand one behind the other.
//!
//! Either half, seeing an error, marks the lane dead, shuts its socket and wakes the other; from there on it goes as
//! [`crate::life`] says. Deliberately no memory and no bytes of the protocol in here.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use super::peers::Remote;
use super::ring::Ring;
use super::wire::Framing;
use crate::fault::Fault;
use crate::life::Life;
use crate::link::{LinkId, Wakes};
use crate::sync::{AtomicU64, Ordering};
use crate::wr::Blame;

/// What the halves of one worker pair share.
pub(super) struct Pair {
    pub(super) wakes: Wakes,
    /// Grows with every death, so that a poster looks at one word a turn, not at each lane.
    deaths: AtomicU64,
}

impl Pair {
    pub(super) fn new(wakes: Wakes) -> Self {
        Self { wakes, deaths: AtomicU64::new(0) }
    }

    /// Deaths so far.
    pub(super) fn deaths(&self) -> u64 {
        self.deaths.load(Ordering::Acquire)
    }
}

/// A lane, seen from its dialler.
pub(super) struct Lane {
    pub(super) id: LinkId,
    pub(super) peer: String,
    pub(super) stream: TcpStream,
    /// Of all its requests.
    pub(super) framing: Framing,
    /// Where the regions of its peer lie.
    pub(super) remote: Arc<Remote>,
    pub(super) ring: Ring,
    pub(super) life: Life,
    /// Whose fault its end is, as the first one said who saw it.
    pub(super) fault: Fault,
    pub(super) pair: Arc<Pair>,
}

impl Lane {
    /// Its two ends, for the halves.
    pub(super) fn ends(self) -> (PostEnd, ReapEnd) {
        let lane = Arc::new(self);
        (PostEnd(lane.clone()), ReapEnd(lane))
    }

    /// Kills it because it shall end; harmless when it is dead already.
    pub(super) fn kill(&self) {
        self.kill_for(Blame::Nobody);
    }

    /// Kills it for something that went wrong; harmless when it is dead already.
    pub(super) fn kill_for(&self, blame: Blame) {
        self.fault.set(blame);
        if self.life.die() {
            // The peer may have closed it first; then there is nothing left to shut.
            let _ = self.stream.shutdown(Shutdown::Both);
            self.pair.deaths.fetch_add(1, Ordering::Release);
            self.pair.wakes.post.wake();
            self.pair.wakes.reap.wake();
        }
    }
}

/// The poster's share. Dropping it, whoever holds it, kills the lane and falls quiet: a poster that
/// panicked or was never built can strand nobody.
pub(super) struct PostEnd(pub(super) Arc<Lane>);

impl Drop for PostEnd {
    fn drop(&mut self) {
        self.0.kill();
        self.0.life.fall_quiet();
        self.0.pair.wakes.reap.wake();
    }
}

/// The reaper's share. Dropping it kills the lane, and when that is over nothing of the lane touches local memory.
pub(super) struct ReapEnd(pub(super) Arc<Lane>);

impl Drop for ReapEnd {
    fn drop(&mut self) {
        self.0.kill();
        self.0.life.outlast_send();
    }
}
