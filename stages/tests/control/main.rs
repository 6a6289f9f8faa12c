//! The control pool of whole nodes, two and more in one process, over real sockets.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test may panic")]

mod fences;
mod files;
mod folders;
mod generations;
mod hostile;
mod places;
mod rig;
mod sessions;
