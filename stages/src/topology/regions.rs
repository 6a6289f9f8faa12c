//! Where each region lies: said by whoever registered it, else asked of the kernel, and kept as long as the region lives.
//! Deliberately a guess that costs nothing: memory that nobody has touched lies nowhere yet, and is asked about again, ever
//! more rarely.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pipeline_graph::Nanos;
use pipeline_transports::RegionId;

/// Times are kept in units of so many bits of nanoseconds: 67 ms.
const TICK_BITS: u32 = 26;

/// A region that is not found is asked about again after a tick, two, four … and this many at most.
const MOST_DOUBLINGS: u64 = 10;

/// A word a region: generation (32 bits), place (12), how often it was asked in vain (4), when (16).
#[derive(Debug)]
pub(crate) struct RegionPlaces(Box<[AtomicU64]>);

#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    fn new(id: RegionId, place: u16, vain: u64, tick: u16) -> Self {
        let low = u64::from(place & 0xfff) << 20 | vain << 16 | u64::from(tick);
        Self(u64::from(id.generation()) << 32 | low)
    }

    #[inline]
    fn place(self) -> u16 {
        (self.0 >> 20) as u16 & 0xfff
    }

    fn vain(self) -> u64 {
        self.0 >> 16 & 0xf
    }
}

impl RegionPlaces {
    /// For so many regions.
    pub(crate) fn new(capacity: usize) -> Self {
        Self((0..capacity).map(|_| AtomicU64::new(0)).collect())
    }

    /// Somebody knows where a region lies: the index of its place, never 0.
    pub(crate) fn set(&self, id: RegionId, place: u16) {
        if let Some(cell) = self.0.get(id.index() as usize) {
            cell.store(Word::new(id, place, 0, 0).0, Relaxed);
        }
    }

    /// The place of a region; 0 if nobody knows. `ask` is called when it is not known, now and then.
    #[inline]
    pub(crate) fn get(&self, id: RegionId, now: Nanos, ask: impl FnOnce() -> u16) -> u16 {
        let Some(cell) = self.0.get(id.index() as usize) else { return 0 };
        let word = Word(cell.load(Relaxed));
        let is_of_it = (word.0 >> 32) as u32 == id.generation();
        if is_of_it && word.place() != 0 {
            word.place()
        } else {
            Self::ask(cell, id, word, is_of_it, now, ask)
        }
    }

    #[cold]
    fn ask(
        cell: &AtomicU64,
        id: RegionId,
        word: Word,
        is_of_it: bool,
        now: Nanos,
        ask: impl FnOnce() -> u16,
    ) -> u16 {
        let tick = (now >> TICK_BITS) as u16;
        let vain = if is_of_it { word.vain() } else { 0 };
        let since = u64::from(tick.wrapping_sub(word.0 as u16));
        if is_of_it && since < 1 << vain.min(MOST_DOUBLINGS) {
            return 0;
        }
        let place = ask();
        // Two that ask at once learn the same.
        cell.store(Word::new(id, place, (vain + 1).min(MOST_DOUBLINGS), tick).0, Relaxed);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was said or found stays for the life of a region and is not asked for; what was not found is asked for again, ever
    /// more rarely; the next region in its slot is another one; a region that has no slot lies nowhere.
    #[test]
    fn asked_rarely() {
        let places = RegionPlaces::new(2);
        let (first, second) = (RegionId(1 << 32 | 1), RegionId(2 << 32 | 1));
        let mut asked = Vec::new();
        for tick in 0..200_u64 {
            let found = places.get(first, tick << TICK_BITS, || {
                asked.push(tick);
                if tick < 100 { 0 } else { 7 }
            });
            assert_eq!(found, if tick < 126 { 0 } else { 7 }, "{tick}");
        }
        assert_eq!(asked, [0, 2, 6, 14, 30, 62, 126]);
        assert_eq!(places.get(second, 0, || 3), 3);
        places.set(first, 5);
        assert_eq!(places.get(first, 0, || unreachable!("it is known")), 5);
        assert_eq!(places.get(RegionId(1 << 32 | 9), 0, || unreachable!("it has no slot")), 0);
    }
}
