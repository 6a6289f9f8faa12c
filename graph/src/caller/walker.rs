//! A worker of a `caller` pool in its seat: the same turn as a thread's, and signals to the [`Watch`] in place of a
//! sleep. Deliberately without a loop: who steps it, and how often, is the seat's matter.

use std::os::fd::RawFd;

use super::seat::Stepped;
use super::watch::{Timer, Watch};
use crate::bell::{Bell, REFUSED_NS, watch_once};
use crate::clock::Nanos;
use crate::item::Item;
use crate::mark::Inside;
use crate::stage::Arming;
use crate::sync::{Arc, Ordering};
use crate::worker::Worker;

/// See the head of the file.
pub(crate) struct Walker<T: Item> {
    worker: Worker<T>,
    bell: Arc<Bell>,
    watch: Arc<Watch>,
    timer: Timer,
    refused: u64,
}

impl<T: Item> Walker<T> {
    pub(crate) fn new(worker: Worker<T>, bell: Arc<Bell>, watch: Arc<Watch>) -> Self {
        bell.watched_by(&watch);
        Self { worker, bell, watch, timer: Timer::new(), refused: 0 }
    }

    /// See [`Worker::accept`].
    #[inline]
    pub(crate) fn accept(&mut self, item: T) -> bool {
        self.worker.accept(item)
    }

    /// Fails what it has in its hands; see [`Worker::end`].
    pub(crate) fn end(self) {
        self.worker.end();
    }
}

impl<T: Item> Stepped for Walker<T> {
    fn attend(&mut self) {
        self.bell.attend();
    }

    fn turn(&mut self) -> bool {
        let _inside = Inside::enter();
        if self.worker.shared.stopping.load(Ordering::Acquire) {
            return false;
        }
        let moved = self.worker.turn();
        // The next turn may be far: what is staged for other workers does not wait for it.
        self.worker.send_staged() || moved
    }

    fn settle(&mut self) -> bool {
        self.bell.leave();
        if self.turn() {
            self.bell.attend();
            return true;
        }
        let _inside = Inside::enter();
        let mut on = Armed { watch: &self.watch, deadline: Nanos::MAX, busy: false, refused: 0 };
        self.worker.arm(&mut on);
        let now = self.worker.beat.now;
        let Armed { mut deadline, busy, refused, .. } = on;
        if refused > 0 {
            deadline = deadline.min(now + REFUSED_NS);
            self.refused += refused;
            self.worker.cell.refused_fds.set(self.refused);
        }
        if busy || deadline <= now || self.timer.set(&self.watch, now, deadline).is_err() {
            self.bell.attend();
            return true;
        }
        false
    }
}

/// Collects what the stages of one worker wait for.
struct Armed<'a> {
    watch: &'a Watch,
    deadline: Nanos,
    busy: bool,
    refused: u64,
}

impl Arming for Armed<'_> {
    fn fd(&mut self, fd: RawFd) {
        if watch_once(self.watch.epoll(), fd).is_err() {
            self.refused += 1;
        }
    }

    fn deadline(&mut self, at: Nanos) {
        self.deadline = self.deadline.min(at);
    }

    fn busy(&mut self) {
        self.busy = true;
    }
}
