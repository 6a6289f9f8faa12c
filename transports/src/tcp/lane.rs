//! What the halves of this side share about a lane, and how it dies.
//!
//! Either half, seeing an error, marks the lane dead, shuts its socket and wakes the other. The poster then
//! lets go of all memory and falls *quiet*; only after that may the reaper complete what is left, because a
//! completion gives buffers back. A reaper that goes (its worker panicked) completes nothing: it waits until the
//! poster is not in the middle of a send, after which no send begins. Deliberately no memory and no frames in here.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use super::counters::Counters;
use super::hello::Hello;
use super::slots::Slots;
use crate::link::{LinkId, Wakes};
use crate::sync::{AtomicBool, AtomicU64, Ordering, fence, relax};

/// The two one-way flags of a lane's death, and whether the poster is in the middle of a send.
#[derive(Default)]
pub(super) struct Life {
    dead: AtomicBool,
    quiet: AtomicBool,
    sending: AtomicBool,
}

impl Life {
    /// Marks it dead; `true` for the one who did.
    pub(super) fn die(&self) -> bool {
        !self.dead.swap(true, Ordering::AcqRel)
    }

    /// Whether it is dead.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Poster only, before it touches memory: `false` on a dead lane. [`Self::let_go`] ends it.
    pub(super) fn begin_send(&self) -> bool {
        self.sending.store(true, Ordering::Relaxed);
        // Either we see the death here, or whoever waits in `outlast_send` sees us.
        fence(Ordering::SeqCst);
        let alive = !self.is_dead();
        if !alive {
            self.let_go();
        }
        alive
    }

    /// Poster only: it touches no memory now.
    pub(super) fn let_go(&self) {
        self.sending.store(false, Ordering::Release);
    }

    /// For who has killed the lane: returns when the poster touches no memory any more, at most one non-blocking
    /// system call later. On the poster's own thread it returns at once.
    pub(super) fn outlast_send(&self) {
        fence(Ordering::SeqCst);
        while self.sending.load(Ordering::Acquire) && !self.is_quiet() {
            relax();
        }
    }

    /// Poster only, after its last touch of slots and memory.
    pub(super) fn fall_quiet(&self) {
        self.quiet.store(true, Ordering::Release);
    }

    /// Whether the poster will touch nothing any more.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Acquire)
    }
}

/// What the halves of one worker pair share.
pub(super) struct Pair {
    pub(super) wakes: Wakes,
    pub(super) counters: Arc<Counters>,
    /// Grows with every death, so that a poster looks at one word a turn, not at each lane.
    deaths: AtomicU64,
}

impl Pair {
    pub(super) fn new(wakes: Wakes, counters: Arc<Counters>) -> Self {
        Self { wakes, counters, deaths: AtomicU64::new(0) }
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
    pub(super) pair: Arc<Pair>,
}

impl Lane {
    /// Kills it; harmless when it is dead already.
    pub(super) fn kill(&self) {
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
