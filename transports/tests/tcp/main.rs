//! The TCP transport against a well-behaved other side, a hostile one, and one that has gone.

mod gone;
mod hostile;
mod rig;
mod transfer;
