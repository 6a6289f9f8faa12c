//! The ledger divided among workers: each takes free slots of slices from a list of its own, and puts there what ends on it,
//! so that a worker which carries its slices from end to end writes no line that another one writes.
//! Deliberately without any share that is kept: whose own list is empty takes from the others, so no slot is out of reach of
//! anybody, however many workers sleep.

use std::sync::atomic::AtomicU32;

use pipeline_graph::Seat;

use super::free::FreeList;
use crate::window::Holder;

/// A part of the ledger: that of the workers of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    list: usize,
    /// Its purse, which only its own worker may use.
    holder: Holder,
}

impl Shard {
    /// That of whoever has no seat: an end by force, or of a stage that is gone.
    pub(crate) const OUTSIDE: Self = Self { list: 0, holder: Holder::NONE };

    /// That of the worker on a seat, of so many: those of pools with more workers share some.
    pub(super) fn of(seat: &Seat, shards: usize, holds: bool) -> Self {
        let holder = if holds { Holder::worker(seat.worker) } else { Holder::NONE };
        Self { list: seat.worker % shards.max(1), holder }
    }

    #[inline]
    pub(crate) fn holder(self) -> Holder {
        self.holder
    }
}

/// The free slots of slices, one list a shard.
pub(super) struct FreeSlots {
    lists: Box<[FreeList]>,
}

impl FreeSlots {
    /// All indices below `len`, in `shards` lists that are as long as each other. What follows each other is in one list, as
    /// far as it can be: neighbours share lines.
    pub(super) fn full<'a>(len: u32, shards: usize, link: impl Fn(u32) -> &'a AtomicU32) -> Self {
        let shards = shards.max(1) as u64;
        let bound = |shard: u64| (u64::from(len) * shard / shards) as u32;
        let lists = (0..shards).map(|shard| FreeList::of(bound(shard)..bound(shard + 1), &link)).collect();
        Self { lists }
    }

    /// How many are free. While others take and give it may be any number that there was meanwhile.
    pub(super) fn len(&self) -> u32 {
        self.lists.iter().map(FreeList::len).sum()
    }

    /// Whether any is.
    pub(super) fn any(&self) -> bool {
        self.lists.iter().any(|list| list.len() > 0)
    }

    /// Takes up to `into.len()`: from its own list, and what that does not have from the others in turn. None only if each
    /// of them was empty when it was looked at.
    #[inline]
    pub(super) fn take<'a>(
        &self,
        shard: Shard,
        into: &mut [u32],
        link: impl Fn(u32) -> &'a AtomicU32,
    ) -> usize {
        let got = self.lists[shard.list].take_some(into, &link);
        if got == into.len() || self.lists.len() == 1 { got } else { self.borrow(shard, into, got, link) }
    }

    #[cold]
    fn borrow<'a>(
        &self,
        shard: Shard,
        into: &mut [u32],
        mut got: usize,
        link: impl Fn(u32) -> &'a AtomicU32,
    ) -> usize {
        let others = self.lists.iter().cycle().skip(shard.list + 1).take(self.lists.len() - 1);
        for list in others {
            if got == into.len() {
                break;
            }
            got += list.take_some(&mut into[got..], &link);
        }
        got
    }

    /// Gives back a chain of `count` slots that is linked from `first` to `last`.
    #[inline]
    pub(super) fn give<'a>(
        &self,
        shard: Shard,
        first: u32,
        last: u32,
        count: u32,
        link: impl Fn(u32) -> &'a AtomicU32,
    ) {
        self.lists[shard.list].give(first, last, count, link);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::*;

    use super::*;
    use crate::ledger::slot::NIL;

    fn at(list: usize) -> Shard {
        Shard { list, ..Shard::OUTSIDE }
    }

    /// One shard can have all slots, whoever gave them back, and no slot is handed out twice.
    #[test]
    fn nothing_is_out_of_reach() {
        let slots: Vec<AtomicU32> = (0..10).map(|_| AtomicU32::new(0)).collect();
        let link = |i: u32| &slots[i as usize];
        for shards in 1..5 {
            let free = FreeSlots::full(10, shards, link);
            assert_eq!(free.len(), 10);
            for taker in 0..shards {
                let mut got = [NIL; 12];
                assert_eq!(free.take(at(taker), &mut got, link), 10);
                assert!(!free.any());
                got.sort_unstable();
                assert!(got[..10].iter().copied().eq(0..10));
                for (i, slot) in got[..10].iter().enumerate() {
                    free.give(at(i % shards), *slot, *slot, 1, link);
                }
            }
        }
    }

    /// As long as a shard takes no more than it gives back, it touches its own list only.
    #[test]
    fn who_gives_back_keeps_to_himself() {
        let slots: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
        let link = |i: u32| &slots[i as usize];
        let free = FreeSlots::full(64, 2, link);
        let (other, mut own) = (free.lists[1].len(), [0; 32]);
        for _ in 0..100 {
            assert_eq!(free.take(at(0), &mut own, link), 32);
            assert!(own.iter().all(|slot| *slot < 32));
            own.windows(2).for_each(|pair| link(pair[0]).store(pair[1], Relaxed));
            free.give(at(0), own[0], own[31], 32, link);
            assert_eq!(free.lists[1].len(), other);
        }
    }

    /// Threads that take from all shards and give to their own never hold one slot at once, and all are back at the end.
    #[test]
    fn no_slot_is_held_twice() {
        let (slots, held): (Vec<AtomicU32>, Vec<AtomicU32>) =
            (0..96).map(|_| (AtomicU32::new(0), AtomicU32::new(0))).unzip();
        let link = |i: u32| &slots[i as usize];
        let free = FreeSlots::full(96, 3, link);
        std::thread::scope(|s| {
            for shard in 0..3 {
                let (free, held, link) = (&free, &held, &link);
                s.spawn(move || {
                    let mut random = shard as u32 + 1;
                    for _ in 0..20_000 {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        let mut got = [0; 40];
                        let n = free.take(at(shard), &mut got[..1 + (random >> 16) as usize % 40], link);
                        got[..n].iter().for_each(|i| assert_eq!(held[*i as usize].swap(1, AcqRel), 0));
                        got[..n].iter().for_each(|i| held[*i as usize].store(0, Release));
                        got[..n].windows(2).for_each(|pair| link(pair[0]).store(pair[1], Relaxed));
                        if n > 0 {
                            free.give(at(shard), got[0], got[n - 1], n as u32, link);
                        }
                    }
                });
            }
        });
        assert_eq!(free.len(), 96);
    }
}
