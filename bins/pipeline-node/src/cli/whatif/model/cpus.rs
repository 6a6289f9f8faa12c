//! CPUs, each with the threads that are at home on it: those of them that have work share it equally (processor sharing).
//!
//! A thread stays where it is, as under Linux. When it is woken and its CPU is taken, the kernel looks for one that idles among
//! a few others: the busier the machine, the fewer, and among two busy ones none. A CPU that idles when queues are balanced, some
//! milliseconds later, takes one that waits elsewhere. So a CPU may stand idle while two threads share the one beside it: those are
//! the gaps of files with several threads (docs/scale.md). Deliberately without time slices: what a thread gets over a millisecond
//! is right, who goes first within it is not in here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::agenda::Time;

/// See the file's head.
pub struct Cpus {
    cores: Vec<Core>,
    /// When the next work of each ends, if nothing else begins on it.
    ends: Vec<Time>,
    /// By thread.
    homes: Vec<usize>,
    now: Time,
    /// Share of the time that CPUs had work, lately; and when that was last looked at, with what they had used by then.
    busy: f64,
    looked: (Time, f64),
}

/// As `update_idle_cpu_scan` has it: of so many CPUs as many are looked at as are left of all by the square of how busy they are, with
/// so much on top.
const MARGIN: f64 = 1.17;
/// How much the latest share of busy time counts.
const LATEST: f64 = 0.1;

/// One CPU.
#[derive(Default)]
struct Core {
    /// Work that each runnable thread has had so far, if it was runnable all the time.
    served: f64,
    at: Time,
    /// Threads with work: what `served` will be at its end, in the order of that.
    working: BinaryHeap<Reverse<(Bits, usize)>>,
    /// Threads that are runnable without an end: they spin, and let nobody else have their CPU.
    spinning: usize,
    /// Threads that look and make room at once: only that it does not idle is due to them.
    looking: usize,
    /// Threads that were rung for and are not awake yet.
    coming: usize,
    /// A thread is between two pieces of its work.
    is_between: bool,
    /// CPU time that all work has taken.
    used: f64,
    /// Of its time, what several threads do not get.
    lost: f64,
}

/// A float that is not negative, in an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Bits(u64);

impl Core {
    fn runnable(&self) -> usize {
        self.working.len() + self.spinning
    }

    fn is_idle(&self) -> bool {
        !self.is_between && self.runnable() + self.looking + self.coming == 0
    }

    /// What of its time all of those that are runnable have together.
    fn share(&self) -> f64 {
        match self.runnable() {
            0 => 0.0,
            1 => 1.0,
            _ => 1.0 - self.lost,
        }
    }

    /// What of it each has.
    fn speed(&self) -> f64 {
        self.share() / self.runnable().max(1) as f64
    }

    fn advance(&mut self, to: Time) {
        let passed = to - self.at;
        if passed > 0.0 {
            self.served += passed * self.speed();
            self.used += passed * self.share();
            self.at = to;
        }
    }

    fn end_at(&self) -> Time {
        let Some(Reverse((end, _))) = self.working.peek() else { return Time::INFINITY };
        self.at + (f64::from_bits(end.0) - self.served).max(0.0) / self.speed()
    }

    fn begin(&mut self, thread: usize, ns: f64) {
        // Positive floats are ordered as their bits.
        self.working.push(Reverse((Bits((self.served + ns.max(0.0)).to_bits()), thread)));
    }

    /// Takes out the thread that has least left to do.
    fn give_away(&mut self) -> Option<(usize, f64)> {
        let Reverse((end, thread)) = self.working.pop()?;
        Some((thread, (f64::from_bits(end.0) - self.served).max(0.0)))
    }
}

impl Cpus {
    /// So many of them, with so many threads that are at home on one after the other. Of the time of a CPU that several of them want
    /// `lost` is nobody's.
    pub fn new(cores: usize, threads: usize, lost: f64) -> Self {
        let n = cores.max(1);
        Self {
            cores: (0..n).map(|_| Core { lost, ..Core::default() }).collect(),
            ends: vec![Time::INFINITY; n],
            homes: (0..threads).map(|thread| thread % n).collect(),
            now: 0.0,
            busy: 0.0,
            looked: (0.0, 0.0),
        }
    }

