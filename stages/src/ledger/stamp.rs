//! Since when a slice is held, noted in its slot by whoever holds it and measures how long. A slot has no word for that: it
//! lies in the one that strided requests have their stride in, so the cover slice of such a request cannot be noted.
//! Deliberately for one holder at a time, as all fields are, and with how many slices the note stands for.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_graph::Nanos;

use super::Slot;
use super::flags::{ROWS, STAMPED, WATCHED};

/// Most slices that one note stands for: its lowest bits say how many.
pub(crate) const STANDS_FOR_MAX: u32 = 1 << BITS;
const BITS: u32 = 6;

/// A note that was taken out of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// `slices` (at most [`STANDS_FOR_MAX`]) are held since `now`.
    #[inline]
    pub(crate) fn new(now: Nanos, slices: u32) -> Self {
        debug_assert!((1..=STANDS_FOR_MAX).contains(&slices));
        Self(now << BITS | u64::from((slices - 1) % STANDS_FOR_MAX))
    }

    /// How long it is until `now`.
    #[inline]
    pub(crate) fn until(self, now: Nanos) -> Nanos {
        now.saturating_sub(self.0 >> BITS)
    }

    /// How many slices it stands for.
    #[inline]
    pub(crate) fn slices(self) -> u64 {
        1 + self.0 % u64::from(STANDS_FOR_MAX)
    }
}

impl Slot<'_> {
    /// Notes since when it is held. Not of a strided request.
    #[inline]
    pub(crate) fn stamp(&self, stamp: Stamp) {
        if !self.has(ROWS) {
            self.far().apart.store(stamp.0, Relaxed);
            self.raise(STAMPED);
        }
    }

    /// Takes the note, if there is one.
    #[inline]
    pub(crate) fn take_stamp(&self) -> Option<Stamp> {
        let flags = self.near.flags.load(Relaxed);
        (flags & STAMPED != 0).then(|| {
            self.near.flags.store(flags & !STAMPED, Relaxed);
            Stamp(self.far().apart.load(Relaxed))
        })
    }

    /// Whether it is in a timer wheel, or noted: one look for both.
    #[inline]
    pub(crate) fn is_watched_or_stamped(&self) -> bool {
        self.has(WATCHED | STAMPED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Rows;
    use crate::testing::ledger;

    /// A note is taken once, says since when and for how many, is gone with the next life, and leaves the rows of a strided
    /// request alone.
    #[test]
    fn notes() {
        let ledger = ledger(2, 1);
        let slot = ledger.at(0);
        assert_eq!(slot.take_stamp(), None);
        slot.stamp(Stamp::new(1 << 50, 64));
        assert!(slot.is_watched_or_stamped() && !slot.is_watched());
        let stamp = slot.take_stamp().unwrap();
        assert_eq!((stamp.until((1 << 50) + 7), stamp.until(5), stamp.slices()), (7, 0, 64));
        assert_eq!((slot.take_stamp(), slot.is_watched_or_stamped()), (None, false));
        assert_eq!(Stamp::new(9, 1).slices(), 1);
        let rows = Rows { len: 3, local_stride: 4, remote_stride: 5 };
        slot.set_rows(&rows);
        slot.stamp(Stamp::new(9, 1));
        assert_eq!((slot.rows(), slot.take_stamp()), (Some(rows), None));
    }
}
