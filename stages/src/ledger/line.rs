//! Who waits in `submit_wait`, first come, first served: what is freed wakes the first of the line and nobody else,
//! and that one, when it goes, the next.
//! Deliberately without a lock and without a system call for whoever frees something: each batch passes here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use pipeline_graph::Nanos;
use pipeline_transports::clock;

/// How long the first of the line is passed over by those who come later and find room: a thread that runs makes
/// better use of it than one that has to be woken. After that, new ones queue up.
const PATIENCE_NS: Nanos = 1_000_000;

/// See the file's head. On a line of its own: submitters write it, and stages read what lies beside it.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Line {
    /// How many stand in it, or are about to.
    waiting: AtomicU32,
    /// The first of them: written by the waiters, under the lock.
    first: ArcSwapOption<Stand>,
    line: Mutex<VecDeque<Arc<Stand>>>,
    /// How often something freed woke the first.
    wakes: AtomicU64,
}

struct Stand {
    thread: Thread,
    since: Nanos,
}

impl Line {
    /// Something was freed: a batch, or room on the first edge.
    #[inline]
    pub(crate) fn tell(&self) {
        // The pair of the fence in `Place::may_try`: either the first finds what was freed, or we find the first.
        fence(SeqCst);
        if self.waiting.load(Relaxed) > 0 {
            self.wake_first();
        }
    }

    #[cold]
    fn wake_first(&self) {
        if let Some(first) = &*self.first.load() {
            self.wakes.fetch_add(1, Relaxed);
            // A system call only if it sleeps; if it does not yet, it will not.
            first.thread.unpark();
        }
    }

    /// Whether whoever comes now shall stand in line even if there is room.
    pub(crate) fn is_due(&self) -> bool {
        self.waiting.load(Relaxed) > 0
            && self.first.load().as_ref().is_some_and(|first| clock::now() > first.since + PATIENCE_NS)
    }

    /// Stands in line, at its end.
    pub(crate) fn stand(&self) -> Place<'_> {
        let stand = Arc::new(Stand { thread: std::thread::current(), since: clock::now() });
        let mut line = self.lock();
        self.waiting.fetch_add(1, Relaxed);
        line.push_back(stand.clone());
        if line.len() == 1 {
            self.first.store(Some(stand.clone()));
        }
        Place { line: self, stand }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Stand>>> {
        // A panic under this lock leaves the line whole: each change is one push or one removal.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in line; dropping it is going away.
pub(crate) struct Place<'a> {
    line: &'a Line,
    stand: Arc<Stand>,
}

impl Place<'_> {
    /// Whether it is its turn. If so, what is freed after the try that follows ends the [`Self::sleep`] after that.
    pub(crate) fn may_try(&self) -> bool {
        let first = self.line.first.load().as_ref().is_some_and(|first| Arc::ptr_eq(first, &self.stand));
        fence(SeqCst);
        first
    }

    /// Sleeps until it is the first and something was freed, or until `nap` has passed; may return early.
    pub(crate) fn sleep(&self, nap: Duration) {
        std::thread::park_timeout(nap);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut line = self.line.lock();
        self.line.waiting.fetch_sub(1, Relaxed);
        let was_first = line.front().is_some_and(|first| Arc::ptr_eq(first, &self.stand));
        line.retain(|stand| !Arc::ptr_eq(stand, &self.stand));
        if was_first {
            let next = line.front().cloned();
            self.line.first.store(next.clone());
            drop(line);
            // There may be room for it as well; it looks.
            if let Some(next) = next {
                next.thread.unpark();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(20);

    /// Takes one of `free`, waiting in line for it.
    fn take(line: &Line, free: &AtomicU32, done: impl FnOnce()) {
        let place = line.stand();
        let begin = Instant::now();
        while !(place.may_try() && free.fetch_update(AcqRel, Acquire, |n| n.checked_sub(1)).is_ok()) {
            assert!(begin.elapsed() < LONG, "nobody woke it");
            place.sleep(LONG);
        }
        done();
    }

    /// Each thing that is freed is taken, long before any sleep is over, however the two sides meet.
    #[test]
    fn nothing_freed_is_missed() {
        let (line, free) = (Line::default(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            let takers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..500).for_each(|_| take(&line, &free, || {})))).collect();
            for _ in 0..2_000 {
                free.fetch_add(1, AcqRel);
                line.tell();
                std::thread::yield_now();
            }
            takers.into_iter().for_each(|taker| taker.join().unwrap());
        });
        assert_eq!((free.load(Relaxed), line.waiting.load(Relaxed)), (0, 0));
        assert!(line.first.load().is_none());
    }

    /// The line is served in the order in which it formed, and one thing freed wakes one sleeper, not all of them.
    #[test]
    fn first_come_first_served() {
        const N: usize = 16;
        let (line, free) = (Line::default(), AtomicU32::new(0));
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for i in 0..N {
                let (line, free, order) = (&line, &free, &order);
                scope.spawn(move || take(line, free, || order.lock().unwrap().push(i)));
                while line.waiting.load(Acquire) as usize <= i {
                    std::thread::yield_now();
                }
            }
            for served in 1..=N {
                assert_eq!(line.wakes.load(Relaxed) as usize, served - 1);
                free.fetch_add(1, AcqRel);
                line.tell();
                while order.lock().unwrap().len() < served || line.waiting.load(Acquire) as usize > N - served
                {
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!(order.into_inner().unwrap(), (0..N).collect::<Vec<_>>());
    }

    /// Whoever gives up leaves the line in order: the next one is served, and nobody waits for the one that went.
    #[test]
    fn who_goes_is_not_waited_for() {
        let (line, free) = (Line::default(), AtomicU32::new(0));
        let gone = line.stand();
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| take(&line, &free, || {}));
            while line.waiting.load(Acquire) < 2 {
                std::thread::yield_now();
            }
            free.fetch_add(1, AcqRel);
            line.tell();
            assert!(gone.may_try());
            drop(gone);
            taker.join().unwrap();
        });
    }
}
