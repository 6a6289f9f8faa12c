//! What requests and slices came to since the start. Deliberately plain data; where each is counted says
//! `ledger/counted.rs`.

use pipeline_graph::Histogram;

use crate::reason::Reason;
use crate::world::World;

/// How many reasons a request can fail for.
pub(crate) const FAILURES: usize = Reason::LABELS.len();

/// What was counted so far, or (after [`Counts::since`]) over an interval. While nothing is under way, `submitted` is
/// `done` and all of `failed` together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests of all batches that were taken.
    pub submitted: u64,
    /// Of those, the ones that failed at once: their memory was wrong, or their peer gone.
    pub refused: u64,
    /// As how many the others entered the graph: neighbours that touch on both sides are merged (`coalesce` of `admit`).
    pub entered: u64,
    /// Slices that were cut of those; a request that travels whole is one.
    pub slices: u64,
    /// Requests that ended well.
    pub done: u64,
    /// Bytes applied at their destinations, those of requests included of which a part failed.
    pub bytes: u64,
    /// Requests that did not end well, by reason, in the order of [`Reason::LABELS`].
    pub failed: [u64; FAILURES],
    /// Slices that were sent again by a stage `retry`.
    pub retries: u64,
    /// Work requests whose bytes a transport has copied through a staging buffer.
    pub staged_copies: u64,
    /// Bytes of those.
    pub staged_bytes: u64,
    /// Keys and completions that came too late or twice: dropped.
    pub stale: u64,
    /// Callbacks and wakers of the application that panicked: caught and logged.
    pub callback_panics: u64,
    /// How often `submit` answered busy.
    pub busy: u64,
    /// Wake-ups that ends of batches have cost.
    pub wakes: u64,
    /// Time of requests that entered the graph, from submit to their end, good or not, in nanoseconds. Empty with
    /// `stats.enabled = false`.
    pub took: Histogram,
}

impl Counts {
    /// Each reason that a request can fail for, by its label, and how many did.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Reason::LABELS.into_iter().zip(self.failed)
    }

    /// Requests that failed for the reason of this label; 0 for a label that there is not.
    pub fn failed_of(&self, label: &str) -> u64 {
        self.failures().find(|(known, _)| *known == label).map_or(0, |(_, failed)| failed)
    }

    /// Requests that did not end well, whatever the reason.
    pub fn failed_all(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Requests that were taken and have not ended.
    pub fn under_way(&self) -> u64 {
        self.submitted.saturating_sub(self.done + self.failed_all())
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: u64, old: u64| now.saturating_sub(old);
        Self {
            submitted: less(self.submitted, earlier.submitted),
            refused: less(self.refused, earlier.refused),
            entered: less(self.entered, earlier.entered),
            slices: less(self.slices, earlier.slices),
            done: less(self.done, earlier.done),
            bytes: less(self.bytes, earlier.bytes),
            failed: std::array::from_fn(|i| less(self.failed[i], earlier.failed[i])),
            retries: less(self.retries, earlier.retries),
            staged_copies: less(self.staged_copies, earlier.staged_copies),
            staged_bytes: less(self.staged_bytes, earlier.staged_bytes),
            stale: less(self.stale, earlier.stale),
            callback_panics: less(self.callback_panics, earlier.callback_panics),
            busy: less(self.busy, earlier.busy),
            wakes: less(self.wakes, earlier.wakes),
            took: self.took.since(&earlier.took),
        }
    }
}

impl World {
    /// What was counted so far, by tables and transports.
    pub fn counts(&self) -> Counts {
        let mut counts = self.ledger.counts();
        for staged in self.transports.iter().map(|entry| entry.transport.staged()) {
            counts.staged_copies += staged.copies;
            counts.staged_bytes += staged.bytes;
        }
        counts
    }
}
