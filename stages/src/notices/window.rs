//! Which notices of one sender have been taken: a window over its numbers, as large for ever as on the first day.
//! Deliberately the sender's business to keep within it: a number beyond the window is turned away, not remembered.

/// Numbers of one channel that may be open at once: the distance from the oldest number that is not settled.
pub(crate) const WINDOW: u64 = 1024;

/// See the file's head. Numbers below `low` are settled; `taken` has a bit for each of the next [`WINDOW`].
#[derive(Clone, Debug)]
pub(super) struct Window {
    low: u64,
    taken: [u64; (WINDOW / 64) as usize],
}

/// What a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// It has not been taken.
    Fresh,
    /// It has been taken, or never will be.
    Settled,
    /// Too far ahead.
    Beyond,
}

impl Default for Window {
    fn default() -> Self {
        Self { low: 1, taken: [0; (WINDOW / 64) as usize] }
    }
}

impl Window {
    /// The sender says that nothing below `settled` will come (again).
    pub(super) fn settle(&mut self, settled: u64) {
        if settled.saturating_sub(self.low) >= WINDOW {
            *self = Self { low: settled, ..Self::default() };
            return;
        }
        while self.low < settled {
            let (word, bit) = place(self.low);
            self.taken[word] &= !bit;
            self.low += 1;
        }
    }

    pub(super) fn look(&self, number: u64) -> Number {
        let (word, bit) = place(number);
        match number.checked_sub(self.low) {
            None => Number::Settled,
            Some(ahead) if ahead >= WINDOW => Number::Beyond,
            Some(_) if self.taken[word] & bit != 0 => Number::Settled,
            Some(_) => Number::Fresh,
        }
    }

    /// Notes that a fresh number was taken.
    pub(super) fn take(&mut self, number: u64) {
        debug_assert_eq!(self.look(number), Number::Fresh, "only fresh numbers are taken");
        let (word, bit) = place(number);
        self.taken[word] |= bit;
    }
}

fn place(number: u64) -> (usize, u64) {
    ((number % WINDOW / 64) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    proptest::proptest! {
        /// Against a set without bounds: whatever is sent, again and in any order, within the window and with any
        /// settled numbers, each number is fresh until it was taken, once, and never after it was settled.
        #[test]
        fn agrees_with_an_endless_memory(steps in proptest::collection::vec((0_u64..3000, 0_u64..40), 1..400)) {
            let (mut window, mut taken, mut low) = (Window::default(), HashSet::new(), 1_u64);
            for (ahead, by) in steps {
                low += by * by;
                window.settle(low);
                // Old news changes nothing.
                window.settle(low.saturating_sub(7));
                let number = (low + ahead).saturating_sub(500);
                let expected = match number {
                    n if n < low || taken.contains(&n) => Number::Settled,
                    n if n >= low + WINDOW => Number::Beyond,
                    _ => Number::Fresh,
                };
                assert_eq!(window.look(number), expected);
                if expected == Number::Fresh {
                    window.take(number);
                    taken.insert(number);
                }
            }
        }
    }
}
