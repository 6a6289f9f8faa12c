//! The ring between a post worker and the reap worker of its pair: which slices were posted, so that reap can
//! watch their deadlines. One producer, one consumer, bounded, without a lock.
//! Deliberately not a channel: one store a slice, one publication a batch.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*, fence};

use pipeline_graph::Nanos;

use crate::key::Key;

/// Slices a post worker may be ahead of its reap worker; when it is full, post waits for reap to look.
const CAPACITY: usize = 8192;

/// See the file's head.
pub(crate) struct Posted {
    keys: Box<[AtomicU64]>,
    /// Keys ever taken out.
    head: AtomicUsize,
    /// Keys ever put in.
    tail: AtomicUsize,
    /// The earliest deadline a sleeping reap worker is armed for; 0 while it is awake.
    armed: AtomicU64,
}

impl Default for Posted {
    fn default() -> Self {
        Self {
            keys: (0..CAPACITY).map(|_| AtomicU64::new(0)).collect(),
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            armed: AtomicU64::new(0),
        }
    }
}

impl Posted {
    /// Producer: how many keys fit.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        CAPACITY - self.tail.load(Relaxed).wrapping_sub(self.head.load(Acquire))
    }

    /// Producer: publishes keys; the caller has asked for room. Answers whether the consumer sleeps past
    /// `earliest`, the earliest of their deadlines, and must be woken.
    #[inline]
    pub(crate) fn publish(&self, keys: impl Iterator<Item = Key>, earliest: Nanos) -> bool {
        let mut tail = self.tail.load(Relaxed);
        for key in keys {
            self.keys[tail % CAPACITY].store(key.raw(), Relaxed);
            tail = tail.wrapping_add(1);
        }
        self.tail.store(tail, Release);
        fence(SeqCst);
        self.sleeps_past(earliest)
    }

    /// Producer: whether the consumer sleeps past `at`.
    #[inline]
    pub(crate) fn sleeps_past(&self, at: Nanos) -> bool {
        let armed = self.armed.load(Relaxed);
        armed != 0 && at < armed
    }

    /// Consumer: takes one.
    #[inline]
    pub(crate) fn take(&self) -> Option<Key> {
        let head = self.head.load(Relaxed);
        if head == self.tail.load(Acquire) {
            return None;
        }
        let key = Key::from_raw(self.keys[head % CAPACITY].load(Relaxed));
        self.head.store(head.wrapping_add(1), Release);
        Some(key)
    }

    /// Consumer: takes all that are there now, and gives their room back in one step.
    #[inline]
    pub(crate) fn take_all(&self, mut each: impl FnMut(Key)) {
        let (mut head, tail) = (self.head.load(Relaxed), self.tail.load(Acquire));
        if head == tail {
            return;
        }
        while head != tail {
            each(Key::from_raw(self.keys[head % CAPACITY].load(Relaxed)));
            head = head.wrapping_add(1);
        }
        self.head.store(head, Release);
    }

    /// Consumer: awake. Cheap when it was.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.armed.load(Relaxed) != 0 {
            self.armed.store(0, Relaxed);
        }
    }

    /// Consumer: will sleep until `at`. `false`: do not, there are keys.
    pub(crate) fn sleep(&self, at: Nanos) -> bool {
        self.armed.store(at.max(1), Relaxed);
        fence(SeqCst);
        self.head.load(Relaxed) == self.tail.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one thread publishes another takes, in order and complete, over many turns of the ring.
    #[test]
    fn in_order_across_threads() {
        let ring = Posted::default();
        let total = 5 * CAPACITY as u32;
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut next = 0;
                while next < total {
                    let n = (ring.room() as u32).min(total - next).min(7);
                    ring.publish((next..next + n).map(|i| Key::slice(i, 1)), 5);
                    next += n;
                    std::thread::yield_now();
                }
            });
            let mut expected = 0;
            let mut see = |key| {
                assert_eq!(key, Key::slice(expected, 1));
                expected += 1;
                expected
            };
            let mut seen = 0;
            while seen < total {
                match ring.take() {
                    Some(key) => seen = see(key),
                    None => std::thread::yield_now(),
                }
                ring.take_all(|key| seen = see(key));
            }
        });
        assert_eq!(ring.room(), CAPACITY);
    }

    /// A consumer that sleeps is woken for an earlier deadline only, and does not fall asleep over keys.
    #[test]
    fn wakes_for_earlier_deadlines() {
        let ring = Posted::default();
        assert!(ring.sleep(1_000));
        assert!(!ring.publish(std::iter::once(Key::slice(1, 1)), 1_000));
        assert!(ring.publish(std::iter::once(Key::slice(2, 1)), 999));
        assert!(!ring.sleep(1_000));
        ring.wake();
        assert!(!ring.publish(std::iter::once(Key::slice(3, 1)), 0));
    }
}
