//! The one switch between the standard library's atomics and loom's: `--cfg pipeline_loom`.
//! Deliberately atomics only: what is checked by loom here are gates, counts and slot tables, not locks.

#[cfg(pipeline_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(pipeline_loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Lets the thread go on that this one waits for.
#[cfg(not(pipeline_loom))]
pub(crate) use std::thread::yield_now as relax;

#[cfg(pipeline_loom)]
pub(crate) use loom::thread::yield_now as relax;