    /// Lets time pass.
    pub fn advance(&mut self, to: Time) {
        self.now = self.now.max(to);
    }

    /// Something changes on a CPU.
    fn change<R>(&mut self, at: usize, how: impl FnOnce(&mut Core) -> R) -> R {
        let core = &mut self.cores[at];
        core.advance(self.now);
        let result = how(core);
        self.ends[at] = core.end_at();
        result
    }

    /// A thread begins with work of `ns` nanoseconds of a CPU, where it is at home.
    pub fn work(&mut self, thread: usize, ns: f64) {
        self.change(self.homes[thread], |core| core.begin(thread, ns));
    }

    /// A thread that sleeps is rung for: it finds its place. Whether the CPU there has idled, and has to be woken itself.
    pub fn call(&mut self, thread: usize) -> bool {
        let (home, n) = (self.homes[thread], self.cores.len());
        let others = (n as f64 * (1.0 - (MARGIN * self.busy).powi(2))).max(0.0) as usize;
        let mut looked_at = (0..n.min(others + 1)).map(|i| (home + i) % n);
        let place = looked_at.find(|at| self.cores[*at].is_idle());
        self.homes[thread] = place.unwrap_or(home);
        self.cores[self.homes[thread]].coming += 1;
        place.is_some()
    }

    /// It is awake.
    pub fn came(&mut self, thread: usize) {
        let core = &mut self.cores[self.homes[thread]];
        core.coming = core.coming.saturating_sub(1);
    }

    /// The kernel balances: a CPU that idles takes a thread that waits for another one.
    pub fn balance(&mut self) {
        let ((at, before), used) = (self.looked, self.used());
        let all = (self.now - at).max(1.0) * self.cores.len() as f64;
        self.busy += LATEST * ((used - before) / all - self.busy);
        self.looked = (self.now, used);
        for idle in 0..self.cores.len() {
            if !self.cores[idle].is_idle() {
                continue;
            }
            let full = (0..self.cores.len()).max_by_key(|at| self.cores[*at].runnable());
            let Some(full) = full.filter(|at| self.cores[*at].runnable() > 1) else { return };
            if let Some((thread, ns)) = self.change(full, Core::give_away) {
                self.homes[thread] = idle;
                self.work(thread, ns);
            }
        }
    }

    /// When the next work ends, if nothing else begins.
    pub fn next_at(&self) -> Time {
        self.ends.iter().copied().fold(Time::INFINITY, f64::min)
    }

    /// Ends the next work, at [`Self::next_at`].
    pub fn end_next(&mut self) -> Option<usize> {
        let at = (0..self.ends.len()).min_by(|a, b| self.ends[*a].total_cmp(&self.ends[*b]))?;
        if self.ends[at].is_infinite() {
            return None;
        }
        self.advance(self.ends[at]);
        self.change(at, |core| {
            let Reverse((end, thread)) = core.working.pop()?;
            core.served = core.served.max(f64::from_bits(end.0));
            core.is_between = true;
            Some(thread)
        })
    }

    /// A thread whose work had ended has begun with more, or has nothing to do.
    pub fn decided(&mut self, thread: usize) {
        self.cores[self.homes[thread]].is_between = false;
    }

    /// A thread begins (or ends) to spin.
    pub fn spin(&mut self, thread: usize, begins: bool) {
        self.change(self.homes[thread], |core| core.spinning = counted(core.spinning, begins));
    }

    /// A thread begins (or ends) to look, and makes room for whoever has work.
    pub fn look(&mut self, thread: usize, begins: bool) {
        self.change(self.homes[thread], |core| core.looking = counted(core.looking, begins));
    }

    /// Whether a thread that has no work at hand has its CPU with others that do.
    pub fn is_shared(&self, thread: usize) -> bool {
        self.cores[self.homes[thread]].runnable() > 0
    }

    /// Whether there is no CPU for one thread more.
    pub fn is_full(&self) -> bool {
        self.cores.iter().map(Core::runnable).sum::<usize>() >= self.cores.len()
    }

