//! How a program without a waiting thread learns that a batch is done: a task that awaits it, a descriptor in an event
//! loop, one doorbell for many batches. Threads that sleep are told by [`crate::Batch::wait`], functions run by
//! [`crate::Batch::on_done`].
//!
//! Deliberately no queue of what has ended, and no thread: whoever ends a batch tells all of them, once, and a batch is
//! asked what became of it by its handle. All ways may be used for one batch at once.

mod doorbell;
mod error;
mod listeners;
#[cfg(all(test, pipeline_loom))]
mod listeners_loom;
mod when_done;

pub use doorbell::Doorbell;
pub(crate) use doorbell::Rings;
pub use error::{AwaitError, DescriptorError};
pub(crate) use listeners::{Listeners, Ticket};
pub use when_done::WhenDone;

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that is not readable yet.
fn silent() -> Result<OwnedFd, DescriptorError> {
    let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    made.map_err(|errno| DescriptorError::System(errno.into()))
}

/// Makes it readable.
fn raise(fd: &OwnedFd) {
    // It can only fail with EAGAIN, at 2^64 - 1: readable it is then anyway.
    let _ = rustix::io::write(fd, &1_u64.to_ne_bytes());
}
