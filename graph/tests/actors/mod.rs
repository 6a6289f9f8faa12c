//! Graphs of small deterministic stages over `u64`, for the engine's tests and benches: what a stage makes of
//! an item depends on that item alone, so that a sequential walk of the graph tells what any run must give.
//! Deliberately knows nothing of the engine's inside.
#![allow(dead_code, unused_imports)] // Each test uses its part.
#![allow(clippy::unwrap_used)] // The benches, which are no tests to clippy, use it as well.

pub mod act;
pub mod bare;
pub mod draw;

pub use act::{Act, Actor, Ends, Fate};
pub use bare::{Bare, Gate, Tally};
pub use draw::{Rig, back, queue, queue_to, stop};
