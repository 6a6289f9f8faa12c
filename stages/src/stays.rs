//! How long a stage holds slices: noted when it takes one in that cannot go on, told when it lets it go.
//! What goes on at once counts as not held at all, so the figure is one of all slices and not of the unlucky ones. Where every
//! slice is held, one of those that come together is noted for all of them, and of small batches one in sixteen.
//! Deliberately nothing of why: each stage knows that itself.

use pipeline_graph::{Held, Nanos, Seat};

use crate::ledger::{STANDS_FOR_MAX, Slot, Stamp};

/// Fewer than so many at once are noted one time in [`ONE_IN`], as stages are timed.
const FEW: usize = 4;
const ONE_IN: u32 = 16;

/// See the file's head. One worker's.
pub(crate) struct Stays {
    held: Held,
    few: u32,
    /// Which of several is noted: another one each time, because those in front are let go first.
    turn: u32,
}

impl Stays {
    pub(crate) fn of(seat: &Seat) -> Self {
        Self { held: seat.held.clone(), few: 0, turn: 0 }
    }

    /// So many went on in the run that took them in.
    #[inline]
    pub(crate) fn passed(&self, slices: usize) {
        self.held.record(0, slices as u64);
    }

    /// One that has to stay.
    #[inline]
    pub(crate) fn begin(&self, slot: Slot, now: Nanos) {
        if self.held.counts() {
            slot.stamp(Stamp::new(now, 1));
        }
    }

    /// Of so many that all stay: which one is noted, and for how many.
    #[inline]
    pub(crate) fn one_of(&mut self, slices: usize) -> Option<(usize, u32)> {
        if slices == 0 || !self.held.counts() {
            return None;
        }
        let slices = slices.min(STANDS_FOR_MAX as usize);
        let mut stands_for = slices as u32;
        if slices < FEW {
            self.few = self.few.wrapping_add(1);
            if !self.few.is_multiple_of(ONE_IN) {
                return None;
            }
            stands_for *= ONE_IN;
        }
        self.turn = self.turn.wrapping_add(1);
        Some((self.turn as usize % slices, stands_for))
    }

    /// One goes on, or ends.
    #[inline]
    pub(crate) fn end(&self, slot: Slot, now: Nanos) {
        if let Some(stamp) = slot.take_stamp() {
            self.told(stamp, now);
        }
    }

    /// What was noted of one that has gone on meanwhile.
    #[inline]
    pub(crate) fn told(&self, stamp: Stamp, now: Nanos) {
        self.held.record(stamp.until(now), stamp.slices());
    }

    /// One that was never noted, because it has no room for that.
    #[inline]
    pub(crate) fn since(&self, at: Nanos, now: Nanos) {
        self.held.record(now.saturating_sub(at), 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over many batches of any size about as many slices are stood for as there are, by each place in its turn; and none
    /// while nothing is counted.
    #[test]
    fn samples_stand_for_all() {
        for n in [1, 2, 3, 4, 31, 32, 64] {
            let mut stays = Stays { held: Held::counting(), few: 0, turn: 0 };
            let (mut sum, mut places) = (0, std::collections::BTreeSet::new());
            for _ in 0..6400 {
                if let Some((which, stands_for)) = stays.one_of(n) {
                    assert!(which < n && stands_for <= STANDS_FOR_MAX);
                    places.insert(which);
                    sum += u64::from(stands_for);
                }
            }
            assert_eq!((sum, places.len()), (6400 * n as u64, n), "batches of {n}");
        }
        assert_eq!(Stays { held: Held::default(), few: 0, turn: 0 }.one_of(32), None);
    }
}
