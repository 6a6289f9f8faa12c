//! The one place that reads a clock: monotonic nanoseconds, from the TSC where it is invariant.
//! Deliberately never the wall clock. A [`Clock`] can be virtual, for a simulator that owns time.

use std::cell::Cell;

use crate::sync::{Arc, AtomicU64, OnceLock, Ordering};

/// Nanoseconds on the machine's monotonic clock (`CLOCK_MONOTONIC`), never wall time.
pub type Nanos = u64;

/// How long a TSC reading is trusted before it is compared with the system again. The first comparisons
/// come fast, because each lengthens the base line by which the rate is known.
const RESYNC_FIRST_NS: Nanos = 1_000_000;
const RESYNC_MAX_NS: Nanos = 250_000_000;

/// Now, by a system call (vDSO): for control code. The data path uses a [`Clock`].
pub fn now() -> Nanos {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CPU time of the calling thread, by a system call.
pub(crate) fn thread_cpu_ns() -> Nanos {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Now, on any thread, as a [`Clock`] of that thread tells it: for what is asked for each submission.
#[inline]
pub fn thread_now() -> Nanos {
    thread_local! {
        static CLOCK: Clock = Clock::monotonic();
    }
    // A thread that ends may have let go of its clock.
    CLOCK.try_with(Clock::now).unwrap_or_else(|_| now())
}

/// A worker's clock. Cheap to read, never goes backwards; each thread has its own (it is `Send`, not `Sync`).
#[derive(Clone)]
pub struct Clock {
    source: Source,
    last: Cell<Nanos>,
}

#[derive(Clone)]
enum Source {
    Tsc(Tsc),
    System,
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock, by the fastest source that can be trusted.
    pub fn monotonic() -> Self {
        let source = match Tsc::calibrated() {
            Some(tsc) => Source::Tsc(tsc),
            None => Source::System,
        };
        Self { source, last: Cell::new(0) }
    }

    /// The machine's clock by `clock_gettime` alone.
    pub fn system() -> Self {
        Self { source: Source::System, last: Cell::new(0) }
    }

    /// A clock that stands still until its [`Hands`] move it.
    pub fn simulated(start: Nanos) -> (Self, Hands) {
        let time = Arc::new(AtomicU64::new(start));
        (Self { source: Source::Virtual(time.clone()), last: Cell::new(0) }, Hands(time))
    }

    /// Now.
    #[inline]
    pub fn now(&self) -> Nanos {
        let read = match &self.source {
            Source::Tsc(tsc) => tsc.now(),
            Source::System => now(),
            Source::Virtual(time) => time.load(Ordering::Acquire),
        };
        let now = read.max(self.last.get());
        self.last.set(now);
        now
    }

    /// Whether time comes from the TSC.
    pub fn is_tsc(&self) -> bool {
        matches!(self.source, Source::Tsc(_))
    }
}

/// Moves a simulated clock.
pub struct Hands(Arc<AtomicU64>);

/// Where shared tables read the time, now and then: the machine's, or that of a simulation. `Send` and `Sync`; a worker
/// has a [`Clock`].
#[derive(Clone, Debug, Default)]
pub struct Time(Option<Arc<AtomicU64>>);

impl Time {
    /// Now. On the machine by the calling thread's clock.
    #[inline]
    pub fn now(&self) -> Nanos {
        match &self.0 {
            None => thread_now(),
            Some(time) => time.load(Ordering::Acquire),
        }
    }
}

impl Hands {
    /// The time they show.
    pub fn time(&self) -> Time {
        Time(Some(self.0.clone()))
    }

    /// Lets `by_ns` pass.
    pub fn advance(&self, by_ns: Nanos) {
        self.0.fetch_add(by_ns, Ordering::AcqRel);
    }
}

/// A straight line through two readings: `ns = base_ns + (tsc - base_tsc) * rate`.
#[derive(Clone)]
struct Tsc {
    line: Cell<Line>,
    /// The first reading of this process: the far end of the base line.
    origin: (u64, Nanos),
    resync_ns: Cell<Nanos>,
}

#[derive(Clone, Copy)]
struct Line {
    base_tsc: u64,
    base_ns: Nanos,
    /// Nanoseconds per tick, times 2³².
    rate: u64,
}

impl Line {
    fn at(&self, tsc: u64) -> (Nanos, Nanos) {
        let since = (u128::from(tsc.saturating_sub(self.base_tsc)) * u128::from(self.rate)) >> 32;
        (self.base_ns + since as u64, since as u64)
    }
}

impl Tsc {
    /// The process-wide first calibration, copied for one worker.
    fn calibrated() -> Option<Self> {
        static FIRST: OnceLock<Option<((u64, Nanos), Line)>> = OnceLock::new();
        let (origin, line) = (*FIRST.get_or_init(|| tsc_is_invariant().then(first_line)))?;
        Some(Self { line: Cell::new(line), origin, resync_ns: Cell::new(RESYNC_FIRST_NS) })
    }

    #[inline]
    fn now(&self) -> Nanos {
        let (ns, since) = self.line.get().at(read_tsc());
        if since < self.resync_ns.get() { ns } else { self.resync() }
    }

    /// Starts a new line at the system's time, with the rate over the whole life of the process: NTP may
    /// slew the system clock by 500 ppm, and a suspended guest may have lost any amount of time.
    #[cold]
    fn resync(&self) -> Nanos {
        let (tsc, ns) = read_both();
        let (ticks, passed) = (tsc.saturating_sub(self.origin.0), ns.saturating_sub(self.origin.1));
        if ticks > 0 && passed > 0 {
            self.line.set(Line { base_tsc: tsc, base_ns: ns, rate: rate_of(ticks, passed) });
        }
        self.resync_ns.set((self.resync_ns.get() * 2).min(RESYNC_MAX_NS));
        ns
    }
}

fn rate_of(ticks: u64, ns: Nanos) -> u64 {
    ((u128::from(ns) << 32) / u128::from(ticks)) as u64
}

fn first_line() -> ((u64, Nanos), Line) {
    let origin = read_both();
    loop {
        let (tsc, ns) = read_both();
        // 200 µs with an error of some 50 ns: 250 ppm for the first millisecond, then ever better.
        if ns.saturating_sub(origin.1) >= 200_000 && tsc > origin.0 {
            let rate = rate_of(tsc - origin.0, ns - origin.1);
            return (origin, Line { base_tsc: tsc, base_ns: ns, rate });
        }
        std::hint::spin_loop();
    }
}

/// Both clocks at one moment: the tightest of a few tries, so that an interrupt between the two reads does
/// not pass for drift.
fn read_both() -> (u64, Nanos) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..4 {
        let before = read_tsc();
        let ns = now();
        let width = read_tsc().saturating_sub(before);
        if width < best.0 {
            best = (width, before + width / 2, ns);
        }
    }
    (best.1, best.2)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_tsc() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC; it reads a counter and touches no memory. (A kernel that
    // forbids it to user space by CR4.TSD does not list its flags as usable; see `tsc_is_invariant`.)
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_tsc() -> u64 {
    0
}

/// Constant in rate, running in deep sleep, and not distrusted by the kernel's own watchdog.
fn tsc_is_invariant() -> bool {
    if !cfg!(target_arch = "x86_64") {
        return false;
    }
    let Ok(info) = std::fs::read_to_string("/proc/cpuinfo") else { return false };
    let flags = info.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
    let sources = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let trusted = std::fs::read_to_string(sources).map_or(true, |s| s.split_whitespace().any(|c| c == "tsc"));
    has("constant_tsc") && has("nonstop_tsc") && trusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fast clock stays within 50 µs of the system's over many resyncs, and never goes backwards.
    #[test]
    fn follows_the_system_clock() {
        let clock = Clock::monotonic();
        let (start, mut last, mut worst) = (now(), 0, 0u64);
        while now() - start < 30_000_000 {
            let (before, fast, after) = (now(), clock.now(), now());
            assert!(fast >= last);
            last = fast;
            if after - before < 2_000 {
                worst = worst.max(before.saturating_sub(fast)).max(fast.saturating_sub(after));
            }
        }
        assert!(worst < 50_000, "off by {worst} ns");
    }

    /// Each thread's clock tells the same time as the system, but for what a busy machine puts between two looks.
    #[test]
    fn threads_agree() {
        let tell = || thread_now().abs_diff(now());
        let worst = (0..4).map(|_| std::thread::spawn(tell).join().unwrap()).max();
        assert!(worst.max(Some(tell())) < Some(20_000_000), "{worst:?}: more than a busy machine explains");
    }

    /// A simulated clock moves by its hands alone, for all of its copies.
    #[test]
    fn simulated_time_stands_still() {
        let (clock, hands) = Clock::simulated(5);
        let other = clock.clone();
        assert_eq!((clock.now(), other.now()), (5, 5));
        hands.advance(10);
        assert_eq!((clock.now(), other.now(), hands.time().now()), (15, 15, 15));
    }
}
