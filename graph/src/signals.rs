//! Signals stay with the application: threads of ours are started with all of them blocked, so that its handlers run
//! on its own threads, and a thread of its own that waits for a signal is the one that gets it.
//! Deliberately no handler, and no change that outlives the start of a thread.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// While it lives, threads that this thread starts have all signals blocked, but for those that a fault of their own
/// raises. It blocks them in this thread too, because a thread inherits its mask; dropping it gives the old one back.
pub struct Blocked {
    before: Option<libc::sigset_t>,
    /// A mask is a thread's own: the guard stays where it was made.
    _here: PhantomData<*const ()>,
}

/// Raised by the thread itself: blocked, the kernel would end the process without asking its handler.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Blocks them until the answer is dropped: around the start of a thread.
pub fn block() -> Blocked {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is written whole by the first call, before the others and `assume_init` read it.
    let set = unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for fault in FAULTS {
            libc::sigdelset(set.as_mut_ptr(), fault);
        }
        set.assume_init()
    };
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are live; the second is written whole when the answer is 0.
    let before = unsafe {
        let failed = libc::pthread_sigmask(libc::SIG_SETMASK, &set, before.as_mut_ptr());
        (failed == 0).then(|| before.assume_init())
    };
    Blocked { before, _here: PhantomData }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: a mask that the kernel gave; nothing is asked back.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocked signals of the calling thread, as the kernel tells them.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    /// A thread that is started meanwhile has them blocked for life, faults excepted; the starter has its mask back.
    #[test]
    fn only_the_new_thread_is_changed() {
        let bit = |signal: libc::c_int| 1_u64 << (signal - 1);
        let before = blocked();
        let guard = block();
        let (go, wait) = crossbeam_channel::bounded::<()>(0);
        let thread = std::thread::spawn(move || {
            let _ = wait.recv();
            blocked()
        });
        drop(guard);
        assert_eq!(blocked(), before);
        drop(go);
        let inside = thread.join().unwrap();
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGCHLD, libc::SIGALRM]
        {
            assert_ne!(inside & bit(signal), 0, "signal {signal} is open");
        }
        for fault in FAULTS {
            assert_eq!(inside & bit(fault), 0, "signal {fault} is blocked");
        }
    }
}
