//! How a worker waits when it finds nothing to do: spin, then yield, then park.
//! Deliberately without the sleep itself ([`crate::bell`]): this only decides what comes next.

use crate::blueprint::Wait;
use crate::clock::Nanos;

/// What to do before the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// `pause`, and look again.
    Spin,
    /// `sched_yield`, and look again.
    Yield,
    /// Sleep on the bell.
    Park,
}

/// A spinning thread that is not alone on its CPU gives it away every so many turns: without this a woken
/// peer that was put on the same CPU waits for the whole spin budget (measured: 113 µs instead of 6).
const YIELD_EVERY: u32 = 16;

/// A yield that takes longer has given the CPU to somebody who does not wait for us: on a crowded machine a
/// worker that yields comes last each time, while one that sleeps is let in as soon as it is woken.
const CROWDED_NS: Nanos = 300_000;
/// For how long an adaptive worker then parks at once; doubles while the next try finds the same.
const PARK_FIRST_NS: Nanos = 10_000_000;
const PARK_FIRST_MAX_NS: Nanos = 1_000_000_000;

/// How long a worker goes on without a pause before it looks whether somebody else wants its CPU. Whoever was woken
/// on a CPU with a busy thread would otherwise wait for the scheduler's tick: milliseconds.
const BUSY_NS: Nanos = 500_000;

/// One worker's waiting.
pub(crate) struct Waiting {
    wait: Wait,
    pinned: bool,
    /// Since when nothing was found; `None` while there is work.
    idle_since: Option<Nanos>,
    turns: u32,
    /// Estimate of the time from running dry to the next work.
    gap_ns: Nanos,
    /// Gaps have been too long for spinning to pay: park at once.
    sleepy: bool,
    /// Since when there has been work without a pause.
    busy_since: Option<Nanos>,
    /// When the last pause was a yield.
    yielded_at: Option<Nanos>,
    /// The machine is crowded: park at once until then.
    crowded_until: Nanos,
    /// How long the next such time will be.
    crowded_ns: Nanos,
}

impl Waiting {
    pub(crate) fn new(wait: Wait, pinned: bool) -> Self {
        Self {
            wait,
            pinned,
            idle_since: None,
            turns: 0,
            gap_ns: 0,
            sleepy: false,
            busy_since: None,
            yielded_at: None,
            crowded_until: 0,
            crowded_ns: PARK_FIRST_NS,
        }
    }

    /// Work was found at `now`. Whether to yield before the next look all the same: an adaptive worker does now and
    /// then, as long as yields cost little.
    #[inline]
    pub(crate) fn found(&mut self, now: Nanos) -> bool {
        self.judge_yield(now);
        if let Some(since) = self.idle_since.take() {
            self.learn(now.saturating_sub(since));
        }
        let since = *self.busy_since.get_or_insert(now);
        let give = now.saturating_sub(since) > BUSY_NS;
        if give {
            self.busy_since = None;
        }
        give && self.wait.adaptive && !self.pinned && now >= self.crowded_until
    }

    /// It has yielded, because [`Self::found`] said so.
    pub(crate) fn gave(&mut self, from: Nanos, to: Nanos) {
        self.yielded_at = Some(from);
        self.judge_yield(to);
    }

    /// Nothing was found at `now`: what comes next?
    pub(crate) fn next(&mut self, now: Nanos) -> Pause {
        self.judge_yield(now);
        self.busy_since = None;
        let pause = self.choose(now);
        if pause == Pause::Yield {
            self.yielded_at = Some(now);
        }
        pause
    }

    fn choose(&mut self, now: Nanos) -> Pause {
        let since = match self.idle_since {
            Some(since) => since,
            None => {
                self.turns = 0;
                *self.idle_since.insert(now)
            }
        };
        let idle = now.saturating_sub(since);
        let may_park = self.wait.park_ns > 0;
        if may_park && self.wait.adaptive && (self.sleepy || now < self.crowded_until) {
            return Pause::Park;
        }
        if idle < self.wait.spin_ns || (!may_park && self.wait.yield_ns == 0) {
            self.turns = self.turns.wrapping_add(1);
            let give = !self.pinned && self.turns.is_multiple_of(YIELD_EVERY);
            return if give { Pause::Yield } else { Pause::Spin };
        }
        if !may_park || idle < self.wait.spin_ns.saturating_add(self.wait.yield_ns) {
            return Pause::Yield;
        }
        Pause::Park
    }

    /// How long the last yield took says whether the machine has CPUs to spare.
    #[inline]
    fn judge_yield(&mut self, now: Nanos) {
        let Some(at) = self.yielded_at.take() else { return };
        if now.saturating_sub(at) > CROWDED_NS {
            self.crowded_until = now.saturating_add(self.crowded_ns);
            self.crowded_ns = (self.crowded_ns * 2).min(PARK_FIRST_MAX_NS);
        } else if now > self.crowded_until.saturating_add(self.crowded_ns) {
            self.crowded_ns = PARK_FIRST_NS;
        }
    }

