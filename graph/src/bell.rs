//! The eventcount of one worker: the only place where a worker sleeps.
//!
//! Announce the sleep, look once more, then sleep; whoever brings work publishes it, fences, and looks
//! whether somebody sleeps. Two fences, and one of the two sides always sees the other. A ring on an awake
//! worker costs a fence and a load. Deliberately without SeqCst accesses: fences are what the proof (and
//! loom, which models SeqCst accesses too weakly) rests on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

use crate::caller::watch::Watch;
use crate::clock::{self, Nanos};
use crate::stage::Arming;
use crate::sync::{Arc, AtomicU64, OnceLock, Ordering, Word, fence};

const AWAKE: u32 = 0;
/// Sleeps, or is about to, on the futex word.
const ON_FUTEX: u32 = 1;
/// Sleeps, or is about to, in epoll: wake through the eventfd.
const ON_EPOLL: u32 = 2;
/// Nobody steps it, and it was left in order: knock at the watch.
const ON_WATCH: u32 = 3;

/// The shared half: whoever has it can ring. On a cache line of its own: each ring looks at it.
#[repr(align(128))]
pub struct Bell {
    word: Word,
    /// Made when the first descriptor is armed.
    event: OnceLock<OwnedFd>,
    /// Of a worker without a thread: where those who step it sleep.
    watch: OnceLock<Arc<Watch>>,
    wakes: AtomicU64,
    /// When the last ring that found the owner asleep began.
    #[cfg_attr(pipeline_loom, allow(dead_code))]
    rung_at: AtomicU64,
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

impl Bell {
    /// A bell whose owner is awake.
    pub fn new() -> Self {
        Self {
            word: Word::new(AWAKE),
            event: OnceLock::new(),
            watch: OnceLock::new(),
            wakes: AtomicU64::new(0),
            rung_at: AtomicU64::new(0),
        }
    }

    /// Wakes the owner if it sleeps or is about to. Call it after the work is published.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        self.wake();
    }

    /// Wakes one sleeper among `bells`, if any sleeps: for a ring that several workers serve. Those awake
    /// look at the ring before they sleep.
    #[inline]
    pub fn ring_one(bells: &[Arc<Bell>]) {
        fence(Ordering::SeqCst);
        for bell in bells {
            if bell.wake() {
                return;
            }
        }
    }

    /// Wakes all sleepers among `bells`.
    pub fn ring_all(bells: &[Arc<Bell>]) {
        fence(Ordering::SeqCst);
        for bell in bells {
            bell.wake();
        }
    }

    /// Makes it the bell of a worker without a thread. Once, before it is used.
    pub fn watched_by(&self, watch: &Arc<Watch>) {
        let _ = self.watch.set(watch.clone());
    }

    /// Somebody steps the worker: rings need no signal, for they are found by a look. (For a worker without a thread.)
    pub fn attend(&self) {
        // Acquire: what a ringer has published that signalled.
        if self.word.load(Ordering::Acquire) != AWAKE {
            self.word.store(AWAKE, Ordering::Relaxed);
        }
    }

    /// From here on a ring knocks at the watch. Look for work once more after it. (For a worker without a thread.)
    pub fn leave(&self) {
        self.word.store(ON_WATCH, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// How often a ring found the owner asleep.
    pub fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Relaxed)
    }

    /// Whether this call is the one that woke the owner.
    #[inline]
    fn wake(&self) -> bool {
        let mut state = self.word.load(Ordering::Relaxed);
        while state != AWAKE {
            if self.wake_from(state) {
                return true;
            }
            // Another ringer was first, and it is awake; or it goes from one kind of sleep to another.
            state = self.word.load(Ordering::Relaxed);
        }
        false
    }

