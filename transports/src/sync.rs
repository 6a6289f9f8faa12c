//! The one switch between the standard library's atomics and loom's: `--cfg pipeline_loom`.
//! Deliberately atomics only: what is checked by loom here are gates and counts, not locks.

#[cfg(pipeline_loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(pipeline_loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
