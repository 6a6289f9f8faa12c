//! Whether the machine has CPUs to spare, told by how long yields take.
//!
//! A yield that takes long has given the CPU to somebody who does not wait for us: on a crowded machine a worker that
//! yields comes last each time, while one that sleeps is let in as soon as it is woken.

use crate::clock::Nanos;

/// A yield that takes longer says that the machine is crowded.
const CROWDED_NS: Nanos = 300_000;
/// For how long an adaptive worker then parks at once; doubles while the next try finds the same.
pub(super) const FIRST_NS: Nanos = 10_000_000;
pub(super) const MOST_NS: Nanos = 1_000_000_000;

/// See the head of the file.
pub(super) struct Crowd {
    /// When the last pause was a yield.
    yielded_at: Option<Nanos>,
    /// It is crowded until then.
    until: Nanos,
    /// How long the next such time will be.
    next_ns: Nanos,
}

impl Crowd {
    pub(super) fn new() -> Self {
        Self { yielded_at: None, until: 0, next_ns: FIRST_NS }
    }

    /// It yields now.
    pub(super) fn yields(&mut self, now: Nanos) {
        self.yielded_at = Some(now);
    }

    /// It is back, if it had yielded.
    #[inline]
    pub(super) fn judge(&mut self, now: Nanos) {
        let Some(at) = self.yielded_at.take() else { return };
        if now.saturating_sub(at) > CROWDED_NS {
            self.until = now.saturating_add(self.next_ns);
            self.next_ns = (self.next_ns * 2).min(MOST_NS);
        } else if now > self.until.saturating_add(self.next_ns) {
            self.next_ns = FIRST_NS;
        }
    }

    /// Whether it is crowded.
    #[inline]
    pub(super) fn is_on(&self, now: Nanos) -> bool {
        now < self.until
    }

    #[cfg(test)]
    pub(super) fn next_ns(&self) -> Nanos {
        self.next_ns
    }
}
