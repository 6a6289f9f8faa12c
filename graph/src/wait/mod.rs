//! How a worker waits when it finds nothing to do: spin, then yield, then park.
//!
//! An adaptive worker learns how long its gaps are ([`gaps`]) and what a sleep costs it ([`toll`]), and spins as long as
//! is cheapest ([`budget`]), within the bounds of its pool; on a crowded machine not at all ([`crowd`]). All of it is
//! its own, decided when it has run dry, never for an item. Deliberately without the sleep itself ([`crate::bell`]):
//! this only decides what comes next.

mod budget;
mod crowd;
mod gaps;
#[cfg(test)]
mod model;
mod toll;

use crate::blueprint::Wait;
use crate::clock::Nanos;
use crate::stats::cell::WorkerCell;
use crate::sync::Arc;
use crowd::Crowd;
use gaps::Gaps;
use toll::Toll;

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

/// How a sleep went, for [`Waiting::woke`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slept {
    pub from: Nanos,
    pub to: Nanos,
    /// Time from the ring that ended it to its end; `None`: a descriptor or the limit ended it.
    pub wake_ns: Option<Nanos>,
    /// CPU time of it, if it was measured; see [`Waiting::meters`].
    pub cpu_ns: Option<Nanos>,
    /// The limit ended it.
    pub timed: bool,
}

/// A spinning thread that is not alone on its CPU gives it away every so many turns: without this a woken
/// peer that was put on the same CPU waits for the whole spin budget (measured: 113 µs instead of 6).
const YIELD_EVERY: u32 = 16;

/// How long a worker goes on without a pause before it looks whether somebody else wants its CPU. Whoever was woken
/// on a CPU with a busy thread would otherwise wait for the scheduler's tick: milliseconds.
const BUSY_NS: Nanos = 500_000;

/// It decides after so many gaps that it did not sleep through, or so many sleeps; the first ones count each.
const DECIDE_EVERY: u64 = 16;
const SLEEPS_EVERY: u64 = 4;
const FIRST_GAPS: u64 = 32;
/// A worker that has not slept for so long, times the sleeps it has known, parks at once for one gap to see what a sleep
/// costs now: else one that learned on a bad day would spin for ever.
const PROBE_NS: Nanos = 1_000_000;
const PROBES: u64 = 100;
/// One sleep in so many is measured in CPU time, which takes two system calls; the first ones all are.
const METER_EVERY: u64 = 8;

/// One worker's waiting.
pub(crate) struct Waiting {
    wait: Wait,
    pinned: bool,
    /// Since when nothing was found; `None` while there is work.
    idle_since: Option<Nanos>,
    turns: u32,
    /// Since when there has been work without a pause.
    busy_since: Option<Nanos>,
    crowd: Crowd,
    gaps: Gaps,
    toll: Toll,
    /// How long it spins and yields before it parks; for ever if it never parks.
    budget_ns: Nanos,
    decisions: u64,
    /// When what ended a sleep came, and how late the worker was awake.
    came: Option<(Nanos, Nanos)>,
    /// Messages that had come by then.
    piled: u64,
    sleeps: u64,
    slept_at: Nanos,
    /// Where all can see what it has decided.
    cell: Arc<WorkerCell>,
}

impl Waiting {
    pub(crate) fn new(wait: Wait, pinned: bool, cell: Arc<WorkerCell>) -> Self {
        let adapts = wait.adaptive && wait.park_ns > 0;
        let waiting = Self {
            wait,
            pinned,
            idle_since: None,
            turns: 0,
            busy_since: None,
            crowd: Crowd::new(),
            gaps: Gaps::new(),
            toll: Toll::new(),
            budget_ns: if adapts { 0 } else { bound_ns(&wait) },
            decisions: 0,
            came: None,
            piled: 1,
            sleeps: 0,
            slept_at: 0,
            cell,
        };
        waiting.show(0);
        waiting
    }

    /// Work was found at `now`, by a look that began at `looked`. Whether to yield before the next look all the same:
    /// an adaptive worker does now and then, as long as yields cost little.
    #[inline]
    pub(crate) fn found(&mut self, looked: Nanos, now: Nanos) -> bool {
        self.crowd.judge(looked);
        if let Some(since) = self.idle_since.take() {
            self.learn(since, looked);
        }
        let since = *self.busy_since.get_or_insert(now);
        let give = now.saturating_sub(since) > BUSY_NS;
        if give {
            self.busy_since = None;
        }
        give && self.wait.adaptive && !self.pinned && !self.crowd.is_on(now)
    }

    /// It has yielded, because [`Self::found`] said so.
    pub(crate) fn gave(&mut self, from: Nanos, to: Nanos) {
        self.crowd.yields(from);
        self.crowd.judge(to);
    }

