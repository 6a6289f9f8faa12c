//! Functions that the application leaves with its batches, and the stage that runs them.

mod desk;
mod stage;

pub use desk::OnDoneError;
pub(crate) use desk::{Callback, Desk};
pub(crate) use stage::{KIND, build};
