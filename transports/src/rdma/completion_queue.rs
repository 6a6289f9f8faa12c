//! A completion queue, with the channel that says when something is in it. Deliberately does not know what its completions
//! are of: whoever polls does.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use ibverbs_sys as ffi;

use super::device::{Device, refused};
use crate::error::Error;

/// See the file's head. One thread at a time polls, asks to be told, and takes events.
pub(super) struct CompletionQueue {
    device: Arc<Device>,
    at: NonNull<ffi::ibv_cq>,
    /// `None`: nobody waits for it.
    channel: Option<NonNull<ffi::ibv_comp_channel>>,
    entries: u32,
}

// SAFETY: verbs objects may be used from any thread; libibverbs locks where its providers need it.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// For `entries` completions, or as many as the device can hold. `announced`: with a channel.
    ///
    /// # Errors
    /// [`Error::LocalNic`].
    pub(super) fn new(device: &Arc<Device>, entries: u32, announced: bool) -> Result<Self, Error> {
        let (verbs, entries) = (device.verbs(), entries.min(device.attr().max_cqe).max(1));
        let failed = |what| refused(device.nic(), what, &io::Error::last_os_error());
        let channel = if announced {
            // SAFETY: an open context.
            let channel = unsafe { (verbs.create_comp_channel)(device.context()) };
            Some(NonNull::new(channel).ok_or_else(|| failed("make a completion channel"))?)
        } else {
            None
        };
        let raw = channel.map_or(null_mut(), NonNull::as_ptr);
        // SAFETY: an open context and a channel of it; vector 0 is always there.
        let at = unsafe { (verbs.create_cq)(device.context(), entries as i32, null_mut(), raw, 0) };
        let Some(at) = NonNull::new(at) else {
            let error = failed("make a completion queue");
            if let Some(channel) = channel {
                // SAFETY: just made, known to nobody.
                unsafe { (verbs.destroy_comp_channel)(channel.as_ptr()) };
            }
            return Err(error);
        };
        let queue = Self { device: device.clone(), at, channel, entries };
        if let Some(fd) = queue.fd() {
            // SAFETY: the channel is ours and open.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            rustix::io::ioctl_fionbio(fd, true)
                .map_err(|e| refused(device.nic(), "make a completion channel not block", &e.into()))?;
        }
        Ok(queue)
    }

    /// For making queue pairs. Valid as long as `self`.
    pub(super) fn raw(&self) -> *mut ffi::ibv_cq {
        self.at.as_ptr()
    }

    /// How many completions it holds for certain.
    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// Its device.
    pub(super) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Readable after [`Self::request_notice`] when something has come; `None` without a channel.
    pub(super) fn fd(&self) -> Option<RawFd> {
        // SAFETY: the channel is ours and open.
        self.channel.map(|channel| unsafe { channel.as_ref() }.fd)
    }

    /// Takes completions out. Answers how many.
    ///
    /// # Errors
    /// The device failed.
    #[inline]
    pub(super) fn poll(&self, into: &mut [ffi::ibv_wc]) -> Result<usize, ()> {
        let at = self.at.as_ptr();
        // SAFETY: the queue is open; every provider has this function, and it writes at most as many as it is told.
        let got = unsafe {
            let poll = (*(*at).context).ops.poll_cq.ok_or(())?;
            poll(at, into.len() as i32, into.as_mut_ptr())
        };
        usize::try_from(got).map_err(|_| ())
    }

    /// Asks for one event when the next completion comes.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn request_notice(&self) -> Result<(), ()> {
        let at = self.at.as_ptr();
        // SAFETY: as above.
        let failed = unsafe { (*(*at).context).ops.req_notify_cq.ok_or(())?(at, 0) };
        if failed == 0 { Ok(()) } else { Err(()) }
    }

    /// Takes an event out of the channel, if there is one. Each must be acknowledged.
    pub(super) fn take_event(&self) -> bool {
        let Some(channel) = self.channel else { return false };
        let (mut of, mut context) = (null_mut(), null_mut());
        // SAFETY: the channel is open and does not block; live places for the answers.
        unsafe { (self.device.verbs().get_cq_event)(channel.as_ptr(), &mut of, &mut context) == 0 }
    }

    /// Acknowledges events; destroying waits for all that were taken.
    pub(super) fn acknowledge(&self, events: u32) {
        if events > 0 {
            // SAFETY: the queue is open, and as many were taken.
            unsafe { (self.device.verbs().ack_cq_events)(self.at.as_ptr(), events) };
        }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        let verbs = self.device.verbs();
        if !verbs.is_here() {
            return;
        }
        // SAFETY: ours; what completes into it held it, and events are acknowledged by whoever took them.
        let failed = unsafe { (verbs.destroy_cq)(self.at.as_ptr()) };
        if failed != 0 {
            let reason = io::Error::from_raw_os_error(failed);
            tracing::error!(nic = self.device.nic(), %reason, "a completion queue could not be destroyed");
        }
        if let Some(channel) = self.channel {
            // SAFETY: ours, and its only queue is gone.
            unsafe { (verbs.destroy_comp_channel)(channel.as_ptr()) };
        }
    }
}
