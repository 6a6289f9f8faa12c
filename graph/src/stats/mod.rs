//! What the engine measures of itself: cells that workers write and the table that readers sum.

pub(crate) mod board;
pub(crate) mod cell;
pub(crate) mod sched;
pub mod table;

pub use cell::{Count, Histogram, HistogramCell};
pub use table::{EdgeStats, Snapshot, StageStats, WorkerStats};
