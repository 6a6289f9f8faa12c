//! The time type of the data path, and how control code turns a deadline into a duration.
//! Deliberately monotonic only.

use std::time::Duration;

/// Nanoseconds on `CLOCK_MONOTONIC`.
pub type Nanos = u64;

/// Now, on `CLOCK_MONOTONIC`. For control code; the data path is handed its time.
pub fn now() -> Nanos {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// How long until `by`; zero when it has passed.
pub fn until(by: Nanos) -> Duration {
    Duration::from_nanos(by.saturating_sub(now()))
}
