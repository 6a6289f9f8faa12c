//! Workers of `caller` pools: no threads of ours. The threads of the application that submit and wait step them, and
//! so run the whole way of a request themselves.
//!
//! A worker sits in a [`seat`]; whoever finds the seat free steps it. Of the threads that wait, one leads ([`lead`])
//! and sleeps for all on the [`watch`]. Deliberately the same turn as a thread's: only who calls it differs.

pub mod lead;
pub mod seat;
pub(crate) mod walker;
pub mod watch;

use std::os::fd::OwnedFd;

use crate::item::Item;
use crate::stats::cell::WorkerCell;
use crate::sync::{Arc, AtomicBool, Mutex};
use crate::wait::Waiting;

pub use lead::Lead;
use seat::{Seat, Visit};
use walker::Walker;
use watch::Watch;

/// How many turns a submission takes at most while others leave work before the seat.
const ROUNDS: usize = 16;

/// All workers without a thread of one engine. Cheap to clone; any thread. After the engine has stopped it moves
/// nothing.
pub struct Callers<T: Item> {
    pub(crate) inner: Arc<Inner<T>>,
}

pub(crate) struct Inner<T: Item> {
    pub(crate) seats: Box<[Seat<Walker<T>>]>,
    /// The seat that submissions come in at.
    pub(crate) entrance: Option<usize>,
    pub(crate) watch: Arc<Watch>,
    /// Somebody leads.
    pub(crate) led: AtomicBool,
    /// How the one who leads waits; uncontended.
    pub(crate) waiting: Mutex<Waiting>,
    /// Where its sleeps are counted: with the first worker.
    pub(crate) cell: Arc<WorkerCell>,
}

impl<T: Item> Clone for Callers<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T: Item> Callers<T> {
    pub(crate) fn new(
        seats: Vec<Seat<Walker<T>>>,
        entrance: Option<usize>,
        watch: Arc<Watch>,
        waiting: Waiting,
        cell: Arc<WorkerCell>,
    ) -> Self {
        let (seats, led, waiting) = (seats.into(), AtomicBool::new(false), Mutex::new(waiting));
        Self { inner: Arc::new(Inner { seats, entrance, watch, led, waiting, cell }) }
    }

    /// One turn of each worker that nobody else steps just now; never blocks. Answers whether anything moved or may
    /// move at once: call it again then. Once it has answered `false`, [`Self::fd`] tells when to come again.
    pub fn step(&self) -> bool {
        let visit = self.look();
        if visit.more && self.inner.watch.is_asleep() {
            // Somebody sleeps who relies on all being in order; it is not, and we may not come again.
            self.inner.watch.knock();
        }
        visit.moved
    }

    /// As [`Self::step`], for one who comes again.
    pub(crate) fn look(&self) -> Visit {
        self.inner.watch.answer();
        self.visit(1)
    }

    /// For one who has pushed something and goes on to other things: what it found to do is done, or will be.
    pub(crate) fn help(&self) {
        let watch = &self.inner.watch;
        if self.visit(ROUNDS).more && watch.is_watched() {
            watch.knock();
        }
    }

    /// Gives a submission to the worker that it is for, and steps it, as [`Self::help`] would after a push: if nobody else
    /// steps it just now, and nothing waits in its ring. Whether it did; if not, it has to be pushed.
    pub(crate) fn hand(&self, item: T) -> bool {
        let inner = &*self.inner;
        let Some(seat) = inner.entrance.and_then(|at| inner.seats.get(at)) else { return false };
        let (watched, mut taken) = (|| inner.watch.is_watched(), false);
        let mut errand = |walker: &mut Walker<T>| taken = walker.accept(item);
        let visit = seat.visit_with(ROUNDS, watched, Some(&mut errand));
        if taken && inner.seats.len() > 1 {
            // It may have left something before another seat.
            self.help();
        }
        if visit.more && watched() {
            inner.watch.knock();
        }
        taken
    }

    fn visit(&self, rounds: usize) -> Visit {
        let mut all = Visit::default();
        for seat in &self.inner.seats {
            let visit = seat.visit(rounds, || self.inner.watch.is_watched());
            all.moved |= visit.moved || visit.more;
            all.more |= visit.more;
        }
        all
    }

    /// A descriptor that is readable when a step has something to do: work in a queue, a descriptor that a stage waits
    /// for, a deadline. Level-triggered: it stays readable until steps have done it. Only to be polled (`epoll`,
    /// `poll`, `select`), never read. From the first call on, each submission leaves the workers so that the
    /// descriptor tells what comes; without that it saves the system calls.
    ///
    /// # Errors
    /// The process may open no more descriptors.
    pub fn fd(&self) -> std::io::Result<OwnedFd> {
        let fd = self.inner.watch.export()?;
        // What was left before it was watched is told by a readable descriptor.
        self.inner.watch.knock();
        Ok(fd)
    }

    /// Ends the sleep of the thread that leads, if it sleeps; else its next one.
    pub fn rouse(&self) {
        self.inner.watch.rouse();
    }

    /// Takes all workers out of their seats and fails what they have in their hands.
    pub(crate) fn close(&self) {
        self.inner.seats.iter().filter_map(Seat::close).for_each(Walker::end);
    }
}