    #[cold]
    fn wake_from(&self, state: u32) -> bool {
        // Before the swap, which publishes it. A model has no use for the time, and would try every order of it.
        #[cfg(not(pipeline_loom))]
        self.rung_at.store(clock::now(), Ordering::Relaxed);
        // Acquire and release: what one ringer published, the owner sees even if another one woke it.
        if !self.word.take(state, AWAKE, Ordering::AcqRel) {
            return false;
        }
        self.wakes.fetch_add(1, Ordering::Relaxed);
        if let Some(watch) = self.watch.get().filter(|_| state == ON_WATCH) {
            watch.knock();
            return true;
        }
        match self.event.get() {
            Some(event) if state == ON_EPOLL => {
                // It can only fail with EAGAIN, at 2^64 - 1 unread wake-ups; readable it is then anyway.
                let _ = rustix::io::write(event, &1u64.to_ne_bytes());
            }
            _ => self.word.wake_one(),
        }
        true
    }
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Somebody rang, or a descriptor became ready, or the kernel woke us for nothing.
    Rung,
    /// The limit passed.
    Timed,
}

/// The owner's half. One per worker; it alone sleeps.
pub struct Sleeper {
    bell: Arc<Bell>,
    epoll: Option<OwnedFd>,
    armed: usize,
    refused: u64,
    deadline: Nanos,
    busy: bool,
    /// See [`Sleeper::rung_at`].
    rung_at: Option<Nanos>,
}

impl Sleeper {
    /// The owner of `bell`.
    pub fn new(bell: Arc<Bell>) -> Self {
        Self { bell, epoll: None, armed: 0, refused: 0, deadline: Nanos::MAX, busy: false, rung_at: None }
    }

    /// Announces the sleep. From here on a ring is not lost. Look for work once more after it, name what to
    /// wait for through [`Arming`], then [`Sleeper::sleep`] or [`Sleeper::stay`].
    pub fn announce(&mut self) {
        (self.armed, self.deadline, self.busy) = (0, Nanos::MAX, false);
        // Whether epoll will be needed is known only after arming; ON_FUTEX is right until then, since
        // `sleep` turns it into ON_EPOLL by a swap that fails if somebody rang.
        self.bell.word.store(ON_FUTEX, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Takes the announcement back: there is work.
    pub fn stay(&mut self) {
        self.bell.word.store(AWAKE, Ordering::Relaxed);
    }

    /// Sleeps until a ring, an armed descriptor, the armed deadline or `limit` (a time, like the deadline).
    pub fn sleep(&mut self, now: Nanos, limit: Nanos) -> Woken {
        let until = limit.min(self.deadline);
        let woken = if self.busy || until <= now {
            Woken::Timed
        } else if self.armed == 0 {
            self.bell.word.wait(ON_FUTEX, until - now);
            self.woken()
        } else if self.bell.word.take(ON_FUTEX, ON_EPOLL, Ordering::AcqRel) {
            self.sleep_in_epoll(until - now)
        } else {
            Woken::Rung
        };
        #[cfg(not(pipeline_loom))]
        {
            self.rung_at = self.is_rung().then(|| self.bell.rung_at.load(Ordering::Relaxed));
        }
        self.bell.word.store(AWAKE, Ordering::Release);
        woken
    }

    /// When the ring began that ended the last sleep, or came before it; `None`: something else ended it.
    pub(crate) fn rung_at(&self) -> Option<Nanos> {
        self.rung_at
    }

    /// Descriptors that could not be armed; each made a sleep short instead.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// In a simulation, where nobody sleeps: whether the sleep that was announced and armed would be over at `now`.
    pub(crate) fn is_over(&self, now: Nanos) -> bool {
        self.busy || self.deadline <= now || self.is_rung()
    }

    /// As [`Self::sleep`] once it is over; `None` before.
    pub(crate) fn wake(&mut self, now: Nanos) -> Option<Woken> {
        if !self.is_over(now) {
            return None;
        }
        let rung = self.is_rung();
        self.bell.word.store(AWAKE, Ordering::Release);
        Some(if rung { Woken::Rung } else { Woken::Timed })
    }

    /// Whether the announcement was taken.
    pub(crate) fn is_rung(&self) -> bool {
        self.bell.word.load(Ordering::Acquire) == AWAKE
    }

    /// Whether a stage asked not to sleep.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// The earliest armed deadline; `Nanos::MAX` for none.
    pub(crate) fn armed_until(&self) -> Nanos {
        self.deadline
    }

    /// Nobody took the announcement: the time was up (or, rarely, a signal came).
    fn woken(&self) -> Woken {
        if self.bell.word.load(Ordering::Relaxed) == AWAKE { Woken::Rung } else { Woken::Timed }
    }

    fn sleep_in_epoll(&mut self, limit_ns: Nanos) -> Woken {
        if cfg!(pipeline_loom) {
            // A model has no descriptors: only a ring ends it, which wakes the word for want of an eventfd.
            self.bell.word.wait(ON_EPOLL, limit_ns);
            return self.woken();
        }
        let Some(epoll) = &self.epoll else { return Woken::Rung };
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 16];
        let ready = wait_epoll(epoll, &mut events, limit_ns);
        if events[..ready].iter().any(|e| e.data.u64() == EVENT_DATA) {
            self.swallow();
        }
        if ready > 0 { Woken::Rung } else { self.woken() }
    }

    /// Reads the eventfd so that it does not wake us again.
    fn swallow(&self) {
        if let Some(event) = self.bell.event.get() {
            let _ = rustix::io::read(event, &mut [0u8; 8]);
        }
    }

    /// Adds `fd` to the epoll set, or renews it there. One-shot: a descriptor that is not armed again
    /// wakes us at most once, so nothing needs to be taken out between sleeps.
    fn watch(&mut self, fd: RawFd) -> Result<(), Errno> {
        if self.epoll.is_none() {
            self.epoll = Some(self.make_epoll()?);
        }
        self.epoll.as_ref().map_or(Err(Errno::BADF), |epoll| watch_once(epoll, fd))
    }

    fn make_epoll(&self) -> Result<OwnedFd, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, event.as_fd(), epoll::EventData::new_u64(EVENT_DATA), epoll::EventFlags::IN)?;
        // The owner alone sets it, once: the set below cannot find it taken.
        let _ = self.bell.event.set(event);
        Ok(epoll)
    }
}

