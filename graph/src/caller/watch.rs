//! What a thread without a worker of its own sleeps on while nothing is to do for the workers it steps: one epoll set
//! with their descriptors and timers, and one event for everything else. Also what [`Callers::fd`] hands out.
//! Deliberately without a look at any worker: who may sleep is decided in [`super::lead`].
//!
//! [`Callers::fd`]: super::Callers::fd

use crate::sync::{AtomicBool, Ordering};

pub use place::Watch;

/// Who wants to be signalled.
pub(crate) struct Watchers {
    /// A thread sleeps, or is about to.
    asleep: AtomicBool,
    /// The application has the descriptor: it may sleep at any time.
    exported: AtomicBool,
}

impl Watchers {
    fn new() -> Self {
        Self { asleep: AtomicBool::new(false), exported: AtomicBool::new(false) }
    }
}

impl Watch {
    /// Whether workers must be left so that whatever comes gives a signal.
    pub fn is_watched(&self) -> bool {
        self.is_asleep() || self.watchers().exported.load(Ordering::Relaxed)
    }

    /// Whether a thread sleeps on it, or is about to.
    pub fn is_asleep(&self) -> bool {
        self.watchers().asleep.load(Ordering::Relaxed)
    }

    /// A thread is about to sleep, or has woken. Before it sleeps it must visit all seats once more.
    pub fn set_asleep(&self, asleep: bool) {
        self.watchers().asleep.store(asleep, Ordering::Relaxed);
    }
}

/// On Linux.
#[cfg(not(pipeline_loom))]
mod place {
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::event::{EventfdFlags, epoll, eventfd};
    use rustix::io::Errno;

    use super::Watchers;
    use crate::bell::{timespec, wait_epoll};
    use crate::clock::{Nanos, now};
    use crate::sync::{AtomicBool, AtomicU64, Ordering};

    /// See the head of the file.
    pub struct Watch {
        epoll: OwnedFd,
        event: Event,
        /// The set above, and what is meant for the one who sleeps alone: nobody else may take that away.
        inner: OwnedFd,
        rouse: Event,
        watchers: Watchers,
    }

    /// An event that somebody writes and somebody reads, without a system call when there is nothing to read.
    struct Event {
        fd: OwnedFd,
        /// Written since it was last read.
        written: AtomicBool,
        /// When it was last written.
        at: AtomicU64,
    }

    impl Event {
        fn within(epoll: &OwnedFd) -> Result<Self, Errno> {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            epoll::add(epoll, fd.as_fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
            Ok(Self { fd, written: AtomicBool::new(false), at: AtomicU64::new(0) })
        }

        fn write(&self) {
            self.at.store(now(), Ordering::Relaxed);
            // It can only fail with EAGAIN, at 2^64 - 1 unread writes; readable it is then anyway.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
            // After the write: whoever sees the flag finds something to read. Whoever does not see it yet is woken
            // once more, in vain.
            self.written.store(true, Ordering::Release);
        }

        fn clear(&self) {
            if self.written.load(Ordering::Relaxed) && self.written.swap(false, Ordering::AcqRel) {
                let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
            }
        }
    }

    impl Watch {
        /// # Errors
        /// The system gives no more descriptors.
        pub fn new() -> Result<Self, Errno> {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let event = Event::within(&epoll)?;
            let inner = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            epoll::add(&inner, epoll.as_fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
            let rouse = Event::within(&inner)?;
            Ok(Self { epoll, event, inner, rouse, watchers: Watchers::new() })
        }

        pub(super) fn watchers(&self) -> &Watchers {
            &self.watchers
        }

        /// Something is to do for the workers: whoever sleeps on it wakes, or will not fall asleep.
        pub fn knock(&self) {
            self.event.write();
        }

        /// Takes all knocks so far: whoever calls this looks at every seat next.
        pub fn answer(&self) {
            self.event.clear();
        }

        /// Wakes the one who sleeps, or will sleep next.
        pub fn rouse(&self) {
            self.rouse.write();
        }

        /// Sleeps until a knock, a rouse, a descriptor or timer in the set, or `limit_ns`. Answers whether the limit
        /// passed. One thread at a time.
        pub fn sleep(&self, limit_ns: Nanos) -> bool {
            let mut events =
                [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 16];
            let timed = wait_epoll(&self.inner, &mut events, limit_ns) == 0;
            self.rouse.clear();
            timed
        }

        /// When the last knock or rouse began.
        pub(crate) fn signalled_at(&self) -> Nanos {
            [&self.event, &self.rouse]
                .map(|event| event.at.load(Ordering::Relaxed))
                .into_iter()
                .fold(0, Nanos::max)
        }

        /// The set.
        pub(crate) fn epoll(&self) -> &OwnedFd {
            &self.epoll
        }

        /// The application wants to sleep on the set itself, from now on.
        ///
        /// # Errors
        /// The system gives no more descriptors.
        pub(crate) fn export(&self) -> Result<OwnedFd, Errno> {
            let fd = rustix::io::fcntl_dupfd_cloexec(&self.epoll, 0)?;
            self.watchers.exported.store(true, Ordering::Relaxed);
            Ok(fd)
        }
    }

