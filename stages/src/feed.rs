//! What control has to tell the program, kept until the program asks: a bounded queue with a bell and, if it is wanted,
//! a descriptor. Deliberately never blocking for the teller: a full feed says so, and what then happens is his to decide.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeline_transports::memory::Origin;
use rustix::event::{EventfdFlags, eventfd};

/// Why there is nothing to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Nothing came in time.
    #[error("nothing came within the timeout; listen again")]
    Timeout,
    /// The engine was stopped, and everything it had to tell has been read.
    #[error("the engine was stopped; nothing will come any more")]
    Stopped,
    /// Asked on a thread of an engine, which would wait for itself. Answered at once, unless something is there.
    #[error("listening here would deadlock: this thread runs the engine's stages; use `try_next`")]
    WouldDeadlock,
    /// Asked in a process that was forked from the engine's.
    #[error(
        "not usable after fork: the engine goes on in the process that this one was forked from; listen there"
    )]
    Forked,
}

/// See the file's head.
pub(crate) struct Feed<T> {
    capacity: usize,
    /// In a forked child the lock may be held by a thread that is not there.
    origin: Origin,
    state: Mutex<State<T>>,
    bell: Condvar,
}

struct State<T> {
    queue: VecDeque<T>,
    listeners: usize,
    stopped: bool,
    /// Readable while there is something to hear. Made when somebody asks for it.
    fd: Option<Arc<OwnedFd>>,
}

/// What became of something that was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Kept,
    Full,
    /// Nobody listens.
    Unheard,
}

impl<T> Feed<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let state = State { queue: VecDeque::new(), listeners: 0, stopped: false, fd: None };
        Self {
            capacity: capacity.max(1),
            origin: Origin::here(),
            state: Mutex::new(state),
            bell: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps something for whoever listens.
    pub(crate) fn tell(&self, something: T) -> Told {
        let mut state = self.state();
        if state.listeners == 0 || state.stopped {
            return Told::Unheard;
        }
        if state.queue.len() == self.capacity {
            return Told::Full;
        }
        self.keep(&mut state, something);
        Told::Kept
    }

    /// As [`Self::tell`], but a full feed forgets its oldest: `true` when it had to.
    pub(crate) fn tell_newest(&self, something: T) -> bool {
        let mut state = self.state();
        let full = state.queue.len() == self.capacity;
        if full {
            state.queue.pop_front();
        }
        self.keep(&mut state, something);
        full
    }

    fn keep(&self, state: &mut State<T>, something: T) {
        state.queue.push_back(something);
        state.announce();
        self.bell.notify_one();
    }

    /// Nothing will be told any more.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        // A stopped feed is readable for good, as a closed socket is.
        state.announce();
        self.bell.notify_all();
    }

    pub(crate) fn enter(&self) {
        if self.origin.is_here() {
            self.state().listeners += 1;
        }
    }

    pub(crate) fn leave(&self) {
        if self.origin.is_here() {
            self.state().listeners -= 1;
        }
    }

    pub(crate) fn try_next(&self) -> Option<T> {
        self.origin.is_here().then(|| self.state().take())?
    }

    pub(crate) fn next(&self, timeout: Duration) -> Result<T, ListenError> {
        if !self.origin.is_here() {
            return Err(ListenError::Forked);
        }
        let by = Instant::now().checked_add(timeout);
        let mut state = self.state();
        loop {
            if let Some(something) = state.take() {
                return Ok(something);
            }
            if state.stopped {
                return Err(ListenError::Stopped);
            }
            if pipeline_graph::on_engine_thread() {
                return Err(ListenError::WouldDeadlock);
            }
            let left = by.map_or(Duration::MAX, |by| by.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(ListenError::Timeout);
            }
            state = self.bell.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The descriptor, made at the first call.
    pub(crate) fn fd(&self) -> std::io::Result<Arc<OwnedFd>> {
        if !self.origin.is_here() {
            return Err(std::io::Error::other(ListenError::Forked));
        }
        let mut state = self.state();
        if let Some(fd) = &state.fd {
            return Ok(fd.clone());
        }
        let fd = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        state.fd = Some(fd.clone());
        if !state.queue.is_empty() || state.stopped {
            state.announce();
        }
        Ok(fd)
    }
}

impl<T> State<T> {
    fn announce(&self) {
        if let Some(fd) = &self.fd {
            // Fails only when the count is at its end, and then it is readable already.
            let _ = rustix::io::write(fd.as_fd(), &1_u64.to_ne_bytes());
        }
    }

    fn take(&mut self) -> Option<T> {
        let something = self.queue.pop_front()?;
        if self.queue.is_empty() && !self.stopped {
            self.hush();
        }
        Some(something)
    }

    fn hush(&self) {
        if let Some(fd) = &self.fd {
            let _ = rustix::io::read(fd.as_fd(), &mut [0; 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn readable(fd: &OwnedFd) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    /// What is told comes out in order, up to the capacity; beyond it, and while nobody listens, the teller hears so. A
    /// stopped feed gives what it still has.
    #[test]
    fn bounded_and_in_order() {
        let feed = Feed::new(2);
        assert_eq!(feed.tell(0), Told::Unheard);
        feed.enter();
        assert_eq!([1, 2, 3].map(|n| feed.tell(n)), [Told::Kept, Told::Kept, Told::Full]);
        assert!(feed.tell_newest(4));
        feed.stop();
        assert_eq!(feed.next(Duration::ZERO), Ok(2));
        assert_eq!([feed.try_next(), feed.try_next()], [Some(4), None]);
        assert_eq!(feed.next(Duration::MAX), Err(ListenError::Stopped));
    }

    /// Whoever waits is woken by what comes, and in vain only at its time.
    #[test]
    fn waits_for_what_comes() {
        let feed = Feed::new(8);
        feed.enter();
        let begin = Instant::now();
        assert_eq!(feed.next(Duration::from_millis(30)), Err(ListenError::Timeout));
        assert!(begin.elapsed() >= Duration::from_millis(30));
        std::thread::scope(|scope| {
            let listener = scope.spawn(|| feed.next(Duration::from_secs(20)));
            assert_eq!(feed.tell(7), Told::Kept);
            assert_eq!(listener.join().unwrap(), Ok(7));
        });
    }

    /// The descriptor is readable exactly while there is something to hear, whenever it was asked for, and for good
    /// once the feed was stopped.
    #[test]
    fn the_descriptor_follows_the_queue() {
        let feed = Feed::new(8);
        feed.enter();
        feed.tell(1);
        let fd = feed.fd().unwrap();
        feed.tell(2);
        assert!(readable(&fd));
        feed.try_next();
        assert!(readable(&fd));
        feed.try_next();
        assert!(!readable(&fd));
        feed.tell(3);
        assert!(readable(&fd));
        feed.try_next();
        feed.stop();
        assert!(readable(&fd) && readable(&feed.fd().unwrap()));
    }
}
