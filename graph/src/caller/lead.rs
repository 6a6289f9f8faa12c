//! Waiting where no thread of ours works: one of the threads that wait leads, which is to step all seats and to sleep
//! for all when nothing is to do. Deliberately without a list of the others: where they sleep, and how the next one
//! learns that it shall lead, is the matter of those who wait.

use super::Callers;
use crate::clock::{Nanos, now, thread_cpu_ns};
use crate::item::Item;
use crate::sync::{Ordering, lock};
use crate::wait::{Pause, Slept, Waiting};

/// The right to lead, until dropped. Whoever drops it wakes one of the others.
pub struct Lead<'a, T: Item> {
    callers: &'a Callers<T>,
}

impl<T: Item> Callers<T> {
    /// Leads, unless somebody else does.
    pub fn lead(&self) -> Option<Lead<'_, T>> {
        let free = self.inner.led.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        free.then_some(Lead { callers: self })
    }

    /// Whether somebody leads.
    pub fn is_led(&self) -> bool {
        self.inner.led.load(Ordering::Acquire)
    }
}

impl<T: Item> Lead<'_, T> {
    /// One step. When nothing moved it pauses as the pool's `wait` says: spins, yields, or sleeps until something is
    /// to do, [`Callers::rouse`], or `until`. `done` is asked once more before a sleep; whoever makes it true must
    /// rouse afterwards. Answers whether it was asked.
    pub fn step(&mut self, until: Nanos, done: impl FnOnce() -> bool) -> bool {
        let inner = &*self.callers.inner;
        let mut waiting = lock(&inner.waiting);
        if self.callers.look().moved {
            let at = now();
            waiting.found(at, at);
            return false;
        }
        match waiting.next(now()) {
            Pause::Spin => std::hint::spin_loop(),
            Pause::Yield => std::thread::yield_now(),
            Pause::Park => {
                let limit = until.min(now().saturating_add(waiting.park_ns()));
                if !self.sleep(limit, &mut waiting, done) {
                    let at = now();
                    waiting.found(at, at);
                }
                return true;
            }
        }
        false
    }

    /// Answers whether there was nothing to do.
    fn sleep(&self, limit: Nanos, waiting: &mut Waiting, done: impl FnOnce() -> bool) -> bool {
        let inner = &*self.callers.inner;
        let cpu = waiting.meters().then(thread_cpu_ns);
        inner.watch.set_asleep(true);
        // Now that it is watched every seat is left in order: by us, or by whoever has it.
        let idle = !self.callers.look().moved && !done();
        let from = now();
        if idle && limit > from {
            inner.cell.asleep.begin(from);
            let timed = inner.watch.sleep(limit - from);
            let (to, signalled) = (now(), inner.watch.signalled_at());
            let wake_ns = (signalled >= from).then(|| to.saturating_sub(signalled));
            let cpu_ns = cpu.map(|before| thread_cpu_ns() - before);
            waiting.woke(&Slept { from, to, wake_ns, cpu_ns, timed });
            inner.cell.asleep.end(to);
            inner.cell.slept(timed);
        }
        inner.watch.set_asleep(false);
        idle
    }
}

impl<T: Item> Drop for Lead<'_, T> {
    fn drop(&mut self) {
        self.callers.inner.led.store(false, Ordering::Release);
    }
}
