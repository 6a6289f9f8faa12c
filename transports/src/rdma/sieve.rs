//! Who is let go of when a NIC has as many links as it may: SIEVE. A hand goes from the oldest to the newest; whoever was
//! used since it last came by is passed once, whoever was not goes. One bit a link, no list is re-ordered on use, so the
//! data path only stores a flag.
//!
//! Deliberately ignorant of links: what is idle, used or busy its user says.

/// How the hand finds an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Not used since the last look.
    Unused,
    /// Used since; this look has taken the mark away.
    Used,
    /// Cannot go now.
    Busy,
}

/// See the file's head. The user bounds how many there are.
pub(super) struct Sieve<T> {
    /// From the oldest to the newest.
    entries: Vec<T>,
    hand: usize,
}

impl<T> Default for Sieve<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), hand: 0 }
    }
}

impl<T> Sieve<T> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter()
    }

    /// Adds the newest.
    pub(super) fn insert(&mut self, entry: T) {
        self.entries.push(entry);
    }

    /// Takes out those of which `goes` says so.
    pub(super) fn remove(&mut self, mut goes: impl FnMut(&T) -> bool) {
        let (mut at, mut hand) = (0, self.hand);
        let before_hand = self.hand;
        self.entries.retain(|entry| {
            let out = goes(entry);
            if out && at < before_hand {
                hand -= 1;
            }
            at += 1;
            !out
        });
        self.hand = hand;
    }

    /// Takes out the one that shall go, if any can.
    pub(super) fn evict(&mut self, mut look: impl FnMut(&T) -> Look) -> Option<T> {
        // Twice round: the first may find all of them used.
        for _ in 0..2 * self.entries.len() {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            match look(&self.entries[self.hand]) {
                Look::Unused => return Some(self.entries.remove(self.hand)),
                Look::Used | Look::Busy => self.hand += 1,
            }
        }
        None
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Entry(u32, Cell<Look>);

    fn look(entry: &Entry) -> Look {
        let seen = entry.1.get();
        if seen == Look::Used {
            entry.1.set(Look::Unused);
        }
        seen
    }

    fn sieve(looks: &[Look]) -> Sieve<Entry> {
        let mut sieve = Sieve::default();
        looks.iter().zip(0..).for_each(|(look, i)| sieve.insert(Entry(i, Cell::new(*look))));
        sieve
    }

    /// The oldest that nobody used goes first; one that was used is passed once and goes at the next round; the hand
    /// goes on from where it stood, so that newcomers are not looked at before the others.
    #[test]
    fn the_unused_go_first() {
        let mut sieve = sieve(&[Look::Used, Look::Unused, Look::Used, Look::Unused]);
        let mut gone = Vec::new();
        for _ in 0..4 {
            gone.extend(sieve.evict(look).map(|e| e.0));
        }
        assert_eq!(gone, [1, 3, 0, 2]);
        assert!(sieve.evict(look).is_none() && sieve.len() == 0);
    }

    /// Whoever is busy stays, however often it is asked for; when all are, nobody goes.
    #[test]
    fn the_busy_stay() {
        let mut sieve = sieve(&[Look::Busy, Look::Used, Look::Busy]);
        assert_eq!(sieve.evict(look).map(|e| e.0), Some(1));
        assert!(sieve.evict(look).is_none());
        assert_eq!(sieve.len(), 2);
    }

    /// Whoever leaves by itself does not make the hand skip anybody.
    #[test]
    fn leaving_keeps_the_hand_in_place() {
        let mut sieve = sieve(&[Look::Used, Look::Used, Look::Unused, Look::Unused]);
        assert_eq!(sieve.evict(look).map(|e| e.0), Some(2), "the hand stands at 3 now");
        sieve.remove(|entry| entry.0 == 0);
        assert_eq!(sieve.evict(look).map(|e| e.0), Some(3));
    }
}
