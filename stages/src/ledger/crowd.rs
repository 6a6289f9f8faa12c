//! Where those sleep who wait for a batch while another thread leads (see [`pipeline_graph::Callers`]): each wakes when
//! its own batch ends, and one of them when nobody leads any more.
//! Deliberately one word for all: a thread cannot sleep on two, and would have to for its batch and for the lead.

use pipeline_graph::Nanos;

use crate::sync::{AtomicU32, Ordering, Word, fence};

/// Whoever sleeps here may be woken to lead.
const LEAD: u32 = 1 << 31;
/// Batches share the other bits.
const BITS: u32 = 31;

/// See the head of the file.
pub(crate) struct Crowd {
    /// Grows with each event; whoever has not seen the last one does not fall asleep.
    events: Word,
    /// How many sleep, or are about to.
    followers: AtomicU32,
}

impl Crowd {
    pub(crate) fn new() -> Self {
        Self { events: Word::new(0), followers: AtomicU32::new(0) }
    }

    /// A batch has ended for which somebody waits here.
    pub(crate) fn tell(&self, batch: u32) {
        self.events.fetch_add(1, Ordering::AcqRel);
        self.events.wake(u32::MAX, 1 << (batch % BITS));
    }

    /// Nobody leads, as far as the caller knows: one of those here shall.
    pub(crate) fn pass_on(&self) {
        // The pair of the fence in `join`: either we see who came, or it sees that nobody leads.
        fence(Ordering::SeqCst);
        if self.followers.load(Ordering::Relaxed) > 0 {
            self.events.fetch_add(1, Ordering::AcqRel);
            self.events.wake(1, LEAD);
        }
    }

    /// Is about to sleep here: from now on no event is missed. Look for the lead, and at the batch, after it.
    pub(crate) fn join(&self) -> Follower<'_> {
        self.followers.fetch_add(1, Ordering::Relaxed);
        let seen = self.events.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        Follower { crowd: self, seen }
    }
}

/// Somebody in the crowd.
pub(crate) struct Follower<'a> {
    crowd: &'a Crowd,
    seen: u32,
}

impl Follower<'_> {
    /// Sleeps until `batch` has ended, nobody leads, `by`, or for no reason.
    pub(crate) fn sleep(self, batch: u32, by: Nanos) {
        self.crowd.events.wait(self.seen, by, LEAD | 1 << (batch % BITS));
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.crowd.followers.fetch_sub(1, Ordering::Relaxed);
    }
}
