//! The one switch between the real primitives and loom's, by `--cfg pipeline_loom`.
//! Deliberately small: what is not modelled (threads, one-time cells, reference counts) is always std's.

pub(crate) use std::sync::{Arc, Mutex, OnceLock, PoisonError};

#[cfg(pipeline_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(pipeline_loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(pipeline_loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(not(pipeline_loom))]
pub(crate) use std::thread::yield_now;

pub(crate) use word::Word;

/// The lock of a mutex that nobody can leave half-changed: a poisoned one is as good as new.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A futex word on Linux.
#[cfg(not(pipeline_loom))]
mod word {
    use super::{AtomicU32, Ordering};
    use rustix::thread::futex;

    /// A 32-bit word that a thread can sleep on.
    pub(crate) struct Word(AtomicU32);

    impl Word {
        pub(crate) fn new(value: u32) -> Self {
            Self(AtomicU32::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: u32, order: Ordering) {
            self.0.store(value, order);
        }

        pub(crate) fn take(&self, current: u32, new: u32, order: Ordering) -> bool {
            self.0.compare_exchange(current, new, order, Ordering::Relaxed).is_ok()
        }

        /// Sleeps while the word is `expected`, at most `limit_ns`; may return early.
        pub(crate) fn wait(&self, expected: u32, limit_ns: u64) {
            let limit = futex::Timespec {
                tv_sec: (limit_ns / 1_000_000_000) as _,
                tv_nsec: (limit_ns % 1_000_000_000) as _,
            };
            // EAGAIN, EINTR and ETIMEDOUT all mean "look again", which every caller does.
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, expected, Some(&limit));
        }

        pub(crate) fn wake_one(&self) {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }
}

/// The same word for loom: sleeping for ever is a deadlock that loom reports.
#[cfg(pipeline_loom)]
mod word {
    use super::{AtomicU32, Ordering};

    pub(crate) struct Word {
        value: AtomicU32,
        lock: loom::sync::Mutex<()>,
        changed: loom::sync::Condvar,
    }

    impl Word {
        pub(crate) fn new(value: u32) -> Self {
            Self {
                value: AtomicU32::new(value),
                lock: loom::sync::Mutex::new(()),
                changed: loom::sync::Condvar::new(),
            }
        }

        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.value.load(order)
        }

        pub(crate) fn store(&self, value: u32, order: Ordering) {
            self.value.store(value, order);
        }

        pub(crate) fn take(&self, current: u32, new: u32, order: Ordering) -> bool {
            self.value.compare_exchange(current, new, order, Ordering::Relaxed).is_ok()
        }

        /// The kernel compares under its bucket lock; so does this. Woken is woken, whatever the word is by then: who sleeps
        /// looks again. No time-out: nothing may need one.
        pub(crate) fn wait(&self, expected: u32, _limit_ns: u64) {
            let mut guard = self.lock.lock().expect("loom locks are not poisoned: a panic ends the model");
            if self.value.load(Ordering::SeqCst) == expected {
                guard =
                    self.changed.wait(guard).expect("loom locks are not poisoned: a panic ends the model");
            }
            drop(guard);
        }

        pub(crate) fn wake_one(&self) {
            let guard = self.lock.lock().expect("loom locks are not poisoned: a panic ends the model");
            drop(guard);
            self.changed.notify_one();
        }
    }
}

pub(crate) use place::Place;

/// Where one thread leaves a thing for another: empty, or with one in it. Lock-free.
#[cfg(not(pipeline_loom))]
mod place {
    use crossbeam_utils::atomic::AtomicCell;

    pub(crate) struct Place<M>(AtomicCell<Option<Box<M>>>);

    impl<M> Place<M> {
        pub(crate) fn new() -> Self {
            const { assert!(AtomicCell::<Option<Box<u64>>>::is_lock_free()) };
            Self(AtomicCell::new(None))
        }

        /// Leaves it here. The place is empty.
        pub(crate) fn put(&self, thing: Box<M>) {
            let before = self.0.swap(Some(thing));
            debug_assert!(before.is_none(), "two things were left in one place");
        }

        pub(crate) fn take(&self) -> Option<Box<M>> {
            self.0.take()
        }
    }
}

