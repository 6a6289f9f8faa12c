//! Whether this is the process that made something, or a child that was forked from it.
//!
//! A child has a copy of all memory and none of the threads: locks may be held by nobody, and sockets belong to
//! two. So whoever owns threads remembers where it was made and asks before each call. Deliberately without a
//! system call to ask: a page that the kernel hands to children zeroed says it with one load.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;
use rustix::process::{Pid, getpid};

const HERE: u32 = 1;

/// See the file's head. Any thread.
#[derive(Debug)]
pub struct Origin(Mark);

#[derive(Debug)]
enum Mark {
    /// Holds [`HERE`]; 0 in a child.
    Page(NonNull<AtomicU32>),
    /// Where the kernel knows no such pages (before Linux 4.14): costs a system call to ask.
    Pid(Pid),
}

// SAFETY: a page of its own that is only ever read, through an atomic, and lives as long as the value.
unsafe impl Send for Origin {}
// SAFETY: as above.
unsafe impl Sync for Origin {}

impl Origin {
    /// This process.
    pub fn here() -> Self {
        Self(Mark::page().unwrap_or_else(|| Mark::Pid(getpid())))
    }

    /// Whether this is still the process that [`Self::here`] was called in, not a child forked since.
    #[inline]
    pub fn is_here(&self) -> bool {
        match &self.0 {
            // SAFETY: mapped until `self` is dropped, aligned to a page, initialised before it was shared.
            Mark::Page(word) => unsafe { word.as_ref() }.load(Relaxed) == HERE,
            Mark::Pid(pid) => getpid() == *pid,
        }
    }
}

impl Mark {
    fn page() -> Option<Self> {
        let (len, protection) = (page_size(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: the page was mapped above and nobody knows it yet; the advice concerns children only.
        let advised = unsafe { madvise(base, len, Advice::LinuxWipeOnFork) };
        let word = NonNull::new(base.cast::<AtomicU32>()).filter(|_| advised.is_ok());
        let Some(word) = word else {
            // SAFETY: mapped above, known to nobody.
            let _ = unsafe { munmap(base, len) };
            return None;
        };
        // SAFETY: mapped above, aligned to a page; a zeroed atomic is a valid one.
        unsafe { word.as_ref() }.store(HERE, Relaxed);
        Some(Self::Page(word))
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Mark::Page(word) = self.0 {
            // SAFETY: mapped by `page` with this length; nobody has a reference beyond `self`.
            let unmapped = unsafe { munmap(word.as_ptr().cast(), page_size()) };
            debug_assert!(unmapped.is_ok(), "unmapping our own page: {unmapped:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `in_child` answers in a forked child.
    fn forked(in_child: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only loads and ends, without running anything that was registered to run at exit.
        match unsafe { libc::fork() } {
            // SAFETY: ends the child.
            0 => unsafe { libc::_exit(i32::from(in_child())) },
            child => {
                let mut status = 0;
                // SAFETY: our child, and a live place for its status.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                libc::WEXITSTATUS(status) == 1
            }
        }
    }

    /// A child and its child are elsewhere, and know it; what a child makes for itself is at home there; the parent's
    /// own is untouched. The same without the kernel's help.
    #[test]
    fn children_are_elsewhere() {
        let marks = [Origin::here(), Origin(Mark::Pid(getpid()))];
        assert!(matches!(marks[0].0, Mark::Page(_)), "this kernel has no MADV_WIPEONFORK");
        for origin in &marks {
            assert!(origin.is_here());
            assert!(forked(|| !origin.is_here() && Origin::here().is_here()));
            assert!(forked(|| forked(|| !origin.is_here())));
            assert!(origin.is_here());
        }
    }
}
