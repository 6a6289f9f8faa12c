//! A hierarchical timer wheel threaded through slice slots: set, drop and fire cost a few loads and stores.
//! One a stage that holds slices. Deliberately coarse (about a millisecond) and never early.

use std::sync::atomic::Ordering::Relaxed;

use pipeline_graph::Nanos;

use crate::ledger::{Far, Ledger, NIL};

/// A tick is 2^20 ns, 1.05 ms.
const TICK_SHIFT: u32 = 20;
const BITS: u32 = 6;
const SIZE: usize = 1 << BITS;
/// Spans: 67 ms, 4.3 s, 4.6 min, 4.9 h, 13 days; later deadlines wait in the last level and go round.
const LEVELS: usize = 5;
/// See the file's head. Entries are positions in the ledger; one holder.
pub(crate) struct Wheel {
    heads: [[u32; SIZE]; LEVELS],
    /// Which buckets of each level hold something.
    filled: [u64; LEVELS],
    /// All ticks before this one have fired.
    now: u64,
    len: usize,
}

impl Wheel {
    pub(crate) fn new(now: Nanos) -> Self {
        Self { heads: [[NIL; SIZE]; LEVELS], filled: [0; LEVELS], now: now >> TICK_SHIFT, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the slot at `position` is in this wheel (or another: it is in one at most).
    #[inline]
    pub(crate) fn holds(ledger: &Ledger, position: u32) -> bool {
        ledger.at(position).is_watched()
    }

    /// Marks an entry that is in no wheel as one that may be set later, if it is still here then: most go on at
    /// once, and need no timer.
    #[inline]
    pub(crate) fn defer(ledger: &Ledger, position: u32) {
        ledger.at(position).set_deferred();
    }

    /// Whether an entry is marked so, and has not been dropped since.
    #[inline]
    pub(crate) fn is_deferred(ledger: &Ledger, position: u32) -> bool {
        ledger.at(position).is_deferred()
    }

    /// Sets an entry that is in no wheel: it fires at the first [`Self::fire`] at or after `at`.
    #[inline]
    pub(crate) fn set(&mut self, ledger: &Ledger, position: u32, at: Nanos) {
        // Round up: never early.
        let tick = (at >> TICK_SHIFT).saturating_add(u64::from(at & ((1 << TICK_SHIFT) - 1) != 0));
        let slot = ledger.at(position);
        slot.set_watched();
        slot.wheel().wheel_tick.store(tick, Relaxed);
        self.link(ledger, position, tick);
        self.len += 1;
    }

    #[inline]
    fn link(&mut self, ledger: &Ledger, position: u32, tick: u64) {
        let delta = tick.saturating_sub(self.now);
        let level = (0..LEVELS - 1).find(|l| delta < 1 << (BITS * (*l as u32 + 1))).unwrap_or(LEVELS - 1);
        let furthest = self.now + (1 << (BITS * LEVELS as u32)) - 1;
        let tick = tick.clamp(self.now, furthest);
        let bucket = (tick >> (BITS * level as u32)) as usize % SIZE;
        let head = self.heads[level][bucket];
        let entry = ledger.at(position).wheel();
        entry.wheel_next.store(head, Relaxed);
        entry.wheel_prev.store(NIL, Relaxed);
        entry.wheel_at.store((level * SIZE + bucket) as u32, Relaxed);
        if head != NIL {
            ledger.at(head).wheel().wheel_prev.store(position, Relaxed);
        }
        self.heads[level][bucket] = position;
        self.filled[level] |= 1 << bucket;
    }

    /// Takes an entry out; does nothing if it is in none.
    #[inline]
    pub(crate) fn drop_entry(&mut self, ledger: &Ledger, position: u32) {
        let slot = ledger.at(position);
        if slot.unwatch() {
            self.unlink(ledger, slot.wheel());
        }
    }

    fn unlink(&mut self, ledger: &Ledger, entry: &Far) {
        let at = entry.wheel_at.load(Relaxed) as usize;
        let (level, bucket) = (at / SIZE, at % SIZE);
        let (prev, next) = (entry.wheel_prev.load(Relaxed), entry.wheel_next.load(Relaxed));
        match prev {
            NIL => self.heads[level][bucket] = next,
            _ => ledger.at(prev).wheel().wheel_next.store(next, Relaxed),
        }
        if next != NIL {
            ledger.at(next).wheel().wheel_prev.store(prev, Relaxed);
        }
        if self.heads[level][bucket] == NIL {
            self.filled[level] &= !(1 << bucket);
        }
        self.len -= 1;
    }

    /// Takes out one entry that is due, if there is one. Call until `None`.
    #[inline]
    pub(crate) fn fire(&mut self, ledger: &Ledger, now: Nanos) -> Option<u32> {
        let target = now >> TICK_SHIFT;
        loop {
            let bucket = self.now as usize % SIZE;
            let head = self.heads[0][bucket];
            if head != NIL && self.now <= target {
                self.drop_entry(ledger, head);
                return Some(head);
            }
            if self.now >= target {
                return None;
            }
            self.advance(ledger, target);
        }
    }

    /// Goes on to the next tick at which something fires or comes down a level, or to `target`.
    fn advance(&mut self, ledger: &Ledger, target: u64) {
        self.now = self.next_event().map_or(target, |t| t.min(target)).max(self.now + 1);
        for level in (1..LEVELS).rev() {
            let shift = BITS * level as u32;
            if self.now.trailing_zeros() >= shift {
                self.cascade(ledger, level, (self.now >> shift) as usize % SIZE);
            }
        }
    }

    /// Distributes a bucket over the levels below.
    fn cascade(&mut self, ledger: &Ledger, level: usize, bucket: usize) {
        let mut at = std::mem::replace(&mut self.heads[level][bucket], NIL);
        self.filled[level] &= !(1 << bucket);
        while at != NIL {
            let entry = ledger.at(at).wheel();
            let next = entry.wheel_next.load(Relaxed);
            self.link(ledger, at, entry.wheel_tick.load(Relaxed));
            at = next;
        }
    }

    /// The first tick after `now` at which a filled bucket comes up.
    fn next_event(&self) -> Option<u64> {
        let of_level = |level: usize| {
            let shift = BITS * level as u32;
            let (at, filled) = (self.now >> shift, self.filled[level]);
            // Bucket of the next turn first.
            let ahead = filled.rotate_right(((at + 1) % SIZE as u64) as u32);
            (filled != 0).then(|| (at + 1 + u64::from(ahead.trailing_zeros())) << shift)
        };
        (0..LEVELS).filter_map(of_level).min()
    }

    /// When to look next: no entry is due before.
    pub(crate) fn earliest(&self) -> Option<Nanos> {
        if self.filled[0] >> (self.now % SIZE as u64) & 1 == 1 {
            return Some(self.now << TICK_SHIFT);
        }
        self.next_event().map(|tick| tick << TICK_SHIFT)
    }

    /// Takes out every entry that `pick` wants. For rare events: it walks the whole wheel.
    pub(crate) fn pick(
        &mut self,
        ledger: &Ledger,
        mut pick: impl FnMut(u32) -> bool,
        mut out: impl FnMut(u32),
    ) {
        for level in 0..LEVELS {
            for bucket in 0..SIZE {
                let mut at = self.heads[level][bucket];
                while at != NIL {
                    let next = ledger.at(at).wheel().wheel_next.load(Relaxed);
                    if pick(at) {
                        self.drop_entry(ledger, at);
                        out(at);
                    }
                    at = next;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ledger;

    /// Entries at random times, some dropped again, fire once each, never early and less than two ticks late,
    /// whatever steps time takes; and `earliest` never promises more than it keeps.
    #[test]
    fn fires_once_and_in_time() {
        const N: u32 = 2_000;
        let ledger = ledger(N, 1);
        let start = 987_654_321_000u64;
        let mut wheel = Wheel::new(start);
        let mut random = 12_345u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut due = vec![0u64; N as usize];
        for i in 0..N {
            let spans = [1, 1_000_000, 100_000_000, 10_000_000_000, 500_000_000_000, 40_000_000_000_000];
            due[i as usize] = start + next(spans[i as usize % spans.len()]);
            wheel.set(&ledger, i, due[i as usize]);
        }
        for i in (0..N).step_by(7) {
            wheel.drop_entry(&ledger, i);
            due[i as usize] = u64::MAX;
        }
        let (mut now, mut last) = (start, start);
        while wheel.len() > 0 {
            let earliest = wheel.earliest().unwrap();
            let least = due.iter().min().unwrap();
            assert!(earliest <= least + (2 << TICK_SHIFT), "{earliest} after {least}");
            now = now.max(earliest) + next(3_000_000_000);
            while let Some(at) = wheel.fire(&ledger, now) {
                let when = std::mem::replace(&mut due[at as usize], u64::MAX);
                assert!(when <= now, "early or twice");
                assert!(when + (2 << TICK_SHIFT) > last, "late: due {when}, last look {last}");
            }
            last = now;
        }
        assert!(due.iter().all(|d| *d == u64::MAX));
        assert_eq!(wheel.earliest(), None);
    }

    /// A deadline beyond the wheel's span goes round and fires in its time, not before.
    #[test]
    fn beyond_the_span() {
        let ledger = ledger(1, 1);
        let mut wheel = Wheel::new(0);
        let at = 3u64 << (TICK_SHIFT + BITS * LEVELS as u32);
        wheel.set(&ledger, 0, at);
        assert_eq!(wheel.fire(&ledger, at - (2 << TICK_SHIFT)), None);
        assert_eq!(wheel.fire(&ledger, at), Some(0));
    }
}