/// Marks the bell's own eventfd among ready descriptors.
const EVENT_DATA: u64 = 1;

/// How long a sleep lasts at most when a descriptor could not be armed: the worker polls instead.
pub(crate) const REFUSED_NS: Nanos = 1_000_000;

impl Arming for Sleeper {
    fn fd(&mut self, fd: RawFd) {
        if cfg!(pipeline_loom) || self.watch(fd).is_ok() {
            self.armed += 1;
        } else {
            self.refused += 1;
            let soon = clock::now() + REFUSED_NS;
            self.deadline = self.deadline.min(soon);
        }
    }

    fn deadline(&mut self, at: Nanos) {
        self.deadline = self.deadline.min(at);
    }

    fn busy(&mut self) {
        self.busy = true;
    }
}

/// Adds `fd` to an epoll set, or renews it there, one-shot.
pub(crate) fn watch_once(epoll: &OwnedFd, fd: RawFd) -> Result<(), Errno> {
    if fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: borrowed for two system calls that answer EBADF if it is not open; the stage that names
    // it keeps it open while it is armed, and epoll itself forgets descriptors that are closed.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
    let data = epoll::EventData::new_u64(0);
    match epoll::modify(epoll, fd, data, flags) {
        Err(Errno::NOENT) => epoll::add(epoll, fd, data, flags),
        other => other,
    }
}

/// Sleeps in an epoll set; answers how many events came. None: the limit passed, or a signal came.
pub(crate) fn wait_epoll(epoll: &OwnedFd, events: &mut [epoll::Event; 16], limit_ns: Nanos) -> usize {
    let ready = match epoll::wait(epoll, &mut events[..], Some(&timespec(limit_ns))) {
        // Before Linux 5.11 there is no epoll_pwait2: whole milliseconds, rounded up.
        Err(Errno::NOSYS) => {
            epoll::wait(epoll, &mut events[..], Some(&timespec(limit_ns.div_ceil(1_000_000) * 1_000_000)))
        }
        other => other,
    };
    ready.unwrap_or(0)
}

