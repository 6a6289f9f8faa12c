//! What the halves of this side share about a lane, and how it dies.
//!
//! Either half, seeing an error, marks the lane dead, shuts its socket and wakes the other; from there on it goes as
//! [`crate::life`] says. Deliberately no memory and no frames in here.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use super::counters::Counters;
use super::hello::Hello;
use super::nics::State;
use super::slots::Slots;
use crate::fault::Fault;
use crate::life::Life;
use crate::link::{LinkId, Wakes};
use crate::sync::{AtomicU64, Ordering};
use crate::wr::Blame;

/// What the halves of one worker pair share.
pub(super) struct Pair {
    pub(super) wakes: Wakes,
    pub(super) counters: Arc<Counters>,
    /// Its NIC.
    pub(super) nic: Arc<State>,
    /// Grows with every death, so that a poster looks at one word a turn, not at each lane.
    deaths: AtomicU64,
}

impl Pair {
    pub(super) fn new(wakes: Wakes, counters: Arc<Counters>, nic: Arc<State>) -> Self {
        Self { wakes, counters, nic, deaths: AtomicU64::new(0) }
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
    pub(super) agreed: Hello,
    pub(super) slots: Slots,
    pub(super) life: Life,
    /// Whose fault its end is, as the first one said who saw it.
    pub(super) fault: Fault,
    pub(super) pair: Arc<Pair>,
}

impl Lane {
    /// Whose fault its end was: what looks like one of the way there is this side's while its NIC is ill.
    pub(super) fn blame(&self) -> Blame {
        match self.fault.get() {
            Blame::Path if self.pair.nic.is_ill() => Blame::LocalNic,
            blame => blame,
        }
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

/// The acceptor's share. Dropping it ends the connection, even if a child that the application forked has a copy of
/// its descriptor: the dialler would otherwise wait for as long as that child lives.
pub(super) struct ServeEnd {
    pub(super) id: LinkId,
    pub(super) peer: String,
    pub(super) stream: TcpStream,
    pub(super) agreed: Hello,
    pub(super) pair: Arc<Pair>,
}

impl Drop for ServeEnd {
    fn drop(&mut self) {
        // The dialler may have closed it first; then there is nothing left to shut.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
