//! Where a record of what is submitted is taken from. Closed, which it is as a rule, it costs a submission one relaxed load.
//! Deliberately after the fact: only what was taken is told, and nothing of what it came to.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline_graph::Nanos;

use super::wanted::Wanted;
use crate::request::Request;

/// Hears of submissions, on the threads that submit: it must not block, and not submit.
pub trait Listener: Send + Sync {
    /// A batch of the application's was taken, that was submitted at `at`.
    fn submitted(&self, at: Nanos, requests: &mut dyn Iterator<Item = Request>);
}

/// See the module.
#[derive(Default)]
pub struct Tap {
    is_open: AtomicBool,
    listener: Mutex<Option<Arc<dyn Listener>>>,
}

impl Tap {
    /// Gives it to this listener, closed as yet; `false` if another one has it.
    pub fn attach(&self, listener: Arc<dyn Listener>) -> bool {
        let mut place = self.listener();
        let is_free = place.is_none();
        if is_free {
            *place = Some(listener);
        }
        is_free
    }

    /// Closes it, and lets go of its listener, which hears of nothing that is submitted later.
    pub fn detach(&self) {
        self.set_open(false);
        *self.listener() = None;
    }

    /// Whether submissions from now on are told.
    pub fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Relaxed);
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    #[cold]
    pub(super) fn tell<W: Wanted>(&self, at: Nanos, wanted: &W) {
        // Cloned: a listener that is slow keeps no other thread from it.
        let listener = self.listener().clone();
        if let Some(listener) = listener {
            listener.submitted(at, &mut (0..wanted.len()).map(|i| *wanted.at(i)));
        }
    }

    fn listener(&self) -> MutexGuard<'_, Option<Arc<dyn Listener>>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
