//! The TCP transport against a well-behaved other side, a hostile one, and one that has gone.

mod rig;
mod transfer;
