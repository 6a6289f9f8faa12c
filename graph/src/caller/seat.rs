//! The place of a worker without a thread: whoever comes first steps it, the others leave their work before it.
//!
//! Nobody waits for the seat. Whoever finds it taken has published its work before, and the holder looks for such
//! work once more *after* it has let go: a fence lies between publishing and trying on one side, and between letting
//! go and looking on the other, so that one of the two always sees the other. (A look before letting go strands what
//! comes between the look and the release.) The same holds for a thread that goes to sleep on the [`Watch`]: either it
//! finds the seat free and left in order, or the holder sees that somebody watches and puts it in order.
//!
//! [`Watch`]: super::watch::Watch

use crate::sync::{AtomicBool, Mutex, Ordering, fence, lock};

/// What a visitor brings along, and wants done before the first turn.
pub type Errand<'a, W> = &'a mut dyn FnMut(&mut W);

/// A worker as its holder drives it.
pub trait Stepped: Send {
    /// The seat was taken: whatever is rung from now on is found by a look, and needs no signal.
    fn attend(&mut self);
    /// One look at everything. Answers whether anything moved.
    fn turn(&mut self) -> bool;
    /// Asks for signals from now on, looks once more, and names what to wait for. Answers whether something moved:
    /// then it is not in order, and must be looked at again.
    fn settle(&mut self) -> bool;
}

/// How a visit to a seat ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// Something moved.
    pub moved: bool,
    /// There may be more to do at once, and nobody else was told.
    pub more: bool,
}

/// See the head of the file.
pub struct Seat<W> {
    taken: AtomicBool,
    /// Never contended: only whoever has taken the seat touches it. `None`: the engine has stopped.
    worker: Mutex<Option<W>>,
    /// Whether work lies in a queue before it.
    mailbox: Box<dyn Fn() -> bool + Send + Sync>,
}

impl<W: Stepped> Seat<W> {
    /// A free seat. `mailbox` answers, on any thread, whether work lies before it.
    pub fn new(worker: W, mailbox: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { taken: AtomicBool::new(false), worker: Mutex::new(Some(worker)), mailbox: Box::new(mailbox) }
    }

    /// Steps the worker if nobody else does: a turn, and again, up to `rounds` turns, while others have left work in
    /// the meantime. Leaves it in order when somebody watches. Never blocks.
    pub fn visit(&self, rounds: usize, watched: impl Fn() -> bool) -> Visit {
        self.visit_with(rounds, watched, None)
    }

    /// As [`Self::visit`]. The errand is done first if the seat was free, and not at all otherwise: then the visitor must
    /// leave its work before the seat, and visit again.
    #[inline]
    pub fn visit_with(
        &self,
        rounds: usize,
        watched: impl Fn() -> bool,
        mut errand: Option<Errand<'_, W>>,
    ) -> Visit {
        let mut visit = Visit::default();
        for _ in 0..rounds {
            // The pair of the fence below: what we have published is seen by the holder, or the seat is ours.
            fence(Ordering::SeqCst);
            if self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
                // Whoever has it looks once more when it has let go.
                visit.more = false;
                return visit;
            }
            let (moved, in_order) = match lock(&self.worker).as_mut() {
                Some(worker) => {
                    if let Some(errand) = errand.take() {
                        errand(worker);
                    }
                    hold(worker, watched())
                }
                None => (false, true),
            };
            self.taken.store(false, Ordering::Release);
            fence(Ordering::SeqCst);
            visit.moved |= moved;
            visit.more = (self.mailbox)() || (!in_order && watched());
            if !visit.more {
                break;
            }
        }
        visit
    }

    /// Takes the worker out for good, waiting for whoever steps it just now.
    pub fn close(&self) -> Option<W> {
        while self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            crate::sync::yield_now();
        }
        let worker = lock(&self.worker).take();
        self.taken.store(false, Ordering::Release);
        worker
    }
}

/// Answers whether anything moved, and whether it was left so that everything that comes now gives a signal.
fn hold<W: Stepped>(worker: &mut W, watched: bool) -> (bool, bool) {
    worker.attend();
    let moved = worker.turn();
    if !watched {
        return (moved, false);
    }
    let more = worker.settle();
    (moved || more, !more)
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;
    use crate::sync::{Arc, AtomicUsize};

    /// Moves one thing a turn, until none is left.
    struct Pile {
        left: Arc<AtomicUsize>,
        settled: bool,
    }

    impl Stepped for Pile {
        fn attend(&mut self) {
            self.settled = false;
        }
        fn turn(&mut self) -> bool {
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
        }
        fn settle(&mut self) -> bool {
            self.settled = !self.turn();
            !self.settled
        }
    }

    fn pile(n: usize) -> (Arc<AtomicUsize>, Seat<Pile>) {
        let left = Arc::new(AtomicUsize::new(n));
        let seen = left.clone();
        let seat =
            Seat::new(Pile { left: left.clone(), settled: false }, move || seen.load(Ordering::Relaxed) > 0);
        (left, seat)
    }

    /// A visit takes as many turns as it may while work is there, says whether more is left, and goes on to the end
    /// when it may.
    #[test]
    fn a_visit_is_bounded() {
        let (left, seat) = pile(10);
        assert_eq!(seat.visit(3, || false), Visit { moved: true, more: true });
        assert_eq!(left.load(Ordering::Relaxed), 7);
        assert_eq!(seat.visit(100, || false), Visit { moved: true, more: false });
        assert_eq!(seat.visit(100, || false), Visit::default());
    }

    /// While somebody watches, a visit ends with the worker left in order; a closed seat moves nothing.
    #[test]
    fn watched_is_left_in_order() {
        let (_, seat) = pile(5);
        assert_eq!(seat.visit(100, || true), Visit { moved: true, more: false });
        let worker = seat.close().unwrap();
        assert!(worker.settled);
        worker.left.store(1, Ordering::Relaxed);
        assert!(!seat.visit(1, || true).moved);
    }
}