    /// Nothing was found at `now`: what comes next?
    pub(crate) fn next(&mut self, now: Nanos) -> Pause {
        self.crowd.judge(now);
        self.busy_since = None;
        self.came = None;
        let pause = self.choose(now);
        if pause == Pause::Yield {
            self.crowd.yields(now);
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
        if may_park && (idle >= self.budget_ns || (self.wait.adaptive && self.parks_at_once(since, now))) {
            return Pause::Park;
        }
        if idle < self.wait.spin_ns || (!may_park && self.wait.yield_ns == 0) {
            self.turns = self.turns.wrapping_add(1);
            let give = !self.pinned && self.turns.is_multiple_of(YIELD_EVERY);
            return if give { Pause::Yield } else { Pause::Spin };
        }
        Pause::Yield
    }

    /// Whatever its budget, in the gap that began at `since`.
    fn parks_at_once(&self, since: Nanos, now: Nanos) -> bool {
        self.crowd.is_on(now) || since.saturating_sub(self.slept_at) > PROBE_NS * self.sleeps.min(PROBES)
    }

    /// The longest sleep.
    pub(crate) fn park_ns(&self) -> Nanos {
        self.wait.park_ns
    }

    fn adapts(&self) -> bool {
        self.wait.adaptive && self.wait.park_ns > 0
    }

    /// Whether the CPU time of the sleep that comes should be measured.
    pub(crate) fn meters(&self) -> bool {
        self.adapts() && (self.sleeps < METER_EVERY || self.sleeps.is_multiple_of(METER_EVERY))
    }

    /// It has slept.
    pub(crate) fn woke(&mut self, slept: &Slept) {
        if !self.adapts() {
            return;
        }
        self.sleeps += 1;
        self.slept_at = slept.to;
        let whole = slept.to.saturating_sub(slept.from);
        let wake_ns = slept.wake_ns.unwrap_or_else(|| self.toll.wake_ns(whole)).min(whole);
        if slept.timed {
            return;
        }
        self.came = Some((slept.to - wake_ns, wake_ns));
        self.piled = 1;
        self.toll.learn(whole - wake_ns, slept.wake_ns, slept.cpu_ns);
    }

    /// So many messages lay there when it had slept; one, if nobody says so.
    pub(crate) fn piled(&mut self, messages: u64) {
        self.piled = messages;
    }

    /// A gap from `since` until something was found by a look at `looked`.
    fn learn(&mut self, since: Nanos, looked: Nanos) {
        if !self.adapts() {
            return;
        }
        let slept = self.came.take();
        if let Some((_, wake_ns)) = slept {
            self.toll.delayed(wake_ns, self.piled);
        }
        let end = slept.map_or(looked, |(came_at, _)| came_at);
        self.gaps.learn(end.saturating_sub(since));
        let early = self.gaps.count() <= FIRST_GAPS || self.sleeps.is_multiple_of(SLEEPS_EVERY);
        if (slept.is_some() && early) || self.gaps.count().is_multiple_of(DECIDE_EVERY) {
            self.decide(looked);
        }
    }

    fn decide(&mut self, now: Nanos) {
        let (limit, price) = (bound_ns(&self.wait), self.wait.price_percent as f32 / 100.0);
        let budget_ns = budget::choose(&self.gaps, &self.toll, price, limit, self.budget_ns);
        self.decisions += u64::from(budget_ns != self.budget_ns);
        self.budget_ns = budget_ns;
        self.show(now);
    }

    /// Lets all see how it waits now.
    fn show(&self, now: Nanos) {
        let cell = &self.cell;
        let spin_ns = self.wait.spin_ns.min(self.budget_ns);
        let [wake_ns, wake_cpu_ns] = if self.adapts() { self.toll.last() } else { [0; 2] };
        cell.gap_ns.set(self.gaps.median());
        cell.spin_budget_ns.set(spin_ns);
        cell.yield_budget_ns.set(self.wait.yield_ns.min(self.budget_ns - spin_ns));
        cell.parks_at_once
            .set(u64::from(self.wait.park_ns > 0 && (self.budget_ns == 0 || self.crowd.is_on(now))));
        cell.wake_ns.set(wake_ns);
        cell.wake_cpu_ns.set(wake_cpu_ns);
        cell.decisions.set(self.decisions);
    }
}

/// How long a pool spins and yields at most.
fn bound_ns(wait: &Wait) -> Nanos {
    wait.spin_ns.saturating_add(wait.yield_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Wait =
        Wait { spin_ns: 1_000, yield_ns: 2_000, park_ns: 1_000_000, adaptive: false, price_percent: 50 };
    const ADAPTIVE: Wait = Wait { adaptive: true, ..WAIT };

    fn waiting(wait: Wait, pinned: bool) -> Waiting {
        Waiting::new(wait, pinned, Arc::default())
    }

    /// One that has learned that sleeps are dear and that gaps end just before the bound: it spins and yields to the end.
    fn seasoned(wait: Wait) -> Waiting {
        let mut waiting = waiting(wait, false);
        (0..64).for_each(|_| waiting.gaps.learn(bound_ns(&wait) - 1));
        waiting.toll.learn(bound_ns(&wait), None, None);
        (0..64).for_each(|_| waiting.toll.delayed(20 * bound_ns(&wait), 1));
        waiting.decide(0);
        waiting.sleeps = PROBES;
        waiting
    }

    /// Spin, then yield, then park, by the time since work ran out; a spin unpinned yields every 16th turn. An adaptive
    /// worker begins with parking at once, and whatever it learns keeps to the bounds.
    #[test]
    fn stages_of_waiting() {
        for mut waiting in [waiting(WAIT, false), seasoned(ADAPTIVE)] {
            let first: Vec<_> = (0..16).map(|i| waiting.next(i)).collect();
            assert_eq!(first.iter().filter(|p| **p == Pause::Yield).count(), 1);
            assert_eq!(waiting.next(1_500), Pause::Yield);
            assert_eq!(waiting.next(3_500), Pause::Park);
            waiting.found(3_600, 3_600);
            assert_eq!(waiting.next(4_000), Pause::Spin);
        }
        let mut pinned = waiting(WAIT, true);
        assert!((0..100).all(|i| pinned.next(i) == Pause::Spin));
        assert_eq!(waiting(ADAPTIVE, false).next(0), Pause::Park);
    }

    /// A worker that may never sleep never does, even without budgets.
    #[test]
    fn park_zero_never_parks() {
        let mut waiting = waiting(Wait { park_ns: 0, ..ADAPTIVE }, false);
        assert!((0..100).all(|i| waiting.next(i * 1_000_000) != Pause::Park));
        let pure = Wait { park_ns: 0, yield_ns: 0, spin_ns: 0, ..WAIT };
        let mut pure = Waiting::new(pure, true, Arc::default());
        assert!((0..100).all(|i| pure.next(i * 1_000_000) == Pause::Spin));
    }

    /// A yield that takes long makes an adaptive worker park at once, for longer each time it happens again, and only
    /// for a time; a worker that is not adaptive keeps to its thresholds.
    #[test]
    fn parks_on_a_crowded_machine() {
        const LONG: Wait = Wait { spin_ns: 100_000, yield_ns: 200_000, ..WAIT };
        for adaptive in [true, false] {
            let mut waiting = seasoned(Wait { adaptive, ..LONG });
            let mut now = 0;
            for round in 0..4 {
                waiting.slept_at = now; // Not for so long that it parks to see what that costs.
                assert_eq!(waiting.next(now), Pause::Spin, "round {round}");
                assert_eq!(waiting.next(now + 150_000), Pause::Yield);
                now += 500_000;
                waiting.found(now, now);
                now += (crowd::FIRST_NS << round) - 1;
                assert_eq!(waiting.next(now), if adaptive { Pause::Park } else { Pause::Spin });
                waiting.found(now, now);
                now += 1;
            }
            // Short yields for a while: back to the first length.
            now += 4 * crowd::MOST_NS;
            waiting.slept_at = now;
            waiting.next(now);
            waiting.next(now + 150_000);
            waiting.found(now + 160_000, now + 160_000);
            assert_eq!(waiting.crowd.next_ns(), crowd::FIRST_NS);
        }
    }

    /// An adaptive worker that never runs dry yields every so often, unless it is pinned, its thresholds are fixed, or
    /// a yield has lately taken long. What its own work takes after a yield does not count for the yield.
    #[test]
    fn a_busy_worker_yields() {
        let yields = |wait: Wait, pinned: bool, cost: Nanos| {
            let mut waiting = waiting(wait, pinned);
            let (mut now, mut yields) = (0, 0);
            while now < 5_000_000 {
                now += 10_000;
                if waiting.found(now - 10_000, now) {
                    yields += 1;
                    waiting.gave(now, now + cost);
                    now += cost;
                }
            }
            yields
        };
        assert!((8..=10).contains(&yields(ADAPTIVE, false, 500)));
        assert_eq!(yields(ADAPTIVE, true, 500), 0);
        assert_eq!(yields(WAIT, false, 500), 0);
        assert_eq!(yields(ADAPTIVE, false, 2_000_000), 1);
        let mut waiting = seasoned(ADAPTIVE);
        assert_eq!(waiting.next(0), Pause::Spin);
        assert_eq!(waiting.next(1_500), Pause::Yield);
        waiting.found(2_000, 5_000_000);
        assert!(!waiting.crowd.is_on(5_000_000));
    }
}
