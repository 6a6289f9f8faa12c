//! The free list of an arena: a stack of indices threaded through the slots themselves, with a tag against
//! ABA and a count for whole-or-nothing. Deliberately knows nothing of what the slots are.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::ledger::slot::NIL;

/// See the file's head. Any thread; one compare-exchange for a whole chain. On a line of its own: what lies beside
/// it is read on every look at a slice.
#[repr(align(128))]
pub(crate) struct FreeList {
    /// Tag (high 32 bits) and index of the first free slot.
    head: AtomicU64,
    /// Free slots that nobody has reserved. Never more than the list holds: `give` adds after it pushed.
    free: AtomicU32,
}

impl FreeList {
    /// A list of all indices below `len`, linked through `link` in order.
    pub(crate) fn full<'a>(len: u32, link: impl Fn(u32) -> &'a AtomicU32) -> Self {
        Self::of(0..len, link)
    }

    /// A list of these indices.
    pub(crate) fn of<'a>(range: Range<u32>, link: impl Fn(u32) -> &'a AtomicU32) -> Self {
        for i in range.clone() {
            link(i).store(if i + 1 < range.end { i + 1 } else { NIL }, Relaxed);
        }
        let first = if range.is_empty() { NIL } else { range.start };
        Self { head: AtomicU64::new(u64::from(first)), free: AtomicU32::new(range.len() as u32) }
    }

    /// How many are free.
    pub(crate) fn len(&self) -> u32 {
        self.free.load(Acquire)
    }

    /// Reserves between `least` and `most`; 0 when there are fewer than `least`. What is reserved must be
    /// taken.
    pub(crate) fn reserve(&self, least: u32, most: u32) -> u32 {
        let mut free = self.free.load(Acquire);
        loop {
            let n = most.min(free);
            if n < least || n == 0 {
                return 0;
            }
            match self.free.compare_exchange_weak(free, free - n, AcqRel, Acquire) {
                Ok(_) => return n,
                Err(seen) => free = seen,
            }
        }
    }

    /// Takes as many as there are, up to `into.len()`.
    #[inline]
    pub(crate) fn take_some<'a>(&self, into: &mut [u32], link: impl Fn(u32) -> &'a AtomicU32) -> usize {
        let n = self.reserve(1, into.len() as u32) as usize;
        self.take(&mut into[..n], link);
        n
    }

    /// Takes `into.len()` reserved slots.
    pub(crate) fn take<'a>(&self, into: &mut [u32], link: impl Fn(u32) -> &'a AtomicU32) {
        let mut taken = 0;
        while taken < into.len() {
            let head = self.head.load(Acquire);
            let (mut at, mut n) = (head as u32, taken);
            // A slot that somebody else takes meanwhile may lead anywhere; then the tag has changed.
            while n < into.len() && at != NIL {
                into[n] = at;
                n += 1;
                at = link(at).load(Relaxed);
            }
            if n > taken && self.swing(head, at) {
                taken = n;
            }
        }
    }

    /// Gives back a chain of `count` slots that is linked from `first` to `last`.
    pub(crate) fn give<'a>(&self, first: u32, last: u32, count: u32, link: impl Fn(u32) -> &'a AtomicU32) {
        loop {
            let head = self.head.load(Relaxed);
            link(last).store(head as u32, Relaxed);
            if self.swing(head, first) {
                self.free.fetch_add(count, AcqRel);
                return;
            }
        }
    }

    fn swing(&self, head: u64, to: u32) -> bool {
        let tag = (head >> 32).wrapping_add(1);
        self.head.compare_exchange(head, tag << 32 | u64::from(to), AcqRel, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(n: usize) -> Vec<AtomicU32> {
        (0..n).map(|_| AtomicU32::new(0)).collect()
    }

    /// All or nothing when asked so, as many as there are otherwise, and nothing is handed out twice.
    #[test]
    fn reserve_and_take() {
        let slots = links(5);
        let list = FreeList::full(5, |i| &slots[i as usize]);
        assert_eq!(
            (list.reserve(6, 6), list.reserve(1, 3), list.reserve(3, 3), list.reserve(1, 9)),
            (0, 3, 0, 2)
        );
        let mut got = [0; 5];
        list.take(&mut got, |i| &slots[i as usize]);
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2, 3, 4]);
        assert_eq!(list.reserve(1, 1), 0);
        slots[4].store(2, Relaxed);
        list.give(4, 2, 2, |i| &slots[i as usize]);
        assert_eq!((list.len(), list.reserve(1, 9)), (2, 2));
    }

    /// Four threads that take and give chains of random length never hold the same slot at once, and all
    /// slots are back at the end.
    #[test]
    fn no_slot_is_held_twice() {
        const N: u32 = 64;
        let (slots, held) = (links(N as usize), links(N as usize));
        let list = FreeList::full(N, |i| &slots[i as usize]);
        std::thread::scope(|s| {
            for seed in 1..5u32 {
                let (list, slots, held) = (&list, &slots, &held);
                s.spawn(move || {
                    let mut random = seed;
                    for _ in 0..20_000 {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        let n = list.reserve(1, 1 + (random >> 16) % 20) as usize;
                        let mut got = [0; 20];
                        list.take(&mut got[..n], |i| &slots[i as usize]);
                        for i in &got[..n] {
                            assert_eq!(held[*i as usize].swap(1, AcqRel), 0);
                        }
                        for (k, i) in got[..n].iter().enumerate() {
                            held[*i as usize].store(0, Release);
                            slots[*i as usize].store(got[..n].get(k + 1).copied().unwrap_or(NIL), Relaxed);
                        }
                        if n > 0 {
                            list.give(got[0], got[n - 1], n as u32, |i| &slots[i as usize]);
                        }
                    }
                });
            }
        });
        assert_eq!(list.len(), N);
    }
}
