//! What the two halves of one side share about a lane, and how it dies.
//!
//! Either half, seeing an error, marks the lane dead, shuts its socket and wakes the other; from there on it goes as
//! [`crate::life`] says. Deliberately no memory and no requests in here.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use crate::fault::Fault;
use crate::life::Life;
use crate::link::{LinkId, Wakes};
use crate::sync::{AtomicU64, Ordering};
use crate::wr::Blame;

/// What the halves of one worker pair share.
pub(crate) struct Pair {
    pub(crate) wakes: Wakes,
    /// Grows with every death, so that a poster looks at one word a turn, not at each lane.
    deaths: AtomicU64,
}

impl Pair {
    pub(crate) fn new(wakes: Wakes) -> Self {
        Self { wakes, deaths: AtomicU64::new(0) }
    }

    /// Deaths so far.
    pub(crate) fn deaths(&self) -> u64 {
        self.deaths.load(Ordering::Acquire)
    }
}

/// A lane's connection, seen from its dialler.
pub(crate) struct Connection {
    pub(crate) id: LinkId,
    pub(crate) peer: String,
    pub(crate) stream: TcpStream,
    pub(crate) life: Life,
    /// Whose fault its end is, as the first one said who saw it.
    pub(crate) fault: Fault,
    pub(crate) pair: Arc<Pair>,
}

impl Connection {
    /// One that lives.
    pub(crate) fn new(id: LinkId, peer: String, stream: TcpStream, pair: Arc<Pair>) -> Self {
        Self { id, peer, stream, life: Life::default(), fault: Fault::default(), pair }
    }

    /// Kills it because it shall end; harmless when it is dead already.
    pub(crate) fn kill(&self) {
        self.kill_for(Blame::Nobody);
    }

    /// Kills it for something that went wrong; harmless when it is dead already.
    pub(crate) fn kill_for(&self, blame: Blame) {
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

/// A lane: a connection, and what is spoken on it.
pub(crate) trait Connected: Send + Sync + 'static {
    /// Whose lanes these are, for the log.
    const WHOSE: &'static str;

    /// Its connection.
    fn connection(&self) -> &Connection;

    /// Whose fault its end was.
    fn blame(&self) -> Blame {
        self.connection().fault.get()
    }
}

/// The poster's share. Dropping it, whoever holds it, kills the lane and falls quiet: a poster that
/// panicked or was never built can strand nobody.
pub(crate) struct PostEnd<L: Connected>(pub(crate) Arc<L>);

impl<L: Connected> Drop for PostEnd<L> {
    fn drop(&mut self) {
        let connection = self.0.connection();
        connection.kill();
        connection.life.fall_quiet();
        connection.pair.wakes.reap.wake();
    }
}

/// The reaper's share. Dropping it kills the lane, and when that is over nothing of the lane touches local memory.
pub(crate) struct ReapEnd<L: Connected>(pub(crate) Arc<L>);

impl<L: Connected> Drop for ReapEnd<L> {
    fn drop(&mut self) {
        let connection = self.0.connection();
        connection.kill();
        connection.life.outlast_send();
    }
}
