//! The shipped files, and engines of them.

/// The seven, as their files are called.
pub const MODELS: [&str; 7] = [
    "run_to_completion",
    "pipeline",
    "thread_per_core",
    "submit_then_poll",
    "event_driven",
    "zero_copy_dma",
    "adaptive_polling",
];
