//! A discrete-event model of a node: the graph of a file on a machine that need not be there, fed by what its parts were
//! measured to cost.
//!
//! Pure and repeatable: no clock, no threads, chance by a seed. The queue of events is our own, sixty lines: what has to be
//! modelled is CPUs that all runnable threads share, so that whoever becomes runnable moves the end of all work at hand, which a
//! framework of actors and timed messages (nexosim) can only say by cancelling and sending again; and a reader would have
//! to know its executor to know in which order two things of one moment happen.

pub mod agenda;
mod application;
pub mod costs;
mod cpus;
pub mod dice;
pub mod outcome;
pub mod setup;
mod stream;
mod thread;
mod turns;
mod window;
mod wire;
mod world;

pub use outcome::{Outcome, simulate};
pub use setup::Setup;

#[cfg(test)]
mod theory;
