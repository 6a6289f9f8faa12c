//! The TCP transport against a well-behaved other side, a hostile one, and one that has gone.

#![allow(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod fences;
mod gone;
mod hostile;
mod nics;
mod rig;
mod stalled;
mod transfer;
