//! The control pool of whole nodes, two and more in one process, over real sockets.

mod files;
mod hostile;
mod places;
mod rig;
mod sessions;
