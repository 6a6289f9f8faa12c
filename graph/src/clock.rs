//! The one place that reads a clock: monotonic nanoseconds, from the TSC where it is invariant.
//! Deliberately never the wall clock.

/// Nanoseconds on the machine's monotonic clock (`CLOCK_MONOTONIC`), never wall time.
pub type Nanos = u64;
