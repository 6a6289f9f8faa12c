//! How a link dies between its two halves, and how long its poster may still touch memory.
//!
//! Whoever sees an error marks the link dead and wakes the other half. The poster then lets go of all memory and falls
//! *quiet*; only after that may the reaper complete what is left, because a completion gives buffers back. A reaper
//! that goes (its worker panicked) completes nothing: it waits until the poster is not in the middle of a send, after
//! which no send begins. Deliberately no work requests in here.

use crate::sync::{AtomicBool, Ordering, fence, relax};

/// The two one-way flags of a link's death, and whether the poster is in the middle of a send.
#[derive(Default)]
pub(crate) struct Life {
    dead: AtomicBool,
    quiet: AtomicBool,
    sending: AtomicBool,
}

impl Life {
    /// Marks it dead; `true` for the one who did.
    pub(crate) fn die(&self) -> bool {
        !self.dead.swap(true, Ordering::AcqRel)
    }

    /// Whether it is dead.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Poster only, before it touches memory: `false` on a dead link. [`Self::let_go`] ends it.
    pub(crate) fn begin_send(&self) -> bool {
        self.sending.store(true, Ordering::Relaxed);
        // Either we see the death here, or whoever waits in `outlast_send` sees us.
        fence(Ordering::SeqCst);
        let alive = !self.is_dead();
        if !alive {
            self.let_go();
        }
        alive
    }

    /// Poster only: it touches no memory now.
    pub(crate) fn let_go(&self) {
        self.sending.store(false, Ordering::Release);
    }

    /// For who has killed the link: returns when the poster touches no memory any more, at most one non-blocking
    /// system call later. On the poster's own thread it returns at once.
    pub(crate) fn outlast_send(&self) {
        fence(Ordering::SeqCst);
        while self.sending.load(Ordering::Acquire) && !self.is_quiet() {
            relax();
        }
    }

    /// Poster only, after its last touch of slots and memory.
    pub(crate) fn fall_quiet(&self) {
        self.quiet.store(true, Ordering::Release);
    }

    /// Whether the poster will touch nothing any more.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Acquire)
    }
}

#[cfg(all(test, pipeline_loom))]
mod tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// A reaper that goes outlasts a send, and none begins afterwards: the buffer is the user's when it has gone.
    #[test]
    fn a_reaper_that_goes_outlasts_the_send() {
        loom::model(|| {
            let shared = Arc::new((Life::default(), UnsafeCell::new(0u8)));
            let poster = thread::spawn({
                let shared = shared.clone();
                move || {
                    let (life, payload) = &*shared;
                    if life.begin_send() {
                        // SAFETY: loom checks that nobody writes it meanwhile: the very point.
                        payload.with(|bytes| assert_eq!(unsafe { *bytes }, 0));
                        life.let_go();
                    }
                }
            });
            let (life, payload) = &*shared;
            life.die();
            life.outlast_send();
            // SAFETY: as above: the buffer is the user's again.
            payload.with_mut(|bytes| unsafe { *bytes = 1 });
            poster.join().unwrap();
        });
    }
}
