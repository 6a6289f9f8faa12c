//! The interfaces as they were told last: kept fresh by whoever drives a [`super::Monitor`], else asked for again when
//! they have become old. So facts may be asked a few times a second, from any thread, for the price of a lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Interfaces;
use crate::clock::{Nanos, now};

/// What nobody keeps fresh is believed for so long.
const FRESH_NS: Nanos = 100_000_000;

/// See the file's head.
#[derive(Default)]
pub struct Watch(Mutex<State>);

#[derive(Default)]
struct State {
    told: Option<(Nanos, Arc<Interfaces>)>,
    is_watched: bool,
}

impl Watch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As of now or a moment ago; nothing while the kernel gives no answer.
    pub fn interfaces(&self) -> Option<Arc<Interfaces>> {
        let state = self.state();
        let is_fresh = |(at, _): &&(Nanos, _)| state.is_watched || now().saturating_sub(*at) < FRESH_NS;
        match state.told.as_ref().filter(is_fresh) {
            Some((_, told)) => Some(told.clone()),
            None => {
                drop(state);
                self.refresh()
            }
        }
    }

    /// Asks the kernel.
    pub fn refresh(&self) -> Option<Arc<Interfaces>> {
        let found = Interfaces::now().ok().map(Arc::new);
        self.state().told = found.clone().map(|found| (now(), found));
        found
    }

    /// Whether the kernel has been asked and gave an answer.
    #[cfg(test)]
    pub(crate) fn has_asked(&self) -> bool {
        self.state().told.is_some()
    }

    /// Somebody refreshes it after every change from now on, or does not any more.
    pub fn watched(&self, is_watched: bool) {
        self.state().is_watched = is_watched;
    }
}
