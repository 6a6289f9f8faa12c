//! The one switch between real synchronisation and loom's, by `--cfg pipeline_loom`: for the words on which callers
//! wait for their batches, and for who listens for them. Deliberately nothing else: the other tables of the ledger have
//! one writer a slot.

#[cfg(pipeline_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(pipeline_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

pub(crate) use word::Word;

/// Everybody who sleeps on a word.
pub(crate) const ALL: u32 = u32::MAX;

/// A futex word on Linux.
#[cfg(not(pipeline_loom))]
mod word {
    use std::num::NonZeroU32;

    use pipeline_graph::Nanos;
    use rustix::thread::{Timespec, futex};

    use super::{ALL, AtomicU32, Ordering};

    /// A 32-bit word that threads can sleep on.
    pub(crate) struct Word(AtomicU32);

    impl Word {
        pub(crate) fn new(value: u32) -> Self {
            Self(AtomicU32::new(value))
        }

        #[inline]
        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: u32, order: Ordering) {
            self.0.store(value, order);
        }

        pub(crate) fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
            self.0.fetch_or(bits, order)
        }

        pub(crate) fn fetch_and(&self, bits: u32, order: Ordering) -> u32 {
            self.0.fetch_and(bits, order)
        }

        pub(crate) fn fetch_add(&self, n: u32, order: Ordering) -> u32 {
            self.0.fetch_add(n, order)
        }

        /// Sleeps while the word is `expected`, at most until `by`, for a wake of one of the bits of `mask`; may
        /// return early.
        pub(crate) fn wait(&self, expected: u32, by: Nanos, mask: u32) {
            // A time that a signed number cannot hold never comes.
            let by = by.min(i64::MAX as u64);
            let by = Timespec { tv_sec: (by / 1_000_000_000) as _, tv_nsec: (by % 1_000_000_000) as _ };
            // Woken, timed out, interrupted, or changed before it slept: whoever waits looks again.
            let _ = futex::wait_bitset(&self.0, futex::Flags::PRIVATE, expected, Some(&by), bits(mask));
        }

        /// Wakes up to `count` of those who sleep for one of the bits of `mask`.
        pub(crate) fn wake(&self, count: u32, mask: u32) {
            // The kernel's number is signed: a larger one would be below zero, which wakes one sleeper and no more.
            let count = count.min(i32::MAX as u32);
            // An error could only be a bad address; this one is ours.
            let _ = futex::wake_bitset(&self.0, futex::Flags::PRIVATE, count, bits(mask));
        }
    }

    /// Nobody sleeps for nothing.
    fn bits(mask: u32) -> NonZeroU32 {
        NonZeroU32::new(mask).unwrap_or(NonZeroU32::MIN | ALL)
    }
}

/// The same word for loom: a sleep that nobody ends is a deadlock, which loom reports.
#[cfg(pipeline_loom)]
mod word {
    use pipeline_graph::Nanos;

    use super::{AtomicU32, Ordering};

    pub(crate) struct Word {
        value: AtomicU32,
        /// Who sleeps, by what they sleep for: those whose wake has come are taken out.
        sleepers: loom::sync::Mutex<Vec<(usize, u32)>>,
        changed: loom::sync::Condvar,
    }

    const SOUND: &str = "loom locks are not poisoned: a panic ends the model";

    impl Word {
        pub(crate) fn new(value: u32) -> Self {
            let (sleepers, changed) = (loom::sync::Mutex::new(Vec::new()), loom::sync::Condvar::new());
            Self { value: AtomicU32::new(value), sleepers, changed }
        }

        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.value.load(order)
        }

        pub(crate) fn store(&self, value: u32, order: Ordering) {
            self.value.store(value, order);
        }

        pub(crate) fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
            self.value.fetch_or(bits, order)
        }

        pub(crate) fn fetch_and(&self, bits: u32, order: Ordering) -> u32 {
            self.value.fetch_and(bits, order)
        }

        pub(crate) fn fetch_add(&self, n: u32, order: Ordering) -> u32 {
            self.value.fetch_add(n, order)
        }

        /// The kernel compares under its bucket lock; so does this. No time-out: nothing may need one.
        pub(crate) fn wait(&self, expected: u32, _by: Nanos, mask: u32) {
            let mut sleepers = self.sleepers.lock().expect(SOUND);
            if self.value.load(Ordering::SeqCst) != expected {
                return;
            }
            let me = sleepers.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
            sleepers.push((me, mask));
            while sleepers.iter().any(|(id, _)| *id == me) {
                sleepers = self.changed.wait(sleepers).expect(SOUND);
            }
        }

        pub(crate) fn wake(&self, count: u32, mask: u32) {
            let mut sleepers = self.sleepers.lock().expect(SOUND);
            let mut left = count;
            sleepers.retain(|(_, theirs)| {
                let stays = left == 0 || theirs & mask == 0;
                left -= u32::from(!stays);
                stays
            });
            drop(sleepers);
            self.changed.notify_all();
        }
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;
    use pipeline_transports::clock;

    /// A wake of all wakes all: eight threads that sleep on one word go on at once, not at the end of their patience.
    #[test]
    fn all_are_woken() {
        let (word, asleep) = (Word::new(0), AtomicU32::new(0));
        let begin = clock::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    asleep.fetch_add(1, Ordering::Relaxed);
                    while word.load(Ordering::Acquire) == 0 {
                        word.wait(0, begin + 20_000_000_000, ALL);
                    }
                });
            }
            while asleep.load(Ordering::Relaxed) < 8 {
                std::thread::yield_now();
            }
            // So that as a rule they really sleep; if one does not, it sees the word.
            std::thread::sleep(std::time::Duration::from_millis(50));
            word.store(1, Ordering::Release);
            word.wake(u32::MAX, ALL);
        });
        assert!(clock::now() - begin < 10_000_000_000, "a sleeper was left");
    }
}