    /// One worker's timer in the set.
    pub(crate) struct Timer {
        fd: Option<OwnedFd>,
        at: Nanos,
    }

    impl Timer {
        pub(crate) fn new() -> Self {
            Self { fd: None, at: Nanos::MAX }
        }

        /// Wakes whoever sleeps at `until` ([`Nanos::MAX`]: never). One that is set already for an earlier time stays:
        /// it wakes in vain once, and costs no system call each time the worker is left.
        ///
        /// # Errors
        /// The system gives no more descriptors.
        pub(crate) fn set(&mut self, watch: &Watch, now: Nanos, until: Nanos) -> Result<(), Errno> {
            use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
            let expired = self.at <= now;
            if until >= self.at && !expired {
                return Ok(());
            }
            if self.fd.is_none() {
                let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
                let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
                let data = epoll::EventData::new_u64(0);
                epoll::add(&watch.epoll, fd.as_fd(), data, epoll::EventFlags::IN)?;
                self.fd = Some(fd);
            }
            let Some(fd) = &self.fd else { return Err(Errno::BADF) };
            // All zero disarms.
            let value = timespec(if until == Nanos::MAX { 0 } else { until.max(1) });
            let time = Itimerspec { it_interval: timespec(0), it_value: value };
            rustix::time::timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &time)?;
            self.at = until;
            Ok(())
        }
    }
}

/// For loom: a sleep that nobody ends is a deadlock, which loom reports.
#[cfg(pipeline_loom)]
mod place {
    use std::os::fd::OwnedFd;

    use rustix::io::Errno;

    use super::Watchers;
    use crate::clock::Nanos;

    /// See the head of the file.
    pub struct Watch {
        /// Knocked, roused.
        readable: loom::sync::Mutex<[bool; 2]>,
        changed: loom::sync::Condvar,
        watchers: Watchers,
    }

    impl Watch {
        /// # Errors
        /// None here.
        pub fn new() -> Result<Self, Errno> {
            let (readable, changed) = (loom::sync::Mutex::new([false; 2]), loom::sync::Condvar::new());
            Ok(Self { readable, changed, watchers: Watchers::new() })
        }

        fn set(&self, which: usize, value: bool) {
            self.readable.lock().expect("a panic ends the model")[which] = value;
            if value {
                self.changed.notify_all();
            }
        }

        pub(super) fn watchers(&self) -> &Watchers {
            &self.watchers
        }

        /// Whoever sleeps on it wakes, or will not fall asleep.
        pub fn knock(&self) {
            self.set(0, true);
        }

        /// Takes all knocks so far.
        pub fn answer(&self) {
            self.set(0, false);
        }

        /// Wakes the one who sleeps, or will sleep next.
        pub fn rouse(&self) {
            self.set(1, true);
        }

        /// Sleeps until a knock. No time-out: nothing may need one.
        pub fn sleep(&self, _limit_ns: Nanos) -> bool {
            let mut readable = self.readable.lock().expect("a panic ends the model");
            while !readable.contains(&true) {
                readable = self.changed.wait(readable).expect("a panic ends the model");
            }
            readable[1] = false;
            false
        }

        pub(crate) fn signalled_at(&self) -> Nanos {
            0
        }

        pub(crate) fn epoll(&self) -> &OwnedFd {
            unreachable!("models arm no descriptors")
        }

        pub(crate) fn export(&self) -> Result<OwnedFd, Errno> {
            Err(Errno::NOSYS)
        }
    }

    pub(crate) struct Timer;

    impl Timer {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn set(&mut self, _: &Watch, _: Nanos, _: Nanos) -> Result<(), Errno> {
            Ok(())
        }
    }
}

pub(crate) use place::Timer;

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;
    use crate::clock::now;

    /// A knock before the sleep ends it at once, one knock only one sleep; a timer ends it, and once set to an earlier
    /// time is left alone until it has passed.
    #[test]
    fn knocks_and_timers_wake() {
        let watch = Watch::new().unwrap();
        watch.knock();
        assert!(!watch.sleep(60_000_000_000));
        watch.answer();
        assert!(watch.sleep(1_000_000));
        let mut timer = Timer::new();
        let start = now();
        timer.set(&watch, start, start + 3_000_000).unwrap();
        timer.set(&watch, start, start + 60_000_000_000).unwrap();
        assert!(!watch.sleep(60_000_000_000));
        assert!(now() >= start + 3_000_000);
        timer.set(&watch, now(), u64::MAX).unwrap();
        assert!(watch.sleep(1_000_000), "an expired timer is disarmed");
    }
}