    /// CPU time used so far, nanoseconds.
    pub fn used(&mut self) -> f64 {
        (0..self.cores.len()).for_each(|at| self.change(at, |_| ()));
        self.cores.iter().map(|core| core.used).sum()
    }
}

fn counted(n: usize, begins: bool) -> usize {
    if begins { n + 1 } else { n.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(cpus: &mut Cpus) -> Vec<(usize, f64)> {
        std::iter::from_fn(|| {
            let at = cpus.next_at();
            let thread = cpus.end_next()?;
            cpus.decided(thread);
            Some((thread, at))
        })
        .collect()
    }

    /// Threads of one CPU share it, those of another one do not notice: of three on two CPUs the two that share take twice as
    /// long, and the CPU beside them stands idle until the queues are balanced.
    #[test]
    fn those_at_home_share() {
        let mut cpus = Cpus::new(2, 3, 0.0);
        (0..3).for_each(|thread| cpus.work(thread, 100.0));
        assert!(cpus.is_full());
        assert_eq!(ends(&mut cpus), [(1, 100.0), (0, 200.0), (2, 200.0)]);
        assert_eq!(cpus.used(), 300.0);
        let mut cpus = Cpus::new(2, 3, 0.0);
        (0..3).for_each(|thread| cpus.work(thread, 100.0));
        assert_eq!(cpus.end_next(), Some(1));
        assert!(!cpus.cores[1].is_idle(), "whoever has just ended may go on");
        cpus.decided(1);
        cpus.balance();
        let ends = ends(&mut cpus);
        assert_eq!(ends.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [150.0, 150.0]);
        assert_eq!(cpus.used(), 300.0);
    }

    /// Whoever is rung for comes back to its own CPU if that idles, else to one that does, else it waits at its own; a CPU that
    /// somebody comes to idles no longer, nor does one on which somebody looks. On busy CPUs nobody looks for another one.
    #[test]
    fn places_of_those_who_wake() {
        let mut cpus = Cpus::new(2, 4, 0.0);
        assert!(cpus.call(0));
        assert!(cpus.call(2), "its own is taken, the other one idles");
        assert!(!cpus.call(1), "both are taken");
        cpus.came(0);
        cpus.came(2);
        cpus.came(1);
        cpus.work(2, 50.0);
        cpus.work(1, 50.0);
        assert_eq!(ends(&mut cpus).iter().map(|(_, at)| *at).collect::<Vec<_>>(), [100.0, 100.0]);
        cpus.look(0, true);
        assert!(
            cpus.call(1) && !cpus.call(2),
            "one has its own CPU again, and on the other one somebody looks"
        );
        let mut cpus = Cpus::new(2, 3, 0.0);
        for tick in 1..100 {
            [0, 1].into_iter().for_each(|thread| cpus.work(thread, 100.0));
            assert_eq!(ends(&mut cpus).len(), 2);
            cpus.balance();
            assert_eq!(cpus.now, f64::from(tick) * 100.0);
        }
        assert!(cpus.call(0) && !cpus.call(2), "it stays at home, although the other one idles");
    }

    /// Whoever begins later shares what is left; one that spins takes a share and has no end.
    #[test]
    fn who_comes_late_and_who_spins() {
        let mut cpus = Cpus::new(1, 2, 0.0);
        cpus.work(0, 100.0);
        cpus.advance(50.0);
        cpus.work(1, 100.0);
        assert_eq!(ends(&mut cpus), [(0, 150.0), (1, 200.0)]);
        let mut cpus = Cpus::new(1, 2, 0.0);
        cpus.spin(1, true);
        cpus.work(0, 100.0);
        assert_eq!(cpus.next_at(), 200.0);
        cpus.advance(100.0);
        cpus.spin(1, false);
        assert_eq!(cpus.next_at(), 150.0);
        let mut cpus = Cpus::new(1, 2, 0.2);
        [0, 1].into_iter().for_each(|thread| cpus.work(thread, 100.0));
        assert_eq!(ends(&mut cpus), [(0, 250.0), (1, 250.0)], "a fifth of what two want is nobody's");
        assert!((cpus.used() - 200.0).abs() < 1e-9);
    }
}
