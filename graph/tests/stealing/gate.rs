//! A door that jobs of a test stand before until it opens.

use std::sync::{Arc, Condvar, Mutex};

/// Closed at first.
#[derive(Clone, Default)]
pub struct Door(Arc<(Mutex<(bool, usize)>, Condvar)>);

impl Door {
    /// Waits before it, if it is closed.
    pub fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.1 += 1;
        drop(changed.wait_while(state, |(open, _)| !*open).unwrap());
    }

    /// For good.
    pub fn open(&self) {
        self.0.0.lock().unwrap().0 = true;
        self.0.1.notify_all();
    }

    /// How many have come to it.
    pub fn came(&self) -> usize {
        self.0.0.lock().unwrap().1
    }
}