    /// The longest sleep.
    pub(crate) fn park_ns(&self) -> Nanos {
        self.wait.park_ns
    }

    /// Moves the estimate by an eighth of the error (as TCP does with its round-trip time), and decides
    /// with hysteresis: awake below the budget, asleep above twice of it.
    fn learn(&mut self, gap: Nanos) {
        if !self.wait.adaptive {
            return;
        }
        let budget = self.wait.spin_ns.saturating_add(self.wait.yield_ns);
        // One long night must not outweigh a hundred short gaps.
        let gap = gap.min(budget.saturating_mul(8));
        self.gap_ns = self.gap_ns - self.gap_ns / 8 + gap / 8;
        if self.gap_ns > budget.saturating_mul(2) {
            self.sleepy = true;
        } else if self.gap_ns < budget {
            self.sleepy = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Wait = Wait { spin_ns: 1_000, yield_ns: 2_000, park_ns: 1_000_000, adaptive: true };

    /// Spin, then yield, then park, by the time since work ran out; a spin unpinned yields every 16th turn.
    #[test]
    fn stages_of_waiting() {
        let mut waiting = Waiting::new(WAIT, false);
        let first: Vec<_> = (0..16).map(|i| waiting.next(i)).collect();
        assert_eq!(first.iter().filter(|p| **p == Pause::Yield).count(), 1);
        assert_eq!(waiting.next(1_500), Pause::Yield);
        assert_eq!(waiting.next(3_500), Pause::Park);
        waiting.found(3_600);
        assert_eq!(waiting.next(4_000), Pause::Spin);
        let mut pinned = Waiting::new(WAIT, true);
        assert!((0..100).all(|i| pinned.next(i) == Pause::Spin));
    }

    /// A worker that may never sleep never does, even without budgets.
    #[test]
    fn park_zero_never_parks() {
        let mut waiting = Waiting::new(Wait { park_ns: 0, ..WAIT }, false);
        assert!((0..100).all(|i| waiting.next(i * 1_000_000) != Pause::Park));
        let mut pure = Waiting::new(Wait { park_ns: 0, yield_ns: 0, spin_ns: 0, adaptive: false }, true);
        assert!((0..100).all(|i| pure.next(i * 1_000_000) == Pause::Spin));
    }

    /// A yield that takes long makes an adaptive worker park at once, for longer each time it happens again, and only
    /// for a time; a worker that is not adaptive keeps to its thresholds.
    #[test]
    fn parks_on_a_crowded_machine() {
        const WAIT: Wait = Wait { spin_ns: 100_000, yield_ns: 200_000, park_ns: 1_000_000, adaptive: true };
        for adaptive in [true, false] {
            let mut waiting = Waiting::new(Wait { adaptive, ..WAIT }, false);
            let mut now = 0;
            for round in 0..4 {
                assert_eq!(waiting.next(now), Pause::Spin, "round {round}");
                assert_eq!(waiting.next(now + 150_000), Pause::Yield);
                now += 500_000;
                waiting.found(now);
                now += (PARK_FIRST_NS << round) - 1;
                assert_eq!(waiting.next(now), if adaptive { Pause::Park } else { Pause::Spin });
                waiting.found(now);
                now += 1;
            }
            // Short yields for a while: back to the first length.
            now += 4 * PARK_FIRST_MAX_NS;
            waiting.next(now);
            waiting.next(now + 150_000);
            waiting.found(now + 160_000);
            assert_eq!(waiting.crowded_ns, PARK_FIRST_NS);
        }
    }

    /// An adaptive worker that never runs dry yields every so often, unless it is pinned, its thresholds are fixed, or
    /// a yield has lately taken long.
    #[test]
    fn a_busy_worker_yields() {
        let yields = |wait: Wait, pinned: bool, cost: Nanos| {
            let mut waiting = Waiting::new(wait, pinned);
            let (mut now, mut yields) = (0, 0);
            while now < 5_000_000 {
                now += 10_000;
                if waiting.found(now) {
                    yields += 1;
                    waiting.gave(now, now + cost);
                    now += cost;
                }
            }
            yields
        };
        assert!((8..=10).contains(&yields(WAIT, false, 500)));
        assert_eq!(yields(WAIT, true, 500), 0);
        assert_eq!(yields(Wait { adaptive: false, ..WAIT }, false, 500), 0);
        assert_eq!(yields(WAIT, false, 2_000_000), 1);
    }

    /// Long gaps teach an adaptive worker to park at once; short gaps teach it to spin again.
    #[test]
    fn adapts_to_the_gaps() {
        let mut waiting = Waiting::new(WAIT, false);
        let mut now = 0;
        let mut run = |waiting: &mut Waiting, gap: Nanos| {
            let first = waiting.next(now);
            now += gap;
            waiting.found(now);
            first
        };
        for _ in 0..20 {
            run(&mut waiting, 500_000);
        }
        assert_eq!(run(&mut waiting, 100), Pause::Park);
        for _ in 0..40 {
            run(&mut waiting, 100);
        }
        assert_eq!(run(&mut waiting, 100), Pause::Spin);
    }
}
