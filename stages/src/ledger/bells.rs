//! Bells of workers whose stages wait for something that no edge brings: windows, slots, cancels.
//! Deliberately lossless: a stage says that it is about to sleep, looks once more, and only then sleeps.

use std::sync::atomic::{AtomicBool, Ordering::*, fence};
use std::sync::{PoisonError, RwLock};

use pipeline_graph::Waker;

/// See the file's head. The lock is written at start only.
#[derive(Default)]
pub(crate) struct Bells {
    awaited: AtomicBool,
    wakers: RwLock<Vec<Waker>>,
}

impl Bells {
    /// Adds a worker's bell; once, also for a stage that is built anew after a panic.
    pub(crate) fn add(&self, waker: Waker) {
        let mut wakers = self.wakers.write().unwrap_or_else(PoisonError::into_inner);
        if !wakers.iter().any(|known| known.is(&waker)) {
            wakers.push(waker);
        }
    }

    /// A stage is about to sleep until [`Self::ring_awaited`]; it must look once more after this.
    pub(crate) fn await_ring(&self) {
        self.awaited.store(true, Relaxed);
        fence(SeqCst);
    }

    /// Rings if somebody said that it waits. Cheap otherwise.
    pub(crate) fn ring_awaited(&self) {
        fence(SeqCst);
        if self.awaited.load(Relaxed) && self.awaited.swap(false, AcqRel) {
            self.ring();
        }
    }

    /// Rings all.
    pub(crate) fn ring(&self) {
        self.wakers.read().unwrap_or_else(PoisonError::into_inner).iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// However often something comes back, and on however many threads: who does not wait is not woken, and each time
    /// that somebody waits the bell rings once.
    #[test]
    fn no_storms() {
        let (bells, woken) = (Bells::default(), Arc::new(AtomicU32::new(0)));
        let count = woken.clone();
        bells.add(Waker::new(move || {
            count.fetch_add(1, AcqRel);
        }));
        for waits in 0..20 {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..1_000).for_each(|_| bells.ring_awaited()));
                }
            });
            assert_eq!(woken.load(Acquire), waits);
            bells.await_ring();
            bells.ring_awaited();
            assert_eq!(woken.load(Acquire), waits + 1);
        }
    }
}