pub(crate) fn timespec(ns: Nanos) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    const SECOND: Nanos = 1_000_000_000;

    /// A ring between announcement and sleep ends the sleep at once; without one the limit does.
    #[test]
    fn a_ring_before_the_sleep_is_not_lost() {
        let bell = Arc::new(Bell::new());
        let mut sleeper = Sleeper::new(bell.clone());
        sleeper.announce();
        bell.ring();
        let start = now();
        assert_eq!(sleeper.sleep(start, start + 60 * SECOND), Woken::Rung);
        assert!(now() - start < 30 * SECOND);
        assert_eq!(bell.wakes(), 1);
        bell.ring();
        assert_eq!(bell.wakes(), 1, "nobody sleeps: the ring is cheap");
        sleeper.announce();
        assert_eq!(sleeper.sleep(now(), now() + 2_000_000), Woken::Timed);
    }

    /// A ring at any moment around the sleep, also while the owner goes from its announcement into epoll, wakes it.
    #[test]
    fn a_ring_on_the_way_into_epoll_is_not_lost() {
        const ROUNDS: u32 = 2_000;
        let bell = Arc::new(Bell::new());
        let (round, awake) = (Arc::new(Word::new(0)), Arc::new(Word::new(0)));
        let (ringer, started, woken) = (bell.clone(), round.clone(), awake.clone());
        // On a CPU each, or the scheduler lets them take turns, and nothing meets.
        let cpus = &crate::cpus::Cpus::of_process().allowed;
        let apart = |i: usize| crate::cpus::pin(cpus[i % cpus.len()]).unwrap();
        let ringing = std::thread::spawn(move || {
            apart(1);
            for n in 1..=ROUNDS {
                while started.load(Ordering::Acquire) < n {
                    std::hint::spin_loop();
                }
                // From the announcement on, until long after it sleeps.
                let at = now() + u64::from(n % 128) * 25;
                while now() < at {
                    std::hint::spin_loop();
                }
                ringer.ring();
                while woken.load(Ordering::Acquire) < n {
                    std::thread::yield_now();
                }
            }
        });
        apart(0);
        let mut sleeper = Sleeper::new(bell);
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        for n in 1..=ROUNDS {
            sleeper.announce();
            round.store(n, Ordering::Release);
            sleeper.fd(std::os::fd::AsRawFd::as_raw_fd(&reader));
            assert_eq!(sleeper.sleep(now(), now() + 10 * SECOND), Woken::Rung, "round {n}");
            awake.store(n, Ordering::Release);
        }
        ringing.join().unwrap();
    }

    /// With a descriptor armed, a ring from another thread, readiness and a deadline each end the sleep.
    #[test]
    fn sleeps_in_epoll_with_descriptors() {
        let bell = Arc::new(Bell::new());
        let mut sleeper = Sleeper::new(bell.clone());
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let raw = std::os::fd::AsRawFd::as_raw_fd(&reader);
        sleeper.announce();
        sleeper.fd(raw);
        let ringer = std::thread::spawn(move || bell.ring());
        assert_eq!(sleeper.sleep(now(), now() + 60 * SECOND), Woken::Rung);
        ringer.join().unwrap();
        for round in 0..3 {
            sleeper.announce();
            sleeper.fd(raw);
            sleeper.deadline(now() + 3_000_000);
            assert_eq!(sleeper.sleep(now(), now() + 60 * SECOND), Woken::Timed, "{round}");
        }
        rustix::io::write(&writer, b"x").unwrap();
        sleeper.announce();
        sleeper.fd(raw);
        assert_eq!(sleeper.sleep(now(), now() + 60 * SECOND), Woken::Rung);
        sleeper.announce();
        sleeper.fd(-1);
        assert_eq!(sleeper.sleep(now(), now() + 60 * SECOND), Woken::Timed);
        assert_eq!(sleeper.refused(), 1);
    }
}
