//! One descriptor for many batches: readable as soon as any of them has ended. For event loops that have hundreds of
//! batches under way, and no descriptor to spare for each.
//! Deliberately only a count: which ones have ended the batches themselves say, by one load each.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use pipeline_transports::memory::Origin;

use super::{DescriptorError, raise, silent};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// A doorbell: named in [`crate::Options::notify`], it is rung when that batch has ended, however it ended, and whether or
/// not its handle is still there. Cheap to clone; clones are one doorbell, and equal. Any thread.
///
/// Its descriptor is level-triggered and only to be polled; what rang it is taken by [`Self::take`], never by reading. It
/// is closed when the last clone and the last batch that names it are gone.
#[derive(Clone)]
pub struct Doorbell(Arc<Bell>);

struct Bell {
    fd: OwnedFd,
    unheard: Unheard,
    origin: Origin,
}

impl Doorbell {
    pub(crate) fn new() -> Result<Self, DescriptorError> {
        let unheard = Unheard { ended: AtomicU64::new(0), raised: AtomicBool::new(false) };
        Ok(Self(Arc::new(Bell { fd: silent()?, unheard, origin: Origin::here() })))
    }

    /// How many batches have ended since this was last asked; the descriptor is not readable any more. Never blocks. Each
    /// end is told once, to one of those who ask; look at the batches after this, not before, and none is missed.
    ///
    /// 0 when there was nothing, which may happen although the descriptor was readable; always 0 in a forked child.
    pub fn take(&self) -> u64 {
        let Bell { fd, unheard, origin } = &*self.0;
        if !origin.is_here() {
            return 0;
        }
        // EAGAIN: nothing to lower.
        unheard.take(|| _ = rustix::io::read(fd, &mut [0; 8]))
    }

    /// Batches have ended. Answers whether that had to be told: not while an earlier ring is unheard.
    pub(crate) fn ring(&self, batches: u64) -> bool {
        let told = self.0.unheard.add(batches);
        if told {
            raise(&self.0.fd);
        }
        told
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

impl PartialEq for Doorbell {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Doorbell {}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").field("fd", &self.0.fd).finish()
    }
}

/// How many rings nobody has heard, and whether the descriptor says so: it is raised once for all of them, so that a busy
/// event loop costs those who ring no system call.
pub(crate) struct Unheard {
    pub(crate) ended: AtomicU64,
    pub(crate) raised: AtomicBool,
}

impl Unheard {
    /// `true`: the caller makes the descriptor readable.
    pub(crate) fn add(&self, n: u64) -> bool {
        self.ended.fetch_add(n, Ordering::Relaxed);
        // After the count, and releasing it: whoever lowers the flag finds it.
        !self.raised.swap(true, Ordering::AcqRel)
    }

    /// `lower` makes it unreadable.
    pub(crate) fn take(&self, lower: impl FnOnce()) -> u64 {
        // In this order: who rings between the first two raises nothing, and is counted by the third; who rings after the
        // second raises it again.
        lower();
        self.raised.swap(false, Ordering::AcqRel);
        self.ended.swap(0, Ordering::Relaxed)
    }
}

/// Doorbells that are to be rung once all that ended together has ended: neighbours with one doorbell ring it once.
#[derive(Default)]
pub(crate) struct Rings {
    of: Option<Doorbell>,
    batches: u64,
    told: u64,
}

impl Rings {
    /// One more batch has ended.
    pub(crate) fn add(&mut self, doorbell: Doorbell) {
        if self.of.as_ref() != Some(&doorbell) {
            self.ring();
            self.of = Some(doorbell);
        }
        self.batches += 1;
    }

    /// Rings what is due; answers how many doorbells had to tell so far.
    pub(crate) fn ring(&mut self) -> u64 {
        if let Some(doorbell) = self.of.take() {
            self.told += u64::from(doorbell.ring(std::mem::take(&mut self.batches)));
        }
        self.told
    }
}

/// Also when whoever has ended them panics.
impl Drop for Rings {
    fn drop(&mut self) {
        self.ring();
    }
}
