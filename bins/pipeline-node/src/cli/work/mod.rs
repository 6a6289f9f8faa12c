//! What files are measured by: `--work` is parsed here, and an engine that was started from a file is measured here, for
//! `compare`, `tune` and whatever else holds files against each other.
//!
//! Deliberately without rounds, tables and verdicts: a [`Course`] says what is done, a [`Session`] is one engine's turn at it
//! against one target, [`Measured`] is what one cell of the turn came to. Each command decides itself who has a turn when.

mod against;
pub mod application;
pub mod args;
pub mod course;
mod measured;
mod memory;
mod over;
pub mod preferred;
mod session;
mod shape;

pub use against::{Against, Whom};
pub use application::Application;
pub use args::WorkArgs;
pub use course::Course;
pub use measured::Measured;
pub use memory::memory_of;
pub use over::Over;
pub use session::{IDLE, SETTLE, Session, beside};
pub use shape::Shape;
