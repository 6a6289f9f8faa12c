//! What connects two stages: inline batches, bounded rings, return rings, and the choice of a worker.

pub mod back;
pub mod dispatch;
pub mod inline;
mod probe;
pub mod queue;
pub(crate) mod track;