/// As weak as the real one may be: who takes the thing sees what its leaver did, and nothing else is ordered by it.
#[cfg(pipeline_loom)]
mod place {
    use super::{AtomicBool, Ordering};

    pub(crate) struct Place<M> {
        full: AtomicBool,
        thing: loom::sync::Mutex<Option<Box<M>>>,
    }

    impl<M> Place<M> {
        pub(crate) fn new() -> Self {
            Self { full: AtomicBool::new(false), thing: loom::sync::Mutex::new(None) }
        }

        fn thing(&self) -> loom::sync::MutexGuard<'_, Option<Box<M>>> {
            self.thing.lock().expect("loom locks are not poisoned: a panic ends the model")
        }

        pub(crate) fn put(&self, thing: Box<M>) {
            *self.thing() = Some(thing);
            self.full.store(true, Ordering::Release);
        }

        pub(crate) fn take(&self) -> Option<Box<M>> {
            let full = self.full.load(Ordering::Acquire);
            full.then(|| self.full.store(false, Ordering::Relaxed)).and_then(|()| self.thing().take())
        }
    }
}

pub(crate) use channel::Channel;

/// A bounded ring, many to many, that never blocks.
#[cfg(not(pipeline_loom))]
mod channel {
    use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

    /// Both ends of a crossbeam channel: allocated once, never disconnected while it exists.
    pub(crate) struct Channel<M> {
        sender: Sender<M>,
        receiver: Receiver<M>,
    }

    impl<M> Channel<M> {
        pub(crate) fn new(capacity: usize) -> Self {
            let (sender, receiver) = bounded(capacity);
            Self { sender, receiver }
        }

        pub(crate) fn try_send(&self, message: M) -> Result<(), M> {
            self.sender.try_send(message).map_err(|e| match e {
                TrySendError::Full(m) | TrySendError::Disconnected(m) => m,
            })
        }

        pub(crate) fn try_recv(&self) -> Option<M> {
            self.receiver.try_recv().ok()
        }

        pub(crate) fn len(&self) -> usize {
            self.receiver.len()
        }

        pub(crate) fn is_full(&self) -> bool {
            self.sender.is_full()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.receiver.is_empty()
        }
    }
}

/// Crossbeam has no loom mode; what loom checks is how bells and flags are ordered around the ring. So the
/// answers "full" and "empty" come from counters that order nothing else, as weak as a ring may be: a fence
/// that is missing around them is then found. (A lock there would stand in for it.)
#[cfg(pipeline_loom)]
mod channel {
    use std::collections::VecDeque;

    use super::{AtomicUsize, Ordering};

    pub(crate) struct Channel<M> {
        capacity: usize,
        room: AtomicUsize,
        filled: AtomicUsize,
        queue: loom::sync::Mutex<VecDeque<M>>,
    }

    impl<M> Channel<M> {
        pub(crate) fn new(capacity: usize) -> Self {
            let (room, filled) = (AtomicUsize::new(capacity), AtomicUsize::new(0));
            Self { capacity, room, filled, queue: loom::sync::Mutex::new(VecDeque::new()) }
        }

        fn queue(&self) -> loom::sync::MutexGuard<'_, VecDeque<M>> {
            self.queue.lock().expect("loom locks are not poisoned: a panic ends the model")
        }

        pub(crate) fn try_send(&self, message: M) -> Result<(), M> {
            let take = |room: usize| room.checked_sub(1);
            if self.room.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_err() {
                return Err(message);
            }
            self.queue().push_back(message);
            self.filled.fetch_add(1, Ordering::Release);
            Ok(())
        }

        pub(crate) fn try_recv(&self) -> Option<M> {
            if self.filled.load(Ordering::Acquire) == 0 {
                return None;
            }
            let message = self.queue().pop_front()?;
            self.filled.fetch_sub(1, Ordering::Relaxed);
            self.room.fetch_add(1, Ordering::Release);
            Some(message)
        }

        pub(crate) fn len(&self) -> usize {
            self.capacity - self.room.load(Ordering::Acquire)
        }

        pub(crate) fn is_full(&self) -> bool {
            self.room.load(Ordering::Acquire) == 0
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.filled.load(Ordering::Acquire) == 0
        }
    }
}
