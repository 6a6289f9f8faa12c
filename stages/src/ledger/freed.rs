//! What `submit_wait` sleeps on: a number that grows with each freed batch.
//! Deliberately without a system call while nobody sleeps: each batch passes here.

use std::sync::atomic::{AtomicU32, Ordering::*, fence};
use std::time::Duration;

use rustix::thread::{Timespec, futex};

/// See the file's head. On a line of its own: submitters write it, and stages read what lies beside it.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Freed {
    /// The futex word.
    count: AtomicU32,
    /// How many sleep on it, or are about to.
    waiting: AtomicU32,
}

impl Freed {
    /// A batch was freed.
    pub(crate) fn tell(&self) {
        self.count.fetch_add(1, Release);
        // The pair of the fence in `wait`: either the waiter sees the new number, or we see the waiter.
        fence(SeqCst);
        if self.waiting.load(Relaxed) > 0 {
            let _ = futex::wake(&self.count, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    /// From here on each freed batch ends a [`Waiting::sleep`] that has not seen it.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Relaxed);
        fence(SeqCst);
        Waiting(self)
    }
}

/// Somebody who waits for a batch to be freed.
pub(crate) struct Waiting<'a>(&'a Freed);

impl Waiting<'_> {
    /// What to sleep on if a look after this one finds nothing.
    pub(crate) fn seen(&self) -> u32 {
        self.0.count.load(Acquire)
    }

    /// Sleeps until a batch is freed that `seen` does not count, at most `nap`; may return early.
    pub(crate) fn sleep(&self, seen: u32, nap: Duration) {
        let nap = Timespec {
            tv_sec: i64::try_from(nap.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(nap.subsec_nanos()) as _,
        };
        // Woken, timed out, interrupted, or freed before it slept: the caller looks again.
        let _ = futex::wait(&self.0.count, futex::Flags::PRIVATE, seen, Some(&nap));
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Whoever waits is woken by every freed batch it has not seen, long before its nap is over.
    #[test]
    fn a_freed_batch_wakes() {
        let (freed, start) = (Freed::default(), Instant::now());
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let waiting = freed.wait();
                for n in 1..=100 {
                    let mut seen = waiting.seen();
                    while seen < n {
                        waiting.sleep(seen, Duration::from_secs(20));
                        seen = waiting.seen();
                    }
                }
            });
            while !sleeper.is_finished() {
                freed.tell();
                std::thread::yield_now();
            }
        });
        assert!(start.elapsed() < Duration::from_secs(20));
        assert_eq!(freed.waiting.load(Relaxed), 0);
    }
}
