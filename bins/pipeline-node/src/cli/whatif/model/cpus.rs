//! CPUs that runnable threads share: each runs at full speed while there are no more of them than CPUs, and else all at the same
//! part of it (processor sharing).
//!
//! Deliberately without run queues, time slices and migrations: over some milliseconds a fair scheduler comes to the same. What
//! it does within them (one of three threads keeps a CPU to itself for a while) is not in here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::agenda::Time;

/// See the file's head.
pub struct Cpus {
    cores: f64,
    /// Work that each runnable thread has had so far, if it was runnable all the time.
    served: f64,
    at: Time,
    /// Threads with work: what `served` will be at its end, in the order of that.
    working: BinaryHeap<Reverse<(Bits, usize)>>,
    /// Threads that are runnable without an end: they spin, and let nobody else have their CPU.
    spinning: usize,
    /// CPU time that all work has taken.
    used: f64,
}

/// A float that is not negative, in an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Bits(u64);

impl Cpus {
    /// So many of them.
    pub fn new(cores: f64) -> Self {
        Self { cores, served: 0.0, at: 0.0, working: BinaryHeap::new(), spinning: 0, used: 0.0 }
    }

    /// Lets time pass.
    pub fn advance(&mut self, to: Time) {
        let passed = to - self.at;
        if passed > 0.0 {
            let speed = self.speed();
            self.served += passed * speed;
            self.used += passed * speed * self.runnable() as f64;
            self.at = to;
        }
    }

    /// A thread begins with work of `ns` nanoseconds of a CPU.
    pub fn work(&mut self, thread: usize, ns: f64) {
        // Positive floats are ordered as their bits.
        let end = (self.served + ns.max(0.0)).to_bits();
        self.working.push(Reverse((Bits(end), thread)));
    }

    /// When the next work ends, if nothing else begins.
    pub fn next_at(&self) -> Time {
        let Some(Reverse((end, _))) = self.working.peek() else { return Time::INFINITY };
        self.at + (f64::from_bits(end.0) - self.served).max(0.0) / self.speed()
    }

    /// Ends the next work, at [`Self::next_at`].
    pub fn end_next(&mut self) -> Option<usize> {
        let at = self.next_at();
        let Reverse((end, thread)) = self.working.pop()?;
        let passed = at - self.at;
        self.used += passed * self.speed_of(self.runnable() + 1) * (self.runnable() + 1) as f64;
        self.at = self.at.max(at);
        self.served = self.served.max(f64::from_bits(end.0));
        Some(thread)
    }

    /// A thread begins (or ends) to spin.
    pub fn spin(&mut self, begins: bool) {
        self.spinning = if begins { self.spinning + 1 } else { self.spinning.saturating_sub(1) };
    }

    /// Whether there is no CPU for one thread more.
    pub fn is_full(&self) -> bool {
        self.runnable() as f64 >= self.cores
    }

    /// CPU time used so far, nanoseconds.
    pub fn used(&self) -> f64 {
        self.used
    }

    fn runnable(&self) -> usize {
        self.working.len() + self.spinning
    }

    fn speed(&self) -> f64 {
        self.speed_of(self.runnable())
    }

    fn speed_of(&self, runnable: usize) -> f64 {
        if runnable as f64 <= self.cores { 1.0 } else { self.cores / runnable as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(cpus: &mut Cpus) -> Vec<(usize, f64)> {
        std::iter::from_fn(|| {
            let at = cpus.next_at();
            cpus.end_next().map(|thread| (thread, at))
        })
        .collect()
    }

    /// As many as CPUs go at full speed; three of equal work on two CPUs take half as long again, all of them.
    #[test]
    fn shares_are_equal() {
        let mut cpus = Cpus::new(2.0);
        (0..2).for_each(|thread| cpus.work(thread, 100.0));
        assert_eq!(ends(&mut cpus), [(0, 100.0), (1, 100.0)]);
        let mut cpus = Cpus::new(2.0);
        (0..3).for_each(|thread| cpus.work(thread, 100.0));
        assert!(cpus.is_full());
        let ends = ends(&mut cpus);
        assert!(ends.iter().all(|(_, at)| (at - 150.0).abs() < 1e-9), "{ends:?}");
        assert!((cpus.used() - 300.0).abs() < 1e-9);
    }

    /// Who comes later slows the others down from then on; who spins counts as one that works.
    #[test]
    fn later_and_spinning() {
        let mut cpus = Cpus::new(1.0);
        cpus.work(0, 100.0);
        cpus.advance(50.0);
        cpus.work(1, 100.0);
        assert_eq!(cpus.next_at(), 150.0);
        assert_eq!(cpus.end_next(), Some(0));
        assert_eq!(cpus.next_at(), 200.0);
        cpus.spin(true);
        assert_eq!(cpus.next_at(), 250.0);
        cpus.spin(false);
        assert_eq!((cpus.end_next(), cpus.next_at()), (Some(1), Time::INFINITY));
    }
}
