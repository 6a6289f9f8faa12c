//! What `bench` and `compare` have in common: the timed loop of an application, where its bytes lie, what it counts, and
//! the processes it runs against. Deliberately without options and without words for users: each command has its own.

pub mod child;
mod direction;
pub mod layout;
pub mod machine;
mod places;
pub mod tally;
pub mod target;
pub mod timed;
pub mod usage;
mod waiting;

pub use direction::Direction;
pub use waiting::{Waiter, Waiting};
