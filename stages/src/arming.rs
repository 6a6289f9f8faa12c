//! Lets a transport's half name to the engine what a sleep must wait for.
//! Deliberately the only place where the two crates' twin traits meet.

use std::os::fd::RawFd;

use pipeline_graph::{Arming, Nanos};

/// The engine's side of it.
pub(crate) struct ToGraph<'a>(pub(crate) &'a mut dyn Arming);

impl pipeline_transports::Arming for ToGraph<'_> {
    fn fd(&mut self, fd: RawFd) {
        self.0.fd(fd);
    }

    fn deadline(&mut self, at: Nanos) {
        self.0.deadline(at);
    }

    fn busy(&mut self) {
        self.0.busy();
    }
}
