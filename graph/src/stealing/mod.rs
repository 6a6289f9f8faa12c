//! Pools of kind `stealing`: threads of a rayon pool that carry out jobs, one batch of a `parallel` stage each.
//!
//! The stage itself sits with whoever reaches it: a worker gives a batch away ([`farm::Farm`]), goes on with other
//! things, and passes on what came of it, in the order in which it gave. So a job touches no ring, no lock and no other
//! pool, it never waits, and it may be stolen by a thread in the middle of another one. Where rings lead to such a stage
//! the pool has one worker more, at its *desk*, that reads them and gives.

pub mod crew;
pub(crate) mod farm;
pub(crate) mod job;
pub mod landing;

pub use crew::{Crew, Crews};
